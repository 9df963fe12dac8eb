//! Bad input: exactly one clear line on standard error, and exit status 1, or 2 if the command line is wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{FILLING, Finished, TestProgram, Trace, memtap, on_small_disk, record, run, tool};

fn ask(args: &[&str]) -> Finished {
    run(Command::new(memtap()).args(args), b"")
}

/// One line, with these words in it, and this status.
fn check(outcome: &Finished, status: i32, words: &[&str]) {
    let err = outcome.err();
    assert_eq!(outcome.status, status, "{err}");
    assert_eq!(err.lines().count(), 1, "one line, not:\n{err}");
    for word in words {
        assert!(err.contains(word), "{word:?} is missing in {err:?}");
    }
    for part in err.trim_end().split(": ").filter(|part| part.contains(' ')) {
        assert_eq!(err.matches(part).count(), 1, "{part:?} is said twice in {err:?}");
    }
    assert!(outcome.stdout.is_empty(), "nothing on standard output: {}", outcome.out());
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn write(dir: &tempfile::TempDir, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a temporary directory can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    path
}

/// Records that program to a new file, which must not come into being.
fn check_program(program: &str, words: &[&str]) {
    check_program_with(&[], program, words);
}

/// As [`check_program`], with more options.
fn check_program_with(options: &[&str], program: &str, words: &[&str]) {
    let dir = temp();
    let trace = dir.path().join("t.memtap");
    let line = [&["record", "-o", text(&trace)], options, &["--", program]].concat();
    check(&ask(&line), 1, words);
    assert!(!trace.exists(), "a trace of nothing was left");
}

/// An ELF file of 64 bytes that names an architecture and a class.
fn elf(machine: u16, bits: u8) -> Vec<u8> {
    let mut bytes = vec![0u8; 120];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', bits, 1, 1]);
    bytes[16] = 2;
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[20] = 1;
    if bits == 2 {
        bytes[52] = 64;
        bytes[54] = 56;
    } else {
        bytes[40] = 52;
        bytes[42] = 32;
    }
    bytes
}

#[test]
fn no_such_program() {
    check_program("/no/such/program", &["/no/such/program"]);
    check_program("no-such-program-in-the-path", &["no-such-program-in-the-path"]);
}

#[test]
fn not_executable() {
    let dir = temp();
    let path = write(&dir, "plain", b"#!/bin/sh\nexit 0\n", 0o644);
    check_program(text(&path), &["plain", "execut"]);
}

#[test]
fn a_directory_is_no_program() {
    check_program("/usr", &["/usr"]);
}

#[test]
fn no_format_of_a_program() {
    let dir = temp();
    let path = write(&dir, "noise", &[7; 100], 0o755);
    check_program(text(&path), &["noise"]);
}

#[test]
fn of_32_bits() {
    let dir = temp();
    let path = write(&dir, "old", &elf(3, 1), 0o755);
    check_program(text(&path), &["old", "32-bit"]);
}

#[test]
fn of_another_architecture() {
    let dir = temp();
    let path = write(&dir, "arm", &elf(183, 2), 0o755);
    check_program(text(&path), &["arm", "x86-64"]);
}

#[test]
fn page_protection_refuses_static_programs() {
    let program = TestProgram::built("status.c", &["-static"]);
    check_program_with(
        &["--tracer", "protect"],
        text(&program.path),
        &["status", "static", "--tracer translate"],
    );
}

#[test]
fn setuid_programs_are_refused() {
    let dir = temp();
    let path = dir.path().join("su");
    std::fs::copy(TestProgram::named("status.c").path, &path).expect("a program can be copied");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).expect("our own file");
    check_program(text(&path), &["su", "setuid"]);
}

#[test]
fn no_permission_to_write_the_trace() {
    // A directory that nobody can write to, also not root.
    check(&ask(&["record", "-o", "/proc/t.memtap", "--", "/bin/true"]), 1, &["/proc/t.memtap"]);
    check(&ask(&["record", "-o", "/no/such/dir/t.memtap", "--", "/bin/true"]), 1, &["/no/such/dir/t.memtap"]);
}

