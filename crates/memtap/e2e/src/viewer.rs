//! A running `memtap view`, queried over HTTP as by a browser.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Finished, Limited, memtap, spawn};

/// A server of a trace, ended when it is dropped.
#[derive(Debug)]
pub struct Viewer {
    child: Option<Limited>,
    /// The address that it printed, with its token.
    pub url: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

/// A grid of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct TileAnswer {
    /// What is said of it.
    pub facts: Value,
    /// Its counts, row by row.
    pub counts: Vec<u32>,
    /// The number of the thread that has most of each cell, where that was asked for.
    pub threads: Vec<u8>,
}

impl HttpAnswer {
    /// Its body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl TileAnswer {
    /// All accesses in it.
    pub fn sum(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }
}

/// Sends these bytes and gives back what is answered until the server has no more.
fn exchange(address: &str, request: &str) -> HttpAnswer {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).expect("it answers and closes");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of text");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    HttpAnswer { status, head, body: bytes[end + 4..].to_vec() }
}

impl Viewer {
    /// Serves a trace.
    pub fn of(trace: &Path) -> Self {
        Self::with([trace.as_os_str()])
    }

    /// Serves what the arguments say.
    pub fn with(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut command = Command::new(memtap());
        command.arg("view").args(arguments).arg("--no-open").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = spawn(&mut command);
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped above"));
        out.read_line(&mut line).expect("it prints text");
        assert!(line.ends_with("/\n"), "no address: {line:?}");
        Self { child: Some(child), url: line.trim_end().to_owned() }
    }

    /// The most memory that the server had, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let child = self.child.as_ref().expect("it runs until it is dropped");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
        peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").and_then(|url| url.split('/').next()).expect("an address")
    }

    /// The path that all others begin with.
    pub fn token_path(&self) -> &str {
        self.url.split_once(self.address()).expect("it has its address").1
    }

    /// Asks with a method, a path, and a head whose lines end with `\r\n`.
    pub fn ask(&self, method: &str, path: &str, head: &str) -> HttpAnswer {
        exchange(self.address(), &format!("{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n"))
    }

    /// What lies below the token's path.
    pub fn get(&self, path: &str) -> HttpAnswer {
        self.ask("GET", &format!("{}{path}", self.token_path()), &format!("Host: {}\r\n", self.address()))
    }

    /// The same as JSON, which it has to be.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// A tile.
    pub fn tile(&self, parameters: &str) -> TileAnswer {
        let answer = self.get(&format!("tile?{parameters}"));
        assert_eq!(answer.status, 200, "{parameters}: {}", answer.text());
        let word = |at: usize| u32::from_le_bytes(answer.body[at..at + 4].try_into().expect("four bytes"));
        let head = word(0) as usize;
        let facts: Value = serde_json::from_slice(&answer.body[4..4 + head]).expect("JSON");
        let cells = (answer.body.len() - 4 - head) / if facts["threads"].is_array() { 5 } else { 4 };
        let end = 4 + head + 4 * cells;
        let counts = (4 + head..end).step_by(4).map(word).collect();
        TileAnswer { facts, counts, threads: answer.body[end..].to_vec() }
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(mut self) -> Finished {
        let mut child = self.child.take().expect("nothing else ends it");
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let status = child.wait().expect("it is ours").code().unwrap_or(-1);
        Finished { stdout: Vec::new(), stderr: Vec::new(), status }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
