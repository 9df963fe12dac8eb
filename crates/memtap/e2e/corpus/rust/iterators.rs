// Iterators that are boxed, chained, peeked and collected into many kinds of containers.
// command: errors
// record: --data
// expect: nothing
use std::collections::{BTreeMap, BinaryHeap, HashSet, LinkedList};
use std::hint::black_box;

fn numbers(limit: u64) -> Box<dyn Iterator<Item = u64>> {
    Box::new((0..limit).filter(|n| n % 3 != 1).chain((0..limit / 2).rev()))
}

fn main() {
    let words: Vec<Box<str>> = numbers(60).map(|n| n.to_string().into_boxed_str()).collect();
    let heap: BinaryHeap<u64> = numbers(200).collect();
    let set: HashSet<String> = words.iter().map(|word| word.repeat(3)).collect();
    let list: LinkedList<_> = numbers(30).map(|n| vec![n; n as usize % 5]).collect();
    let groups = numbers(100).fold(BTreeMap::new(), |mut groups, n| {
        groups.entry(n % 7).or_insert_with(Vec::new).push(n);
        groups
    });
    let sorted = heap.into_sorted_vec();
    black_box((words, sorted, set, list, groups));
}
