//! Nothing is lost silently: what could not be recorded is a gap, `record` reports it, and its exit status shows it.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Recording, TestProgram, memtap, record, run, spawn, tool};
use serde_json::json;

/// A program that can be traced starts one that can't: page protection needs a loader that takes it along.
fn with_a_static_child(options: &[&str], status: &str) -> Recording {
    let child = TestProgram::built("status.c", &["-static"]);
    let script = format!("{} one two < /dev/null; exit {status}", child.path.display());
    let line = [tool("sh").display().to_string(), "-c".to_owned(), script];
    let options: Vec<String> = ["--tracer=protect"].iter().chain(options).map(|s| s.to_string()).collect();
    record(&options, &line, b"")
}

#[test]
fn a_static_child_is_a_gap() {
    let recording = with_a_static_child(&[], "0");
    assert_eq!(recording.outcome.status, 1, "the program's own status was 0");
    let err = recording.outcome.err();
    assert!(err.contains("missing") && err.contains("--allow-gaps"), "{err}");
    assert!(recording.trace.number("gaps") > 0);
    // With its reason, for people too.
    let stat = recording.trace.ask("stat", &[]).out();
    assert!(stat.contains("untraced program"), "{stat}");
}

/// Recording begins with main, and a program need not have one that the C library calls: a trace of nothing is not complete.
#[test]
fn a_program_that_never_comes_to_main_is_a_gap() {
    let program = TestProgram::named("own_start.c").path.display().to_string();
    let shell = [tool("sh").display().to_string(), "-c".to_owned(), format!("{program}; exit 3")];
    for tracer in ["--tracer=translate", "--tracer=protect"] {
        let recording = record(&[tracer.to_owned()], std::slice::from_ref(&program), b"");
        let err = recording.outcome.err();
        assert_eq!((&*recording.outcome.out(), recording.outcome.status), ("began by itself\n", 1), "{err}");
        assert_eq!((recording.trace.number("accesses"), recording.trace.number("gaps")), (0, 1), "{err}");
        assert!(err.contains("never came to a main"), "{err}");
        let recording = record(&[tracer.to_owned()], &shell, b"");
        assert_eq!((recording.outcome.status, recording.trace.number("gaps")), (3, 1));
    }
}

/// A shell asks the kernel to execute it, is refused, and reads it itself: nothing is lost.
#[test]
fn a_script_that_names_no_interpreter_is_no_gap() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("script");
    std::fs::write(&script, "echo from the script\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("rights");
    let line = ["bash".to_owned(), "-c".to_owned(), script.display().to_string()];
    let recording = record(&[], &line, b"");
    assert_eq!(recording.outcome.out(), "from the script\n");
    assert_eq!(recording.outcome.status, 0, "{}", recording.outcome.err());
    assert_eq!(recording.trace.number("gaps"), 0);
}

/// A debugger that is recorded sees the program that it starts as without memtap; that program is a gap, with its name and the reason.
#[test]
fn what_a_recorded_debugger_starts_runs_as_without_memtap() {
    let echo = [tool("echo").display().to_string(), "hi".to_owned()];
    let gdb = ["gdb", "-batch", "-nx", "-ex", "run", "--args"].map(str::to_owned);
    let strace = ["strace", "-e", "trace=write"].map(str::to_owned);
    for (debugger, said) in [(&gdb[..], "exited normally"), (&strace[..], "write(1, \"hi\\n\", 3)")] {
        let line = [debugger, &echo].concat();
        let recording = record(&["--tracer=translate".to_owned()], &line, b"");
        let (out, err) = (recording.outcome.out(), recording.outcome.err());
        assert!(out.contains("hi\n") && format!("{out}{err}").contains(said), "{out}{err}");
        assert!(!format!("{out}{err}").contains("SIG"), "{out}{err}");
        // strace tries out first what the kernel can do, with children that ask to be traced.
        assert!(recording.trace.number("gaps") >= 1 && recording.outcome.status == 1, "{err}");
        let stat = recording.trace.ask("stat", &[]).out();
        assert!(stat.contains("it runs under a debugger"), "{stat}");
    }
}

