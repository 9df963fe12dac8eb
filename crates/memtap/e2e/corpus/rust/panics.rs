// Panics that are caught, with objects on the way.
// command: errors
// expect: nothing
use std::hint::black_box;
use std::panic;

fn fail(depth: u32) -> usize {
    let text = format!("a text at {depth}");
    if black_box(depth) == 4 {
        panic!("{text}");
    }
    fail(depth + 1) + text.len()
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    assert!(panic::catch_unwind(|| fail(0)).is_err());
}
