// Files, directories, the environment and the clock.
// command: errors
// record: --data
// expect: nothing
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::time::SystemTime;

fn main() {
    let dir = std::env::temp_dir().join(format!("corpus-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("a file");
    let mut file = std::fs::File::create(&path).unwrap();
    for i in 0..50 {
        writeln!(file, "line {i}").unwrap();
    }
    drop(file);
    let lines: Vec<String> =
        BufReader::new(std::fs::File::open(&path).unwrap()).lines().map(Result::unwrap).collect();
    let mut text = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    std::fs::remove_dir_all(&dir).unwrap();
    black_box((lines, text, names, environment, SystemTime::now()));
}
