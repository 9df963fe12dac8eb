//! Attaches to running programs: they are profiled, and left as they were.

use probes::{
    attach::{self, AttachError, Attached, ProcessError},
    joined::Profile,
    profile::settings::Settings,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    [deps.join("libmemtap_probes.so"), deps.with_file_name("libmemtap_probes.so")]
        .into_iter()
        .find(|path| path.exists())
        .expect("cargo builds the library before its tests")
}

fn build(dir: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/tests/programs").join(source);
    let program = dir.join("program");
    let compiler = if source.extension().is_some_and(|e| e == "c") { "gcc" } else { "g++" };
    let status = Command::new(compiler)
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags)
        .status()
        .unwrap();
    assert!(status.success(), "{} does not compile", source.display());
    program
}

/// A running program that has said that it is ready; it ends with its standard input.
struct Running {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(program: &Path) -> Self {
        Self::start_with(program, &[])
    }

    fn start_with(program: &Path, words: &[&str]) -> Self {
        let mut child =
            Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has executed for so many hundredths of a second more: on a busy machine that may take long.
    fn executes(&self, hundredths: u64) {
        let executed = || -> u64 {
            let text = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
            // After the name, which is in parentheses, the 12th word is the time in user mode.
            text.rsplit(')').next().unwrap().split_whitespace().nth(11).unwrap().parse().unwrap()
        };
        let until = executed() + hundredths;
        while executed() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Has it read a line, and waits for its answer.
    fn says(&mut self, line: &str, answer: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut said = String::new();
        self.output.read_line(&mut said).unwrap();
        assert_eq!(said.trim_end(), answer);
    }

    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status} {rest:?}");
        rest
    }

    /// What must be the same before and after: threads, signal handlers, the bytes and rights of all code of files.
    fn state(&self) -> (String, String, Vec<(String, Vec<u8>)>) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let field = |name: &str| status.lines().find(|l| l.starts_with(name)).unwrap_or("").to_owned();
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let code = maps
            .lines()
            .filter(|line| line.contains("x") && line.contains('/') && !line.contains("libmemtap"))
            .filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x')))
            .map(|line| {
                let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
                let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
                let mut bytes = vec![0; (end - start) as usize];
                memory.read_exact_at(&mut bytes, start).unwrap();
                (line.to_owned(), bytes)
            })
            .collect();
        (field("Threads"), field("SigCgt"), code)
    }
}

fn settings(dir: &Path, sample: Option<u32>) -> Settings {
    Settings {
        out_dir: dir.display().to_string(),
        sample,
        epoch_ms: 2,
        functions: String::new(),
        libraries: false,
        budget_percent: None,
        timeline: false,
        controller: std::process::id(),
    }
}

/// Code that belongs to no file: what the probes are made of.
fn made_code(running: &Running) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.pid())).unwrap();
    let is_made = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
    maps.lines().filter(is_made).filter(|line| !line.contains(['/', '['])).map(str::to_owned).collect()
}

/// Profiles while the program executes for half a second.
fn profile(running: &Running, sample: Option<u32>) -> Profile {
    let out = tempfile::tempdir().unwrap();
    let process = Attached::start(running.pid(), &library(), &settings(out.path(), sample)).unwrap();
    let again = Attached::start(running.pid(), &library(), &settings(out.path(), sample));
    assert!(matches!(again, Err(AttachError::Busy(_))), "one at a time");
    running.executes(50);
    assert!(!process.has_ended());
    process.end().unwrap();
    Profile::read(out.path()).unwrap()
}

