//! What the store costs its clients: `cargo run --release -p trace-server --example bench-store [MILLIONS]`.
//!
//! The producer's cost is the CPU time of the thread that fills live buffers in shared memory, submissions included, for
//! 32-byte entries. The server is another process, so nothing else is in the figure. Four clients at once are compared
//! with one, by the entries that the server encodes per second of its own CPU time, and per second of wall-clock time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proc_files::TaskStat;
use trace_format::{EntryType, Guid};
use trace_server::{Address, Client, EntryStream, EntryWriter, TraceOptions};

/// A server in a process of its own: the memtap beside this example.
struct Server {
    child: Child,
    dir: PathBuf,
    address: Address,
}

impl Server {
    fn start(dir: &Path, workers: usize) -> Self {
        let own = std::env::current_exe().expect("Linux has /proc");
        let memtap = own.ancestors().nth(2).expect("target/PROFILE/examples").join("memtap");
        let socket = dir.join("socket");
        let child = Command::new(&memtap)
            .args(["serve", "--workers", &workers.to_string(), "--listen"])
            .arg(format!("unix:{}", socket.display()))
            .arg("--root")
            .arg(dir)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; build memtap in the same profile", memtap.display())
            });
        let server = Self { child, dir: dir.into(), address: Address::Unix(socket) };
        while Client::connect(&server.address, None).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// CPU time, from /proc: user and system.
    fn cpu(&self) -> Duration {
        cpu(&format!("/proc/{}/stat", self.child.id()))
    }

    fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("");
        line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) >> 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cpu(path: &str) -> Duration {
    let stat = TaskStat::parse(&std::fs::read(path).unwrap_or_default());
    // Clock ticks are 10 ms on Linux.
    Duration::from_millis(stat.map_or(0, |stat| stat.own_ticks) * 10)
}

/// The calling thread's CPU time in ns, from the scheduler.
fn thread_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn open(server: &Server, name: &str, entry_type: EntryType) -> (Client, EntryWriter) {
    let client = Client::connect(&server.address, None).expect("it listens");
    client.create_session(name).expect("a session");
    let options = TraceOptions { replace: true, ..TraceOptions::default() };
    client.create_trace(name, &options).expect("a trace");
    let stream = client.add_stream(&EntryStream::new("stream", entry_type)).expect("a stream");
    let writer = client.writer(stream).expect("a writer");
    (client, writer)
}

/// A loop over arrays, as a program has it: predictable, as most accesses are.
#[inline]
fn entry(number: u64) -> [u8; 32] {
    let mut entry = [0; 32];
    let step = number % 5;
    entry[..8].copy_from_slice(&(number * 3).to_le_bytes());
    entry[8..16].copy_from_slice(&(0x40_1000 + step * 4).to_le_bytes());
    entry[16..24].copy_from_slice(&((step << 32) + number / 5 % 4096 * 8).to_le_bytes());
    entry[24] = 8;
    entry[28] = (step == 4).into();
    entry
}

/// Writes entries; ns of this thread for each.
fn fill(writer: &mut EntryWriter, from: u64, count: u64) -> f64 {
    let before = thread_ns();
    for number in from..from + count {
        writer.push_array(&entry(number)).expect("the server keeps them");
    }
    (thread_ns() - before) as f64 / count as f64
}

/// Accesses of the block that [`executions`] fills in.
const BLOCK_ACCESSES: u64 = 4;

/// Writes executions of a block of four accesses whose addresses follow from two values, as words of a type of our own; ns of this thread for each access.
fn executions(writer: &mut EntryWriter, from: u64, blocks: u64) -> f64 {
    let mut block = [0; 24];
    block[..8].copy_from_slice(&7_u64.to_le_bytes());
    let before = thread_ns();
    for number in from..from + blocks {
        block[8..16].copy_from_slice(&(0x10_0000 + number % 4096 * 8).to_le_bytes());
        block[16..].copy_from_slice(&(0x7fff_0000_u64 + number % 64 * 16).to_le_bytes());
        writer.push_all(&block).expect("the server keeps them");
    }
    (thread_ns() - before) as f64 / (blocks * BLOCK_ACCESSES) as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(8);
    let count = millions * 1_000_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    // What computing the entries costs by itself.
    let mut sum = 0u64;
    let before = thread_ns();
    for number in 0..count {
        let made = std::hint::black_box(entry(number));
        sum = sum.wrapping_add(u64::from(made[0]));
    }
    std::hint::black_box(sum);
    let making = (thread_ns() - before) as f64 / count as f64;

    let server = Server::start(dir.path(), 2);
    let (client, mut writer) = open(&server, "one", EntryType::accesses());
    fill(&mut writer, 0, count / 4);
    let filling = median((0..5).map(|round| fill(&mut writer, (round + 1) * count, count)).collect());
    writer.close().expect("the server lives");
    client.close_trace().expect("the server lives");
    println!("producer: {filling:.2} ns an entry of 32 bytes, of which {making:.2} ns make the entry");
    let words = EntryType { guid: Guid([7; 16]), name: "words".into(), entry_bytes: 8, fields: Vec::new() };
    let (client, mut writer) = open(&server, "words", words);
    executions(&mut writer, 0, count / 16);
    let filling =
        median((0..5).map(|round| executions(&mut writer, (round + 1) * count, count / 4)).collect());
    writer.close().expect("the server lives");
    client.close_trace().expect("the server lives");
    println!(
        "producer: {filling:.2} ns an access of a stream of executions, four accesses and three words a block"
    );
    drop(server);

    for clients in [1u64, 4] {
        let server = Server::start(dir.path(), 2);
        let (cpu, started) = (server.cpu(), Instant::now());
        std::thread::scope(|scope| {
            for number in 0..clients {
                let server = &server;
                scope.spawn(move || {
                    let (client, mut writer) = open(server, &format!("trace{number}"), EntryType::accesses());
                    fill(&mut writer, number << 32, 4 * count / clients);
                    writer.close().expect("the server lives");
                    client.close_trace().expect("the server lives");
                });
            }
        });
        let (wall, cpu) = (started.elapsed(), server.cpu() - cpu);
        let total = 4.0 * count as f64;
        let stored: u64 = (0..clients)
            .filter_map(|number| std::fs::metadata(server.dir.join(format!("trace{number}"))).ok())
            .map(|metadata| metadata.len())
            .sum();
        println!(
            "{clients} client(s): {:.1} million entries/s, {:.1} ns of the server's CPU and {:.4} bytes an entry, {} MiB at most",
            total / wall.as_secs_f64() / 1e6,
            cpu.as_secs_f64() * 1e9 / total,
            stored as f64 / total,
            server.resident_mib(),
        );
    }
}
