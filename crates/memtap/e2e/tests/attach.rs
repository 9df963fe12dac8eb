//! `memtap record --pid`: running processes are recorded from the
//! middle of their run, do not notice it, and run natively afterwards.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Finished, Limited, TestProgram, Trace, memtap, memtap_for_others, run, spawn, tool};
use serde_json::Value;

/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that has said that it is ready. It ends with its standard input.
struct Running {
    child: Limited,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &TestProgram) -> Self {
        let line = program.command_line();
        Self::command(Command::new(&line[0]).args(&line[1..]))
    }

    fn command(command: &mut Command) -> Self {
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped above"));
        let mut this = Self { child, input, output };
        assert_eq!(this.line(), "ready\n");
        this
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a pipe can be read");
        line
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it; what it says then, which must be its success.
    fn end(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("a pipe can be read");
        let status = self.child.wait().expect("it was started");
        assert!(status.success(), "{status} {rest:?}");
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn recorder(pid: u32, path: &Path, options: &[&str]) -> Command {
    recorder_of(&memtap(), pid, path, options)
}

fn recorder_of(memtap: &Path, pid: u32, path: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(memtap);
    command.args(["record", "--quiet", "--force", "--pid", &pid.to_string(), "-o"]);
    command.arg(path).args(options);
    command
}

/// Records a process for some time, which must go well.
fn record_for(pid: u32, path: &Path, seconds: &str, options: &[&str]) -> Trace {
    let outcome = run(recorder(pid, path, &["--for", seconds]).args(options), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert_eq!(outcome.err(), format!("memtap: recording process {pid}\n"));
    Trace::at(path.to_path_buf())
}

/// Records a process while it gets on by `enough`, see [`progress`], which must go well. Returns what the recorder says after
/// its first line, too. Not a time: on a busy machine a process may not get on at all in one.
fn record_while(pid: u32, path: &Path, enough: u64, options: &[&str]) -> (Trace, String) {
    let mut child = spawn(recorder(pid, path, options).stderr(Stdio::piped()));
    let mut errors = BufReader::new(child.stderr.take().expect("piped above"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("a pipe can be read");
    assert_eq!(line, format!("memtap: recording process {pid}, end with Ctrl-C\n"));
    gets_on(pid, enough);
    signal(child.id(), "INT");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("a pipe can be read");
    assert!(child.wait().expect("it was started").success(), "{rest}");
    (Trace::at(path.to_path_buf()), rest)
}

/// How far a process got: how often its threads waited, and the hundredths of a second for which they executed.
fn progress(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    // After the name, which is in parentheses, the 12th word is the time in user mode.
    let mut words = text.rsplit(')').next().expect("a name").split_whitespace();
    let executed: u64 = words.nth(11).and_then(|word| word.parse().ok()).expect("the kernel counts it");
    executed + switches(pid)
}

/// Waits until the process has got on by that much.
fn gets_on(pid: u32, enough: u64) {
    let before = progress(pid);
    until("the program gets on", || progress(pid) >= before + enough);
}

/// What a process must have as before: what it does with signals, and who traces it.
fn signals(pid: u32) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let kept = ["SigBlk", "SigIgn", "SigCgt", "Seccomp", "TracerPid"];
    status.lines().filter(|line| kept.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
}

/// What a process must have as before, of a program whose handlers run now and then: what is so most of the time.
fn usual_signals(pid: u32) -> Vec<String> {
    let mut seen: Vec<Vec<String>> = Vec::new();
    for _ in 0..101 {
        seen.push(signals(pid));
        std::thread::sleep(Duration::from_millis(1));
    }
    let times = |one: &&Vec<String>| seen.iter().filter(|other| other == one).count();
    seen.iter().max_by_key(times).expect("it was looked").clone()
}

/// How often the threads of a process that are there now have waited.
fn switches(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    // A thread may end meanwhile.
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let count = |text: String| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
    };
    texts.filter_map(count).sum()
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new(tool("kill")).args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill can be started").success());
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asserts that all threads are in code of files, but not of the tracer, and that nothing of a recording is left.
fn check_native(pid: u32) {
    signal(pid, "STOP");
    let tasks =
        || fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten().map(|task| task.path());
    until("all threads stop", || {
        tasks().all(|task| fs::read_to_string(task.join("stat")).is_ok_and(|text| text.contains(") T ")))
    });
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    let mut files = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (start, end) = words.next().and_then(|range| range.split_once('-')).expect("a range");
        let (start, end) = (number(start), number(end));
        let rights = words.next().expect("rights");
        let name = words.nth(3).unwrap_or("");
        assert!(!name.starts_with("/memfd:memtap"), "the recorder's memory is left: {line}");
        let is_code = name.is_empty() && rights.contains('x');
        assert!(!is_code && !rights.starts_with("rwx"), "memory of code is left: {line}");
        if !name.is_empty() && !name.contains("libmemtap") {
            files.push(start..end);
        }
    }
    for task in tasks() {
        // System call, arguments, stack pointer, instruction.
        let text = fs::read_to_string(task.join("syscall")).expect("a thread that is stopped");
        let at = text.trim().rsplit(' ').next().and_then(|word| word.strip_prefix("0x")).map(number);
        let at = at.unwrap_or_else(|| panic!("{text}"));
        assert!(files.iter().any(|range| range.contains(&at)), "a thread is at {at:x}:\n{maps}");
    }
    signal(pid, "CONT");
}

/// The kinds of accesses to these variables, in their order: of a load, a store and a modify.
fn kinds(trace: &Trace, variables: &[&str]) -> String {
    let is_one = |event: &&Value| event["variable"].as_str().is_some_and(|name| variables.contains(&name));
    let events = trace.events();
    let kinds = events.iter().filter(is_one).filter_map(|event| match event["type"].as_str() {
        Some("load") => Some('L'),
        Some("store") => Some('S'),
        Some("modify") => Some('M'),
        _ => None,
    });
    kinds.collect()
}

#[test]
fn what_is_recorded_from_the_middle_on_is_exact() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached.c"));
    let before = signals(running.pid());
    for data in [false, true] {
        let options: &[&str] = if data { &["--data"] } else { &[] };
        let (trace, said) = record_while(running.pid(), &dir.path().join("t.memtap"), 20, options);
        assert_eq!(said, "");
        check_native(running.pid());
        assert_eq!(signals(running.pid()), before);
        // Nobody saw who called what ran then.
        let stacks = trace.ask("report", &["--by", "stack", "--json"]);
        let rows: Vec<Value> = serde_json::from_str(&stacks.out()).expect("it is JSON");
        assert!(!rows.is_empty() && rows.iter().all(|row| row["stack"][0] == "[unknown]"), "{rows:?}");
        // A turn as it is counted in the program's head, over and over, from somewhere in its middle to somewhere else.
        let found = kinds(&trace, &["cell", "turns"]);
        let turns = "LSLSLM".repeat(found.len() / 6 + 2);
        assert!(found.len() > 60 && turns.contains(&found), "{found}");
        let stat = trace.stat();
        assert_eq!((&stat["gaps"], &stat["threads"], &stat["processes"]), (&0.into(), &1.into(), &1.into()));
        assert_eq!(stat["attached"], running.pid());
        let printed = String::from_utf8_lossy(&trace.ask("stat", &[]).stdout).into_owned();
        assert!(printed.contains(&format!("attached to process {}", running.pid())), "{printed}");
        assert_eq!(trace.ask("check", &[]).status, 0);
        if data {
            // What was stored is loaded next.
            let events = trace.events();
            let cells: Vec<&Value> = events.iter().filter(|event| event["variable"] == "cell").collect();
            let pairs =
                cells.windows(2).filter(|pair| pair[1]["type"] == "load" && pair[0]["type"] != "load");
            assert!(pairs.clone().count() > 20);
            for pair in pairs {
                assert!(pair[0]["data"].is_string() && pair[0]["data"] == pair[1]["data"], "{pair:?}");
            }
        }
    }

    assert_eq!(running.end(), "right\n");
}

/// Attaches and detaches many times; the program is native each time and does not notice.
fn check_unnoticed(name: &str, times: usize, enough: u64) {
    let dir = temp();
    let program = TestProgram::named(name);
    let running = Running::start(&program);
    let before = usual_signals(running.pid());
    for _ in 0..times {
        let (trace, _) = record_while(running.pid(), &dir.path().join("t.memtap"), enough, &[]);
        check_native(running.pid());
        // A program whose handlers run just then has others for a moment.
        until("masks and actions are as before", || signals(running.pid()) == before);
        let stat = trace.stat();
        assert_eq!(stat["gaps"], 0);
        assert!(stat["accesses"].as_u64() > Some(0));
    }
    assert_eq!(running.end(), "right\n");
}

#[test]
fn threads_in_locks_sleeps_and_reads_do_not_notice() {
    check_unnoticed("attached_threads.c", 5, 1000);
}

#[test]
fn handlers_masks_and_timers_are_kept() {
    check_unnoticed("attached_signals.c", 5, 20);
}

#[test]
fn threads_that_never_wait_are_left() {
    check_unnoticed("attached_busy.c", 10, 5);
}

#[test]
fn what_is_recorded_agrees_with_stepping() {
    let dir = temp();
    for name in ["attached.c", "attached_threads.c"] {
        let running = Running::start(&TestProgram::named(name));
        let (_, said) = record_while(running.pid(), &dir.path().join("t.memtap"), 100, &["--verify"]);
        let is_verified = [" window", " windows"]
            .map(|word| said.contains(&format!("{word} are the same as when stepping\n")));
        assert!(is_verified.contains(&true), "{said}");
        check_native(running.pid());
        assert_eq!(running.end(), "right\n");
    }
}

#[test]
fn a_process_is_attached_to_fifty_times() {
    check_unnoticed("attached_threads.c", 50, 200);
}

#[test]
fn a_process_with_signals_is_attached_to_fifty_times() {
    check_unnoticed("attached_signals.c", 50, 10);
}

#[test]
fn allocations_and_synchronisation_are_events() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached_threads.c"));
    let (trace, _) = record_while(running.pid(), &dir.path().join("t.memtap"), 2000, &[]);
    let rows = trace.variables();
    // Blocks of calls that were seen have a name, whoever was in the middle of one.
    let blocks = e2e::total_of(&rows, "<malloc@allocates>");
    assert!(blocks.loads > 0 && blocks.stores > 0, "{rows:?}");
    assert!(e2e::total_of(&rows, "guarded").loads > 0, "{rows:?}");
    let stat = trace.stat();
    let (allocations, frees) = (stat["allocations"]["malloc"].as_u64(), stat["frees"].as_u64());
    let (allocations, frees) = (allocations.expect("a number"), frees.expect("a number"));
    assert!(allocations > 50 && allocations.abs_diff(frees) <= 60, "{allocations} {frees}");
    let syncs = trace.ask("dump", &["--format", "jsonl", "--stream", "syncs"]).out();
    for kind in ["lock", "unlock", "release", "acquire", "join"] {
        assert!(syncs.contains(&format!("\"kind\":\"{kind}\"")), "no {kind}");
    }
    assert_eq!(running.end(), "right\n");
}

const JOB: &str = r#"
import json, re, sys, hashlib
print("ready", flush=True)
total = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    table = {str(i): [i, i * i, {"rest": i % 7}] for i in range(turn % 50, 400)}
    text = json.dumps(table)
    assert json.loads(text) == table
    total.update(str(len(re.findall(r'"(\d*7\d*)"', text))).encode())
    total.update(str(sum(sorted((i * 7919) % 10007 for i in range(500))[::3])).encode())
sys.stdin.read()
print(total.hexdigest())
"#;

#[test]
fn an_interpreter_computes_the_same() {
    let dir = temp();
    let job = |turns: &str| {
        let mut command = Command::new(tool("python3"));
        command.args(["-S", "-E", "-c", JOB, turns]);
        command
    };
    let native = run(&mut job("5000"), b"");
    assert_eq!(native.status, 0, "{}", native.err());
    let running = Running::command(&mut job("5000"));
    for _ in 0..3 {
        let (trace, _) = record_while(running.pid(), &dir.path().join("t.memtap"), 20, &[]);
        assert!(trace.number("accesses") > 10_000);
    }
    check_native(running.pid());
    assert_eq!("ready\n".to_owned() + &running.end(), native.out());
}

#[test]
fn processes_that_it_starts_are_recorded_and_left_too() {
    let dir = temp();
    let program = TestProgram::named("attached.c");
    let script = "echo ready; read line; \"$0\"; echo $?";
    let mut running = Running::command(Command::new(tool("sh")).args(["-c", script]).arg(&program.path));
    let path = dir.path().join("t.memtap");
    let mut recorder = recorder(running.pid(), &path, &[]);
    let mut recorder = spawn(recorder.stderr(Stdio::piped()));
    // It says so when all threads are its own; from there on the shell's child is started under the tracer.
    let mut errors = BufReader::new(recorder.stderr.take().expect("piped above"));
    errors.read_line(&mut String::new()).expect("a pipe can be read");
    running.input.as_mut().expect("not ended yet").write_all(b"\n").expect("the shell reads");
    assert_eq!(running.line(), "ready\n");
    let children =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid())).expect("it runs");
    let child = children.trim().parse().expect("one child");
    let before = switches(child);
    until("the child takes turns", || switches(child) > before + 4);
    signal(recorder.id(), "INT");
    let status = recorder.wait().expect("it was started");
    assert!(status.success(), "{status}");
    check_native(child);
    check_native(running.pid());
    let trace = Trace::at(path);
    let found = kinds(&trace, &["cell", "turns"]);
    assert!(found.len() > 60 && "LSLSLM".repeat(found.len() / 6 + 2).starts_with(&found), "{found}");
    assert_eq!(running.end(), "right\n0\n");
}

