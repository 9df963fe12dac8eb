// Vectors that grow, shrink, are sorted and cut.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;

fn main() {
    let mut numbers = Vec::new();
    for i in 0..500u32 {
        numbers.push(i * 7919 % 503);
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|number| number % 3 != 0);
    let rest = numbers.split_off(100);
    numbers.shrink_to_fit();
    black_box((numbers, rest));
}
