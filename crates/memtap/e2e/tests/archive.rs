//! Names survive the binary: files archived beside a trace, or in a directory given by `--symbols`, give the same names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Recording, TestProgram, memtap, record, run};

/// A copy of a program that can be deleted, and its recording. Everything is in one directory.
struct Movable {
    dir: tempfile::TempDir,
    program: PathBuf,
    recording: Recording,
}

fn recorded(flags: &[&str]) -> Movable {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("program");
    fs::copy(TestProgram::built("heap.c", flags).path, &program).expect("it was built");
    let recording = record(&[], &[program.display().to_string()], b"");
    Movable { dir, program, recording }
}

impl Movable {
    /// Everything that has names, and what was said of names that are missing.
    fn report(&self, options: &[&str]) -> (Vec<String>, String) {
        let mut said = String::new();
        let tables = ["variable", "function", "allocation"].map(|by| {
            let all = [&["--by", by, "--json"], options].concat();
            let outcome = self.recording.trace.ask("report", &all);
            assert_eq!(outcome.status, 0, "{}", outcome.err());
            said += &outcome.err();
            outcome.out()
        });
        (tables.to_vec(), said)
    }

    fn archive_dir(&self) -> PathBuf {
        PathBuf::from(format!("{}.symbols", self.recording.trace.path.display()))
    }
}

fn archived(trace: &Path, options: &[&str]) -> (i32, String, String) {
    let outcome = run(Command::new(memtap()).arg("archive").arg(trace).args(options), b"");
    (outcome.status, outcome.out(), outcome.err())
}

#[test]
fn a_report_without_the_binary_is_the_same() {
    // Without a build id the path is what a module is known by.
    for flags in [&["-Wl,--build-id"][..], &["-Wl,--build-id=none"]] {
        let movable = recorded(flags);
        let before = movable.report(&[]);
        assert!(before.0[0].contains("by_calloc") && before.1.is_empty(), "{before:?}");
        let (status, said, err) = archived(&movable.recording.trace.path, &[]);
        assert_eq!((status, err.as_str()), (0, ""), "{said}");
        assert!(said.contains("modules"), "{said}");
        fs::remove_file(&movable.program).expect("our own copy");
        assert_eq!(movable.report(&[]), before, "{flags:?}");
        // Without the archive the names are gone, and that is said.
        fs::remove_dir_all(movable.archive_dir()).expect("it was just written");
        let without = movable.report(&[]);
        assert!(!without.0[0].contains("@by_calloc") && without.1.contains("program"), "{without:?}");
    }
}

#[test]
fn a_separate_debug_file_is_archived() {
    let movable = recorded(&["-Wl,--build-id"]);
    let debug = movable.dir.path().join("program.debug");
    let tool = |args: &[&std::ffi::OsStr]| {
        assert!(Command::new("objcopy").args(args).status().expect("binutils").success());
    };
    tool(&["--only-keep-debug".as_ref(), movable.program.as_ref(), debug.as_ref()]);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    tool(&["--strip-all".as_ref(), link.as_ref(), movable.program.as_ref()]);
    let before = movable.report(&[]);
    assert!(before.0[1].contains("heap.c:"), "the lines of the debug file are missing: {}", before.0[1]);
    assert_eq!(archived(&movable.recording.trace.path, &[]).0, 0);
    fs::remove_file(&movable.program).expect("our own copy");
    fs::remove_file(debug).expect("our own file");
    assert_eq!(movable.report(&[]), before);
}

#[test]
fn symbols_are_found_in_directories() {
    let movable = recorded(&["-Wl,--build-id"]);
    let before = movable.report(&[]);
    let store = movable.dir.path().join("store");
    let (status, _, err) = archived(&movable.recording.trace.path, &["-o", store.to_str().expect("UTF-8")]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(store.join(".build-id").is_dir(), "no directory of build ids");
    let plain = movable.dir.path().join("plain");
    fs::create_dir(&plain).expect("our own directory");
    fs::rename(&movable.program, plain.join("program")).expect("our own copy");
    for directory in [&store, &plain] {
        assert_eq!(
            movable.report(&["--symbols", directory.to_str().expect("UTF-8")]),
            before,
            "{directory:?}"
        );
    }
    // A file of another build is refused, with a line of its own that names it.
    fs::copy(TestProgram::built("statics.c", &["-Wl,--build-id"]).path, plain.join("program"))
        .expect("a copy");
    let (rows, said) = movable.report(&["--symbols", plain.to_str().expect("UTF-8")]);
    assert!(!rows[0].contains("@by_calloc"), "names of another build");
    let refused =
        said.lines().filter(|line| line.contains("plain/program") && line.contains("another build"));
    assert_eq!(refused.count(), 3, "one line in each of three reports: {said}");
}

#[test]
fn what_is_not_there_is_not_archived() {
    let movable = recorded(&["-Wl,--build-id"]);
    fs::remove_file(&movable.program).expect("our own copy");
    let (status, _, err) = archived(&movable.recording.trace.path, &[]);
    assert_eq!(status, 1, "{err}");
    let last = err.lines().last().unwrap_or("");
    assert!(last.contains("1 of its modules") && last.contains("--symbols"), "{err}");
}