/// The process that does the work below one that waits for it.
fn innermost(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
    children.split_whitespace().next().map_or(pid, |child| innermost(child.parse().expect("an id")))
}

/// What is in memtap's folders in a process's root directory.
fn left_in(pid: u32) -> Vec<String> {
    let folders =
        ["tmp/", "var/tmp/", "run/", "", "dev/shm/"].map(|folder| format!("/proc/{pid}/root/{folder}"));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("memtap-"));
    let files = ours.flat_map(|entry| fs::read_dir(entry.path()).expect("a folder")).flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

/// Records a process of a container twice, from outside; it is as before, and nothing but the library is left there.
fn check_container(command: &mut Command) {
    let dir = temp();
    let path = dir.path().join("t.memtap");
    let running = Running::command(command);
    let pid = innermost(running.pid());
    let before = signals(pid);
    let inode = |path: &str| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let has_own_files = inode(&format!("/proc/{pid}/root/")) != inode("/");
    for _ in 0..2 {
        let (trace, said) = record_while(pid, &path, 20, &[]);
        assert_eq!(said, "");
        check_native(pid);
        assert_eq!(signals(pid), before);
        let root = format!("/proc/{pid}/root");
        let outcome = trace.ask("report", &["--json", "--symbols", &root]);
        let rows: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
        let cell = rows.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "cell"));
        let cell = cell.unwrap_or_else(|| panic!("{}{rows:#}", outcome.err()));
        assert!(cell["loads"].as_u64() > Some(20), "{cell}");
        let stat = trace.stat();
        assert_eq!((&stat["gaps"], &stat["threads"], &stat["processes"]), (&0.into(), &1.into(), &1.into()));
        if has_own_files {
            assert_eq!(left_in(pid), ["libmemtap_tracer.so"]);
        }
    }
    assert_eq!(running.end(), "right\n");
}