/// Each of our signals would be a stop for the tracer of a program that asks to be traced, so that goes on without us, and is a gap.
#[test]
fn a_program_that_asks_to_be_traced_goes_on_natively() {
    for file in ["asks_to_be_traced.c", "debugs_a_child.c"] {
        let program = TestProgram::named(file);
        program.check(&program.run());
        let line = [program.path.display().to_string()];
        for options in [
            &["--tracer=protect"][..],
            &["--tracer=translate"],
            &["--tracer=translate", "--verify", "--data"],
        ] {
            let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
            let recording = record(&options, &line, b"");
            let err = recording.outcome.err();
            assert_eq!(recording.outcome.out(), program.header.stdout, "{file} {options:?}: {err}");
            assert_eq!((recording.trace.number("gaps"), recording.outcome.status), (1, 1), "{err}");
            assert!(err.contains(file.trim_end_matches(".c")) && err.contains("PTRACE_TRACEME"), "{err}");
        }
    }
}

/// A filter of system calls that the program gives itself holds for the tracer, too: where that needs what is denied, the program goes
/// on without it, and ends as natively.
#[test]
fn a_program_that_denies_itself_what_memtap_needs_goes_on_natively() {
    let program = TestProgram::named("denies_itself.c");
    program.check(&program.run());
    for tracer in ["--tracer=protect", "--tracer=translate"] {
        for how in ["strict", "errno", "kill"] {
            let line = [program.path.display().to_string(), how.to_owned()];
            let recording = record(&[tracer.to_owned()], &line, b"");
            let err = recording.outcome.err();
            assert_eq!(recording.outcome.out(), program.header.stdout, "{tracer} {how}: {err}");
            assert_eq!(
                (recording.outcome.status, recording.trace.number("gaps")),
                (5, 1),
                "{tracer} {how}: {err}"
            );
            assert!(err.contains("it denies itself calls that memtap needs, such as mmap"), "{err}");
        }
        // What it can do without it does not call, and nothing is missing.
        let line = [program.path.display().to_string(), "files".to_owned()];
        let recording = record(&[tracer.to_owned()], &line, b"");
        let err = recording.outcome.err();
        assert_eq!(recording.outcome.out(), program.header.stdout, "{tracer}: {err}");
        assert_eq!((recording.outcome.status, recording.trace.number("gaps")), (5, 0), "{tracer}: {err}");
        assert!(recording.trace.number("accesses") >= 300_000, "{tracer}: {err}");
    }
}

/// Others of its threads could not go on, so it can't ask: that is told.
#[test]
fn a_threaded_program_is_refused_to_be_traced() {
    let program = TestProgram::named("threads_ask_to_be_traced.c");
    program.check(&program.run());
    let line = [program.path.display().to_string()];
    let recording = record(&["--tracer=translate".to_owned()], &line, b"");
    assert_eq!(recording.outcome.out(), "traced -1\n");
    let stat = recording.trace.ask("stat", &[]).out();
    assert!(stat.contains("PTRACE_TRACEME"), "{stat}");
}

#[test]
fn gaps_are_accepted_on_request() {
    let recording = with_a_static_child(&["--allow-gaps"], "0");
    assert_eq!(recording.outcome.status, 0);
    assert!(recording.trace.number("gaps") > 0, "they are there all the same");
}

#[test]
fn the_programs_own_status_wins_over_gaps() {
    assert_eq!(with_a_static_child(&[], "9").outcome.status, 9);
}

/// What a thread recorded before it left the tracer's control is all there: that it left is the only gap.
#[test]
fn a_thread_that_uses_gs_itself_is_one_gap() {
    let program = TestProgram::named("attached_gs.c");
    let recording = record(&["--tracer=translate".to_owned()], &program.command_line(), b"");
    assert_eq!(recording.outcome.out(), "ready\n");
    assert_eq!(recording.outcome.status, 1, "{}", recording.outcome.err());
    let stat = recording.trace.ask("stat", &[]).out();
    assert_eq!(recording.trace.number("gaps"), 1, "{stat}");
    // With its cause, wherever it is told.
    let cause = json!([{"reason": "lost control", "cause": "sets its own gs base", "count": 1}]);
    assert_eq!(recording.trace.stat()["gap_causes"], cause);
    assert!(stat.contains("1  sets its own gs base"), "{stat}");
    let err = recording.outcome.err();
    assert!(err.contains("1 event is missing (lost control): sets its own gs base"), "{err}");
}

