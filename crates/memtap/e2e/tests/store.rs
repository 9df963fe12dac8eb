//! Traces made from other traces and from those of other tools: copy, merge, check --repair, import, other formats, encoders.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Finished, TestProgram, Trace, memtap, repository, run, tool};
use serde_json::Value;

const ENCODERS: [&str; 7] = ["live", "access", "access-archive", "vpc", "generic", "columns", "raw"];

fn ask(args: &[&str], stdin: &[u8]) -> Finished {
    run(Command::new(memtap()).args(args), stdin)
}

fn done(args: &[&str], stdin: &[u8]) -> Finished {
    let outcome = ask(args, stdin);
    assert_eq!(outcome.status, 0, "memtap {args:?}: {}", outcome.err());
    outcome
}

fn refused(args: &[&str], status: i32, words: &[&str]) {
    let outcome = ask(args, b"");
    let err = outcome.err();
    assert_eq!(outcome.status, status, "memtap {args:?}: {err}");
    assert!(status == 2 || err.lines().count() == 1, "memtap {args:?}: {err}");
    for word in words {
        assert!(err.contains(word), "memtap {args:?} does not say {word}: {err}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is UTF-8")
}

/// What all readers see of a trace, whatever its encoders are.
fn content(path: &Path) -> String {
    Trace::at(path.into()).ask("dump", &["--format", "jsonl"]).out()
}

/// 32-byte entries as a machine of our own could have made them: loops, lists, all sizes, full-size values.
fn entries() -> Vec<u8> {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut out, mut cycle) = (Vec::new(), 0u64);
    for n in 0..40_000u64 {
        cycle += 1 + next(3);
        let (ip, store) = (0x40_1000 + n % 13 * 5, u64::from(n % 13 > 9));
        let addr = if n % 13 < 6 { 0x60_0000 + n / 13 * 8 } else { 0x7fff_0000_0000 + next(512) * 8 };
        let size = [1, 2, 4, 8, 16, 32][(n % 13 % 6) as usize];
        let (full, data) = if size == 8 { (1, next(1 << 40) * n) } else { (0, size << 32 | next(1 << 20)) };
        for word in [cycle | full << 48 | store << 49, ip, addr, data] {
            out.extend(word.to_le_bytes());
        }
    }
    out
}

fn imported(dir: &Path) -> PathBuf {
    let path = dir.join("imported.memtap");
    done(&["import", "--format", "entries64", "-", "-o", text(&path)], &entries());
    path
}

#[test]
fn every_encoder_keeps_the_same_trace() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = TestProgram::named("statics.c");
    let mut told = Vec::new();
    for encoder in ENCODERS {
        for tracer in ["protect", "translate"] {
            let recording = program.record_with(tracer, &["--encoder", encoder]);
            // Addresses change from run to run.
            let counts: Vec<_> =
                recording.trace.variables().into_iter().filter(|row| row.name == "zeroed").collect();
            told.push(format!("{counts:?}"));
            assert_eq!(recording.trace.ask("check", &[]).status, 0);
        }
    }
    assert_eq!(told, vec![told[0].clone(); 2 * ENCODERS.len()]);

    let path = imported(dir.path());
    let (all, bytes) = (content(&path), entries());
    assert_eq!(all.lines().count(), 40_000);
    let mut sizes = Vec::new();
    for encoder in ENCODERS {
        let copy = dir.path().join(encoder);
        done(&["copy", text(&path), "-o", text(&copy), "--encoder", encoder], b"");
        assert_eq!(content(&copy), all, "{encoder}");
        let out = Trace::at(copy.clone()).ask("dump", &["--format", "entries64"]);
        assert!(out.stdout == bytes, "{encoder} does not give the entries back byte for byte");
        sizes.push(std::fs::metadata(&copy).expect("it was written").len());
    }
    assert!(sizes[1] < sizes[0] && sizes[0] < sizes[6], "{sizes:?}");
    let archive = dir.path().join("archive.memtap");
    done(&["copy", text(&path), "-o", text(&archive), "--archive"], b"");
    assert_eq!(content(&archive), all);
}