/// bwrap with a root of its own, in which the program is at `/program`.
fn bwrap(options: &[&str], program: &str) -> Command {
    let mut command = Command::new(tool("bwrap"));
    command.args([
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
    ]);
    command.args(["--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev"]);
    command.arg("--ro-bind").arg(&TestProgram::named(program).path).arg("/program");
    command.args(options).arg("/program");
    command
}

#[test]
fn a_process_that_sees_other_files_is_recorded_from_outside() {
    check_container(&mut bwrap(&["--tmpfs", "/tmp"], "attached.c"));
    // Nothing but its root can be written.
    check_container(&mut bwrap(&[], "attached.c"));
    let mut mounts = Command::new(tool("unshare"));
    let is_root = fs::metadata("/proc/self").expect("Linux has it").uid() == 0;
    mounts.arg(if is_root { "-m" } else { "-Urm" });
    check_container(mounts.arg(&TestProgram::named("attached.c").path));
}

#[test]
fn a_process_with_other_ids_and_another_network_is_recorded_from_outside() {
    check_container(&mut bwrap(
        &["--tmpfs", "/tmp", "--unshare-pid", "--unshare-net", "--unshare-ipc"],
        "attached.c",
    ));
    let mut network = Command::new(tool("unshare"));
    let is_root = fs::metadata("/proc/self").expect("Linux has it").uid() == 0;
    network.arg(if is_root { "-n" } else { "-Urn" });
    check_container(network.arg(&TestProgram::named("attached.c").path));
}

