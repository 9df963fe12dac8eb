//! A program that a signal ends is never a recording of which nothing is said: which signal it was, and where, stands in `record`'s last
//! lines and in `stat`, and what may have been memtap's doing is a gap.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use e2e::{Recording, TestProgram, record};
use serde_json::Value;

const TRACERS: [&str; 2] = ["--tracer=protect", "--tracer=translate"];

/// Runs the program with these words natively and recorded, which have to end alike.
fn ended(file: &str, words: &[&str], tracer: &str) -> Recording {
    let program = TestProgram::named(file);
    let natively = Command::new(&program.path).args(words).output().expect("it runs");
    let status = natively.status.signal().map_or_else(|| natively.status.code(), |signal| Some(128 + signal));
    let line: Vec<String> = [program.path.display().to_string()]
        .into_iter()
        .chain(words.iter().map(|word| (*word).to_owned()))
        .collect();
    let recording = record(&[tracer.to_owned()], &line, b"");
    assert_eq!(Some(recording.outcome.status), status, "{words:?} {tracer}: {}", recording.outcome.err());
    recording
}

/// Ends by its own doing: the death alone is told, and nothing is missing.
fn check_death(how: &str, signal: &str, code: Option<&str>, function: &str) {
    for tracer in TRACERS {
        let recording = ended("ends_by.c", &[how], tracer);
        let err = recording.outcome.err();
        let stat = recording.trace.stat();
        assert_eq!(stat["gaps"], 0, "{how} {tracer}: {err}");
        let deaths = stat["deaths"].as_array().expect("a list");
        let [death] = &deaths[..] else { panic!("{how} {tracer}: {deaths:?}") };
        assert_eq!(death["signal"], signal, "{how} {tracer}: {death}");
        assert_eq!(death["code"].as_str(), code, "{how} {tracer}: {death}");
        assert_eq!(death["thread"].as_u64(), death["process"].as_u64(), "each process has one: {death}");
        let place = death["place"].as_str().unwrap_or("none");
        assert!(place.contains(function), "{how} {tracer}: {death}");
        assert!(err.contains(&format!("ended by {signal}")) && err.contains(place), "{how} {tracer}: {err}");
        let text = recording.trace.ask("stat", &[]).out();
        assert!(text.contains(&format!("ended by {signal}")), "{how} {tracer}: {text}");
    }
}

#[test]
fn faults_are_told_with_their_place() {
    check_death("segv", "SIGSEGV", Some("SEGV_MAPERR"), "ends_by.c:16");
    check_death("write", "SIGSEGV", Some("SEGV_ACCERR"), "main");
    check_death("fetch", "SIGSEGV", Some("SEGV_MAPERR"), "0x1234");
    check_death("fpe", "SIGFPE", Some("FPE_INTDIV"), "main");
    check_death("ill", "SIGILL", Some("ILL_ILLOPN"), "main");
    check_death("bus", "SIGBUS", Some("BUS_ADRERR"), "main");
}

#[test]
fn signals_that_a_program_sends_itself_are_told_with_their_sender() {
    check_death("abort", "SIGABRT", None, "kill");
    check_death("term", "SIGTERM", None, "kill");
}

#[test]
fn the_death_of_a_child_is_told() {
    check_death("child", "SIGSEGV", Some("SEGV_MAPERR"), "ends_by.c:16");
    let recording = ended("ends_by.c", &["child"], TRACERS[1]);
    assert_eq!(recording.outcome.status, 11, "that of its parent");
}

/// What another process ends is told by who waits for it; nobody knows where it was.
#[test]
fn a_program_that_another_kills_is_told() {
    let line = ["sh", "-c", "sh -c 'kill -9 $PPID; :' & wait; sleep 100"].map(str::to_owned);
    let recording = record(&[], &line, b"");
    let err = recording.outcome.err();
    assert_eq!(recording.outcome.status, 137, "{err}");
    assert!(err.contains("ended by SIGKILL, process 0\n"), "{err}");
    let deaths = recording.trace.stat()["deaths"].clone();
    assert_eq!((&deaths[0]["signal"], &deaths[0]["place"]), (&"SIGKILL".into(), &Value::Null), "{deaths}");
}

/// A filter that ends a program with several threads may have met a call of ours: it is told before and after.
#[test]
fn the_end_by_a_filter_is_no_complete_recording() {
    let program = TestProgram::named("denies_itself.c");
    let line = [program.path.display().to_string(), "kill".to_owned(), "thread".to_owned()];
    let recording = record(&[], &line, b"");
    let err = recording.outcome.err();
    let causes = recording.trace.stat()["gap_causes"].to_string();
    assert!(recording.trace.number("gaps") >= 1 && recording.outcome.status != 0, "{err}");
    assert!(causes.contains("it has several threads, and may end by that"), "{causes}");
    if recording.outcome.status == 128 + 31 {
        assert!(causes.contains("its filter of system calls ended it"), "{causes}");
        let deaths = recording.trace.stat()["deaths"].clone();
        assert_eq!(deaths[0]["signal"], "SIGSYS", "{deaths}");
    }
}

#[test]
fn a_program_that_ends_well_has_no_deaths() {
    let recording = record(&[], &["true".to_owned()], b"");
    assert_eq!(recording.trace.stat()["deaths"], Value::Array(Vec::new()));
    assert!(!recording.outcome.err().contains("ended by"), "{}", recording.outcome.err());
}