#[test]
fn a_copy_is_cut_by_cycles_and_loses_streams() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = imported(dir.path());
    let part = dir.path().join("part.memtap");
    done(&["copy", text(&path), "-o", text(&part), "--cycles", "1000..2000"], b"");
    let expected =
        Trace::at(path.clone()).ask("dump", &["--format", "jsonl", "--cycles", "1000..2000"]).out();
    assert!(expected.lines().count() > 300);
    assert_eq!(content(&part), expected);

    // All of it was recorded in its first hour, and none of it later.
    done(&["copy", "--force", text(&path), "-o", text(&part), "--seconds", "0..3600"], b"");
    assert_eq!(content(&part), content(&path));
    done(&["copy", "--force", text(&path), "-o", text(&part), "--seconds", "3600..7200"], b"");
    assert_eq!(content(&part), "");

    let recording = TestProgram::named("statics.c").record();
    let (whole, less) = (&recording.trace, dir.path().join("less.memtap"));
    done(&["copy", text(&whole.path), "-o", text(&less), "--drop", "accesses"], b"");
    assert_eq!(Trace::at(less.clone()).number("accesses"), 0);
    assert_eq!(Trace::at(less.clone()).number("block_copies"), whole.number("block_copies"));
    done(&["copy", "--force", text(&whole.path), "-o", text(&less)], b"");
    assert_eq!(content(&less), content(&whole.path));
    let rows = |trace: &Trace| format!("{:?}", trace.variables());
    assert_eq!(rows(&Trace::at(less)), rows(whole));
}

