//! The formats of `dump` agree with each other, and work with the tools that they are made for.

use std::process::Command;

use e2e::{TestProgram, run, tool};

#[test]
fn symbolic_and_raw_have_the_same_events() {
    let trace = TestProgram::named("disparity.c").record().trace;
    let lines = |format: &str| -> Vec<String> {
        let out = trace.ask("dump", &["--format", format]);
        assert_eq!(out.status, 0, "{}", out.err());
        out.out().lines().map(str::to_owned).collect()
    };
    let (symbolic, raw, both) = (lines("symbolic"), lines("raw"), lines("both"));
    assert!(symbolic.len() > 1000);
    assert_eq!(symbolic.len(), raw.len());
    assert_eq!(both.len(), 2 * raw.len());
    for (s, r) in symbolic.iter().zip(&raw) {
        assert_eq!((&s[..1], &s[1..2]), (&r[..1], "$"), "{s} and {r}");
        assert_eq!(&r[1..2], "#", "{r}");
        assert!("LSYWGMCPREFU".contains(&s[..1]), "{s}");
        let number = |line: &str| line[2..].split_once(':').map(|(n, _)| n.to_owned());
        assert_eq!(number(s), number(r), "sequence numbers of {s} and {r}");
    }
}

/// A modify is a load and a store in the paper's formats, and one event in jsonl.
#[test]
fn a_modify_is_printed_as_the_paper_would_log_it() {
    let recording = TestProgram::named("modify.c").record();
    let trace = &recording.trace;
    let letters = |letter: &str| trace.symbolic().iter().filter(|l| l.starts_with(letter)).count() as u64;
    let (loads, stores, modifies) = (trace.number("loads"), trace.number("stores"), trace.number("modifies"));
    assert!(modifies >= 370, "{modifies}");
    assert_eq!(letters("L"), loads + modifies);
    assert_eq!(letters("S"), stores + modifies);
    let events = trace.events();
    assert_eq!(events.iter().filter(|e| e["type"] == "modify").count() as u64, modifies);
}

#[test]
fn sums_are_the_same_everywhere() {
    let trace = TestProgram::named("statics.c").record().trace;
    let references = trace.references();
    let count = |kind: char| references.iter().filter(|r| r.kind == kind).count() as u64;
    assert_eq!(count('L'), trace.number("loads"));
    assert_eq!(count('S'), trace.number("stores"));
    assert_eq!(count('M'), trace.number("modifies"));
    assert_eq!(references.len() as u64, trace.number("accesses"));
    let rows = trace.variables();
    assert_eq!(rows.iter().map(|r| r.counts.loads).sum::<u64>(), count('L'));
    assert_eq!(rows.iter().map(|r| r.counts.stores).sum::<u64>(), count('S'));
    for by in ["function", "page", "region", "thread"] {
        let out = trace.ask("report", &["--by", by, "--json"]);
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&out.out()).expect("report --json is an array");
        let loads: u64 = rows.iter().map(|r| r["loads"].as_u64().expect("a row has loads")).sum();
        assert_eq!(loads, count('L'), "by {by}");
    }
}

/// Lackey's own reader is people's awk: the columns are where Valgrind puts them.
#[test]
fn awk_reads_lackey_lines() {
    let trace = TestProgram::named("statics.c").record().trace;
    let text = trace.ask("dump", &["--format", "lackey"]).stdout;
    let script = "/^ [LSM] [0-9a-f]+,[0-9]+$/ { n++ } END { print n, NR }";
    let out = run(Command::new(tool("awk")).arg(script), &text).out();
    let total = trace.number("accesses");
    assert_eq!(out.trim(), format!("{total} {total}"));
}

/// What was dumped can be imported, and is the same.
#[test]
fn a_dump_in_lackey_format_can_be_imported() {
    let recording = TestProgram::named("statics.c").record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (text, path) = (dir.path().join("dump.lackey"), dir.path().join("again.memtap"));
    std::fs::write(&text, recording.trace.ask("dump", &["--format", "lackey"]).stdout)
        .expect("a temporary directory");
    let mut import = Command::new(e2e::memtap());
    let done = run(import.args(["import", "--format", "lackey"]).arg(&text).arg("-o").arg(&path), b"");
    assert_eq!(done.status, 0, "{}", done.err());
    let again = e2e::Trace::at(path);
    assert_eq!(again.references(), recording.trace.references());
}

/// Filters give a part of the whole, in the same order.
#[test]
fn filters_give_a_part_of_the_whole() {
    let program = TestProgram::named("statics.c");
    let recording = program.record();
    let place = e2e::variables(&program.path)
        .into_iter()
        .find(|v| v.name == "initialised")
        .expect("the program has it");
    let range = format!("{:#x}..{:#x}", place.range.start, place.range.end);
    let out = recording.trace.ask("dump", &["--format", "lackey", "--range", &range]);
    assert_eq!(out.status, 0, "{}", out.err());
    let part = e2e::parse_lackey(&out.out());
    let whole: Vec<_> =
        recording.trace.references().into_iter().filter(|r| place.range.contains(&r.addr)).collect();
    assert_eq!(part.len(), 21);
    assert_eq!(part, whole);
}

/// The accesses alone had no names for blocks of the heap: the allocations that give them their names were left out, too.
#[test]
fn accesses_alone_have_the_names_of_their_blocks() {
    let trace = TestProgram::named("heap.c").record().trace;
    let events = |options: &[&str]| -> Vec<String> {
        let out = trace.ask("dump", &[&["--format", "jsonl"], options].concat());
        assert_eq!(out.status, 0, "{}", out.err());
        let is_access = |line: &&str| {
            ["load", "store", "modify"].iter().any(|kind| line.contains(&format!("\"type\":\"{kind}\"")))
        };
        out.out().lines().filter(is_access).map(str::to_owned).collect()
    };
    let (whole, alone) = (events(&[]), events(&["--stream", "accesses"]));
    assert!(whole.iter().any(|line| line.contains("@by_calloc")), "a block has its name");
    assert_eq!(whole.len(), alone.len());
    for (whole, alone) in whole.iter().zip(&alone) {
        assert_eq!(whole, alone);
    }
}

/// `--range` was documented as addresses, and takes entry numbers.
#[test]
fn a_range_is_of_entry_numbers() {
    let trace = TestProgram::named("statics.c").record().trace;
    let part = trace.ask("dump", &["--format", "lackey", "--range", "10..25"]);
    assert_eq!(part.status, 0, "{}", part.err());
    assert_eq!(e2e::parse_lackey(&part.out()), trace.references()[10..25]);
    let help = trace.ask("dump", &["--help"]).out();
    assert!(help.contains("entry numbers"), "{help}");
}
