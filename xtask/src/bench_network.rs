//! `cargo xtask bench network`: the cost of recording to a server instead of into a file, as Markdown: over a Unix
//! socket, TCP on this machine, and TCP through a proxy that delays the traffic, so that a round trip takes 50 ms.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use proc_files::TaskStat;

use crate::shell;
use crate::table::{Table, median, short};

/// How often each is measured, in turns.
const ROUNDS: usize = 5;
/// Half of a round trip.
const ONE_WAY: Duration = Duration::from_millis(25);
/// Bytes that a proxy takes at once.
const PIECE_BYTES: usize = 1 << 16;

/// A server with a directory of its own.
struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Server {
    fn start(dir: &Path) -> Result<Self> {
        let dir = dir.join("server");
        std::fs::create_dir_all(&dir)?;
        let socket = dir.join("socket");
        let _ = std::fs::remove_file(&socket);
        let mut child = Command::new(memtap())
            .args(["serve", "--listen", "tcp:0", "--listen"])
            .arg(format!("unix:{}", socket.display()))
            .arg("--root")
            .arg(&dir)
            .arg("--credentials")
            .arg(dir.join("credentials"))
            .stderr(Stdio::piped())
            .spawn()?;
        let said = child.stderr.take().context("it is piped")?;
        let mut port = None;
        let mut lines = BufReader::new(said).lines();
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, rest)) = line.split_once("listening on tcp:") {
                let number = rest.split([',', ' ']).next().and_then(|address| address.rsplit(':').next());
                port = number.and_then(|number| number.parse().ok());
            }
            if line.contains("listening on unix:") {
                break;
            }
        }
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, port: port.context("the server says its port")?, dir })
    }

    /// Its processor time, in seconds.
    fn cpu_s(&self) -> f64 {
        seconds(task(&self.child.id().to_string()).map_or(0, |stat| stat.own_ticks))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn memtap() -> PathBuf {
    shell::profile_dir("release").join("memtap")
}

/// Passes on what comes, each byte after some time; counts it.
fn hold_back(mut from: TcpStream, mut to: TcpStream, one_way: Duration, bytes: Arc<AtomicU64>) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        for (due, piece) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        let Some(part) = piece.get(..count) else { break };
        if sender.send((Instant::now() + one_way, part.to_vec())).is_err() {
            break;
        }
    }
}

/// A proxy before that port; its own, and how many bytes have passed.
fn proxy(behind: u16, one_way: Duration) -> Result<(u16, Arc<AtomicU64>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = bytes.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", behind)) else { continue };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else {
                continue;
            };
            for (from, to) in [(from_client, server), (from_server, client)] {
                let bytes = counted.clone();
                std::thread::spawn(move || hold_back(from, to, one_way, bytes));
            }
        }
    });
    Ok((port, bytes))
}

/// What recording took.
struct Took {
    seconds: f64,
    /// Of recorder and program.
    cpu_s: f64,
}

fn record(words: &[String], output: &str, program: &[String]) -> Result<Took> {
    let start = Instant::now();
    let before = children_cpu_s();
    let status = Command::new(memtap())
        .args(["record", "--force", "-o", output])
        .args(words)
        .arg("--")
        .args(program)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("memtap record {}: {status}", words.join(" "));
    }
    Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_s: children_cpu_s() - before })
}

/// The processor time of children that have ended, in seconds.
fn children_cpu_s() -> f64 {
    seconds(task("self").map_or(0, |stat| stat.children_ticks))
}

fn task(process: &str) -> Option<TaskStat> {
    TaskStat::parse(&std::fs::read(format!("/proc/{process}/stat")).ok()?)
}

fn seconds(ticks: u64) -> f64 {
    // Clock ticks are 10 ms on Linux.
    ticks as f64 / 100.0
}

/// One way to record.
struct Way {
    name: &'static str,
    words: Vec<String>,
    output: String,
    /// Bytes on the wire so far.
    wire: Option<Arc<AtomicU64>>,
    seconds: Vec<f64>,
    cpu_s: Vec<f64>,
    server_s: Vec<f64>,
    wire_bytes: Vec<f64>,
}

/// Measures.
pub(crate) fn run() -> Result<()> {
    shell::build_release()?;
    let dir = shell::target_dir().join("bench-network");
    std::fs::create_dir_all(&dir)?;
    let lines = dir.join("lines");
    let text: String =
        (0..60_000_u64).map(|n| format!("{:08x}\n", n.wrapping_mul(2_654_435_761) >> 7)).collect();
    std::fs::write(&lines, text)?;
    let program = ["sort".to_owned(), lines.display().to_string()];
    let server = Server::start(&dir)?;
    let token = server.dir.join("credentials/token").display().to_string();
    let tcp =
        |port: u16| vec![format!("--server=tcp:127.0.0.1:{port}"), "--token-file".to_owned(), token.clone()];
    let (near, near_bytes) = proxy(server.port, Duration::ZERO)?;
    let (far, far_bytes) = proxy(server.port, ONE_WAY)?;
    let unix = vec![format!("--server=unix:{}", server.dir.join("socket").display())];
    let local = dir.join("local.memtap").display().to_string();
    let way = |name, words, output: &str, wire| Way {
        name,
        words,
        output: output.to_owned(),
        wire,
        seconds: Vec::new(),
        cpu_s: Vec::new(),
        server_s: Vec::new(),
        wire_bytes: Vec::new(),
    };
    let mut ways = [
        way("into a file", Vec::new(), &local, None),
        way("Unix socket", unix, "unix.memtap", None),
        way("TCP, this machine", tcp(near), "near.memtap", Some(near_bytes)),
        way("TCP, round trip of 50 ms", tcp(far), "far.memtap", Some(far_bytes)),
    ];
    for _ in 0..ROUNDS {
        for way in &mut ways {
            let wire = |way: &Way| way.wire.as_ref().map_or(0, |bytes| bytes.load(Ordering::Relaxed)) as f64;
            let (bytes_before, server_before) = (wire(way), server.cpu_s());
            let took = record(&way.words, &way.output, &program)?;
            way.seconds.push(took.seconds);
            way.cpu_s.push(took.cpu_s);
            way.server_s.push(server.cpu_s() - server_before);
            way.wire_bytes.push(wire(way) - bytes_before);
        }
    }
    let mut table = Table::new(&[
        "sort of 60,000 lines",
        "s",
        "CPU s, recorder and program",
        "CPU s, server",
        "wire, MB",
        "file, MB",
    ]);
    for way in &mut ways {
        let file =
            if way.words.is_empty() { PathBuf::from(&way.output) } else { server.dir.join(&way.output) };
        let file_mb = std::fs::metadata(file)?.len() as f64 / 1e6;
        let wire_mb = median(std::mem::take(&mut way.wire_bytes)) / 1e6;
        table.row(vec![
            way.name.to_owned(),
            short(median(std::mem::take(&mut way.seconds))),
            short(median(std::mem::take(&mut way.cpu_s))),
            short(median(std::mem::take(&mut way.server_s))),
            if way.wire.is_some() { short(wire_mb) } else { String::new() },
            short(file_mb),
        ]);
    }
    table.print(&format!("Recording to a server, medians of {ROUNDS} rounds"));
    Ok(())
}
