//! `memtap serve` and `record --server`: a trace written by another process is the same as one that the recorder would write.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::{Finished, Limited, TestProgram, Trace, fits_schema, memtap, run, spawn};
use serde_json::Value;

/// A server of ours, ended when it is dropped.
struct Server {
    child: Limited,
    dir: tempfile::TempDir,
    unix: String,
    tcp: String,
    log: std::thread::JoinHandle<Vec<String>>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("root")).expect("the directory is ours");
        let unix = format!("unix:{}", dir.path().join("socket").display());
        let mut child = spawn(
            Command::new(memtap())
                .args(["serve", "--listen", &unix, "--listen", "tcp:127.0.0.1:0", "--workers", "2", "--root"])
                .arg(dir.path().join("root"))
                .arg("--credentials")
                .arg(dir.path().join("state"))
                .args(options)
                .stdin(Stdio::null())
                .stderr(Stdio::piped()),
        );
        let mut lines = BufReader::new(child.stderr.take().expect("piped above")).lines();
        let mut tcp = None;
        while tcp.is_none() {
            let line = lines.next().expect("the server says where it listens").expect("text");
            tcp = line.split([' ', ',']).find(|word| word.starts_with("tcp:")).map(str::to_owned);
        }
        let log = std::thread::spawn(move || lines.map_while(Result::ok).collect());
        Self { child, dir, unix, tcp: tcp.expect("just found"), log }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }

    fn token_file(&self) -> PathBuf {
        self.dir.path().join("state/token")
    }

    /// By page protection, as `TestProgram::record`: of it two recordings of a program are alike.
    fn record(&self, url: &str, output: &str, token: Option<&Path>, program: &TestProgram) -> Finished {
        self.record_with(&["--tracer", "protect"], url, output, token, program)
    }

    fn record_with(
        &self,
        options: &[&str],
        url: &str,
        output: &str,
        token: Option<&Path>,
        program: &TestProgram,
    ) -> Finished {
        let mut command = Command::new(memtap());
        command
            .args(["record", "--quiet", "--server", url, "-o", output])
            .args(options)
            .args(&program.header.record);
        command.env_remove("MEMTAP_TOKEN").env("XDG_STATE_HOME", self.dir.path().join("elsewhere"));
        if let Some(token) = token {
            command.arg("--token-file").arg(token);
        }
        run(command.arg("--").args(program.command_line()), program.header.stdin.as_bytes())
    }

    /// Asks the server to end; returns its exit status and what it logged.
    fn stop(mut self) -> (i32, Vec<String>) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let status = self.child.wait().expect("a child of ours").code().unwrap_or(-1);
        (status, self.log.join().expect("reading does not panic"))
    }
}

/// What must be equal in two runs of a program: counts, and the accesses to its own variables, in their order where
/// there is one process.
fn told(trace: &Trace, program: &TestProgram) -> (Value, Vec<(char, u64, u64)>) {
    let mut counts = trace.stat();
    let counted = counts.as_object_mut().expect("stat --json is an object");
    // The same in no two runs: what time and compression make of it, and how many mappings there are at the start, of which the
    // kernel makes one where two come to lie side by side.
    for key in [
        "regions",
        "file_bytes",
        "bytes_per_access",
        "wall_seconds",
        "program_cpu_seconds",
        "recorder_cpu_seconds",
        "slow_path",
    ] {
        assert!(counted.remove(key).is_some(), "stat --json has no {key}");
    }
    assert!(counted.len() > 15, "{counts}");
    let own = e2e::data_and_bss(&program.path);
    let references = trace.references().into_iter();
    let mut references: Vec<_> = references
        .filter(|reference| own.iter().any(|section| section.range.contains(&reference.addr)))
        .map(|reference| (reference.kind, reference.addr, reference.size))
        .collect();
    if program.path.ends_with("fork") {
        references.sort_unstable();
    }
    (counts, references)
}

