//! `record --verify`: translated code is compared with single-stepping in windows,
//! on real programs and under load. The hand-counted programs are in counts.rs.

use std::process::Command;

use e2e::{Recording, TestProgram, memtap, record, repository, run, tool};

/// Runs a command natively and recorded with windows: the same run, and no difference in any of them.
fn check(line: &[&str], stdin: &[u8], options: &[&str]) -> Recording {
    let mut full: Vec<String> = line.iter().map(|s| s.to_string()).collect();
    full[0] = tool(line[0]).display().to_string();
    let native = run(Command::new(&full[0]).args(&full[1..]), stdin);
    let recording = check_recorded(&full, stdin, options);
    let recorded = &recording.outcome;
    assert_eq!(recorded.status, native.status, "exit status of {line:?}: {}", recorded.err());
    assert!(recorded.stdout == native.stdout, "standard output of {line:?} differs: {}", recorded.err());
    assert_eq!(recorded.err(), native.err(), "standard error of {line:?}");
    recording
}

fn check_recorded(line: &[String], stdin: &[u8], options: &[&str]) -> Recording {
    let mut all = vec!["--tracer=translate".to_owned()];
    all.extend(options.iter().map(|option| option.to_string()));
    let recording = record(&all, line, stdin);
    let verified = &recording.trace.stat()["verified"];
    assert_eq!(verified["mismatches"], 0, "{verified}: {}", recording.outcome.err());
    for key in ["windows", "instructions", "accesses"] {
        assert!(verified[key].as_u64() > Some(0), "{key} in {verified}");
    }
    assert_eq!(recording.trace.number("gaps"), 0, "gaps of {line:?}");
    recording
}

/// Of the accesses in windows, the part whose bytes were compared.
fn share_with_bytes(recording: &Recording) -> f64 {
    let verified = &recording.trace.stat()["verified"];
    let count = |key: &str| verified[key].as_f64().expect("a number");
    count("with_bytes") / count("accesses")
}

#[test]
fn gzip() {
    let readme = repository().join("README.md").display().to_string();
    let recording = check(&["gzip", "-c", "-n", &readme], b"", &["--verify"]);
    let instructions = recording.trace.stat()["verified"]["instructions"].as_u64();
    // The first window, and more of them later.
    assert!(instructions > Some(2000), "{instructions:?} were compared");
}

#[test]
fn sort_with_several_threads() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // GNU sort starts threads from 131,072 lines on. Nearly sorted, they take few comparisons.
    let lines: String = (0..132_000).map(|number| format!("{:06}\n", number ^ 5)).collect();
    let path = dir.path().join("lines").display().to_string();
    std::fs::write(&path, lines).expect("a temporary directory can be written");
    let line = ["env", "LC_ALL=C", "sort", "--parallel=4", "-S", "64M", &path];
    let recording = check(&line, b"", &["--verify"]);
    assert!(recording.trace.number("threads") > 1, "sort started no thread");
}

#[test]
fn sqlite3() {
    let script = "create table t(a integer primary key, b text);\n\
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) insert into t select i, hex(i * 7919) from n;\n\
        select count(*), sum(a), max(b) from t where b like '3%';\n";
    check(&["sqlite3", ":memory:"], script.as_bytes(), &["--verify"]);
}

#[test]
fn sqlite3_with_the_bytes_of_accesses() {
    let script = b"select hex(7919), length('abc');\n";
    let recording = check(&["sqlite3", ":memory:"], script, &["--verify=300", "--data"]);
    assert!(share_with_bytes(&recording) > 0.9, "{}", recording.trace.stat());
}

#[test]
fn gzip_with_the_bytes_of_accesses() {
    let readme = repository().join("README.md").display().to_string();
    let recording = check(&["gzip", "-c", "-n", &readme], b"", &["--verify", "--data"]);
    assert!(share_with_bytes(&recording) > 0.9, "{}", recording.trace.stat());
}

#[test]
fn python3_with_the_bytes_of_accesses() {
    let script = "print(sorted(str(number * 7919)[::-1] for number in range(40))[:3])";
    let recording = check(&["python3", "-I", "-S", "-c", script], b"", &["--verify", "--data"]);
    assert!(share_with_bytes(&recording) > 0.9, "{}", recording.trace.stat());
}