/// Analyses look at executions of blocks where a trace has them, and pass over what changes nothing. A copy by the encoder that keeps accesses
/// has none. Nor does it matter how many threads count.
#[test]
fn answers_about_executions_and_about_accesses_are_the_same() {
    let programs = [
        TestProgram::built("race/racy_counter.c", &["-pthread"]),
        TestProgram::built("lines/heap_counters.c", &["-pthread"]),
        TestProgram::built("errors/leaks.c", &[]),
        TestProgram::built("layout/game.cpp", &["-O2"]),
        TestProgram::built("layout/pools.c", &["-O2"]),
        TestProgram::built("layout/collections.rs", &["-Copt-level=2", "-g"]),
        TestProgram::named("containers.cpp"),
        TestProgram::named("fork.c"),
        TestProgram::named("signals.c"),
    ];
    let questions: [(&str, &[&str]); 11] = [
        ("report", &["--by", "variable"]),
        ("report", &["--by", "field"]),
        ("report", &["--by", "stack", "--all"]),
        ("report", &["--by", "line,thread"]),
        ("layout", &[]),
        ("layout", &["--offsets"]),
        ("lines", &[]),
        ("race", &["--all"]),
        ("taint", &[]),
        ("errors", &[]),
        ("cache", &[]),
    ];
    let counts: [&[&str]; 16] = [
        &["--by", "variable"],
        &["--by", "variable", "--json"],
        &["--by", "local", "--json"],
        &["--by", "field", "--json"],
        &["--by", "type", "--json"],
        &["--by", "allocation", "--json"],
        &["--by", "region", "--json"],
        &["--by", "function", "--json"],
        &["--by", "page", "--json"],
        &["--by", "variable,function", "--json"],
        &["--by", "field,line", "--json"],
        &["--by", "page,variable", "--json"],
        &["--by", "variable", "--json", "--thread", "0"],
        &["--by", "variable", "--json", "--cycles", "1000..90000"],
        &["--by", "local", "--json", "--cycles", "1000..90000", "--thread", "0"],
        &["--by", "page,variable", "--json", "--range", "500..20000"],
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    for program in programs {
        let recording = program.record_by("translate");
        for options in counts {
            let [alone, divided] =
                ["1", "3"].map(|jobs| recording.trace.ask("report", &[options, &["--jobs", jobs]].concat()));
            assert_eq!(alone.out(), divided.out(), "report {options:?} of {:?}", program.command_line());
        }
        for command in ["errors", "layout", "lines", "cache"] {
            let [alone, divided] =
                ["1", "3"].map(|jobs| recording.trace.ask(command, &["--json", "--jobs", jobs]));
            assert_eq!(alone.out(), divided.out(), "{command} of {:?}", program.command_line());
        }
        let copy = dir.path().join("by-access.memtap");
        done(
            &["copy", "--force", text(&recording.trace.path), "-o", text(&copy), "--encoder", "access"],
            b"",
        );
        let copy = Trace::at(copy);
        for (command, options) in questions {
            let options = [options, &["--json"]].concat();
            let [executions, accesses] = [&recording.trace, &copy].map(|trace| trace.ask(command, &options));
            assert_eq!(executions.status, accesses.status, "{command} {options:?}: {}", accesses.err());
            assert_eq!(
                executions.out(),
                accesses.out(),
                "{command} {options:?} of {:?}",
                program.command_line()
            );
        }
    }
}

/// Version 2 of the format called some streams as other things are called. Their present names stand for them, and the former
/// ones are understood.
#[test]
fn traces_of_version_2_have_the_names_of_version_3() {
    let old = repository().join("crates/trace/trace-format/tests/golden/v2-machine.memtap");
    let dump = |path: &Path, stream: &str| {
        let out = done(&["dump", text(path), "--stream", stream, "--format", "jsonl"], b"").out();
        assert!(!out.is_empty(), "{stream}");
        out
    };
    let streams = [("block-operations", "blocks", 20), ("flow", "guest-flow", 50)];
    for (name, former, lines) in streams {
        assert_eq!(dump(&old, name), dump(&old, former));
        assert_eq!(dump(&old, name).lines().count(), lines, "{name}");
    }
    assert_eq!(dump(&old, "syncs").lines().count(), 20);
    let stat = |path: &Path| Trace::at(path.to_owned()).stat();
    assert_eq!((&stat(&old)["block_copies"], &stat(&old)["blocks_entered"]), (&20.into(), &50.into()));

    let dir = tempfile::tempdir().expect("a temporary directory");
    let new = dir.path().join("new.memtap");
    done(&["copy", text(&old), "-o", text(&new)], b"");
    assert_eq!(dump(&new, "flow"), dump(&old, "flow"));
    assert_eq!(dump(&new, "block-operations"), dump(&old, "block-operations"));
    done(&["copy", "--force", text(&old), "-o", text(&new), "--drop", "guest-flow", "--drop", "blocks"], b"");
    assert_eq!((&stat(&new)["block_copies"], &stat(&new)["blocks_entered"]), (&0.into(), &Value::Null));
    done(&["merge", "--force", text(&old), text(&old), "-o", text(&new)], b"");
    assert_eq!((&stat(&new)["block_copies"], &stat(&new)["blocks_entered"]), (&40.into(), &100.into()));
}

#[test]
fn what_copy_cannot_do_it_says() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = imported(dir.path());
    let other = dir.path().join("other.memtap");
    let (path, other) = (text(&path), text(&other));
    refused(&["copy", path, "-o", path, "--force"], 1, &["input and output"]);
    refused(&["copy", "/no/such/trace", "-o", other], 1, &["/no/such/trace"]);
    refused(&["copy", path, "-o", "/no/such/directory/t"], 1, &["/no/such/directory/t"]);
    refused(&["copy", path, "-o", other, "--drop", "nonsense"], 1, &["nonsense", "it has accesses, "]);
    refused(&["copy", path, "-o", other, "--encoder", "nonsense"], 2, &["nonsense", "live"]);
    refused(&["copy", path, "-o", other, "--cycles", "9..3"], 2, &["9..3"]);
    refused(&["copy", path, "-o", other, "--encoder", "vpc", "--archive"], 2, &["--archive"]);
    done(&["copy", path, "-o", other], b"");
    refused(&["copy", path, "-o", other], 1, &["other.memtap", "exists"]);
    refused(&["merge", path, "-o", other], 2, &["<FILES>"]);
    refused(&["merge", path, other, "-o", other, "--force"], 1, &["input and output"]);
    refused(&["merge", path, "/no/such/trace", "-o", other, "--force"], 1, &["/no/such/trace"]);
    refused(&["check", "/no/such/trace", "--repair"], 1, &["/no/such/trace"]);
}

