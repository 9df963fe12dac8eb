//! A killed recorder leaves a readable trace, and a program that dies leaves everything it did until then.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{Limited, TestProgram, Trace, memtap, spawn};

/// Starts to record a program, which may get the path of a file by which it says how far it is.
fn start_recording(tracer: &str, path: &Path, program: &TestProgram, said: Option<&Path>) -> Limited {
    let mut command = Command::new(memtap());
    command.args(["record", "--tracer", tracer, "-o"]).arg(path).arg("--");
    command.args(program.command_line()).args(said);
    spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Starts to record a program that makes accesses for a while, kills the recorder after that time, and checks the rest. By
/// page protection the program takes longer than that.
fn kill_after(milliseconds: u64) -> u64 {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path: PathBuf = dir.path().join("t.memtap");
    let program = TestProgram::from_source("endless.c", ENDLESS, &["-O1"]);
    let mut recorder = start_recording("protect", &path, &program, None);
    std::thread::sleep(Duration::from_millis(milliseconds));
    recorder.kill().expect("SIGKILL to a child of ours");
    recorder.wait().expect("it was started");
    if !path.exists() {
        // Killed before it began.
        return 0;
    }
    let trace = Trace::at(path);
    // Says that the end is missing, on one line or more, and what can be read.
    let checked = trace.ask("check", &[]);
    assert!(
        checked.status == 0 || checked.status == 1,
        "check crashed: {} {}",
        checked.status,
        checked.err()
    );
    let stat = trace.ask("stat", &["--json"]);
    if stat.status != 0 {
        // Nothing had been written yet.
        assert_eq!((stat.status, stat.err().lines().count()), (1, 1), "{}", stat.err());
        return 0;
    }
    let cells = e2e::variables(&program.path)
        .into_iter()
        .find(|v| v.name == "cells")
        .expect("the program has it")
        .range;
    let all = trace.references();
    assert_eq!(trace.number("accesses"), all.len() as u64, "stat and dump agree");
    let references: Vec<_> = all.into_iter().filter(|r| cells.contains(&r.addr)).collect();
    // What is left is a beginning of what happened: the program writes 0, 1, 2, ... to one place after another.
    for pair in references.windows(2) {
        assert!(
            pair[1].addr == pair[0].addr + 8 || pair[1].addr < pair[0].addr,
            "an access is missing in the middle"
        );
    }
    references.len() as u64
}

// Nothing but `cells` is accessed in data, bss and heap.
const ENDLESS: &str = "
long cells[4096];
int main(void)
{
    for (long turn = 0; turn < 400; turn++)
        for (long i = 0; i < 4096; i++)
            __asm__ volatile(\"movq %1, %0\" : \"=m\"(cells[i]) : \"r\"(turn));
    return 0;
}
";

/// Whether a file is made in reasonable time.
fn wait_for(path: &Path) -> bool {
    (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        path.exists()
    })
}

/// The program goes on natively, at full speed, when nobody empties the tracer's buffers any more.
fn ends_without_its_recorder(tracer: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = TestProgram::from_source("outlives.c", OUTLIVES, &["-O1", "-pthread"]);
    let done = dir.path().join("done");
    let mut recorder = start_recording(tracer, &dir.path().join("t.memtap"), &program, Some(&done));
    assert!(wait_for(&dir.path().join("done.begun")), "{tracer}: the program did not begin");
    recorder.kill().expect("SIGKILL to a child of ours");
    recorder.wait().expect("it was started");
    std::fs::write(dir.path().join("done.alone"), "").expect("a file can be made");
    assert!(wait_for(&done), "{tracer}: the program waits for its recorder");
}

// Makes far more accesses than the buffers hold, in two threads, after its recorder was killed.
const OUTLIVES: &str = "
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
long cells[4096];
static void *fill(void *from)
{
    for (long turn = 0; turn < 3000; turn++)
        for (long i = (long)from; i < 4096; i += 2)
            __asm__ volatile(\"movq %1, %0\" : \"=m\"(cells[i]) : \"r\"(turn));
    return 0;
}
static int make(const char *name)
{
    return close(open(name, O_CREAT | O_WRONLY, 0600));
}
int main(int argc, char **argv)
{
    char name[4096];
    pthread_t thread;
    snprintf(name, sizeof name, \"%s.begun\", argv[argc - 1]);
    make(name);
    snprintf(name, sizeof name, \"%s.alone\", argv[argc - 1]);
    while (access(name, F_OK))
        usleep(10000);
    pthread_create(&thread, 0, fill, (void *)1);
    fill(0);
    pthread_join(thread, 0);
    return make(argv[argc - 1]);
}
";

#[test]
fn a_program_ends_without_its_recorder() {
    ends_without_its_recorder("protect");
}

#[test]
fn a_translated_program_ends_without_its_recorder() {
    ends_without_its_recorder("translate");
}

#[test]
fn killed_at_any_moment_the_trace_can_be_read() {
    let mut kept: Vec<u64> = [40, 120, 250, 430, 700, 1100].into_iter().map(kill_after).collect();
    // On a busy machine none of them may be late enough.
    for later in [2000, 4000, 8000, 16_000, 32_000] {
        if kept.iter().all(|&n| n == 0) {
            kept.push(kill_after(later));
        }
    }
    assert!(kept.iter().any(|&n| n > 0), "nothing was ever kept: {kept:?}");
}

/// The same program to its end, so that the test above is known to look at the right thing.
#[test]
fn not_killed_nothing_is_missing() {
    let program = TestProgram::from_source("endless.c", &ENDLESS.replace("400", "4"), &["-O1"]);
    let recording = program.record();
    let cells = e2e::total_of(&recording.trace.variables(), "cells");
    assert_eq!((cells.loads, cells.stores, cells.modifies), (0, 4 * 4096, 0));
    let checked = recording.trace.ask("check", &[]);
    assert_eq!(checked.status, 0, "{}{}", checked.out(), checked.err());
}

/// Ctrl-C stops the program and leaves a valid trace.
fn interrupt(tracer: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("t.memtap");
    let begun = dir.path().join("begun");
    let program = TestProgram::from_source(&format!("endless_{tracer}.c"), INTERRUPTED, &["-O1"]);
    let mut recorder = start_recording(tracer, &path, &program, Some(&begun));
    assert!(wait_for(&begun), "{tracer}: the program did not begin");
    let pid = recorder.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is a program").success());
    recorder.wait().expect("it was started");
    let trace = Trace::at(path);
    assert!(trace.number("stores") > 1000);
    let checked = trace.ask("check", &[]);
    assert_eq!(checked.status, 0, "{}{}", checked.out(), checked.err());
    // Only this test's own program: its path is unique to its name and text.
    let left = Command::new("pgrep").arg("-f").arg(&program.path).output().expect("pgrep is a program");
    assert!(
        left.stdout.is_empty(),
        "the program is still running: {}",
        String::from_utf8_lossy(&left.stdout)
    );
}

// Says that it has made many accesses, and makes more until it is ended.
const INTERRUPTED: &str = "
#include <fcntl.h>
#include <unistd.h>
long cells[4096];
int main(int argc, char **argv)
{
    for (long turn = 0;; turn++) {
        for (long i = 0; i < 4096; i++)
            __asm__ volatile(\"movq %1, %0\" : \"=m\"(cells[i]) : \"r\"(turn));
        if (turn == 1)
            close(open(argv[argc - 1], O_CREAT | O_WRONLY, 0600));
    }
}
";

#[test]
fn interrupted_the_trace_is_valid() {
    interrupt("protect");
}

#[test]
fn interrupted_the_trace_of_a_translated_program_is_valid() {
    interrupt("translate");
}

/// What was handed over is in the file soon, although the program makes no more accesses and the trace has no end.
fn young_trace_survives(tracer: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("t.memtap");
    let enough = dir.path().join("enough");
    let program = TestProgram::from_source(&format!("young_{tracer}.c"), YOUNG, &["-O1", "-pthread"]);
    let mut recorder = start_recording(tracer, &path, &program, Some(&enough));
    let trace = Trace::at(path);
    let cells = e2e::variables(&program.path)
        .into_iter()
        .find(|v| v.name == "cells")
        .expect("the program has it")
        .range;
    let stored = || -> Vec<u64> {
        let stat = trace.ask("stat", &["--json"]);
        let all = if stat.status == 0 { trace.references() } else { Vec::new() };
        all.into_iter().map(|reference| reference.addr).filter(|addr| cells.contains(addr)).collect()
    };
    let expected: Vec<u64> = cells.clone().step_by(8).collect();
    let written = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        stored() == expected
    });
    // It waits for the file, so it was the time that has sent them on, and not their number.
    assert!(written, "{tracer}: {} of {} stores were written", stored().len(), expected.len());
    recorder.kill().expect("SIGKILL to a child of ours");
    recorder.wait().expect("it was started");
    assert_eq!(stored(), expected, "{tracer}");
    std::fs::write(enough, "").expect("the directory is ours");
}

// A thread stores to each place once and ends, which hands its buffer over; then nothing is accessed any more.
const YOUNG: &str = "
#include <pthread.h>
#include <unistd.h>
long cells[500];
static void *fill(void *from)
{
    for (long i = 0; i < 500; i++)
        __asm__ volatile(\"movq %1, %0\" : \"=m\"(cells[i]) : \"r\"(i));
    return from;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    pthread_create(&thread, 0, fill, 0);
    pthread_join(thread, 0);
    // Longer than the test looks, and not for ever: its directory may be gone before this sees the file.
    for (int i = 0; i < 12000 && access(argv[argc - 1], F_OK); i++)
        usleep(10000);
    return 0;
}
";

#[test]
fn a_young_trace_survives_its_recorder() {
    young_trace_survives("protect");
}

#[test]
fn a_young_trace_of_a_translated_program_survives_its_recorder() {
    young_trace_survives("translate");
}

/// A program that is killed from outside: its status is passed on, and what it did is there.
#[test]
fn the_program_is_killed() {
    let source = "
#include <signal.h>
#include <unistd.h>
long cells[4096];
int main(void)
{
    for (long i = 0; i < 4096; i++)
        __asm__ volatile(\"movq %1, %0\" : \"=m\"(cells[i]) : \"r\"(i));
    kill(getpid(), SIGKILL);
    return 0;
}
";
    let program = TestProgram::from_source("killed.c", source, &[]);
    for tracer in ["protect", "translate"] {
        let recording = e2e::record(&[format!("--tracer={tracer}")], &program.command_line(), b"");
        assert_eq!(recording.outcome.status, 128 + 9, "{tracer}");
        assert_eq!(e2e::total_of(&recording.trace.variables(), "cells").stores, 4096, "{tracer}");
    }
}
