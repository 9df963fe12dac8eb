//! `memtap watch` while the program runs: immediate hits, their stacks, programs
//! that stop at them, children, and all kinds of accesses; each with both tracers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use e2e::{Finished, Limited, TestProgram, memtap, run, spawn, tool};
use serde_json::Value;

const TRACERS: [&str; 2] = ["protect", "translate"];

fn watch(program: &TestProgram, options: &[&str]) -> Finished {
    run(Command::new(memtap()).arg("watch").args(options).arg("--").args(program.command_line()), b"")
}

/// What a tracer tells in JSON of a program that does what its head says.
fn hits_by(tracer: &str, program: &TestProgram, options: &[&str]) -> Vec<Value> {
    let outcome = watch(program, &[options, &["--json", "--tracer", tracer]].concat());
    assert_eq!(outcome.out(), program.header.stdout);
    objects(&outcome)
}

/// `watch kind function old new` of each hit.
fn told(hits: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let keys = ["watch", "kind", "function", "old", "new"];
    hits.iter().map(|hit| keys.map(|key| text(&hit[key])).join(" ")).collect()
}

/// Options that watch each of these names, after that flag.
fn each<'a>(flag: &'a str, names: &[&'a str]) -> Vec<&'a str> {
    names.iter().flat_map(|&name| [flag, name]).collect()
}

fn objects(outcome: &Finished) -> Vec<Value> {
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
    child: Limited,
    lines: Receiver<String>,
}

impl Running {
    fn start(program: &TestProgram, options: &[&str]) -> Self {
        let mut command = Command::new(tool("setsid"));
        command.arg("--wait").arg(memtap()).arg("watch").args(options).arg("--").args(program.command_line());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(&mut command);
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
    let program = TestProgram::named("watch_waits.c");
    for tracer in TRACERS {
        let mut running = Running::start(&program, &["--write", "counter", "--json", "--tracer", tracer]);
        let first: Value = serde_json::from_str(&running.line()).expect("an object");
        assert_eq!((&first["old"], &first["new"]), (&"0x0".into(), &"0x1".into()));
        // Only now does it get what it waits for.
        running.child.stdin.take().expect("piped above").write_all(b"x").expect("the program reads");
        let second: Value = serde_json::from_str(&running.line()).expect("an object");
        assert_eq!((&second["old"], &second["new"]), (&"0x1".into(), &"0x2".into()));
        assert_eq!(running.end(), (0, "2\n".to_owned()));
    }
}

#[test]
fn stacks_lead_through_recursion_signals_callbacks_and_copies() {
    let program = TestProgram::named("watch_stack.c");
    let names = ["deep", "handled", "compared", "copied", "filled"];
    for tracer in TRACERS {
        let hits = hits_by(tracer, &program, &each("--write", &names));
        let watched: Vec<&str> = hits.iter().map(|hit| hit["watch"].as_str().expect("a name")).collect();
        assert_eq!(watched, names);
        let source =
            std::fs::read_to_string(e2e::repository().join("tests/programs/watch_stack.c")).expect("it");
        let line =
            |text: &str| source.lines().position(|line| line.contains(text)).expect("a line") as u64 + 1;
        let before_main = |hit: &Value| {
            let all = functions(hit);
            let main =
                all.iter().position(|&name| name == "main").unwrap_or_else(|| panic!("no main: {all:?}"));
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
        let text = watch(&program, &["--write", "deep", "--tracer", tracer]).err();
        assert!(text.contains(" in descend+") && text.contains("0x0 -> 0x1\n    from descend+"), "{text}");
    }
}

#[test]
fn without_a_terminal_a_stopped_program_waits_for_who_continues_it() {
    let program = TestProgram::named("watch_waits.c");
    for tracer in TRACERS {
        let mut running =
            Running::start(&program, &["--write", "counter", "--stop", "--json", "--tracer", tracer]);
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
}

#[test]
fn a_stopped_program_ends_when_its_watcher_is_to_end() {
    let program = TestProgram::named("watch_waits.c");
    for tracer in TRACERS {
        let running =
            Running::start(&program, &["--write", "counter", "--stop", "--json", "--tracer", tracer]);
        let hit: Value = serde_json::from_str(&running.line()).expect("an object");
        let pid = hit["pid"].as_u64().expect("a pid");
        assert_eq!(running.line(), format!("process {pid} is stopped: kill -CONT {pid} continues it"));
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let parent = state.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)).expect("a parent");
        let told = run(Command::new(tool("kill")).args(["-TERM", parent]), b"");
        assert_eq!(told.status, 0);
        assert_eq!(running.end(), (128 + 15, String::new()), "{tracer}");
    }
}

/// What a command writes to a terminal, where somebody has typed that.
fn on_a_terminal(line: &str, typed: &[u8]) -> Finished {
    run(Command::new(tool("script")).args(["-qec", line, "/dev/null"]), typed)
}

#[test]
fn on_a_terminal_enter_continues_and_q_ends() {
    let program = TestProgram::named("watch_waits.c");
    for tracer in TRACERS {
        let line = format!(
            "{} watch --tracer {tracer} --stop --write counter -- {}",
            memtap().display(),
            program.path.display()
        );
        // Three lines: for the first stop, for the program's own read, for the second stop.
        let outcome = on_a_terminal(&line, b"\n\n\n");
        let out = outcome.out();
        assert_eq!(outcome.status, 0, "{out}");
        assert_eq!(out.matches("is stopped: Enter continues, q ends it").count(), 2, "{out}");
        let (first, second) = (out.find("0x0 -> 0x1"), out.find("0x1 -> 0x2"));
        assert!(first.is_some() && first < out.find("is stopped"), "{out}");
        assert!(out.find("is stopped") < second && second < out.rfind("is stopped"), "{out}");
        // What the program itself says comes after both stops.
        assert!(out.rfind("is stopped") < out.rfind("2\r\n"), "{out}");
        let outcome = on_a_terminal(&line, b"q\n");
        assert_eq!(outcome.status, 137, "{}", outcome.out());
        assert!(!outcome.out().contains("0x1 -> 0x2"), "{}", outcome.out());
    }
}

#[test]
fn children_are_watched_and_programs_that_take_their_place() {
    let program = TestProgram::named("watch_children.c");
    for tracer in TRACERS {
        let hits = hits_by(tracer, &program, &["--write", "counter"]);
        let seen: Vec<_> = hits.iter().map(|hit| (hit["old"].as_str(), hit["new"].as_str())).collect();
        let expected = [("0x0", "0x1"), ("0x1", "0x2"), ("0x0", "0x3"), ("0x1", "0x4")];
        assert_eq!(seen, expected.map(|(old, new)| (Some(old), Some(new))));
        let pids: Vec<_> = hits.iter().map(|hit| hit["pid"].as_u64().expect("a pid")).collect();
        assert_eq!((pids[0], pids[1]), (pids[3], pids[2]));
        assert_ne!(pids[0], pids[1]);
        assert!(hits.iter().all(|hit| hit["function"] == "main"), "{hits:#?}");
        let text = watch(&program, &["--write", "counter", "--tracer", tracer]).err();
        assert_eq!(text.matches(" of process ").count(), 2, "{text}");
    }
}

#[test]
fn whatever_accesses_watched_bytes_is_told() {
    let program = TestProgram::named("watch_kinds.c");
    let names = ["wall+4096:4", "bytes", "text", "stack", "target", "image+8:8"];
    let [protect, translate] = TRACERS.map(|tracer| hits_by(tracer, &program, &each("--access", &names)));
    assert_eq!(told(&protect), told(&translate));
    let stacks = |hits: &[Value]| hits.iter().map(|hit| hit["stack"].clone()).collect::<Vec<_>>();
    assert_eq!(stacks(&protect), stacks(&translate));
    // The addresses that calls push and jumps go to are the program's own.
    let mut told = told(&translate);
    let (pushed, jumped) = (hexadecimal(&translate[14]["new"]), hexadecimal(&translate[16]["new"]));
    assert!(pushed > 0x40_0000 && jumped > pushed, "{pushed:#x} {jumped:#x}");
    for line in &mut told {
        *line =
            line.replace(&format!("{pushed:#x}"), "AFTER_CALL").replace(&format!("{jumped:#x}"), "TARGET");
    }
    assert_eq!(
        told,
        [
            "wall+4096:4 store across_pages 0x0 0x11223344",
            "bytes store one_byte 0x0 0x7",
            "bytes modify modify 0x0 0x5",
            "bytes modify exchange 0x5 0x5",
            "wall+4096:4 store vector 0x11223344 0x55555555",
            "wall+4096:4 store masked 0x55555555 0x77777777",
            "bytes modify far_bit 0x0 0x2",
            "text store filled_by_rep 0x0 0x4241",
            "text store filled_by_rep 0x0 0x4241",
            "text store copied_backwards 0x0 0x62",
            "text store copied_backwards 0x0 0x61",
            "text load compared_by_rep 0x0 0x0",
            "stack store pushes_and_pops 0x0 0x5",
            "stack load pushes_and_pops 0x5 0x5",
            "stack store calls_and_returns 0x0 AFTER_CALL",
            "stack load returns AFTER_CALL AFTER_CALL",
            "target store jumps_through_memory 0x0 TARGET",
            "target load jumps_through_memory TARGET TARGET",
            "image+8:8 store saves_state 0x0 0x0",
            "text store copies 0x0 0x3837363534333231",
            "text store read null 0x4847464544434241",
        ]
    );
}

fn hexadecimal(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a value in hexadecimal");
    u64::from_str_radix(digits, 16).expect("digits")
}

#[test]
fn no_hit_is_lost_between_threads_and_signals() {
    let program = TestProgram::named("watch_crowd.c");
    for tracer in TRACERS {
        let options = ["--write", "counts", "--write", "handled", "--json", "--tracer", tracer];
        let outcome = watch(&program, &options);
        let out = outcome.out();
        let (sum, signals) = out.trim().split_once(' ').expect("two numbers");
        assert_eq!(sum, "8000");
        let hits = objects(&outcome);
        let of = |name: &str| hits.iter().filter(|hit| hit["watch"] == name).collect::<Vec<_>>();
        assert_eq!(of("handled").len().to_string(), signals, "{tracer}");
        assert!(of("handled").iter().all(|hit| hit["function"] == "on_signal"));
        for thread in 1..=4 {
            let own: Vec<(u64, u64)> = of("counts")
                .iter()
                .filter(|hit| hit["thread"] == thread)
                .map(|hit| (hexadecimal(&hit["old"]), hexadecimal(&hit["new"])))
                .collect();
            assert_eq!(own, (0..2000).map(|old| (old, old + 1)).collect::<Vec<_>>(), "{tracer}");
        }
    }
}

#[test]
fn libraries_and_thread_local_variables_are_watched() {
    let program = TestProgram::named("watch_library.c");
    let in_library = each("--write", &["shelf_books", "malloc@shelf_make"]);
    let [protect, translate] = TRACERS.map(|tracer| {
        let hits = hits_by(tracer, &program, &in_library);
        let keys = ["watch", "function", "thread", "new"];
        hits.iter()
            .map(|hit| keys.map(|key| hit[key].to_string()).join(" ").replace('"', ""))
            .collect::<Vec<_>>()
    });
    assert_eq!(protect, translate);
    assert_eq!(
        translate,
        [
            "shelf_books shelf_put 0 0x1",
            "shelf_books shelf_put 1 0x3",
            "malloc@shelf_make shelf_make 0 0x1",
            "malloc@shelf_make main 0 0x4",
            "shelf_books shelf_put 0 0x3",
        ]
    );
    // Without being told how, it is watched as it can be.
    let outcome =
        watch(&program, &[&each("--write", &["shelf_reader", "visit.last"])[..], &["--json"]].concat());
    let hits = objects(&outcome);
    assert!(hits.iter().zip([0, 1, 1]).all(|(hit, thread)| hit["thread"] == thread), "{hits:#?}");
    assert_eq!(
        told(&hits),
        ["visit.last store main 0x0 0x7", "visit.last store work 0x0 0xa", "shelf_reader store work 0x0 0x5",]
    );
    let refused = watch(&program, &["--tracer", "protect", "--write", "visit"]);
    let expected = "memtap: visit: is a thread-local variable, which --tracer translate watches\n";
    assert_eq!((refused.status, refused.err().as_str()), (1, expected));
    for (expression, expected) in [
        ("shelf_book", "no variable shelf_book; did you mean shelf_books?"),
        ("shelf_reade", "no variable shelf_reade; did you mean shelf_reader?"),
        ("visit.frst", "visit.frst: visit has no part .frst"),
        ("malloc@shelf_mak", "no function shelf_mak; did you mean shelf_make"),
    ] {
        let outcome = watch(&program, &["--write", expression]);
        assert_eq!((outcome.status, outcome.err().lines().count()), (1, 1), "{}", outcome.err());
        assert!(outcome.err().contains(expected), "{}", outcome.err());
    }
}

#[test]
fn addresses_on_a_stack_are_watched_in_translated_programs() {
    let program = TestProgram::named("watch_stack_thread.c");
    // Without randomisation the thread's stack is at the same place in each run.
    let run_watched = |tracer: &str, expression: &str| {
        let mut command = Command::new(tool("setarch"));
        command.arg("-R").arg(memtap()).args(["watch", "--json", "--tracer", tracer, "--write", expression]);
        run(command.arg("--").args(program.command_line()), b"")
    };
    let place = |outcome: &Finished| outcome.out().lines().next().expect("an address").to_owned();
    let somewhere = run_watched("translate", "0x1000:4");
    let expression = format!("{}:4", place(&somewhere));
    let outcome = run_watched("translate", &expression);
    assert_eq!(outcome.out(), format!("{}\n7\n", place(&somewhere)));
    let hits = objects(&outcome);
    // After them come those of the functions that use this part of the stack when the thread ends.
    assert_eq!(
        told(hits.get(..4).expect("its four writes")),
        [("work", "0x0", "0x1"), ("add", "0x1", "0x2"), ("add", "0x2", "0x4"), ("add", "0x4", "0x7")]
            .map(|(function, old, new)| format!("{expression} store {function} {old} {new}"))
    );
    let native = format!("{}:4", place(&run_watched("protect", "0x1000:4")));
    let outcome = run_watched("protect", &native);
    let expected = format!("memtap: {native}: is stack memory, which is not watched; ");
    assert_eq!(outcome.status, 1);
    assert!(outcome.err().starts_with(&expected), "{}", outcome.err());
    assert!(outcome.err().contains("--tracer translate watches it, too"), "{}", outcome.err());
}

#[test]
fn what_streams_read_and_write_is_one_hit_of_their_caller() {
    let program = TestProgram::named("watch_streams.c");
    let options = ["--access", "text", "--write", "taken"];
    let [protect, translate] = TRACERS.map(|tracer| hits_by(tracer, &program, &options));
    assert_eq!(told(&protect), told(&translate));
    assert_eq!(
        told(&translate),
        [
            "text load give 0x6867666564636261 0x6867666564636261",
            "taken store take 0x0 0x6564636261",
            "taken store take 0x6564636261 0x686766656463",
        ]
    );
}