#[test]
fn merged_traces_keep_their_events() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (one, two) = (TestProgram::named("statics.c").record(), TestProgram::named("fork.c").record());
    let path = dir.path().join("both.memtap");
    done(&["merge", text(&one.trace.path), text(&two.trace.path), "-o", text(&path)], b"");
    let both = Trace::at(path);
    for key in ["accesses", "loads", "stores", "modifies", "block_copies", "frees", "threads"] {
        assert_eq!(both.number(key), one.trace.number(key) + two.trace.number(key), "{key}");
    }
    let of = |trace: &Trace, name: &str| e2e::total_of(&trace.variables(), name);
    assert_eq!(of(&both, "zeroed"), of(&one.trace, "zeroed"));
    assert_eq!(both.ask("check", &[]).status, 0);

    // With data and without.
    let (with, path) = (imported(dir.path()), dir.path().join("mixed.memtap"));
    done(&["merge", text(&one.trace.path), text(&with), "-o", text(&path)], b"");
    let mixed = Trace::at(path);
    assert_eq!(mixed.number("accesses"), one.trace.number("accesses") + 40_000);
    let threads = one.trace.number("threads");
    let out = mixed.ask("dump", &["--format", "entries64", "--thread", &threads.to_string()]);
    assert!(out.stdout == entries());
}

#[test]
fn a_damaged_trace_is_repaired() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("damaged.memtap");
    done(&["import", "--format", "entries64", "-", "-o", text(&path)], &entries().repeat(1));
    let whole = std::fs::read(&path).expect("it was written");
    // Cut, and a byte in the middle.
    for damage in ["cut", "flipped"] {
        let mut bytes = whole.clone();
        match damage {
            "cut" => bytes.truncate(whole.len() - 300),
            _ => bytes[whole.len() / 2] ^= 0x10,
        }
        std::fs::write(&path, bytes).expect("it is ours");
        let damaged = Trace::at(path.clone());
        let checked = damaged.ask("check", &[]);
        assert_eq!(checked.status, 1, "{damage}: {}", checked.out());
        let before = content(&path);
        let repaired = damaged.ask("check", &["--repair"]);
        assert_eq!(repaired.status, 0, "{damage}: {}", repaired.err());
        let again = damaged.ask("check", &[]);
        assert_eq!(again.status, 0, "{damage}: {}", again.out());
        assert!(again.out().starts_with("sound"), "{}", again.out());
        let accesses = |text: &str| text.lines().filter(|l| !l.contains(r#""type":"gap""#)).count();
        assert_eq!(accesses(&content(&path)), accesses(&before), "{damage}");
        // Cut before the thread's end is written: nobody knows what else it did, which is one missing event.
        assert_eq!(damaged.number("gaps"), if damage == "cut" { 1 } else { 40_000 }, "{damage}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1, "nothing is left of it");
    }
}

#[test]
fn a_store_of_simutrace_is_imported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = repository().join("crates/trace/trace-format/tests/data");
    let path = dir.path().join("true.memtap");
    done(&["import", "--format", "simtrace", text(&data.join("true.sim")), "-o", text(&path)], b"");
    let expected = run(Command::new(tool("zstd")).arg("-dc").arg(data.join("true.mem.zst")), b"").stdout;
    assert_eq!(expected.len(), 42_128 * 32);
    let out = Trace::at(path).ask("dump", &["--format", "entries64"]);
    assert!(out.stdout == expected);
}

#[test]
fn what_is_no_trace_of_others_is_not_imported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, out) = (dir.path().join("input"), dir.path().join("out.memtap"));
    let (file, out) = (text(&file), text(&out));
    let check = |format: &str, bytes: &[u8], words: &[&str]| {
        std::fs::write(file, bytes).expect("a temporary directory");
        refused(&["import", "--format", format, file, "-o", out], 1, words);
        assert!(!Path::new(out).exists(), "{format}: half a trace is left");
    };
    let whole = entries();
    check("entries64", &whole[..100], &["input", "entry 3", "4 of 32 bytes"]);
    check("entries64", &[0xff; 64], &["input", "entry 0"]);
    check("lackey", b" L 1000,4\nnonsense\n", &["input", "line 2"]);
    check("lackey", b"\xff\xfe\n", &["input", "line 1"]);
    check("simtrace", b"words", &["input"]);
    check("simtrace", &[0; 4096], &["input"]);
    let sim = std::fs::read(repository().join("crates/trace/trace-format/tests/data/true.sim"));
    let sim = sim.expect("it is in the repository");
    check("simtrace", &sim[..sim.len() / 2], &["input"]);
    refused(&["import", "--format", "entries64", "/no/such/file", "-o", out], 1, &["/no/such/file"]);
    refused(&["import", "--format", "simtrace", "-", "-o", out], 1, &["-"]);
    refused(&["import", "--format", "other", file, "-o", out], 2, &["other"]);
}