#[test]
fn an_output_in_an_unknown_format_is_refused() {
    let dir = temp();
    let mut command = Command::new(memtap());
    command.args(["record", "-o", "laky:x", "--", "/bin/true"]).current_dir(dir.path());
    check(&run(&mut command, b""), 1, &["no format is called laky", "memtap, lackey, din and entries64"]);
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0, "no file was made");
}

/// memtap says the names of what it writes, and a terminal would obey them.
#[test]
fn an_output_with_control_characters_is_refused() {
    let dir = temp();
    for words in [&["record", "-o", "a\x1b[31mb", "--", "/bin/true"][..], &["copy", "x.memtap", "-o", "a\nb"]]
    {
        let mut command = Command::new(memtap());
        let refused = run(command.args(words).current_dir(dir.path()), b"");
        assert!(refused.status == 2 && refused.err().contains("control characters"), "{}", refused.err());
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0, "no file was made");
    }
}

#[test]
fn an_output_that_exists_is_kept() {
    let dir = temp();
    let path = write(&dir, "t.memtap", b"precious", 0o644);
    check(&ask(&["record", "-o", text(&path), "--", "/bin/true"]), 1, &["t.memtap", "--force"]);
    assert_eq!(std::fs::read(&path).expect("it is still there"), b"precious");
    let forced = ask(&["record", "-o", text(&path), "--force", "--", "/bin/true"]);
    assert_eq!(forced.status, 0, "{}", forced.err());
    let trace = Trace::at(path);
    assert_eq!(trace.number("gaps"), 0);
}

/// What was written until it was full can be read.
#[test]
fn disk_full_where_a_mount_is_allowed() {
    let dir = temp();
    if on_small_disk(dir.path(), "true").status != 0 {
        return;
    }
    let program = TestProgram::from_source("fill.c", FILLING, &[]);
    let (memtap, path) = (memtap(), dir.path().join("t.memtap"));
    let (memtap, path) = (text(&memtap), text(&path));
    let script = format!("exec {memtap} record -o {path} -- {}", text(&program.path));
    let outcome = on_small_disk(dir.path(), &script);
    let err = outcome.err();
    assert_eq!(outcome.status, 1, "{err}");
    assert_eq!(err.lines().count(), 1, "one line, not:\n{err}");
    assert!(err.contains("t.memtap"), "{err}");
    let outcome = on_small_disk(
        dir.path(),
        &format!("{{ {memtap} record -o {path} -- {}; {memtap} stat {path} --json; }}", text(&program.path)),
    );
    let stat: serde_json::Value = serde_json::from_str(&outcome.out()).expect("stat --json is JSON");
    assert!(stat["gaps"].as_u64().is_some_and(|n| n > 0), "what is missing is said: {stat}");
    assert!(stat["accesses"].as_u64().is_some_and(|n| n > 0), "what was written can be read: {stat}");
}

#[test]
fn the_command_line_is_wrong() {
    for args in [
        &["record"][..],
        &["record", "--tracer", "magic", "--", "/bin/true"],
        &["record", "--regions", "moon", "--", "/bin/true"],
        &["no-such-command"],
        &["stat"],
        &["dump", "x.memtap", "--format", "poem"],
        &["dump", "x.memtap", "--range", "9..x"],
        &["dump", "x.memtap", "--stream", "physical", "--format", "lackey"],
        &["rtvm", "--synthetic", "--munmap"],
        &["report", "x.memtap", "--by", "colour"],
        &["import", "--format", "lackey"],
    ] {
        let outcome = ask(args);
        assert_eq!(outcome.status, 2, "memtap {args:?}: {}", outcome.err());
        assert!(
            !outcome.err().is_empty() && outcome.stdout.is_empty(),
            "memtap {args:?}: words go to standard error"
        );
    }
}

const READERS: [&[&str]; 5] =
    [&["stat"], &["dump", "--format", "lackey"], &["report"], &["heatmap", "-o", "/dev/null"], &["check"]];

fn read(command: &[&str], path: &Path) -> Finished {
    run(Command::new(memtap()).arg(command[0]).arg(path).args(&command[1..]), b"")
}

