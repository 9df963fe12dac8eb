//! `memtap probe` on servers that fork, drop their privileges and confine themselves, both started by it and
//! attached to while they run. They serve as they do without it, their children leave profiles, and they end.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Finished, memtap_for_others, run, tool};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

fn is_root() -> bool {
    run(Command::new("id").arg("-u"), b"").out().trim() == "0"
}

/// A server that is running, natively or under `memtap probe`.
struct Server {
    child: Child,
    port: u16,
    profile: Option<PathBuf>,
    errors: PathBuf,
}

/// A port that nobody listens on, below those that the kernel hands out: nobody is given it before the server takes it.
fn free_port() -> u16 {
    let start = std::process::id() % 12_000;
    let mut ports = (0..12_000).map(|step| 20_000 + ((start + step) % 12_000) as u16);
    ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a free port")
}

fn open_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The server's user has to get through.
    check(Command::new("chmod").arg("755").arg(dir.path()));
    dir
}

fn check(command: &mut Command) -> Finished {
    let outcome = run(command, b"");
    assert_eq!(outcome.status, 0, "{command:?}: {}{}", outcome.out(), outcome.err());
    outcome
}

/// Tries until it succeeds.
fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    /// Starts it and waits until it answers on `port`.
    fn start(dir: &Path, port: u16, line: &[&str], is_probed: bool) -> Self {
        let profile = dir.join("profile.json");
        let errors = dir.join("errors");
        let mut command =
            Command::new(if is_probed { memtap_for_others(dir) } else { PathBuf::from(line[0]) });
        if is_probed {
            command.args(["probe", "--sample", "all", "-o"]).arg(&profile).arg("--").args(line);
        } else {
            command.args(&line[1..]);
        }
        let log = std::fs::File::create(&errors).expect("a temporary directory can be written");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.expect("the server starts");
        let server = Self { child, port, profile: is_probed.then_some(profile), errors };
        wait_for("the server's first answer", || TcpStream::connect(("127.0.0.1", port)).ok());
        server
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits for its end; what it measured, if it was started under `memtap probe`.
    fn end(mut self) -> Option<Value> {
        let status = wait_for("the server's end", || self.child.try_wait().expect("our child"));
        assert!(status.success(), "{status}: {}", self.errors());
        let text = std::fs::read_to_string(self.profile.as_ref()?).expect("the profile");
        Some(serde_json::from_str(&text).expect("JSON"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of a test that failed: what it started must not outlive it.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]), b"");
            std::thread::sleep(Duration::from_millis(500));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn signal(signal: &str, pid: &str) {
    check(Command::new("kill").args([signal, pid.trim()]));
}

fn calls(functions: &Value, name: &str) -> u64 {
    let rows = functions.as_array().expect("an array");
    rows.iter().filter(|row| row["function"] == name).filter_map(|row| row["calls"].as_u64()).sum()
}

/// Attaches, calls `meanwhile` when it measures, ends it, and returns what was measured.
fn attach(dir: &Path, pid: &str, meanwhile: impl FnOnce()) -> Value {
    let (out, log) = (dir.join("attached.json"), dir.join("attached.log"));
    let mut command = Command::new(memtap_for_others(dir));
    command.args(["probe", "--sample", "all", "--pid", pid.trim(), "-o"]).arg(&out);
    let errors = std::fs::File::create(&log).expect("a temporary directory can be written");
    let mut child = command.stderr(errors).spawn().expect("memtap starts");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_for("attaching", || {
        assert!(!matches!(child.try_wait(), Ok(Some(_))), "{}", said());
        said().contains("profiling").then_some(())
    });
    meanwhile();
    signal("-INT", &child.id().to_string());
    let status = wait_for("the end of attaching", || child.try_wait().expect("our child"));
    assert!(status.success(), "{status}: {}", said());
    serde_json::from_str(&std::fs::read_to_string(out).expect("the profile")).expect("JSON")
}

fn pid_in(path: &Path) -> String {
    let read = || std::fs::read_to_string(path).ok()?.lines().next().map(str::to_owned);
    wait_for("the pid file", || read().filter(|pid| !pid.is_empty()))
}

mod nginx {
    use super::*;

    fn start(dir: &Path, is_probed: bool) -> Server {
        let port = free_port();
        let at = dir.display();
        // As the administrator its workers are another user's: setgid and setuid in a forked child.
        let user = if is_root() { "user nobody nogroup;" } else { "" };
        let conf = format!(
            "daemon off; {user} worker_processes 2; pid {at}/pid; error_log {at}/log;
             events {{}}
             http {{
                 access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;
                 fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
                 server {{ listen 127.0.0.1:{port}; location / {{ return 200 'served'; }} }}
             }}"
        );
        let file = dir.join("nginx.conf");
        std::fs::write(&file, conf).expect("a temporary directory can be written");
        let program = tool("nginx");
        let (program, file) = (program.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
        Server::start(dir, port, &[program, "-c", file, "-e", "stderr"], is_probed)
    }

    fn get(port: u16, times: usize) {
        use std::io::{Read, Write};
        for _ in 0..times {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.ends_with("served"), "{answer}");
        }
    }

    fn workers(pid: &str) -> Vec<String> {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).expect("the kernel lists children");
        children.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn its_workers_drop_their_privileges_and_serve() {
        let dir = open_directory();
        let server = start(dir.path(), true);
        get(server.port, 20);
        signal("-QUIT", &pid_in(&dir.path().join("pid")));
        let functions = server.end().expect("a profile");
        assert_eq!(calls(&functions, "ngx_http_process_request"), 20);
    }

    #[test]
    fn workers_that_are_forked_while_attached_drop_their_privileges_and_serve() {
        let dir = open_directory();
        let server = start(dir.path(), false);
        get(server.port, 5);
        let pid = pid_in(&dir.path().join("pid"));
        let functions = attach(dir.path(), &pid, || {
            // New workers, which the old ones give way to.
            let old = workers(&pid);
            signal("-HUP", &pid);
            wait_for("the end of the old workers", || {
                let now = workers(&pid);
                (now.len() == 2 && now.iter().all(|worker| !old.contains(worker))).then_some(())
            });
            get(server.port, 20);
        });
        assert_eq!(calls(&functions, "ngx_http_process_request"), 20, "{functions}");
        get(server.port, 20);
        signal("-QUIT", &pid);
        server.end();
    }
}

mod sshd {
    use super::*;

    /// Logs in as who runs the test.
    struct Login {
        dir: tempfile::TempDir,
        server: Server,
    }

    fn start(is_probed: bool) -> Login {
        let dir = open_directory();
        let at = dir.path().display();
        for key in ["host", "user"] {
            let mut make = Command::new(tool("ssh-keygen"));
            check(make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.path().join(key)));
        }
        if is_root() {
            check(Command::new("mkdir").args(["-p", "/run/sshd"]));
        }
        let port = free_port();
        let conf = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\n\
             StrictModes no\nPidFile {at}/pid\nUsePAM no\nPermitRootLogin yes\n"
        );
        let file = dir.path().join("sshd.conf");
        std::fs::write(&file, conf).expect("a temporary directory can be written");
        let program = tool("sshd");
        let (program, file) = (program.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
        let server = Server::start(dir.path(), port, &[program, "-D", "-e", "-f", file], is_probed);
        Login { dir, server }
    }

    impl Login {
        fn check(&self) {
            let mut ssh = Command::new(tool("ssh"));
            ssh.arg("-i").arg(self.dir.path().join("user")).args(["-p", &self.server.port.to_string()]);
            for option in ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"] {
                ssh.args(["-o", option]);
            }
            let outcome = run(ssh.args(["127.0.0.1", "echo logged in"]), b"");
            assert_eq!(outcome.out(), "logged in\n", "{}{}", outcome.err(), self.server.errors());
        }
    }

    /// The child that speaks to strangers changes its root directory and its user, allows itself no files, and is killed
    /// for a system call that its filter does not know, among them the return from a signal handler.
    #[test]
    fn its_sandbox_does_not_kill_the_child_for_what_a_probe_does() {
        let login = start(true);
        for _ in 0..3 {
            login.check();
        }
        signal("-TERM", &pid_in(&login.dir.path().join("pid")));
        assert!(login.server.end().is_some_and(|f| f.as_array().is_some_and(|rows| rows.len() > 50)));
    }

    #[test]
    fn logins_while_attached_are_let_in() {
        let login = start(false);
        let pid = pid_in(&login.dir.path().join("pid"));
        let functions = attach(login.dir.path(), &pid, || login.check());
        assert!(functions.as_array().is_some_and(|rows| !rows.is_empty()), "{functions}");
        login.check();
        signal("-TERM", &pid);
        login.server.end();
    }
}