#[test]
fn threads_of_a_container_do_not_notice() {
    let dir = temp();
    let running = Running::command(&mut bwrap(&["--unshare-all", "--tmpfs", "/tmp"], "attached_threads.c"));
    let pid = innermost(running.pid());
    let before = signals(pid);
    for _ in 0..3 {
        let (trace, _) = record_while(pid, &dir.path().join("t.memtap"), 20, &[]);
        check_native(pid);
        until("masks and actions are as before", || signals(pid) == before);
        assert_eq!(trace.stat()["gaps"], 0);
        assert!(trace.number("threads") > 1);
    }
    assert_eq!(running.end(), "right\n");
}

#[test]
fn a_container_that_takes_nothing_or_has_no_proc_is_named() {
    let running = Running::command(&mut bwrap(&["--remount-ro", "/", "--remount-ro", "/dev"], "attached.c"));
    check_refusal(innermost(running.pid()), &["container", "no folder there takes", "/tmp/", "/dev/shm/"]);
    assert_eq!(running.end(), "right\n");
    let running = Running::command(&mut bwrap(&["--tmpfs", "/proc"], "attached.c"));
    check_refusal(innermost(running.pid()), &["no /proc in its root directory"]);
    assert_eq!(running.end(), "right\n");
}

#[test]
fn a_function_starts_recording_in_a_running_process() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached_threads.c"));
    let options = ["--start", "takes_turns", "--regions", "data"];
    let trace = record_for(running.pid(), &dir.path().join("t.memtap"), "0.2", &options);
    assert_eq!(trace.number("accesses"), 0, "its threads were in that function before");
    let options = ["--start", "child", "--regions", "bss,data,stack"];
    let (trace, _) = record_while(running.pid(), &dir.path().join("t.memtap"), 1000, &options);
    assert!(trace.number("accesses") > 0, "threads begin in this one all the time");
    check_native(running.pid());
    assert_eq!(running.end(), "right\n");
}