#[test]
fn a_trace_that_is_not_there() {
    for command in READERS {
        check(&read(command, Path::new("/no/such/trace.memtap")), 1, &["/no/such/trace.memtap"]);
    }
}

#[test]
fn a_directory_is_no_trace() {
    for command in READERS {
        check(&read(command, Path::new("/usr")), 1, &["/usr"]);
    }
}

#[test]
fn foreign_files() {
    let dir = temp();
    let foreign: [(&str, &[u8]); 3] = [
        ("empty", b""),
        ("words", b"These are words, and no trace. They go on for a while, as words do.\n"),
        ("elf", &elf(62, 2)),
    ];
    for (name, bytes) in foreign {
        let path = write(&dir, name, bytes, 0o644);
        for command in READERS {
            let outcome = read(command, &path);
            assert_eq!(outcome.status, 1, "memtap {command:?} of {name}: {}", outcome.err());
            assert_eq!(outcome.err().lines().count(), 1, "memtap {command:?} of {name}: {}", outcome.err());
            assert!(outcome.err().contains(name), "{}", outcome.err());
        }
    }
}

fn recorded() -> (e2e::Recording, Vec<u8>) {
    let recording = TestProgram::named("statics.c").record();
    let bytes = std::fs::read(&recording.trace.path).expect("it was just written");
    (recording, bytes)
}

/// A version that this memtap does not know is said to be newer, not damaged (docs/format.md, file header).
#[test]
fn newer_version() {
    let (_kept, mut bytes) = recorded();
    let dir = temp();
    bytes[8..10].copy_from_slice(&999u16.to_le_bytes());
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..56]);
    bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
    let path = write(&dir, "newer.memtap", &bytes, 0o644);
    for command in READERS {
        check(&read(command, &path), 1, &["newer.memtap", "version", "999"]);
    }
}

/// Cut at any length: no crash, no endless loop, one line where nothing can be read, and `check` says what is damaged.
#[test]
fn truncated() {
    let (recording, bytes) = recorded();
    let whole = recording.trace.number("accesses");
    let dir = temp();
    for percent in [1, 10, 30, 50, 70, 90, 99] {
        let path = write(&dir, &format!("cut{percent}.memtap"), &bytes[..bytes.len() * percent / 100], 0o644);
        let stat = read(&["stat", "--json"], &path);
        if stat.status == 0 {
            let trace = Trace::at(path.clone());
            assert!(trace.number("accesses") <= whole);
        } else {
            check(&stat, 1, &[&format!("cut{percent}.memtap")]);
        }
        let checked = read(&["check"], &path);
        assert_eq!(
            checked.status,
            1,
            "a trace cut to {percent} % is not whole: {}{}",
            checked.out(),
            checked.err()
        );
    }
}

/// One flipped bit anywhere is found, and never changes a figure silently.
#[test]
fn bit_flipped() {
    let (recording, bytes) = recorded();
    let references = recording.trace.references();
    let dir = temp();
    for step in 0..40 {
        let at = bytes.len() * step / 40 + step % 7;
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (step % 8);
        let path = write(&dir, "flipped.memtap", &flipped, 0o644);
        let checked = read(&["check"], &path);
        let dumped = read(&["dump", "--format", "lackey"], &path);
        assert!(checked.status <= 1 && dumped.status <= 1, "byte {at}: {} {}", checked.status, dumped.status);
        if checked.status == 0 {
            // Only in bytes that no reader looks at.
            assert_eq!(
                e2e::parse_lackey(&dumped.out()),
                references,
                "byte {at} is damaged and check says nothing"
            );
        }
    }
}

/// Import: refuses what it can't read with the place of the mistake.
#[test]
fn import_of_a_broken_file() {
    let dir = temp();
    let path = write(&dir, "broken.lackey", b" L 1000,4\n S zzzz,4\n", 0o644);
    let out = dir.path().join("t.memtap");
    check(&ask(&["import", "--format", "lackey", text(&path), "-o", text(&out)]), 1, &["broken.lackey", "2"]);
}