fn check_left_clean(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&build(dir.path(), "running.cc", flags));
    let before = running.state();
    // The second time the library is there already, the third with every call measured.
    for sample in [Some(10), Some(10), None] {
        let profile = profile(&running, sample);
        let row = |name: &str| {
            let found = profile.rows.iter().find(|row| row.function == name);
            found.unwrap_or_else(|| panic!("no {name} in {:#?}", profile.rows))
        };
        for function in ["fib(int)", "catcher(int)", "round_of_work()"] {
            assert!(row(function).calls > 10 && row(function).sampled > 0, "{function} {sample:?}");
        }
        // Every call of these ends in an exception, which is when they end.
        assert!(row("thrower(int)").calls > 10 && row("thrower(int)").sampled > 0);
        if sample.is_none() {
            // Whole rounds but for those at the ends of the measurement.
            let (rounds, fibs) = (row("round_of_work()").calls, row("fib(int)").calls);
            assert!(fibs.abs_diff(rounds * 177) <= 3 * 177, "{fibs} for {rounds} rounds");
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        // The epoch thread may take a moment to be gone.
        while running.state() != before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = running.state();
        assert_eq!((&before.0, &before.1), (&after.0, &after.1), "threads and handlers");
        for ((mapping, bytes), (then, then_bytes)) in before.2.iter().zip(&after.2) {
            assert_eq!(mapping, then);
            assert!(bytes == then_bytes, "code of {mapping} is as it was");
        }
    }
    // The thunks stay, which are near each module's code: a few mappings, and nobody can write them.
    let made = made_code(&running);
    assert!(made.len() <= 8 && made.iter().all(|line| line.contains(" r-xp ")), "{made:#?}");
    // It still throws, catches and returns: nothing leads into the probes any more.
    running.executes(5);
    assert_eq!(running.end(), "fine\n");
}

#[test]
fn a_running_program_is_profiled_and_left_clean() {
    check_left_clean(&[]);
}

#[test]
fn a_running_program_with_patchable_entries_is_left_clean() {
    check_left_clean(&["-fpatchable-function-entry=5"]);
}

#[test]
fn a_running_instrumented_program_is_left_clean() {
    check_left_clean(&["-finstrument-functions"]);
}

#[test]
fn a_program_that_forks_is_profiled_and_left_clean() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&build(dir.path(), "forking.c", &[]));
    for sample in [Some(10), None, Some(10)] {
        let out = tempfile::tempdir().unwrap();
        let process = Attached::start(running.pid(), &library(), &settings(out.path(), sample)).unwrap();
        running.executes(2);
        process.end().unwrap();
        let profile = Profile::read(out.path()).unwrap();
        let row = profile.rows.iter().find(|row| row.function == "fib");
        assert!(row.is_some_and(|row| row.calls > 0), "{:?}", profile.rows);
    }
    running.executes(5);
    assert_eq!(running.end(), "fine\n");
}

/// What children had counted since their last snapshot was lost: all of it, of those that live for less than a second.
#[test]
fn what_forked_children_counted_is_there_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(&build(dir.path(), "children.c", &[]));
    for (line, silent) in [("go", 0), ("go", 0), ("stop", 1)] {
        let out = tempfile::tempdir().unwrap();
        let process = Attached::start(running.pid(), &library(), &settings(out.path(), None)).unwrap();
        running.says(line, "done");
        assert_eq!(process.end().unwrap(), silent, "{line}");
        let profile = Profile::read(out.path()).unwrap();
        let work = profile.rows.iter().find(|row| row.function == "work");
        let calls = work.map_or(0, |row| row.calls);
        // One that is stopped can't tell what it counted.
        assert!(calls == 1500 || silent == 1 && calls >= 500, "{line}: {calls}");
    }
    assert_eq!(running.end(), "fine\n");
}

/// The probe of `_exit` stays in a child that goes on after the attachment: what it counted is nobody's then.
#[test]
fn children_that_outlive_an_attachment_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(&build(dir.path(), "children.c", &[]));
    let out = tempfile::tempdir().unwrap();
    let process = Attached::start(running.pid(), &library(), &settings(out.path(), None)).unwrap();
    running.says("go", "done");
    assert_eq!(process.end().unwrap(), 0);
    let files = || -> Vec<_> {
        let entries = fs::read_dir(out.path()).unwrap().map(Result::unwrap);
        let facts = |entry: fs::DirEntry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap());
        let mut files: Vec<_> = entries.map(facts).collect();
        files.sort();
        files
    };
    let before = files();
    running.says("end", "done");
    assert_eq!(files(), before);
    assert_eq!(running.end(), "fine\n");
}