/// Whatever is missing has a cause that is named, also where it is a program, and causes that come often are counted.
#[test]
fn causes_of_gaps_are_counted() {
    let recording = with_a_static_child(&[], "0");
    let stat = recording.trace.stat();
    let causes = stat["gap_causes"].as_array().expect("a list");
    assert!(causes.iter().all(|row| row["reason"] == "untraced program"), "{stat}");
    let sum: u64 = causes.iter().filter_map(|row| row["count"].as_u64()).sum();
    assert_eq!(Some(sum), stat["gaps"].as_u64(), "{stat}");
    let program = TestProgram::named("calls_of_32_bits.c");
    program.check(&program.run());
    let recording = record(&["--tracer=translate".to_owned()], &program.command_line(), b"");
    assert_eq!(recording.outcome.out(), program.header.stdout);
    let cause =
        json!([{"reason": "lost control", "cause": "a system call of 32 bits (int 0x80)", "count": 5}]);
    assert_eq!(recording.trace.stat()["gap_causes"], cause);
}

/// Where a child can't be told from its creator both go on natively, and that is told; translated threads can be told apart.
#[test]
fn a_child_with_the_thread_pointer_of_a_threaded_program_is_recorded_or_told() {
    let program = TestProgram::named("clone_vm_of_many.c");
    program.check(&program.run());
    let recording = record(&["--tracer=protect".to_owned()], &program.command_line(), b"");
    assert_eq!(recording.outcome.out(), program.header.stdout);
    let causes = recording.trace.stat()["gap_causes"].to_string();
    assert!(causes.contains("clone with CLONE_VM"), "{causes}");
    assert_eq!((recording.trace.number("gaps"), recording.outcome.status), (1, 1), "{causes}");
    let recording = record(&["--tracer=translate".to_owned()], &program.command_line(), b"");
    assert_eq!(recording.outcome.out(), program.header.stdout);
    assert_eq!((recording.trace.number("gaps"), recording.outcome.status), (0, 0));
}

/// The first SIGTERM is the program's; after the second one `record` ends with what it has.
#[test]
fn a_recording_ends_whatever_its_program_does() {
    let directory = tempfile::tempdir().expect("a directory");
    // It ends with this test.
    let script = "trap '' TERM; echo ready; while [ -e on ]; do sleep 0.1; done";
    std::fs::write(directory.path().join("on"), "").expect("a file");
    let mut command = Command::new(memtap());
    command.args(["record", "-o", "t.memtap", "--", "sh", "-c", script]).current_dir(directory.path());
    // No pipe: the program, which goes on, would keep it open.
    let errors = directory.path().join("errors");
    command.stderr(std::fs::File::create(&errors).expect("a file"));
    let mut recording = spawn(command.stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(recording.stdout.take().expect("piped above")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let id = recording.id().to_string();
    let terminate = || Command::new("kill").arg(&id).status().expect("kill runs");
    terminate();
    // Two that wait at the same time are one: the first was seen once it has been passed on, of which nothing is to be seen here.
    let begun = Instant::now();
    while recording.try_wait().expect("a child").is_none() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(100));
        terminate();
    }
    let status = recording.wait().expect("it ends");
    let said = std::fs::read_to_string(&errors).expect("text");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("goes on after the end of the recording"), "{said}");
    let stat = run(Command::new(memtap()).args(["stat", "t.memtap"]).current_dir(directory.path()), b"");
    assert_eq!(stat.status, 0, "{}", stat.err());
}

/// Where SIGCHLD is ignored, the kernel keeps no status of a child: that is no status 0.
#[test]
fn a_program_that_can_not_be_waited_for_is_no_success() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(tool("env"));
    command.arg("--ignore-signal=CHLD").arg(memtap()).args(["record", "-o", "t.memtap", "--", "true"]);
    let outcome = run(command.current_dir(directory.path()), b"");
    assert_eq!(outcome.status, 1);
    assert!(outcome.err().contains("its exit status is not known"), "{}", outcome.err());
    let stat = run(Command::new(memtap()).args(["stat", "t.memtap"]).current_dir(directory.path()), b"");
    assert_eq!(stat.status, 0, "the trace is complete: {}", stat.err());
}
