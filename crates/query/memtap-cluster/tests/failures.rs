//! What fails in a cluster is told in one line, and what can go on goes on.

mod common;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::{TestProgram, memtap, run};
use serde_json::Value;

use common::Cluster;

/// Long enough on two processors that an executor can be killed in between.
const SLOW: &str = "SELECT count(*) AS n, sum(a.size + b.size) AS bytes FROM \
     (SELECT size, thread FROM accesses WHERE cycle < 3000) a JOIN \
     (SELECT size, thread FROM accesses WHERE cycle < 3000) b ON a.thread = b.thread";

#[test]
fn a_query_outlives_an_executor() {
    let recording = TestProgram::named("containers.cpp").record_by("translate");
    let file = recording.trace.path.as_path();
    let mut cluster = Cluster::of(2);
    let query = [SLOW, "--format", "json"];
    let expected = run(Command::new(memtap()).arg("sql").arg(file).args(query), b"");
    let mut asking = cluster.asking(&[file], &query);
    let asking = std::thread::spawn(move || run(&mut asking, b""));
    std::thread::sleep(Duration::from_millis(500));
    cluster.executors[0].kill();
    let outcome = asking.join().expect("it is asked");
    assert_eq!((outcome.status, outcome.out()), (0, expected.out()), "{}", outcome.err());
    // And so does the cluster.
    assert_eq!(cluster.ask(&[file], &query).out(), expected.out());
}

#[test]
fn what_can_not_be_asked_is_one_line() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let file = recording.trace.path.as_path();
    let cluster = Cluster::of(1);
    for (query, words) in [
        ("SELECT * FROM acceses", "there is no table acceses; the nearest is accesses"),
        ("SELECT adr FROM accesses", "Did you mean 'accesses.addr'"),
        ("SELEC 1", "SELEC"),
        ("DROP TABLE accesses", "not supported"),
        ("SELECT 1 / (size - size) FROM accesses", "DivideByZero"),
    ] {
        let outcome = cluster.ask(&[file], &[query]);
        let (status, text) = (outcome.status, outcome.err());
        assert!(status == 1 && text.lines().count() == 1 && text.contains(words), "{query}: {status} {text}");
    }
    let missing = cluster.ask(&[Path::new("/no/such/trace")], &["SELECT 1"]);
    assert!(missing.status == 1 && missing.err().lines().count() == 1, "{}", missing.err());
}

#[test]
fn a_trace_that_executors_do_not_reach_is_named() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let file = recording.trace.path.as_path();
    let cluster = Cluster::of(1);
    // What the asker sees, and nobody else.
    let dir = tempfile::tempdir().expect("a directory");
    let own = dir.path().join("own.memtap");
    std::fs::copy(file, &own).expect("it can be copied");
    let script = format!(
        "mount --bind {} /mnt && exec {} cluster query --scheduler {} /mnt/own.memtap 'SELECT count(*) FROM accesses WHERE size > 0'",
        dir.path().display(),
        memtap().display(),
        cluster.scheduler.address
    );
    let outcome = run(Command::new("unshare").args(["--mount", "--map-root-user", "sh", "-c", &script]), b"");
    let text = outcome.err();
    assert!(outcome.status == 1 && text.lines().count() == 1, "{} {text}", outcome.status);
    assert!(text.contains("/mnt/own.memtap"), "{text}");
}

#[test]
fn who_is_no_scheduler_is_told() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let file = recording.trace.path.as_path();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let others = other.local_addr().expect("it has one");
    // Ends each connection before it says anything.
    std::thread::spawn(move || while other.accept().is_ok() {});
    for (address, words) in [(free, "no scheduler answers at"), (others, "is no scheduler")] {
        let address = address.to_string();
        let query = ["query", "--scheduler", &address, file.to_str().expect("UTF-8"), "SELECT 1"];
        let executor = ["executor", "--scheduler", &address, "--wait", "0"];
        for arguments in [&query[..], &executor] {
            let outcome = run(Command::new(memtap()).arg("cluster").args(arguments), b"");
            let text = outcome.err();
            assert!(
                outcome.status == 1 && text.lines().count() == 1 && text.contains(words),
                "{arguments:?}: {text}"
            );
        }
    }
    assert_eq!(run(Command::new(memtap()).args(["cluster", "scheduler", "--listen", "here"]), b"").status, 2);
}

#[test]
fn what_is_damaged_is_not_left_out_unheard() {
    let recording = TestProgram::named("many_threads.c").record_by("translate");
    let bytes = std::fs::read(&recording.trace.path).expect("a trace");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("damaged.memtap");
    let cluster = Cluster::of(1);
    let query = "SELECT sum(1) AS n FROM accesses WHERE size > 0";
    let mut is_met = false;
    for part in 1..8 {
        let mut damaged = bytes.clone();
        let at = bytes.len() * part / 8;
        damaged[at..at + 40].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, damaged).expect("written");
        let alone = run(Command::new(memtap()).arg("sql").arg(&path).args([query, "--format", "json"]), b"");
        let lenient = cluster.ask(&[&path], &[query, "--partial", "--format", "json"]);
        assert_eq!(lenient.out(), alone.out());
        let strict = cluster.ask(&[&path], &[query]);
        if strict.status != 0 {
            is_met = true;
            let text = strict.err();
            assert!(text.lines().count() == 1 && text.contains("--partial leaves it out"), "{text}");
        } else {
            let whole: Vec<Value> = serde_json::from_slice(&alone.stdout).expect("an array");
            assert!(whole.len() == 1);
        }
    }
    assert!(is_met, "no place was in a frame of accesses");
}
