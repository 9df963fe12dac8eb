// Maps by hash and by order, of which entries are removed.
// command: errors
// record: --data
// expect: nothing
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hint::black_box;

fn main() {
    let mut table = HashMap::new();
    let mut tree = BTreeMap::new();
    let mut set = BTreeSet::new();
    let mut queue = VecDeque::new();
    for i in 0..300u64 {
        *table.entry(format!("key {}", i % 71)).or_insert(0) += i;
        tree.insert(i * 31 % 257, vec![i; 3]);
        set.insert(i % 13);
        queue.push_back(i);
        if i % 2 == 0 {
            queue.pop_front();
        }
    }
    table.retain(|_, value| *value % 2 == 0);
    for key in 0..100 {
        tree.remove(&key);
    }
    black_box((table, tree, set, queue));
}
