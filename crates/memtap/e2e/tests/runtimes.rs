//! `memtap race` and runtimes that run a program's work in ways that are not modelled. They are recognised by the name
//! of their file or by the symbols of their functions, and named in one line; races inside them are not reported. The
//! runtimes here are stand-ins with the file name of LLVM's OpenMP, and with function names of Go's runtime and tokio.

use std::path::Path;
use std::process::Command;

use e2e::{TestProgram, Trace, memtap, run};

// Hands work over by plain moves to variables of its own, as no compiler may do it, and as the processor keeps it in order.
const RUNTIME: &str = "
static volatile long begun, ended;
void runtime_begin(void) { begun = 1; }
void runtime_wait_for_begin(void) { while (!begun); }
void runtime_end(void) { ended = 1; }
void runtime_wait_for_end(void) { while (!ended); }
";

// `handed` is ordered by the runtime alone, `raced` by nothing.
const PROGRAM: &str = "
#include <pthread.h>
void runtime_begin(void), runtime_wait_for_begin(void), runtime_end(void), runtime_wait_for_end(void);
long handed, raced;
static void *work(void *nothing)
{
    runtime_wait_for_begin();
    handed += 1;
    runtime_end();
    for (int i = 0; i < 100; i++)
        ((volatile long *)&raced)[0]++;
    return nothing;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    handed = 41;
    runtime_begin();
    for (int i = 0; i < 100; i++)
        ((volatile long *)&raced)[0]++;
    runtime_wait_for_end();
    handed += 1;
    pthread_join(thread, 0);
    return handed != 43;
}
";

/// Builds both, the runtime under that name, and asks for races: what `race` prints to standard output and to standard error.
fn races(dir: &Path, library: &str, tracer: &str) -> (String, String) {
    let (source, built) = (dir.join("runtime.c"), dir.join(library));
    std::fs::write(&source, RUNTIME).expect("there is room");
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", &format!("-Wl,-soname,{library}"), "-o"])
        .args([&built, &source])
        .status()
        .expect("there is a compiler");
    assert!(compiler.success());
    let rpath = format!("-Wl,-rpath,{}", dir.display());
    let built = built.display().to_string();
    let program = TestProgram::from_source(
        &format!("with_{library}.c"),
        PROGRAM,
        &["-g", "-O1", "-pthread", "-Wl,--no-as-needed", &built, &rpath],
    );
    let path = dir.join("t.memtap");
    let mut command = Command::new(memtap());
    command.args(["record", "--quiet", "--tracer", tracer, "-o"]).arg(&path).arg("--");
    let outcome = run(command.args(program.command_line()), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let answer = Trace::at(path).ask("race", &[]);
    assert_eq!(answer.status, 0, "{}", answer.err());
    (answer.out(), answer.err())
}

#[test]
fn a_runtime_that_is_not_modelled_is_named_and_its_inside_not_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (found, said) = races(dir.path(), "libomp.so.5", "translate");
    let notes: Vec<&str> = said.lines().filter(|line| line.contains("libomp.so.5 is not modelled")).collect();
    assert_eq!(notes.len(), 1, "{said}");
    assert!(!found.contains("runtime_") && !found.contains("begun") && !found.contains("handed"), "{found}");
}

/// By page protection every access of the two variables is ordered: what the runtime does not order is found.
#[test]
fn a_race_beside_such_a_runtime_is_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (found, _) = races(dir.path(), "libiomp5.so", "protect");
    assert!(found.contains("race on raced"), "{found}");
    assert!(!found.contains("race on handed") && !found.contains("runtime_"), "{found}");
}

#[test]
fn another_library_is_not_taken_for_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (found, said) = races(dir.path(), "libother.so", "protect");
    assert!(!said.contains("is not modelled"), "{said}");
    // Of a library that nobody knows, plain moves are what they look like.
    assert!(found.contains("race on handed"), "{found}");
}

// Functions with the names that a runtime's have: `handed` is ordered by them alone, `raced` by nothing. The program looks at `request` as
// the runtime lets it: Go's functions look at their goroutine's limit when they begin, which the scheduler sets.
const LINKED: &str = "
#include <pthread.h>
#define NAMED(name) __asm__(name)
void begin(void) NAMED(BEGIN), wait_for_begin(void) NAMED(WAIT), end(void) NAMED(END), wait_for_end(void) NAMED(JOIN);
void present(void) NAMED(PRESENT);
void work(void) NAMED(WORK);
static volatile long begun, ended, request;
__attribute__((noinline)) void begin(void) { begun = 1; }
__attribute__((noinline)) void wait_for_begin(void) { while (!begun); }
__attribute__((noinline)) void end(void) { request = 1; ended = 1; }
__attribute__((noinline)) void wait_for_end(void) { while (!ended); }
void present(void) {}
long handed, raced;
__attribute__((noinline)) void work(void)
{
    for (int i = 0; i < 100; i++)
        ((volatile long *)&raced)[0]++;
}
static void *thread_work(void *nothing) NAMED(\"main.thread_work\");
static void *thread_work(void *nothing)
{
    wait_for_begin();
    handed += 1;
    end();
    work();
    return nothing;
}
int program(void) NAMED(\"main.program\");
__attribute__((noinline)) int program(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, thread_work, 0);
    handed = 41;
    begin();
    work();
    (void)request;
    wait_for_end();
    handed += 1;
    pthread_join(thread, 0);
    return handed != 43;
}
int main(void) { return program(); }
";

/// The names of the functions of a runtime that is linked into the program, and of the program's own.
fn check_linked(file: &str, names: [&str; 6], said: &str) {
    let keys = ["BEGIN", "WAIT", "END", "JOIN", "PRESENT", "WORK"];
    let defined: Vec<String> =
        keys.iter().zip(names).map(|(key, name)| format!("-D{key}=\"{name}\"")).collect();
    let mut flags = vec!["-g", "-O1", "-pthread"];
    flags.extend(defined.iter().map(String::as_str));
    let program = TestProgram::from_source(file, LINKED, &flags);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("t.memtap");
    let mut command = Command::new(memtap());
    command.args(["record", "--quiet", "--tracer", "protect", "-o"]).arg(&path).arg("--");
    let outcome = run(command.args(program.command_line()), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let answer = Trace::at(path).ask("race", &[]);
    let (found, notes) = (answer.out(), answer.err());
    assert!(found.contains("race on raced"), "{found}");
    assert!(!["handed", "begun", "request"].iter().any(|name| found.contains(name)), "{found}");
    let notes: Vec<&str> = notes.lines().filter(|line| line.contains("is not modelled")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains(said) && notes[0].contains(file.trim_end_matches(".c")), "{notes:?}");
}

#[test]
fn the_runtime_of_go_is_known_by_its_symbols() {
    let names = [
        "runtime.ready",
        "runtime.gopark",
        "runtime.goready",
        "runtime.chanrecv1",
        "runtime.goexit",
        "main.work",
    ];
    check_linked("like_go.c", names, "inside of Go's runtime (in ");
}

#[test]
fn tokio_is_known_by_its_symbols() {
    let names = [
        "_ZN5tokio7runtime4park5begin17h0123456789abcdefE",
        "_ZN5tokio7runtime4park4wait17h0123456789abcdefE",
        "_ZN5tokio4task3end17h0123456789abcdefE",
        "_ZN5tokio4task4join17h0123456789abcdefE",
        "_ZN5tokio7runtime7present17h0123456789abcdefE",
        "_ZN6server4work17h0123456789abcdefE",
    ];
    check_linked("like_tokio.c", names, "inside of tokio (in ");
}