/// Quotas, limits and full disks are errors of writing: one line, no half a file where it can be made again.
#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = imported(dir.path());
    let out = dir.path().join("out");
    for command in ["copy", "merge"] {
        let inputs = if command == "copy" { text(&path).to_owned() } else { format!("{0} {0}", text(&path)) };
        let script = format!("ulimit -f 8; {} {command} {inputs} -o {}", text(&memtap()), text(&out));
        let outcome = run(Command::new(tool("bash")).args(["-c", &script]), b"");
        assert_eq!(outcome.status, 1, "{command}: {}", outcome.err());
        assert!(outcome.err().contains("File too large"), "{command}: {}", outcome.err());
        assert_eq!(outcome.err().lines().count(), 1, "{command}: {}", outcome.err());
        assert!(!out.exists(), "{command}: half a trace is left");
    }
    // A repair that has no room leaves the file as it was.
    let bytes = std::fs::read(&path).expect("it was written");
    let torn = &bytes[..bytes.len() - 100];
    std::fs::write(&path, torn).expect("it is ours");
    let script = format!("ulimit -f 8; {} check {} --repair", text(&memtap()), text(&path));
    let outcome = run(Command::new(tool("bash")).args(["-c", &script]), b"");
    assert_eq!(outcome.status, 1, "{}", outcome.err());
    assert!(outcome.err().contains("File too large"), "{}", outcome.err());
    assert!(std::fs::read(&path).expect("it is ours") == torn);
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1, "nothing is left of it");
}

/// The specifiers of other formats write what `dump` writes in that format.
#[test]
fn a_recording_in_another_format_is_its_dump() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = TestProgram::named("statics.c");
    let addresses = |bytes: &[u8], format: &str| -> usize {
        if format == "entries64" { bytes.len() / 32 } else { bytes.split(|&byte| byte == b'\n').count() - 1 }
    };
    let trace = program.record().trace;
    for format in ["lackey", "din", "entries64"] {
        let path = dir.path().join(format);
        let specifier = format!("{format}:{}", text(&path));
        let mut command = Command::new(memtap());
        // As the other recording: two of them are alike by page protection.
        command.args(["record", "--quiet", "--tracer", "protect", "-o", &specifier, "--"]);
        let outcome = run(command.args(program.command_line()), b"");
        program.check(&outcome);
        let bytes = std::fs::read(&path).expect("it was written");
        let dumped = trace.ask("dump", &["--format", format]).stdout;
        assert_eq!(addresses(&bytes, format), addresses(&dumped, format), "{format}");
        refused(&["stat", text(&path)], 1, &[format]);
    }
}