/// A pipe that is closed early ends the command quietly.
#[test]
fn a_reader_that_stops_early() {
    let recording = record(&[], &TestProgram::named("strings.c").command_line(), b"");
    let script = format!(
        "set -o pipefail; {} dump {} --format jsonl | head -n 1",
        text(&memtap()),
        text(&recording.trace.path)
    );
    let outcome = run(Command::new(tool("bash")).args(["-c", &script]), b"");
    assert_eq!(outcome.out().lines().count(), 1);
    assert_eq!(outcome.err(), "", "no words about the pipe");
}

#[test]
fn what_a_tracer_can_not_record_is_refused() {
    let dir = temp();
    let trace = dir.path().join("t.memtap");
    let refused = |options: &[&str], words: &[&str]| {
        let mut line = vec!["record", "--tracer", "protect"];
        line.extend(options);
        line.extend(["-o", text(&trace), "--", "true"]);
        check(&ask(&line), 1, words);
        assert!(!trace.exists(), "a trace of nothing was left");
    };
    refused(&["--regions", "stack"], &["stack", "--tracer translate"]);
    refused(&["--data"], &["--data", "--tracer translate"]);
    refused(&["--verify"], &["--verify", "--tracer translate"]);
    refused(&["--flow"], &["--flow", "--tracer translate"]);
}

/// Runs a program with something watched that can't be.
fn check_watch(program: &TestProgram, options: &[&str], stdout: &str, words: &[&str]) {
    let line = [&["watch"], options, &["--", text(&program.path)]].concat();
    let outcome = ask(&line);
    assert_eq!((outcome.status, outcome.out().as_str()), (1, stdout), "{}", outcome.err());
    assert_eq!(outcome.err().lines().count(), 1, "one line, not:\n{}", outcome.err());
    for word in words {
        assert!(outcome.err().contains(word), "{word:?} is missing in {:?}", outcome.err());
    }
}

#[test]
fn variables_without_memory_are_not_watched() {
    // Optimised: nothing reads `unread`, everybody knows `fixed`, and `local` is in a register.
    let source = "#include <stdio.h>\nstatic int unread;\nstatic const int fixed = 5;\nint counter;\n\
        int main(int count, char **list)\n{\n    int local = count + fixed;\n    unread = local;\n    \
        counter = local;\n    printf(\"%d\\n\", local);\n    (void)list;\n    return 0;\n}\n";
    let program = TestProgram::from_source("without.c", source, &["-O2"]);
    check_watch(
        &program,
        &["--write", "unread"],
        "",
        &["unread: the compiler has optimised unread away", "volatile"],
    );
    check_watch(&program, &["--write", "fixed"], "", &["fixed: the compiler has made fixed a constant"]);
    check_watch(
        &program,
        &["--write", "local"],
        "",
        &["local: local is a local variable", "static variable"],
    );
    check_watch(&program, &["--write", "count"], "", &["count: count is a local variable"]);
    check_watch(
        &program,
        &["--write", "countre"],
        "",
        &["countre: no variable countre", "did you mean counter?"],
    );
    check_watch(&program, &["--write", "malloc@mian"], "", &["no function mian", "did you mean main?"]);
}

#[test]
fn memory_that_is_not_there_or_not_watched_is_said_to_be() {
    let program = TestProgram::named("watch_waits.c");
    check_watch(&program, &["--write", "0x10:8"], "", &["0x10:8: no memory is ever mapped there"]);
    let words = ["0x1234560000:8: the program never had memory there, so nothing was watched"];
    check_watch(&program, &["--write", "0x1234560000:8"], "2\n", &words);
    // The code of a program that is linked to fixed addresses.
    check_watch(
        &program,
        &["--tracer", "protect", "--write", "0x401000:1"],
        "2\n",
        &["0x401000:1: is text memory, which is not watched"],
    );
    let status =
        run(Command::new(memtap()).args(["watch", "--write", "counter", "--value", "x", "--", "true"]), b"");
    assert_eq!(status.status, 2, "{}", status.err());
}

