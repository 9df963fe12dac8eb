//! `memtap watch` while the program runs: hits at once, their stacks, programs that stop at them, children.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use e2e::{Outcome, Program, memtap, run, tool};
use serde_json::Value;

fn watch(program: &Program, options: &[&str]) -> Outcome {
    run(Command::new(memtap()).arg("watch").args(options).arg("--").args(program.command_line()), b"")
}

fn objects(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let lines = outcome.err();
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn functions(hit: &Value) -> Vec<&str> {
    let stack = hit["stack"].as_array().expect("a hit has a stack");
    stack.iter().map(|frame| frame["function"].as_str().unwrap_or("?")).collect()
}

/// A run that can be looked at while it lasts, in a session of its own: without a terminal. It ends with this value.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(program: &Program, options: &[&str]) -> Self {
        let mut command = Command::new(tool("setsid"));
        command.arg("--wait").arg(memtap()).arg("watch").args(options).arg("--").args(program.command_line());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("setsid runs memtap");
        let errors = BufReader::new(child.stderr.take().expect("piped above"));
        let (send, lines) = channel();
        std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line, before the program ends")
    }

    fn end(mut self) -> (i32, String) {
        let mut out = String::new();
        let stdout = self.child.stdout.take().expect("piped above");
        BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| out += &(line + "\n"));
        let status = self.child.wait().expect("a child that was started can be waited for");
        (status.code().unwrap_or(-1), out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn a_hit_is_written_before_the_program_goes_on_to_wait() {
    let program = Program::named("watch_waits.c");
    let mut running = Running::start(&program, &["--write", "counter", "--json"]);
    let first: Value = serde_json::from_str(&running.line()).expect("an object");
    assert_eq!((&first["old"], &first["new"]), (&"0x0".into(), &"0x1".into()));
    // Only now does it get what it waits for.
    running.child.stdin.take().expect("piped above").write_all(b"x").expect("the program reads");
    let second: Value = serde_json::from_str(&running.line()).expect("an object");
    assert_eq!((&second["old"], &second["new"]), (&"0x1".into(), &"0x2".into()));
    assert_eq!(running.end(), (0, "2\n".to_owned()));
}

#[test]
fn stacks_lead_through_recursion_signals_callbacks_and_copies() {
    let program = Program::named("watch_stack.c");
    let names = ["deep", "handled", "compared", "copied", "filled"];
    let options: Vec<&str> = names.iter().flat_map(|name| ["--write", name]).chain(["--json"]).collect();
    let outcome = watch(&program, &options);
    assert_eq!(outcome.out(), program.header.stdout);
    let hits = objects(&outcome);
    let watched: Vec<&str> = hits.iter().map(|hit| hit["watch"].as_str().expect("a name")).collect();
    assert_eq!(watched, names);
    let source = std::fs::read_to_string(e2e::repository().join("tests/programs/watch_stack.c")).expect("it");
    let line = |text: &str| source.lines().position(|line| line.contains(text)).expect("a line") as u64 + 1;
    let before_main = |hit: &Value| {
        let all = functions(hit);
        let main = all.iter().position(|&name| name == "main").unwrap_or_else(|| panic!("no main: {all:?}"));
        all[..main].iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(before_main(&hits[0]), ["descend"; 4]);
    let lines: Vec<_> =
        hits[0]["stack"].as_array().unwrap().iter().take(5).map(|f| f["line"].as_u64()).collect();
    let (innermost, others, main) = (line("deep = 1"), line("descend(depth - 1)"), line("descend(3)"));
    assert_eq!(lines, [Some(innermost), Some(others), Some(others), Some(others), Some(main)]);
    // The handler, the frame that the kernel makes, and what was interrupted.
    let handled = before_main(&hits[1]);
    assert_eq!(handled.first().map(String::as_str), Some("on_signal"));
    assert!(handled.iter().any(|name| name.contains("raise") || name.contains("kill")), "{handled:?}");
    let compared = before_main(&hits[2]);
    assert_eq!(compared.first().map(String::as_str), Some("compare"));
    assert!(compared.iter().any(|name| name.contains("sort")), "{compared:?}");
    assert_eq!(before_main(&hits[3]), ["copy"]);
    assert_eq!((&hits[3]["old"], &hits[3]["new"]), (&"0x0".into(), &"0x37363534333231".into()));
    assert!(before_main(&hits[4]).contains(&"fill".to_owned()), "{:?}", functions(&hits[4]));
    assert_eq!((&hits[4]["old"], &hits[4]["new"]), (&Value::Null, &"0x67666564636261".into()));
    let text = watch(&program, &["--write", "deep"]).err();
    assert!(text.contains(" in descend+") && text.contains("0x0 -> 0x1\n    from descend+"), "{text}");
}

#[test]
fn without_a_terminal_a_stopped_program_waits_for_who_continues_it() {
    let program = Program::named("watch_waits.c");
    let mut running = Running::start(&program, &["--write", "counter", "--stop", "--json"]);
    running.child.stdin.take().expect("piped above").write_all(b"x").expect("the pipe has room");
    for new in ["0x1", "0x2"] {
        let hit: Value = serde_json::from_str(&running.line()).expect("an object");
        assert_eq!(hit["new"], new);
        let pid = hit["pid"].as_u64().expect("a pid");
        assert_eq!(running.line(), format!("process {pid} is stopped: kill -CONT {pid} continues it"));
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        assert!(state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')), "{state}");
        let continued = run(Command::new(tool("kill")).args(["-CONT", &pid.to_string()]), b"");
        assert_eq!(continued.status, 0);
    }
    assert_eq!(running.end(), (0, "2\n".to_owned()));
}

/// What a command writes to a terminal, where somebody has typed that.
fn on_a_terminal(line: &str, typed: &[u8]) -> Outcome {
    run(Command::new(tool("script")).args(["-qec", line, "/dev/null"]), typed)
}

#[test]
fn on_a_terminal_enter_continues_and_q_ends() {
    let program = Program::named("watch_waits.c");
    let line = format!("{} watch --stop --write counter -- {}", memtap().display(), program.path.display());
    // Three lines: for the first stop, for the program's own read, for the second stop.
    let outcome = on_a_terminal(&line, b"\n\n\n");
    let out = outcome.out();
    assert_eq!(outcome.status, 0, "{out}");
    assert_eq!(out.matches("is stopped: Enter continues, q ends it").count(), 2, "{out}");
    let (first, second) = (out.find("0x0 -> 0x1"), out.find("0x1 -> 0x2"));
    assert!(first.is_some() && first < out.find("is stopped"), "{out}");
    assert!(out.find("is stopped") < second && second < out.rfind("is stopped"), "{out}");
    // What the program itself says comes behind both stops.
    assert!(out.rfind("is stopped") < out.rfind("2\r\n"), "{out}");
    let outcome = on_a_terminal(&line, b"q\n");
    assert_eq!(outcome.status, 137, "{}", outcome.out());
    assert!(!outcome.out().contains("0x1 -> 0x2"), "{}", outcome.out());
}

#[test]
fn children_are_watched_and_programs_that_take_their_place() {
    let program = Program::named("watch_children.c");
    let outcome = watch(&program, &["--write", "counter", "--json"]);
    assert_eq!(outcome.out(), program.header.stdout);
    let hits = objects(&outcome);
    let seen: Vec<_> = hits.iter().map(|hit| (hit["old"].as_str(), hit["new"].as_str())).collect();
    let expected = [("0x0", "0x1"), ("0x1", "0x2"), ("0x0", "0x3"), ("0x1", "0x4")];
    assert_eq!(seen, expected.map(|(old, new)| (Some(old), Some(new))));
    let pids: Vec<_> = hits.iter().map(|hit| hit["pid"].as_u64().expect("a pid")).collect();
    assert_eq!((pids[0], pids[1]), (pids[3], pids[2]));
    assert_ne!(pids[0], pids[1]);
    assert!(hits.iter().all(|hit| hit["function"] == "main"), "{hits:#?}");
    let text = watch(&program, &["--write", "counter"]).err();
    assert_eq!(text.matches(" of process ").count(), 2, "{text}");
}