#[test]
fn it_ends_with_a_signal_to_the_recorder() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached.c"));
    for name in ["INT", "TERM"] {
        let path = dir.path().join(name);
        let mut child = recorder(running.pid(), &path, &[]);
        let mut child = spawn(child.stderr(Stdio::piped()));
        let mut errors = BufReader::new(child.stderr.take().expect("piped above"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a pipe can be read");
        assert_eq!(line, format!("memtap: recording process {}, end with Ctrl-C\n", running.pid()));
        gets_on(running.pid(), 20);
        signal(child.id(), name);
        assert!(child.wait().expect("it was started").success());
        check_native(running.pid());
        assert!(Trace::at(path).number("accesses") > 0);
    }
    assert_eq!(running.end(), "right\n");
}

#[test]
fn a_recorder_that_is_killed_leaves_the_program_running() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached_threads.c"));
    for turn in 0..3 {
        let path = dir.path().join(format!("{turn}"));
        let mut child = recorder(running.pid(), &path, &[]);
        let mut child = spawn(child.stderr(Stdio::piped()));
        let mut errors = BufReader::new(child.stderr.take().expect("piped above"));
        errors.read_line(&mut String::new()).expect("a pipe can be read");
        gets_on(running.pid(), 200);
        child.kill().expect("SIGKILL to a child of ours");
        child.wait().expect("it was started");
    }
    // The next one takes it out of the former one's cache.
    let (trace, _) = record_while(running.pid(), &dir.path().join("t.memtap"), 200, &[]);
    assert!(trace.number("accesses") > 0);
    check_native(running.pid());
    assert_eq!(running.end(), "right\n");
}

#[test]
fn a_process_that_ends_meanwhile_leaves_its_trace() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached.c"));
    let path = dir.path().join("t.memtap");
    let mut child = recorder(running.pid(), &path, &[]);
    let mut child = spawn(child.stderr(Stdio::piped()));
    let mut errors = BufReader::new(child.stderr.take().expect("piped above"));
    errors.read_line(&mut String::new()).expect("a pipe can be read");
    let pid = running.pid();
    gets_on(running.pid(), 20);
    assert_eq!(running.end(), "right\n");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("a pipe can be read");
    assert!(child.wait().expect("it was started").success());
    assert_eq!(rest, format!("memtap: process {pid} ended\n"));
    assert!(kinds(&Trace::at(path), &["cell", "turns"]).len() > 60);
}