mod redis {
    use super::*;

    fn start(dir: &Path, is_probed: bool) -> Server {
        let port = free_port();
        let program = tool("redis-server");
        let (program, at) = (program.to_str().expect("UTF-8"), dir.to_str().expect("UTF-8"));
        let port_text = port.to_string();
        let line = [program, "--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--dir", at];
        Server::start(dir, port, &line, is_probed)
    }

    fn ask(port: u16, words: &[&str]) -> String {
        check(Command::new(tool("redis-cli")).args(["-p", &port.to_string()]).args(words)).out()
    }

    /// Sets 50 keys, has a child save them, and waits for that.
    fn work(port: u16) {
        for key in 0..50 {
            assert_eq!(ask(port, &["set", &format!("key{key}"), "value"]), "OK\n");
        }
        ask(port, &["bgsave"]);
        wait_for("the end of saving", || {
            ask(port, &["info", "persistence"]).contains("rdb_bgsave_in_progress:0").then_some(())
        });
        assert!(ask(port, &["info", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    }

    #[test]
    fn it_saves_in_a_child_and_ends() {
        let dir = open_directory();
        let server = start(dir.path(), true);
        work(server.port);
        // A child that is at it is told to end: it does so in a signal handler.
        ask(server.port, &["bgsave"]);
        let _ = run(
            Command::new(tool("redis-cli")).args(["-p", &server.port.to_string(), "shutdown", "nosave"]),
            b"",
        );
        let functions = server.end().expect("a profile");
        assert_eq!(calls(&functions, "setCommand"), 50);
        assert!(calls(&functions, "rdbSaveRio") >= 1, "the child's: {functions}");
    }

    #[test]
    fn it_saves_in_a_child_while_attached() {
        let dir = open_directory();
        let server = start(dir.path(), false);
        let pid = server.child.id().to_string();
        let functions = attach(dir.path(), &pid, || work(server.port));
        assert_eq!(calls(&functions, "setCommand"), 50);
        work(server.port);
        let _ = run(
            Command::new(tool("redis-cli")).args(["-p", &server.port.to_string(), "shutdown", "nosave"]),
            b"",
        );
        server.end();
    }
}

mod postgres {
    use super::*;

    fn bin(name: &str) -> String {
        let versions =
            std::fs::read_dir("/usr/lib/postgresql").expect("postgresql is installed: cargo xtask test");
        let found =
            versions.filter_map(|v| Some(v.ok()?.path().join("bin").join(name))).find(|path| path.exists());
        found.unwrap_or_else(|| panic!("{name} is not installed")).display().to_string()
    }

    /// It refuses to run as the administrator.
    fn as_user(line: &[&str]) -> Vec<String> {
        let user: &[&str] = if is_root() { &["/usr/sbin/runuser", "-u", "postgres", "--"] } else { &[] };
        user.iter().chain(line).map(|word| (*word).to_owned()).collect()
    }

    fn start(dir: &Path, is_probed: bool) -> Server {
        let data = dir.join("data");
        std::fs::create_dir(&data).expect("a temporary directory can be written");
        if is_root() {
            check(Command::new("chown").arg("postgres").arg(&data));
        }
        let data = data.to_str().expect("UTF-8");
        let line = as_user(&[&bin("initdb"), "-D", data, "-A", "trust", "-U", "postgres"]);
        check(Command::new(&line[0]).args(&line[1..]).current_dir("/"));
        let port = free_port();
        let (port_text, program) = (port.to_string(), bin("postgres"));
        let line = as_user(&[&program, "-D", data, "-p", &port_text, "-k", "", "-h", "127.0.0.1"]);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        Server::start(dir, port, &line, is_probed)
    }

    fn query(server: &Server) {
        let mut psql = Command::new(tool("psql"));
        psql.args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "postgres", "-Atc"]);
        let psql = psql.arg("select sum(n) from generate_series(1, 1000) as n");
        let outcome =
            wait_for("an answer", || Some(run(&mut *psql, b"")).filter(|outcome| outcome.status == 0));
        assert_eq!(outcome.out(), "500500\n", "{}", server.errors());
    }

    #[test]
    fn each_of_its_processes_leaves_a_profile() {
        let dir = open_directory();
        let server = start(dir.path(), true);
        query(&server);
        query(&server);
        signal("-INT", &pid_in(&dir.path().join("data/postmaster.pid")));
        let functions = server.end().expect("a profile");
        // One for each session.
        assert!(calls(&functions, "PostgresMain") >= 2, "{functions}");
        assert!(calls(&functions, "CheckpointerMain") == 1, "{functions}");
    }

    #[test]
    fn sessions_while_attached_are_served() {
        let dir = open_directory();
        let server = start(dir.path(), false);
        let pid = pid_in(&dir.path().join("data/postmaster.pid"));
        let functions = attach(dir.path(), &pid, || {
            query(&server);
            query(&server);
        });
        assert_eq!(calls(&functions, "PostgresMain"), 2, "{functions}");
        query(&server);
        signal("-INT", &pid);
        server.end();
    }
}