#[test]
fn a_program_that_blocks_all_signals_runs_into_traps_unharmed() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start_with(&build(dir.path(), "masked.c", &[]), &["wait"]);
    for _ in 0..2 {
        let profile = profile(&running, None);
        let calls = |name: &str| profile.rows.iter().find(|row| row.function == name).map(|row| row.calls);
        let rounds = calls("one_round").unwrap_or(0);
        assert!(rounds > 10, "{:#?}", profile.rows);
        // Its probe is a trap, if the C library's functions can be watched.
        match calls("tiny") {
            Some(calls) => assert!(calls.abs_diff(rounds * 204) <= 3 * 204, "{calls} in {rounds} rounds"),
            None => assert!(profile.unprobed.iter().any(|u| u.symbol == "tiny")),
        }
    }
    assert_eq!(running.end(), "done\n");
}

#[test]
fn a_program_that_sets_what_sigtrap_does_runs_into_traps_unharmed() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start_with(&build(dir.path(), "own_traps.c", &["-fno-inline"]), &["wait"]);
    for _ in 0..3 {
        let out = tempfile::tempdir().unwrap();
        let process = Attached::start(running.pid(), &library(), &settings(out.path(), None)).unwrap();
        running.says("", "done");
        process.end().unwrap();
        let profile = Profile::read(out.path()).unwrap();
        let calls = |name: &str| profile.rows.iter().find(|row| row.function == name).map(|row| row.calls);
        assert_eq!((calls("one_round"), calls("count")), (Some(3), Some(6)), "{:#?}", profile.rows);
        // Its probe is a trap, if the C library's functions can be watched.
        match calls("tiny") {
            Some(calls) => assert_eq!(calls, 3 * 6),
            None => assert!(profile.unprobed.iter().any(|u| u.symbol == "tiny")),
        }
    }
    assert_eq!(running.end(), "");
}

#[test]
fn a_program_that_ends_meanwhile_leaves_its_profile() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&build(dir.path(), "running.cc", &[]));
    let out = tempfile::tempdir().unwrap();
    let process = Attached::start(running.pid(), &library(), &settings(out.path(), Some(10))).unwrap();
    running.executes(10);
    assert_eq!(running.end(), "fine\n");
    assert!(process.has_ended());
    assert!(matches!(process.end(), Err(AttachError::Process(ProcessError::Ended(_)))));
    let profile = Profile::read(out.path()).unwrap();
    assert!(profile.rows.iter().any(|row| row.function == "fib(int)" && row.calls > 0));
}

#[test]
fn what_cannot_be_attached_to_is_named() {
    let refusal = |pid: u32| match attach::check(pid) {
        Err(error) => error,
        Ok(()) => panic!("{pid} can be attached to"),
    };
    assert!(matches!(refusal(std::process::id()), ProcessError::Own(_)));
    // Numbers of processes are below 2^22.
    assert!(matches!(refusal(1 << 22), ProcessError::NoProcess(_)));
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&build(dir.path(), "waiting.c", &["-static"]));
    let error = refusal(running.pid());
    assert!(matches!(error, ProcessError::Static(_)));
    assert!(error.to_string().contains(&running.pid().to_string()) && error.to_string().contains("static"));
    running.end();
    let running = Running::start(&build(dir.path(), "waiting.c", &[]));
    let stopped = Command::new("kill").args(["-STOP", &running.pid().to_string()]).status().unwrap();
    assert!(stopped.success());
    while !fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap().contains("T (stopped)") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(refusal(running.pid()), ProcessError::StoppedBySignal(_)));
    Command::new("kill").args(["-CONT", &running.pid().to_string()]).status().unwrap();
    while fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap().contains("T (stopped)") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let missing = dir.path().join("missing.so");
    match Attached::start(running.pid(), &missing, &settings(dir.path(), None)).map(|_| ()) {
        Err(AttachError::Process(ProcessError::Load { reason, .. })) => {
            assert!(reason.contains("missing.so"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    running.end();
}
