//! A client in another language, written from docs/protocol.md alone, records and reads a trace back.

mod common;

use std::process::Command;

use common::place;
use trace_format::Trace;
use trace_server::{Address, Credentials};

/// More than a ring has room for, and several segments.
const COUNT: u64 = 20_000;

fn stranger(address: &Address, token: &str, name: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stranger.py");
    let (url, count) = (address.to_string(), COUNT.to_string());
    let out = Command::new("python3").args([script, &url, token, name, &count]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// What it wrote, as memtap reads the file.
fn check(path: &std::path::Path) {
    let trace = Trace::open(path).unwrap();
    assert_eq!(trace.properties().get("program").map(String::as_str), Some("stranger.py"));
    let stream = trace.streams().find(|stream| stream.description.name == "samples").unwrap();
    assert_eq!((stream.entries, stream.frames), (COUNT, COUNT.div_ceil(1000)));
    let entries = common::entries(path, stream.number);
    for (number, entry) in (0u64..).zip(entries.chunks_exact(24)) {
        let mut expected = (number * 3).to_le_bytes().to_vec();
        expected.extend((0x1000 + number % 64 * 8).to_le_bytes());
        expected.extend((number as u32).to_le_bytes());
        expected.extend((number as u32 % 5).to_le_bytes());
        assert_eq!(entry, expected, "entry {number}");
    }
    assert!(trace.check().unwrap().is_sound());
}

#[test]
fn a_client_in_python_writes_and_reads_through_shared_memory() {
    let place = place();
    stranger(&place.address, "", "python.memtap");
    check(&place.file("python.memtap"));
}

#[test]
fn a_client_in_python_writes_and_reads_over_tcp() {
    let mut place = place();
    let credentials = Credentials::load_or_create(&place.dir.path().join("secret")).unwrap();
    let token = credentials.token().to_owned();
    place.server.set_credentials(credentials);
    let address = place.server.listen(&Address::Tcp { host: "127.0.0.1".into(), port: 0 }).unwrap();
    stranger(&address, &token, "python.memtap");
    check(&place.file("python.memtap"));
}
