//! Look-ups.
fn main() {}
