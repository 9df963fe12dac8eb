//! `memtap record --memory`: the recorder uses no more than the limit, and its trace is complete.

use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{TestProgram, Trace, memtap, run, spawn};

const BOUND_MIB: u64 = 64;
/// Of them, those that the code of a release takes at least.
const CODE_MIB: u64 = 8;
const THREADS: u64 = 48;
const STORES: u64 = 40_000;

/// Threads that store at places of which no two are alike, so that there is much to keep of each.
fn scattered() -> TestProgram {
    let source = format!(
        "#include <pthread.h>\n\
         volatile long cells[1 << 20];\n\
         static void *run(void *seed) {{\n    unsigned long x = (unsigned long)seed;\n    \
         for (long i = 0; i < {STORES}; i++) {{\n        x = x * 6364136223846793005ul + 1442695040888963407ul;\n        \
         cells[x >> 44] = i;\n    }}\n    return 0;\n}}\n\
         int main(void) {{\n    pthread_t threads[{THREADS}];\n    \
         for (long i = 0; i < {THREADS}; i++)\n        pthread_create(&threads[i], 0, run, (void *)(i + 1));\n    \
         for (long i = 0; i < {THREADS}; i++)\n        pthread_join(threads[i], 0);\n    return 0;\n}}\n"
    );
    TestProgram::from_source("scattered_threads.c", &source, &["-O1", "-pthread"])
}

/// The most memory that a process has had so far, in KiB, but for its code, of which builds for debugging have much more; `None` where
/// it is over.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().trim_end_matches(" kB").parse().ok()
    };
    Some(field("VmHWM:")?.saturating_sub(field("RssFile:")?))
}

/// Records within the bound: the trace, and the recorder's peak in KiB.
fn record_bounded(program: &TestProgram, options: &[&str]) -> (Trace, u64) {
    let trace = Trace::within(tempfile::tempdir().expect("a temporary directory"), "t.memtap");
    let mut command = Command::new(memtap());
    command.args(["record", "--quiet", "--memory", &BOUND_MIB.to_string(), "-o"]).arg(&trace.path);
    command.args(options).arg("--").args(program.command_line()).stdin(Stdio::null());
    let mut recorder = spawn(&mut command);
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_kib(recorder.id()).unwrap_or(0));
        if let Some(status) = recorder.try_wait().expect("a child of ours") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{options:?}: {status}");
    (trace, peak)
}

fn check(options: &[&str]) {
    let program = scattered();
    let (trace, peak_kib) = record_bounded(&program, options);
    assert!(peak_kib > 0, "it was never seen");
    assert!(peak_kib <= (BOUND_MIB - CODE_MIB) << 10, "{options:?}: {peak_kib} KiB");
    assert_eq!(trace.number("gaps"), 0);
    let stored = e2e::total_of(&trace.variables(), "cells").stores;
    assert_eq!(stored, THREADS * STORES, "{options:?}");
}

#[test]
fn many_threads_are_recorded_within_the_bound() {
    check(&[]);
}

/// Entries are gathered for each thread, where blocks are coded at once.
#[test]
fn many_threads_are_recorded_within_the_bound_as_entries() {
    check(&["--encoder", "live"]);
}

#[test]
fn a_bound_that_can_not_hold_is_refused_in_one_line() {
    for (options, words) in [
        (vec!["--memory", "8"], "--memory 8: a recording needs 64 MiB or more"),
        (vec!["--memory", "64", "--tracer", "qemu"], "--memory: of a whole machine"),
    ] {
        let refused = run(Command::new(memtap()).arg("record").args(&options).args(["--", "true"]), b"");
        assert_eq!(refused.status, 2, "{options:?}: {}", refused.err());
        assert_eq!(refused.err().lines().count(), 1, "{options:?}: {}", refused.err());
        assert!(refused.err().contains(words), "{options:?}: {}", refused.err());
    }
}
