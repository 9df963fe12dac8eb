//! Records a small program through the library alone, and reads the trace back.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use memref::Event;
use recorder::{Error, Notice, ProgramEnd, RecordedRun, Recorder, Tracer};
use trace_format::{Filter, Trace};

/// The tracer that cargo built in the profile of this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.ancestors().nth(2).expect("tests lie in PROFILE/deps");
    let library = profile.join("libmemtap_tracer.so");
    assert!(
        library.exists(),
        "{} does not exist: run `cargo xtask test`, or `cargo build --workspace --lib` first",
        library.display()
    );
    library
}

/// A shell that calls a program, and ends with 3.
fn shell(directory: &Path) -> Recorder {
    Recorder::of_program("sh")
        .args(["-c", "cat /dev/null; exit 3"])
        .library(library())
        .output(directory.join("t.memtap"))
}

/// Accesses in the trace, of all threads.
fn accesses(run: &RecordedRun) -> u64 {
    let trace = Trace::open(&run.output).expect("a trace");
    let threads = trace.threads();
    let count = |thread| {
        let events = trace.shard(thread).events(&Filter::default());
        events.filter(|event| matches!(event, Ok(Event::Access(_)))).count() as u64
    };
    threads.iter().map(|record| count(record.thread)).sum()
}

#[test]
fn a_program_is_recorded_and_read_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut started = Vec::new();
    let run = shell(directory.path()).record_with(|notice| {
        if let Notice::Started { pid } = notice {
            started.push(pid);
        }
    });
    let run = run.expect("it can be recorded");
    assert_eq!(run.end, ProgramEnd::Exited(3));
    assert!(run.totals.accesses > 1000, "{run:?}");
    assert_eq!((run.totals.gaps, run.missing.len(), run.untraced.len()), (0, 0, 0), "{run:?}");
    assert_eq!(accesses(&run), run.totals.accesses);
    let trace = Trace::open(&run.output).expect("a trace");
    assert_eq!(trace.processes().len(), 2, "the shell and cat");
    assert_eq!(started, [trace.processes()[0].pid]);
    let exit_status = trace.properties().get("exit_status").map(String::as_str);
    assert_eq!(exit_status, Some("3"));
}

#[test]
fn children_are_left_alone_on_request_and_a_file_is_not_replaced_unasked() {
    let directory = tempfile::tempdir().expect("a directory");
    let recorder = shell(directory.path()).children(false).tracer(Tracer::Translate);
    let run = recorder.record().expect("it can be recorded");
    assert_eq!(Trace::open(&run.output).expect("a trace").processes().len(), 1);
    let again = recorder.record().expect_err("the file is there").to_string();
    assert!(again.contains("t.memtap"), "{again}");
    let replaced = recorder.replace(true).record().expect("it is replaced");
    assert_eq!(replaced.end, ProgramEnd::Exited(3));
}

#[test]
fn what_can_not_be_recorded_leaves_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("t.memtap");
    let record = |name: &str| {
        Recorder::of_program(name).library(library()).output(&output).record().expect_err("it is none")
    };
    assert!(matches!(record("no-such-program-anywhere"), Error::NotInPath(_)));
    assert!(matches!(record("/etc/passwd"), Error::NotExecutable(_)));
    let missing = Recorder::of_process(u32::MAX).library(library()).output(&output).record();
    assert!(matches!(missing, Err(Error::Attach(_))), "{missing:?}");
    assert!(!output.exists());
}
