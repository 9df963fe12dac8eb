//! `record --flow full`: every basic block that a thread enters, in order.
//! lackey.rs tests that these are the instructions that were executed.

use std::collections::BTreeMap;
use std::process::Command;

use e2e::{EnteredBlock, Recording, TestProgram, Trace, memtap, run};

/// Instructions that the entries of a thread tell of, and the blocks after which there are some that no entry tells of.
fn covered(flow: &[&EnteredBlock], end: u64) -> (u64, Vec<String>) {
    let (mut covered, mut holes) = (0, Vec::new());
    for (index, entered) in flow.iter().enumerate() {
        let next = flow.get(index + 1).map_or(end, |next| next.cycle);
        assert!(next >= entered.cycle, "{entered:?} before cycle {next}");
        covered += entered.instructions.min(next - entered.cycle);
        if next > entered.cycle + entered.instructions {
            holes.push(entered.code.clone());
        }
    }
    (covered, holes)
}

/// Records, and looks at each thread's entries: what the program executed is in them, but for functions that are one event.
fn check(file: &str, options: &[&str]) -> Recording {
    let program = TestProgram::named(file);
    let recording = program.record_with("translate", &[&["--flow", "full"], options].concat());
    assert_eq!(recording.trace.number("gaps"), 0, "{file}");
    let flow = recording.trace.flow();
    let mut threads: BTreeMap<u32, Vec<&EnteredBlock>> = BTreeMap::new();
    for entered in &flow {
        threads.entry(entered.thread).or_default().push(entered);
    }
    assert_eq!(threads.len() as u64, recording.trace.number("threads"), "{file}");
    let mut total = 0;
    for entries in threads.values() {
        // Where the thread's own end is not known, its last block is one that ends it, as a whole.
        let last = entries.last().map_or(0, |last| last.cycle + last.instructions);
        let (covered, holes) = covered(entries, last);
        total += covered;
        // Where functions that are events are called from: stubs, the loader that finds them, and for itself.
        let callers = ["malloc@plt", "free@plt", "_dl_runtime_resolve", "allocate_dtv"];
        for name in holes {
            assert!(callers.iter().any(|caller| name.starts_with(caller)), "{file}: after {name}");
        }
    }
    let instructions = recording.trace.number("instructions");
    assert!(total <= instructions && total * 10 > instructions * 9, "{file}: {total} of {instructions}");
    assert_eq!(recording.trace.number("blocks_entered"), flow.len() as u64, "{file}");
    recording
}

#[test]
fn of_one_thread() {
    let recording = check("integers.c", &[]);
    // Lines for people and for programs say the same.
    let lines = recording.trace.ask("dump", &["--stream", "flow", "--format", "jsonl", "--cycles", "0..100"]);
    let first: Vec<serde_json::Value> =
        lines.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let flow = recording.trace.flow();
    assert!(flow[0].code.starts_with("main") && flow[0].cycle == 0 && first.len() > 2);
    for (line, entered) in first.iter().zip(&flow) {
        assert_eq!(line["ip"], format!("{:#x}", entered.ip));
        assert_eq!(
            (line["cycle"].as_u64(), line["code"].as_str()),
            (Some(entered.cycle), Some(&*entered.code))
        );
        assert!(line["bytes"].as_u64() >= line["instructions"].as_u64());
    }
}

#[test]
fn of_traces_that_are_merged() {
    let [first, second] = ["integers.c", "fork.c"].map(|file| check(file, &[]));
    let path = first.trace.path.with_file_name("merged");
    let merged = Trace::at(path);
    let mut line = Command::new(memtap());
    line.arg("merge").args([&first.trace.path, &second.trace.path]).arg("-o").arg(&merged.path);
    let outcome = run(&mut line, b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let threads = first.trace.number("threads") as u32;
    let place = |entered: &EnteredBlock| (entered.thread, entered.cycle, entered.ip, entered.instructions);
    let rest = second
        .trace
        .flow()
        .into_iter()
        .map(|entered| EnteredBlock { thread: entered.thread + threads, ..entered });
    let expected: Vec<EnteredBlock> = first.trace.flow().into_iter().chain(rest).collect();
    let mut expected: Vec<_> = expected.iter().map(place).collect();
    let mut all: Vec<_> = merged.flow().iter().map(place).collect();
    // Threads of one process are told in the order in which they ran.
    expected.sort();
    all.sort();
    assert_eq!(all, expected);
}

#[test]
fn of_threads() {
    check("threads.c", &[]);
}

#[test]
fn of_forked_processes() {
    check("fork.c", &[]);
}

#[test]
fn of_signals_and_faults() {
    check("signals.c", &[]);
    check("segv_handler.c", &["--data"]);
}

#[test]
fn of_exceptions() {
    check("exceptions.cpp", &[]);
}
