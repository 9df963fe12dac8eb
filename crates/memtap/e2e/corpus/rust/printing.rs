// Prints, formats and parses.
// command: errors
// expect: nothing
use std::fmt::Write;

fn main() {
    let mut text = String::new();
    for i in 0..40 {
        writeln!(text, "{i:>4} {:.3} {:?}", f64::from(i) / 7.0, Some(i)).unwrap();
    }
    let sum: f64 = text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum();
    print!("{text}");
    eprintln!("{sum:.1}");
}