#[test]
fn analyses_refuse_traces_that_lack_what_they_need() {
    let dir = temp();
    let (lackey, imported) =
        (write(&dir, "one.lackey", b"I  400000,4\n S 601000,8\n", 0o644), dir.path().join("one.memtap"));
    let done = ask(&["import", "--format", "lackey", text(&lackey), "-o", text(&imported)]);
    assert_eq!(done.status, 0, "{}", done.err());
    for (command, words) in [
        ("race", ["one.memtap", "synchronisation"]),
        ("determinism", ["one.memtap", "synchronisation"]),
        ("taint", ["one.memtap", "--tracer translate"]),
    ] {
        check(&ask(&[command, text(&imported)]), 1, &words);
    }
    let protected = TestProgram::named("statics.c").record();
    check(&protected.trace.ask("taint", &[]), 1, &["control flow", "--tracer translate"]);
    check(&protected.trace.ask("dump", &["--stream", "flow"]), 1, &["control flow", "--flow full"]);
}

/// Names degrade where debug information is damaged: every command that names things says so in one line.
#[test]
fn damaged_debug_information_is_said_to_be() {
    let dir = temp();
    let whole = TestProgram::named("algorithms.c");
    let sections = run(Command::new(tool("readelf")).args(["-SW"]).arg(&whole.path), b"").out();
    let line = sections.lines().find(|line| line.contains(" .debug_info ")).expect("it was built with -g");
    let mut words = line.split_once("] ").expect("a number first").1.split_whitespace().skip(3);
    let mut number = || usize::from_str_radix(words.next().expect("a column"), 16).expect("hexadecimal");
    let (offset, len) = (number(), number());
    let mut bytes = std::fs::read(&whole.path).expect("it was built");
    bytes[offset..offset + len.min(200)].fill(0xee);
    let program = write(&dir, "damaged", &bytes, 0o755);
    // The tracer itself needs no debug information.
    let recording = record(&["--tracer=translate".to_owned()], &[text(&program).to_owned()], b"");
    assert_eq!((recording.outcome.status, recording.outcome.err().as_str()), (0, ""));
    for command in [
        &["report"][..],
        &["report", "--by", "function", "--json"],
        &["dump", "--format", "jsonl"],
        &["taint"],
        &["determinism"],
    ] {
        let outcome = recording.trace.ask(command[0], &command[1..]);
        assert_eq!(outcome.status, 0, "{command:?}: {}", outcome.err());
        let line = format!("memtap: note: {}: debug information is damaged (", program.display());
        let lines = outcome.err();
        let told: Vec<&str> = lines.lines().filter(|text| text.contains("debug information")).collect();
        assert!(told.len() == 1 && told[0].starts_with(&line), "{command:?}: {lines}");
        assert!(told[0].ends_with("names come from symbols alone"), "{lines}");
    }
    // A variable has its symbol's name, and not its field.
    let rows = recording.trace.variables();
    assert!(e2e::total_of(&rows, "entries").stores > 0, "{rows:?}");
}

/// Streams that are no events of a program took any format, and wrote their own.
#[test]
fn streams_of_their_own_form_refuse_other_formats() {
    for stream in ["tasks", "found", "physical", "flow"] {
        for format in ["raw", "both", "lackey", "din", "entries64"] {
            let outcome = ask(&["dump", "x.memtap", "--stream", stream, "--format", format]);
            assert_eq!(outcome.status, 2, "{stream} as {format}: {}", outcome.err());
            let words = outcome.err();
            assert!(
                words.lines().count() == 1 && words.contains("jsonl") && words.contains(stream),
                "{words}"
            );
        }
    }
}

/// SQL is answered by a binary that only those have who built it.
#[test]
fn sql_without_its_binary_says_how_to_get_it() {
    let dir = temp();
    let alone = dir.path().join("memtap");
    std::fs::copy(memtap(), &alone).expect("a copy");
    let outcome =
        run(Command::new(&alone).args(["sql", "x.memtap", "SELECT 1"]).env("PATH", dir.path()), b"");
    check(
        &outcome,
        1,
        &["memtap-sql is neither beside memtap nor on PATH", "cargo build --release -p memtap-sql"],
    );
}
