// Starts other programs and reads what they print.
// command: errors
// record: --no-children
// expect: nothing
use std::hint::black_box;
use std::process::{Command, Stdio};

fn main() {
    let output = Command::new("echo").args(["some", "text"]).env("NAME", "value").output().unwrap();
    assert_eq!(output.stdout, b"some text\n");
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    drop(child.stdin.take());
    black_box(child.wait().unwrap().success());
}