/// Other threads may write between two looks at the same memory: nothing is compared that they can reach.
#[test]
fn bytes_of_several_threads_are_left_out() {
    let recording = TestProgram::named("threads.c").record_with("translate", &["--verify=1000000", "--data"]);
    let verified = &recording.trace.stat()["verified"];
    assert_eq!(verified["mismatches"], 0, "{verified}");
    assert!((0.01..0.5).contains(&share_with_bytes(&recording)), "{verified}");
}

/// Two processes write the same page while a third look would find it changed; the clock is in a page of the kernel's.
const SHARED: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    volatile unsigned *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned sum = 0;
    struct timespec now;
    pid_t other = fork();
    if (other == 0)
        for (;;)
            shared[0]++, shared[1]++;
    // Until the other one runs, however late it gets a processor.
    while (shared[0] == 0)
        usleep(1000);
    for (int i = 0; i < 300; i++) {
        sum += shared[0];
        shared[1] = i;
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    kill(other, SIGKILL);
    waitpid(other, 0, 0);
    puts(sum > 0 && now.tv_nsec >= 0 ? "done" : "nothing");
    return 0;
}
"#;

#[test]
fn bytes_that_others_change_are_left_out() {
    let program = TestProgram::from_source("shared_page.c", SHARED, &["-O1"]);
    let options = ["--tracer=translate", "--no-children", "--verify=5000", "--data"].map(str::to_owned);
    let recording = record(&options, &program.command_line(), b"");
    assert_eq!(recording.outcome.out(), "done\n");
    let verified = &recording.trace.stat()["verified"];
    assert_eq!((&verified["mismatches"], recording.outcome.status), (&0.into(), 0), "{verified}");
    assert!((0.1..0.95).contains(&share_with_bytes(&recording)), "{verified}");
}

#[test]
fn python3() {
    let script = "import json, re\n\
        words = re.findall(r'[a-z]+', 'the quick brown fox jumps over the lazy dog ' * 20)\n\
        print(json.dumps(sorted(set(words))))\nraise SystemExit(5)\n";
    check(&["python3", "-I", "-S", "-c", script], b"", &["--verify"]);
}

/// A window that is longer than the program: every instruction of the run.
#[test]
fn a_whole_run_of_a_small_program() {
    let recording = check(&["true"], b"", &["--verify=1000000"]);
    let stat = recording.trace.stat();
    assert_eq!(stat["verified"]["windows"], 1);
    assert!(stat["verified"]["with_bytes"].is_null(), "{stat}");
    // Those of malloc and its relatives, and those that begin and end it, are not stepped.
    let share =
        |key: &str| stat["verified"][key].as_f64().expect("a number") / stat[key].as_f64().expect("a number");
    assert!(share("accesses") > 0.8, "{stat}");
}

/// Forks and executions: each process has windows of its own. (A forked child's thread-local variables had wrong addresses.)
#[test]
fn a_pipeline_of_the_shell() {
    let script = "printf '3\\n1\\n2\\n' | sort | tr '\\n' ' '; (echo in a child); exit 4";
    let recording = check(&["sh", "-c", script], b"", &["--verify"]);
    let processes = recording.trace.number("processes");
    let windows = recording.trace.stat()["verified"]["windows"].as_u64();
    assert!(processes >= 5 && windows >= Some(processes), "{windows:?} windows of {processes} processes");
}

#[test]
fn only_translated_code_is_verified() {
    for options in [["--verify", "--tracer=protect"], ["--verify=7", "--tracer=qemu"]] {
        let line = [&["record"], &options[..], &["--", "true"]].concat();
        let outcome = run(Command::new(memtap()).args(line), b"");
        assert_eq!(outcome.status, 1);
        assert_eq!(
            outcome.err(),
            "memtap: --verify compares translated code with single-stepping; use --tracer translate\n"
        );
    }
    let outcome = run(Command::new(memtap()).args(["record", "--verify=0", "--", "true"]), b"");
    assert_eq!(outcome.status, 2, "{}", outcome.err());
}

#[test]
fn what_was_not_verified_says_so() {
    let recording = record(&["--tracer=translate".to_owned()], &["/bin/true".to_owned()], b"");
    assert!(recording.trace.stat()["verified"].is_null());
}
