//! A recording never hides that the program was killed by a signal. The last lines of `record`,
//! and `stat`, name the signal and the place. A death that memtap may have caused is a gap.

use std::process::Command;

use e2e::{TestProgram, Trace, memtap, run};
use serde_json::Value;

const TRACERS: [&str; 2] = ["--tracer=protect", "--tracer=translate"];

/// What `record` says of a program and of its end, with status and trace.
struct Told {
    status: i32,
    err: String,
    trace: Trace,
}

fn told(tracer: &str, line: &[String]) -> Told {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.memtap");
    let outcome =
        run(Command::new(memtap()).args(["record", tracer, "-o"]).arg(path).arg("--").args(line), b"");
    Told { status: outcome.status, err: outcome.err(), trace: Trace::within(directory, "t.memtap") }
}

/// Runs the program with these words natively and recorded, which have to end alike.
fn ended(file: &str, words: &[&str], tracer: &str) -> Told {
    let program = TestProgram::named(file);
    let status = run(Command::new(&program.path).args(words), b"").status;
    let line: Vec<String> = [program.path.display().to_string()]
        .into_iter()
        .chain(words.iter().map(|word| (*word).to_owned()))
        .collect();
    let told = told(tracer, &line);
    assert_eq!(told.status, status, "{words:?} {tracer}: {}", told.err);
    told
}

/// Ends by its own doing: the death alone is told, and nothing is missing.
fn check_death(how: &str, signal: &str, code: Option<&str>, function: &str) {
    for tracer in TRACERS {
        let Told { err, trace, .. } = ended("ends_by.c", &[how], tracer);
        let stat = trace.stat();
        assert_eq!(stat["gaps"], 0, "{how} {tracer}: {err}");
        let deaths = stat["deaths"].as_array().expect("a list");
        let [death] = &deaths[..] else { panic!("{how} {tracer}: {deaths:?}") };
        assert_eq!(death["signal"], signal, "{how} {tracer}: {death}");
        assert_eq!(death["code"].as_str(), code, "{how} {tracer}: {death}");
        assert_eq!(death["thread"].as_u64(), death["process"].as_u64(), "each process has one: {death}");
        let place = death["place"].as_str().unwrap_or("none");
        assert!(place.contains(function), "{how} {tracer}: {death}");
        assert!(err.contains(&format!("ended by {signal}")) && err.contains(place), "{how} {tracer}: {err}");
        let text = trace.ask("stat", &[]).out();
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
    assert_eq!(ended("ends_by.c", &["child"], TRACERS[1]).status, 11, "that of its parent");
}

/// A program that becomes another one is no process that has ended.
#[test]
fn a_death_after_exec_is_told_once() {
    let program = TestProgram::named("ends_by.c").path.display().to_string();
    for (how, signal) in [("segv", "SIGSEGV"), ("term", "SIGTERM")] {
        let line = ["sh".to_owned(), "-c".to_owned(), format!("exec {program} {how}")];
        let Told { trace, .. } = told(TRACERS[1], &line);
        let deaths = trace.stat()["deaths"].clone();
        assert_eq!(deaths.as_array().map(Vec::len), Some(1), "{deaths}");
        assert_eq!(
            (&deaths[0]["signal"], &deaths[0]["program"]),
            (&signal.into(), &program.as_str().into()),
            "{deaths}"
        );
    }
}

/// What another process ends is told by who waits for it; nobody knows where it was.
#[test]
fn a_program_that_another_kills_is_told() {
    let line = ["sh", "-c", "sh -c 'kill -9 $PPID; :' & wait; sleep 100"].map(str::to_owned);
    let Told { status, err, trace } = told(TRACERS[1], &line);
    assert_eq!(status, 137, "{err}");
    assert!(
        err.contains("until a signal ended the program") && err.contains("ended by SIGKILL, process 0\n"),
        "{err}"
    );
    let deaths = trace.stat()["deaths"].clone();
    assert_eq!((&deaths[0]["signal"], &deaths[0]["place"]), (&"SIGKILL".into(), &Value::Null), "{deaths}");
}

/// A filter that ends a program with several threads may have met a call of ours: it is told before and after.
#[test]
fn the_end_by_a_filter_is_no_complete_recording() {
    let program = TestProgram::named("denies_itself.c");
    let line = [program.path.display().to_string(), "kill".to_owned(), "thread".to_owned()];
    let Told { status, err, trace } = told(TRACERS[1], &line);
    let causes = trace.stat()["gap_causes"].to_string();
    assert!(trace.number("gaps") >= 1 && status != 0, "{err}");
    assert!(causes.contains("it has several threads, and may end by that"), "{causes}");
    if status == 128 + 31 {
        assert!(causes.contains("its filter of system calls ended it"), "{causes}");
        let deaths = trace.stat()["deaths"].clone();
        assert_eq!(deaths[0]["signal"], "SIGSYS", "{deaths}");
    }
}

/// One that is answered by a signal which nobody handles is the program's end, whatever else the filter denies: nothing is asked then.
#[test]
fn the_end_by_a_call_that_a_filter_answers_with_a_signal_is_told() {
    for tracer in TRACERS {
        let Told { err, trace, .. } = ended("denies_itself.c", &["trap"], tracer);
        let stat = trace.stat();
        assert_eq!(stat["deaths"][0]["signal"], "SIGSYS", "{tracer}: {err}");
        assert_eq!(stat["deaths"][0]["code"], "SYS_SECCOMP", "{tracer}: {err}");
        assert!(stat["deaths"][0]["place"].to_string().contains("getppid"), "{tracer}: {err}");
        assert!(
            stat["gap_causes"].to_string().contains("its filter of system calls ended it"),
            "{tracer}: {stat}"
        );
    }
}

/// A handler of the program's would find registers of memtap's, and where it went on nobody could tell the two apart.
#[test]
fn a_fault_of_memtap_is_no_fault_of_the_program() {
    let line = [TestProgram::named("bad_mark.c").path.display().to_string()];
    let Told { status, err, trace } = told(TRACERS[1], &line);
    assert_eq!(status, 128 + 11, "{err}");
    let stat = trace.stat();
    assert_eq!(stat["deaths"][0]["signal"], "SIGSEGV", "{err}");
    assert!(stat["gap_causes"].to_string().contains("a signal ended it in code of memtap's"), "{stat}");
}

#[test]
fn a_program_that_ends_well_has_no_deaths() {
    let Told { err, trace, .. } = told(TRACERS[1], &["true".to_owned()]);
    assert_eq!(trace.stat()["deaths"], Value::Array(Vec::new()));
    assert!(err.contains("nothing is missing\n") && !err.contains("ended by"), "{err}");
}
