// Strings that are joined, split and made of parts.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;

fn main() {
    let mut text = String::new();
    for i in 0..50 {
        text += &format!("part number {i}, ");
    }
    let parts: Vec<String> = text.split(", ").map(str::to_uppercase).collect();
    let joined = parts.join("-").replace("PART", "piece");
    assert!(black_box(joined).contains("piece NUMBER 7"));
}
