//! Steps drawn from a seed (tests/differ) give the same output natively
//! and recorded. `cargo xtask differ` runs any number of them.

use std::path::PathBuf;
use std::process::Command;

use e2e::{bin_dir, record, repository, run};

/// The program of the steps. Tests have processes of their own: each builds it for itself.
fn program(test: &str) -> PathBuf {
    let program = bin_dir().join(format!("differ-{test}"));
    let sources = repository().join("tests/differ");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-pthread", "-no-pie", "-o"]).arg(&program);
    for name in ["main.c", "calls.c", "mappings.c", "code.c", "signals.c", "processes.c"] {
        gcc.arg(sources.join(name));
    }
    let built = run(&mut gcc, b"");
    assert_eq!(built.status, 0, "{}", built.err());
    program
}

/// What is said of the steps of these kinds.
fn said<'a>(text: &'a str, kinds: &[&str]) -> Vec<&'a str> {
    text.lines().filter(|line| kinds.iter().any(|kind| line.contains(kind))).collect()
}

/// Takes the steps natively and translated.
fn check(test: &str, seed: &str, steps: &str, kinds: &[&str]) {
    check_by(&["translate"], test, seed, steps, kinds);
}

/// Takes the steps natively and by these tracers.
fn check_by(tracers: &[&str], test: &str, seed: &str, steps: &str, kinds: &[&str]) {
    let line = [program(test).display().to_string(), seed.to_owned(), steps.to_owned()];
    let native = run(Command::new(&line[0]).args(&line[1..]), b"");
    assert_eq!(native.status, 0, "{}", native.err());
    let native = native.out();
    let native = said(&native, kinds);
    assert!(!native.is_empty());
    for tracer in tracers {
        let recorded = record(&[format!("--tracer={tracer}")], &line, b"").outcome;
        assert_eq!(recorded.status, 0, "{tracer}: {}", recorded.err());
        let recorded = recorded.out();
        let recorded = said(&recorded, kinds);
        for (native, recorded) in native.iter().zip(&recorded) {
            assert_eq!(native, recorded, "seed {seed}, {tracer}");
        }
        assert_eq!(native.len(), recorded.len(), "seed {seed}, {tracer}");
    }
}

#[test]
fn calls_with_bad_arguments() {
    check_by(&["translate", "protect"], "calls", "101", "0-399", &[" call: "]);
}

#[test]
fn mappings() {
    check_by(&["translate", "protect"], "mappings", "102", "0-399", &[" mappings: "]);
}

#[test]
fn generated_code() {
    check("code", "103", "0-399", &[" code: "]);
}

/// Nobody can keep a thread from being sent a signal before it has begun.
#[test]
fn a_new_thread_gets_sigsegv_and_sigtrap_at_once() {
    let every = |steps: &str| format!("{steps},").repeat(10).trim_end_matches(',').to_owned();
    check("sigtrap", "1", &every("16"), &[" processes: "]);
    check("sigsegv", "2", &every("134"), &[" processes: "]);
}

/// Five times, each while it is blocked: it comes when the handler before returns, not after what the program does next.
#[test]
fn a_signal_that_its_handler_sends_comes_before_the_program_goes_on() {
    check("handlers", "103", "251", &[" signals: "]);
}

/// It waits in the kernel, which handlers of the tracer's must not let it through to.
#[test]
fn a_blocked_sigfpe_is_pending() {
    check("sigfpe", "2", "60", &[" signals: "]);
}