#[test]
fn a_server_writes_the_same_trace() {
    let server = Server::start();
    for file in ["bits.c", "fork.c", "heap.c"] {
        let program = TestProgram::named(file);
        let own = program.record();
        let expected = told(&own.trace, &program);
        assert!(!expected.1.is_empty() || file != "bits.c");
        let token = server.token_file();
        for (url, name, token) in
            [(&server.unix, "local", None), (&server.tcp, "remote", Some(token.as_path()))]
        {
            let name = format!("{file}.{name}");
            let outcome = server.record(url, &name, token, &program);
            program.check(&outcome);
            let trace = Trace::at(server.file(&name));
            let checked = trace.ask("check", &[]);
            assert_eq!(checked.status, 0, "{}{}", checked.out(), checked.err());
            assert_eq!(told(&trace, &program), expected, "{file} over {url}");
        }
    }
    let (status, log) = server.stop();
    assert_eq!((status, log), (0, Vec::<String>::new()));
}

/// What is recorded without any options, too.
#[test]
fn a_server_writes_translated_traces() {
    let server = Server::start();
    let program = TestProgram::named("statics.c");
    let token = server.token_file();
    for (url, name, token) in [(&server.unix, "local", None), (&server.tcp, "remote", Some(token.as_path()))]
    {
        let outcome = server.record_with(&[], url, name, token, &program);
        program.check(&outcome);
        let trace = Trace::at(server.file(name));
        let checked = trace.ask("check", &[]);
        assert_eq!(checked.status, 0, "{}{}", checked.out(), checked.err());
        assert_eq!(trace.stat()["tracer"], "translate");
        let rows = trace.variables();
        assert!(!program.header.expect.is_empty());
        for expectation in &program.header.expect {
            let total = e2e::total_of(&rows, &expectation.name);
            assert_eq!(total, expectation.tally.total(), "{} over {url}", expectation.name);
        }
    }
    let (status, log) = server.stop();
    assert_eq!((status, log), (0, Vec::<String>::new()));
}