/// Whatever the moment is at which a process ends, it does so as natively, and memtap says so in one line at most.
#[test]
fn a_process_may_end_at_any_moment() {
    let dir = temp();
    let path = dir.path().join("t.memtap");
    for turn in 0..40u64 {
        let moment = format!("0.{:03}", 2 + turn * 3);
        let mut child = spawn(Command::new(tool("sleep")).arg(moment));
        let outcome = run(&mut recorder(child.id(), &path, &["--for", "0.01"]), b"");
        assert!(child.wait().expect("it was started").success(), "turn {turn}: {}", outcome.err());
        let pid = child.id();
        match outcome.status {
            0 => assert!(outcome.err().starts_with(&format!("memtap: recording process {pid}\n"))),
            1 => {
                let err = outcome.err();
                let is_said =
                    err.ends_with(" ended\n") || err.contains("no process") || err.contains("no program");
                assert!(is_said && err.lines().count() == 1, "{err}");
            }
            other => panic!("status {other}: {}", outcome.err()),
        }
        let _ = fs::remove_file(&path);
    }
}

/// A refusal: one line with these words, and no trace.
fn check_refused(outcome: &Finished, path: &Path, words: &[&str]) {
    let err = outcome.err();
    assert_eq!((outcome.status, err.lines().count()), (1, 1), "{err}");
    for word in words {
        assert!(err.contains(word), "{word:?} is missing in {err:?}");
    }
    assert!(!path.exists(), "a trace of nothing was left");
}

fn check_refusal(pid: u32, words: &[&str]) {
    let dir = temp();
    let path = dir.path().join("t.memtap");
    let outcome = run(&mut recorder(pid, &path, &["--for", "0.1"]), b"");
    check_refused(&outcome, &path, words);
}

#[test]
fn what_can_not_be_attached_to_is_refused() {
    // Numbers of processes are below 2^22.
    check_refusal(1 << 22, &["there is no process 4194304"]);
    let mut gone = spawn(&mut Command::new(tool("true")));
    until("it ends", || {
        fs::read_to_string(format!("/proc/{}/stat", gone.id())).is_ok_and(|text| text.contains(") Z "))
    });
    check_refusal(gone.id(), &["has no program"]);
    gone.wait().expect("it was started");

    let running = Running::start(&TestProgram::built("attached.c", &["-static"]));
    check_refusal(running.pid(), &[&running.pid().to_string(), "statically linked"]);
    assert_eq!(running.end(), "right\n");

    let running = Running::start(&TestProgram::named("attached_gs.c"));
    check_refusal(running.pid(), &["gs segment"]);
    running.end();

    let running = Running::start(&TestProgram::named("attached_many.c"));
    check_refusal(running.pid(), &["1501 threads", "at most 1500"]);
    running.end();

    let running = Running::start(&TestProgram::named("attached.c"));
    signal(running.pid(), "STOP");
    until("it stops", || {
        fs::read_to_string(format!("/proc/{}/stat", running.pid())).is_ok_and(|text| text.contains(") T "))
    });
    check_refusal(running.pid(), &["is stopped", "kill -CONT"]);
    signal(running.pid(), "CONT");
    assert_eq!(running.end(), "right\n");
}

#[test]
fn a_process_has_one_tracer() {
    let dir = temp();
    let running = Running::start(&TestProgram::named("attached.c"));
    let by = TestProgram::named("attached_by.c");
    let debugger = Running::command(Command::new(&by.path).arg(running.pid().to_string()));
    check_refusal(running.pid(), &["traced by process", &debugger.pid().to_string()]);
    debugger.end();

    // By one that was attached, and by one that started it.
    let path = dir.path().join("first");
    let mut first = recorder(running.pid(), &path, &[]);
    let mut first = spawn(first.stderr(Stdio::piped()));
    let mut errors = BufReader::new(first.stderr.take().expect("piped above"));
    errors.read_line(&mut String::new()).expect("a pipe can be read");
    check_refusal(running.pid(), &["already being recorded by memtap", &first.id().to_string()]);
    signal(first.id(), "INT");
    assert!(first.wait().expect("it was started").success());
    assert!(Trace::at(path).number("accesses") > 0, "the first one is not disturbed");
    assert_eq!(running.end(), "right\n");

    for tracer in ["translate", "protect"] {
        let path = dir.path().join(tracer);
        let mut line = Command::new(memtap());
        line.args(["record", "--tracer", tracer, "-o"]).arg(&path).arg("--");
        let running = Running::command(line.arg(&TestProgram::named("attached.c").path));
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid()));
        let child = children.expect("it runs").trim().parse().expect("one child");
        check_refusal(child, &["already being recorded by memtap", &running.pid().to_string()]);
        assert_eq!(running.end(), "right\n");
    }
}

#[test]
fn processes_of_others_are_refused() {
    let dir = temp();
    let path = dir.path().join("t.memtap");
    let is_root = fs::metadata("/proc/self").expect("Linux has it").uid() == 0;
    run(Command::new(tool("chmod")).arg("755").arg(dir.path()), b"");
    let recorder = |pid| recorder_of(&memtap_for_others(dir.path()), pid, &path, &["--for", "0.1"]);
    // The first process is root's.
    let mut command = recorder(1);
    if is_root {
        command.uid(65_534).gid(65_534);
    }
    check_refused(&run(&mut command, b""), &path, &["no permission", "process 1"]);

    let program = TestProgram::named("attached.c");
    // A program that runs with the rights of its file's owner, seen by another user.
    if is_root {
        let copy: PathBuf = dir.path().join("owned");
        fs::copy(&program.path, &copy).expect("a copy");
        run(Command::new(tool("chmod")).arg("4755").arg(&copy), b"");
        let running = Running::command(Command::new(&copy).uid(65_534).gid(65_534));
        let mut command = recorder(running.pid());
        command.uid(65_534).gid(65_534);
        check_refused(&run(&mut command, b""), &path, &["no permission"]);
        assert_eq!(running.end(), "right\n");
    }
}

#[test]
fn programs_of_32_bits_are_refused() {
    // Says "ready", and reads until its input ends.
    const CODE: &[u8] = &[
        0x68, b'd', b'y', b'\n', 0, 0x68, b'r', b'e', b'a', 0, // push "dy\n"; push "rea"
        0xb8, 4, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0x89, 0xe1, 0xba, 3, 0, 0, 0, 0xcd,
        0x80, // write(1, esp, 3)
        0xb8, 4, 0, 0, 0, 0x8d, 0x4c, 0x24, 4, 0xba, 3, 0, 0, 0, 0xcd, 0x80, // write(1, esp + 4, 3)
        0xb8, 3, 0, 0, 0, 0x31, 0xdb, 0x89, 0xe1, 0xba, 1, 0, 0, 0, 0xcd, 0x80, // read(0, esp, 1)
        0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80, // exit(0)
    ];
    const BASE: u32 = 0x0804_8000;
    let mut bytes = vec![0u8; 84];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1]);
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(16, 2 | 3 << 16);
    put(20, 1);
    put(24, BASE + 84);
    put(28, 52);
    put(40, 52 | 32 << 16);
    put(44, 1);
    let len = 84 + CODE.len() as u32;
    for (index, value) in [1, 0, BASE, BASE, len, len, 5, 0x1000].into_iter().enumerate() {
        put(52 + index * 4, value);
    }
    bytes.extend_from_slice(CODE);
    let dir = temp();
    let path = dir.path().join("small");
    fs::write(&path, bytes).expect("a temporary directory can be written");
    run(Command::new(tool("chmod")).arg("755").arg(&path), b"");
    let running = Running::command(&mut Command::new(&path));
    check_refusal(running.pid(), &["is not an x86-64 program"]);
    running.end();
}

#[test]
fn wrong_command_lines_are_refused() {
    let dir = temp();
    let path = dir.path().join("t.memtap");
    let pid = std::process::id().to_string();
    let ask = |args: &[&str]| run(Command::new(memtap()).args(["record", "-o"]).arg(&path).args(args), b"");
    for (args, words) in [
        (&["--tracer", "protect", "--pid", &pid][..], "page protection"),
        (&["--tracer", "qemu", "--pid", &pid], "--pid: a machine"),
    ] {
        check_refused(&ask(args), &path, &[words, "--pid"]);
    }
    for args in [
        &["--tracer", "translate", "--pid", &pid, "--", "true"][..],
        &["--tracer", "translate", "--for", "1", "--", "true"],
        &["--tracer", "translate", "--pid", &pid, "--for", "-1"],
        &["--tracer", "translate", "--pid", "me"],
        &["--tracer", "translate"],
    ] {
        let outcome = ask(args);
        assert_eq!(outcome.status, 2, "{args:?}: {}", outcome.err());
        assert!(!path.exists());
    }
}