#[test]
fn who_is_not_admitted_is_told_and_logged() {
    let server = Server::start();
    let program = TestProgram::named("bits.c");
    std::os::unix::fs::symlink("/tmp", server.file("link")).expect("the directory is ours");
    let token = std::fs::read_to_string(server.token_file()).expect("the server wrote it");
    let (_, pin) = token.trim().rsplit_once(':').expect("as documented");
    let wrong = server.dir.path().join("wrong");
    std::fs::write(&wrong, format!("memtap1:{}:{pin}", "0".repeat(64))).expect("the directory is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&wrong, mode).expect("the file is ours");
    let right = server.token_file();
    let cases: [(&str, &str, Option<&Path>, &str); 5] = [
        (&server.tcp, "t", None, "a token is needed"),
        (&server.tcp, "t", Some(&wrong), "the token is wrong"),
        (&server.tcp, "../t", Some(&right), "outside the server's root"),
        (&server.unix, "/tmp/t", None, "outside the server's root"),
        (&server.unix, "link/t", None, "outside the server's root"),
    ];
    for (url, output, token, text) in cases {
        let outcome = server.record(url, output, token, &program);
        assert_eq!((outcome.status, outcome.out()), (1, String::new()), "the program must not run");
        assert_eq!(outcome.err().lines().count(), 1, "{}", outcome.err());
        assert!(outcome.err().contains(text), "{}", outcome.err());
    }
    let (status, log) = server.stop();
    assert_eq!(status, 0);
    // The client without a token did not even connect.
    assert_eq!(log.len(), 4, "{log:?}");
    assert!(log.iter().all(|line| line.contains("refused")), "{log:?}");
}

#[test]
fn the_log_says_who_wrote_what_and_tokens_have_roles() {
    let server = Server::start_with(&["--log", "sessions", "--quota", "64"]);
    let program = TestProgram::named("bits.c");
    let role = |name: &str| server.dir.path().join("state").join(format!("token.{name}"));
    let outcome = server.record(&server.tcp, "mine", Some(&role("write")), &program);
    program.check(&outcome);
    let written = std::fs::metadata(server.file("mine")).expect("it was just written").len();
    let outcome = server.record(&server.tcp, "t", Some(&role("read")), &program);
    assert_eq!((outcome.status, outcome.out()), (1, String::new()), "the program must not run");
    assert!(outcome.err().contains("this token is to read; one to write is needed"), "{}", outcome.err());
    assert!(!server.file("t").exists());
    let (status, log) = server.stop();
    assert_eq!(status, 0);
    let one =
        |text: &str| assert_eq!(log.iter().filter(|line| line.contains(text)).count(), 1, "{text}: {log:#?}");
    one("creates mine");
    one(&format!("closes mine, which has {written} bytes"));
    one("refused: create trace: this token is to read");
    assert!(log.iter().all(|line| line.contains("127.0.0.1:") && line.contains(", memtap ")), "{log:#?}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let program = TestProgram::named("bits.c");
    for (url, text) in [
        ("unix:/nonexistent/socket", "unix:/nonexistent/socket: cannot connect"),
        ("tcp:127.0.0.1:1", "token"),
        ("http://localhost", "not an address"),
    ] {
        let mut command = Command::new(memtap());
        command.args(["record", "--server", url, "-o", "never.memtap", "--"]).args(program.command_line());
        let outcome = run(command.env_remove("MEMTAP_TOKEN").env("XDG_STATE_HOME", "/nonexistent"), b"");
        assert!(outcome.status == 1 || outcome.status == 2, "{}", outcome.err());
        assert!(outcome.err().contains(text), "{}", outcome.err());
    }
}

#[test]
fn a_server_that_dies_leaves_what_it_had_and_the_program_goes_on() {
    let mut server = Server::start();
    // Writes until the file that its argument names is there.
    let source = "#include <stdio.h>\n#include <unistd.h>\nvolatile long cells[64];\nint main(int argc, char **argv) {\n\
                  for (int round = 0; access(argv[argc - 1], F_OK); round++) {\n\
                  for (int i = 0; i < 64; i++) cells[i] = round;\n\
                  usleep(10000);\n}\nputs(\"done\");\nreturn 7;\n}\n";
    let program = TestProgram::from_source("slow.c", source, &["-O1"]);
    let enough = server.dir.path().join("enough");
    let mut command = Command::new(memtap());
    command
        .args(["record", "--server", &server.unix, "-o", "t", "--"])
        .args(program.command_line())
        .arg(&enough);
    let (recorder, file) = (std::thread::spawn(move || run(&mut command, b"")), server.file("t"));
    // Until the file can be read: the server has written something of what the program did.
    let written = Trace::at(file.clone());
    let begun = (0..1200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        written.ask("stat", &["--json"]).status == 0
    });
    assert!(begun, "the server writes nothing");
    server.child.kill().expect("SIGKILL to a child of ours");
    server.child.wait().expect("a child of ours");
    std::fs::write(enough, "").expect("the directory is ours");
    let outcome = recorder.join().expect("the recorder does not panic");
    assert_eq!(outcome.out(), "done\n");
    assert_eq!(outcome.status, 1, "{}", outcome.err());
    assert!(outcome.err().contains("the connection to the server is lost"), "{}", outcome.err());
    assert!(outcome.err().contains("status 7"), "{}", outcome.err());
    let trace = Trace::at(file);
    let stat = trace.ask("stat", &["--json"]);
    assert_eq!(stat.status, 0, "{}", stat.err());
    let _ = trace.references();
}

/// A program that waits is recorded by a server, by TCP; its session is listed, and ended by who may.
#[test]
fn sessions_are_listed_and_ended() {
    let server = Server::start();
    let sessions = |token: &Path, options: &[&str]| {
        let mut command = Command::new(memtap());
        command.args(["sessions", &server.tcp, "--token-file"]).arg(token).args(options);
        run(&mut command, b"")
    };
    let all = server.token_file();
    let read_only = server.dir.path().join("state/token.read");
    let none = sessions(&all, &[]);
    assert_eq!((none.status, none.out().as_str()), (0, ""), "{}", none.err());
    assert!(none.err().contains("no session"), "{}", none.err());
    let mut recorder = spawn(
        Command::new(memtap())
            .args([
                "record",
                "--quiet",
                "--server",
                &server.unix,
                "-o",
                "waits",
                "--",
                "sh",
                "-c",
                "read answer",
            ])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let writing = loop {
        let listed = sessions(&read_only, &["--json"]);
        assert_eq!(listed.status, 0, "{}", listed.err());
        let listed = fits_schema("sessions", &listed.out());
        let found =
            listed.as_array().expect("an array").iter().find(|session| session["mode"] == "writing").cloned();
        match found {
            Some(found) => break found,
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    assert_eq!(writing["trace"], "waits");
    let number = writing["session"].to_string();
    let line = sessions(&read_only, &[]).out();
    assert!(line.starts_with(&format!("{number} (")) && line.contains("): writing waits, "), "{line}");
    let refused = sessions(&read_only, &["--end", &number]);
    assert_eq!(refused.status, 1);
    assert!(refused.err().contains("administrate"), "{}", refused.err());
    let wrong = sessions(&all, &["--end", "123456789"]);
    assert_eq!((wrong.status, wrong.err().lines().count()), (1, 1), "{}", wrong.err());
    let ended = sessions(&all, &["--end", &number]);
    assert_eq!((ended.status, ended.out(), ended.err()), (0, String::new(), String::new()));
    let listed = sessions(&all, &[]).out();
    assert!(!listed.contains("writing"), "{listed}");
    // The program goes on to its own end; its recorder says that the trace is not whole.
    drop(recorder.stdin.take());
    let status = recorder.wait().expect("a child of ours");
    assert_eq!(status.code(), Some(1));
    let stat = Command::new(memtap()).arg("stat").arg(server.file("waits")).output().expect("it is ours");
    assert!(stat.status.success(), "{}", String::from_utf8_lossy(&stat.stderr));
}

/// The bytes of `serve --memory`, and 24 MiB for the process itself, are enough for four recorders at once that write as fast as they can.
#[test]
fn the_memory_of_a_server_is_bounded() {
    const MEMORY_MIB: u64 = 64;
    let server = Server::start_with(&["--memory", &MEMORY_MIB.to_string()]);
    // Accesses of which no two are alike, so that there is much to store.
    let source = "volatile long cells[1 << 16];\nint main(void) {\n    unsigned long x = 1;\n\
                  for (long i = 0; i < 3000000; i++) {\n        x = x * 6364136223846793005ul + 1442695040888963407ul;\n\
                  cells[x >> 48] += x;\n    }\n    return 0;\n}\n";
    let program = TestProgram::from_source("scattered.c", source, &["-O1"]);
    std::thread::scope(|scope| {
        let recorders: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| {
                let (server, program) = (&server, &program);
                scope.spawn(move || {
                    server.record_with(&["--tracer", "translate"], &server.unix, name, None, program)
                })
            })
            .into_iter()
            .collect();
        for recorder in recorders {
            let outcome = recorder.join().expect("it does not panic");
            assert_eq!(outcome.status, 0, "{}", outcome.err());
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells it");
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak_kib <= (MEMORY_MIB + 24) << 10, "{peak_kib} KiB");
    for name in ["a", "b", "c", "d"] {
        let stores = Trace::at(server.file(name)).number("stores");
        assert!(stores >= 3_000_000, "{name}: {stores}");
    }
}
