//! A server with clients that lie, stall and flood, and processes that are killed.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Place, beginning, entries, options, place, place_with, sample, sample_type};
use trace_format::{Damage, EndReason, Trace};
use trace_server::wire::{self, HELLO_MAGIC, Message, Reply, Request};
use trace_server::{Address, Client, Engine, EngineOptions, EntryStream, Server, TraceOptions};

fn socket(place: &Place) -> UnixStream {
    let Address::Unix(path) = &place.address else { unreachable!("the place has a Unix socket") };
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn hello(stream: &mut UnixStream) {
    let request = Request::Hello { major: 1, minor: 0, token: String::new(), client: "test".into() };
    wire::write(stream, &request.encode(1)).unwrap();
    let answer = wire::read(stream, 1000).unwrap();
    assert!(matches!(Reply::decode(&answer), Some(Reply::Hello { .. })));
}

/// Somebody else's work goes on.
fn others_are_served(place: &Place, name: &str) {
    let client = place.client();
    client.create_session("other").unwrap();
    client.create_trace(name, &TraceOptions::default()).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer(stream).unwrap();
    for number in 0..1000 {
        writer.push(&sample(number)).unwrap();
    }
    writer.close().unwrap();
    client.close_trace().unwrap();
    let all: Vec<u8> = (0..1000).flat_map(sample).collect();
    assert_eq!(entries(&place.file(name), stream), all);
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn garbage_ends_a_channel_and_nothing_else() {
    let place = place();
    let mut numbers = Numbers(7);
    for round in 0..200 {
        let mut stream = socket(&place);
        if round % 2 == 0 {
            hello(&mut stream);
        }
        let len = (numbers.next() % 300) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| numbers.next() as u8).collect();
        if round % 4 < 2 {
            // A header that holds, so that the body is looked at.
            let code = numbers.next() as u16 % 21;
            bytes = wire::frame(&Message { code, number: 9, body: bytes });
        }
        // The server may have closed the channel before all is written.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers);
    }
    others_are_served(&place, "after");
}

#[test]
fn every_request_out_of_place_is_refused() {
    let place = place();
    let mut stream = socket(&place);
    // Not a hello.
    wire::write(&mut stream, &Request::ListSessions.encode(5)).unwrap();
    let answer = wire::read(&mut stream, 1000).unwrap();
    assert_eq!(answer.number, 5);
    assert!(matches!(Reply::decode(&answer), Some(Reply::Refused { .. })));
    assert!(matches!(wire::read(&mut stream, 1000), Err(wire::ReadError::Closed)));
    // A later version, and a body that is too long for a hello.
    let mut stream = socket(&place);
    let later = Request::Hello { major: 2, minor: 0, token: String::new(), client: String::new() };
    wire::write(&mut stream, &later.encode(1)).unwrap();
    let Some(Reply::Refused { text, .. }) = Reply::decode(&wire::read(&mut stream, 1000).unwrap()) else {
        panic!("version 2 was admitted")
    };
    assert!(text.contains("version 2"), "{text}");
    let mut stream = socket(&place);
    let mut body = HELLO_MAGIC.to_vec();
    body.resize(5000, 0);
    let _ = stream.write_all(&wire::frame(&Message { code: 1, number: 1, body }));
    let Some(Reply::Refused { text, .. }) = Reply::decode(&wire::read(&mut stream, 1000).unwrap()) else {
        panic!("a long hello was admitted")
    };
    assert!(text.contains("too long"), "{text}");
    // A second hello, and buffers that are not the ones of the ring.
    let client = place.client();
    client.create_session("ring").unwrap();
    client.create_trace("ring", &TraceOptions::default()).unwrap();
    let number = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let session = client.sessions().unwrap()[0].session;
    for (buffer, bytes) in [(1, 24), (0, 25), (0, u32::MAX - 7), (u32::MAX, 0)] {
        let mut stream = socket(&place);
        hello(&mut stream);
        wire::write(&mut stream, &Request::OpenSession { session }.encode(2)).unwrap();
        wire::write(
            &mut stream,
            &Request::OpenWriter { stream: number, buffer_bytes: 4096, buffers: 2 }.encode(3),
        )
        .unwrap();
        wire::read(&mut stream, 1000).unwrap();
        let Some(Reply::Writer { writer, .. }) = Reply::decode(&wire::read(&mut stream, 1000).unwrap())
        else {
            panic!("no writer")
        };
        let submit = Request::Submit { writer, buffer, bytes, entries: Vec::new() };
        wire::write(&mut stream, &submit.encode(4)).unwrap();
        let answer = wire::read(&mut stream, 1000).unwrap();
        assert!(matches!(Reply::decode(&answer), Some(Reply::Refused { .. })), "{buffer} {bytes}");
        assert!(matches!(wire::read(&mut stream, 1000), Err(wire::ReadError::Closed)));
    }
    client.close_trace().unwrap();
    assert_eq!(entries(&place.file("ring"), number).len(), 0);
}

#[test]
fn who_stalls_holds_nobody_up() {
    let place = place();
    // Silent, half a header, half a body, and answers that nobody reads.
    let silent = socket(&place);
    let mut half = socket(&place);
    half.write_all(&[1, 0, 0]).unwrap();
    let mut body = socket(&place);
    hello(&mut body);
    body.write_all(&(16u32 << 20).to_le_bytes()).unwrap();
    let mut deaf = socket(&place);
    hello(&mut deaf);
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let list = wire::frame(&Request::ListSessions.encode(1));
    // Until the server does not read any more, since it can't write.
    while deaf.write_all(&list).is_ok() {}
    others_are_served(&place, "after");
    drop((silent, half, body, deaf));
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_thousand_sessions_fit_into_the_memory() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    // Both ends are here, with a trace and a buffer each.
    let most = limit.current.unwrap_or(1 << 20) / 6;
    let sessions = most.min(1000);
    let place = place_with(EngineOptions { memory_bytes: 128 << 20, ..options() });
    let before = resident_kib();
    let mut kept = Vec::new();
    for number in 0..sessions {
        let client = place.client();
        client.create_session(&format!("session {number}")).unwrap();
        client.create_trace(&format!("many{number}"), &TraceOptions::default()).unwrap();
        let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
        let mut writer = client.writer(stream).unwrap();
        for entry in 0..100 {
            writer.push(&sample(entry)).unwrap();
        }
        kept.push((client, writer));
    }
    assert_eq!(place.client().sessions().unwrap().len() as u64, sessions);
    others_are_served(&place, "after");
    let grown = resident_kib().saturating_sub(before) >> 10;
    // 128 MiB of data, some of it seen from both sides, and a thousand threads.
    assert!(grown < 400, "{grown} MiB");
    for (client, writer) in kept {
        writer.close().unwrap();
        client.close_trace().unwrap();
    }
    let all: Vec<u8> = (0..100).flat_map(sample).collect();
    for number in 0..sessions {
        assert_eq!(entries(&place.file(&format!("many{number}")), 1), all);
    }
}

#[test]
fn one_channel_too_many_is_told_so() {
    let place = place_with(EngineOptions { channels: 3, ..options() });
    let kept: Vec<_> = (0..3).map(|_| place.client()).collect();
    let refused = Client::connect(&place.address, None).unwrap_err();
    assert!(refused.to_string().contains("3 channels are the most"), "{refused}");
    drop(kept);
    // Their threads end in a moment.
    let deadline = Instant::now() + Duration::from_secs(60);
    while Client::connect(&place.address, None).is_err() {
        assert!(Instant::now() < deadline, "channels do not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_floods_waits_and_loses_nothing() {
    let place = place_with(EngineOptions { memory_bytes: 4 << 20, workers: 1, ..options() });
    let before = resident_kib();
    let client = place.client();
    client.create_session("flood").unwrap();
    client.create_trace("flood", &TraceOptions::default()).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer(stream).unwrap();
    let count = 2_000_000u64;
    for number in 0..count {
        writer.push_array(&sample(number)).unwrap();
    }
    writer.close().unwrap();
    client.close_trace().unwrap();
    let grown = resident_kib().saturating_sub(before) >> 10;
    assert!(grown < 200, "{grown} MiB for 48 MiB of entries in 4 MiB");
    let trace = Trace::open(place.file("flood")).unwrap();
    assert_eq!(trace.streams().next().unwrap().entries, count);
}

// What follows runs this test program again, as a server and as a client, and kills it.

const ROLE: &str = "MEMTAP_TEST_ROLE";
const DIR: &str = "MEMTAP_TEST_DIR";

/// The other processes begin here.
#[test]
fn process_with_a_role() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    if role == "server" {
        let root = Some(dir.join("root"));
        let engine = Engine::start(EngineOptions { root, ..options() }).unwrap();
        let mut server = Server::new(&engine, trace_server::LogLevel::Nothing);
        server.listen(&Address::Unix(dir.join("socket"))).unwrap();
        println!("ready");
        loop {
            std::thread::park();
        }
    }
    let client = Client::connect(&Address::Unix(dir.join("socket")), None).unwrap();
    client.create_session("victim").unwrap();
    let options = TraceOptions { replace: true, segment_entries: 700, ..Default::default() };
    client.create_trace("trace", &options).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer_with(stream, 4096, 2).unwrap();
    for number in 0.. {
        if writer.push(&sample(number)).is_err() {
            return;
        }
        if number % 400 == 399 {
            if number % 1200 == 1199 {
                if writer.flush().is_err() {
                    return;
                }
                println!("flushed {}", number + 1);
            }
            println!("written {}", number + 1);
        }
    }
}

fn process(role: &str, dir: &Path) -> Child {
    process_below(&["env"], role, dir)
}

/// The process of that role, which `command` becomes.
fn process_below(command: &[&str], role: &str, dir: &Path) -> Child {
    Command::new(command[0])
        .args(&command[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "process_with_a_role", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn server(dir: &Path) -> Child {
    ready(process("server", dir))
}

/// A server when it listens.
fn ready(mut child: Child) -> Child {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "the server did not start");
    child
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Writes through a server that has no more than a MiB for a trace until it is told so. What was flushed is in the file, in
/// its order; then there is room again, and the server goes on.
fn without_room(server: &Child, dir: &Path, root: &Path, text: &str) {
    let address = Address::Unix(dir.join("socket"));
    let write = |name: &str, count: u64| -> (u64, Result<(), trace_server::Error>) {
        let client = Client::connect(&address, None).unwrap();
        client.create_session(name).unwrap();
        let options = TraceOptions { segment_entries: 700, ..Default::default() };
        client.create_trace(name, &options).unwrap();
        let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
        let mut writer = client.writer_with(stream, 4096, 2).unwrap();
        let mut flushed = 0;
        let mut result = (0..count).try_for_each(|number| {
            writer.push(&sample(number))?;
            if number % 5000 == 4999 {
                writer.flush()?;
                flushed = number + 1;
            }
            Ok(())
        });
        result = result.and(writer.close());
        if result.is_ok() {
            flushed = count;
        }
        (flushed, result.and(client.close_trace().map(drop)))
    };
    let (flushed, result) = write("large", 1_000_000);
    let error = result.expect_err("a MiB is enough for 24 MB").to_string();
    assert!(error.contains("large: ") && error.contains(text), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(flushed > 0, "a MiB holds 5,000 entries");
    let path = root.join("large");
    let all = beginning(&path, 1);
    assert!(all.len() as u64 / 24 >= flushed, "{} of {flushed} entries", all.len() / 24);
    for (number, entry) in (0..).zip(all.chunks(24)) {
        assert_eq!(entry, sample(number));
    }
    std::fs::remove_file(&path).unwrap();
    let (_, result) = write("small", 10_000);
    result.unwrap();
    let all: Vec<u8> = (0..10_000).flat_map(sample).collect();
    assert_eq!(entries(&root.join("small"), 1), all, "process {}", server.id());
}

#[test]
fn at_its_quota_a_server_says_so_and_keeps_what_it_promised() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    // The signal is the limit's other way to say it.
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"];
    let mut server = ready(process_below(&limited, "server", dir.path()));
    without_room(&server, dir.path(), &root, "File too large");
    end(&mut server);
}

/// A file system of a MiB, which only the server sees.
/// An entry that no encoder makes much smaller (splitmix64).
fn noise(number: u64) -> [u8; 24] {
    let mixed = |salt: u64| {
        let word = number.wrapping_mul(3).wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    };
    let mut entry = sample(number);
    entry[8..16].copy_from_slice(&mixed(1).to_le_bytes());
    entry[16..].copy_from_slice(&mixed(2).to_le_bytes());
    entry
}

#[test]
fn a_trace_stays_within_the_quota_and_says_so() {
    const QUOTA: u64 = 3 << 20;
    let place =
        common::place_with(trace_server::EngineOptions { quota_bytes: Some(QUOTA), ..common::options() });
    let client = place.client();
    client.create_session("greedy").unwrap();
    let other = client.create_trace("lackey:text", &TraceOptions::default()).unwrap_err().to_string();
    assert!(other.contains("only memtap's own format"), "{other}");
    client.create_trace("big", &TraceOptions { segment_entries: 20_000, ..Default::default() }).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer(stream).unwrap();
    let mut refused = None;
    // Far more than there is room for.
    for number in 0..1_000_000 {
        if let Err(error) = writer.push(&noise(number)) {
            refused = Some(error.to_string());
            break;
        }
    }
    let refused = refused.or_else(|| writer.close().err().map(|error| error.to_string()));
    let refused = refused.or_else(|| client.close_trace().err().map(|error| error.to_string()));
    assert!(refused.as_ref().is_some_and(|text| text.contains("3145728 bytes at most")), "{refused:?}");
    drop(client);
    place.server.stop();
    let path = place.dir.path().join("root/big");
    assert!(std::fs::metadata(&path).unwrap().len() <= QUOTA + (1 << 20));
    let kept = common::beginning(&path, stream);
    assert!(kept.len() > 24 * 20_000);
    let whole = (0u64..).zip(kept.chunks_exact(24));
    assert!(whole.into_iter().all(|(number, entry)| entry == noise(number)));
    let damage = trace_format::Trace::open(&path).unwrap().damage().to_vec();
    let full = Damage::Ended { why: EndReason::DiskFull };
    assert!(damage.contains(&full), "{damage:?}");
}

#[test]
fn with_a_full_disk_a_server_says_so_where_namespaces_are_allowed() {
    let allowed = Command::new("unshare").args(["-rm", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("this machine does not allow namespaces: nothing is tested");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mount = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let small = ["unshare", "-rm", "sh", "-c", mount, root.to_str().unwrap()];
    let mut server = ready(process_below(&small, "server", dir.path()));
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.id(), root.display()));
    without_room(&server, dir.path(), &inside, "No space left on device");
    end(&mut server);
}

/// The last number that a line with that word had.
fn last(lines: &[String], word: &str) -> u64 {
    let numbers = lines.iter().filter_map(|line| line.split_once(word)?.1.trim().parse().ok());
    numbers.max().unwrap_or(0)
}

#[test]
fn whoever_is_killed_what_was_submitted_is_there() {
    let seed = u64::from(std::process::id()) << 20 | 1;
    // Shown where the test fails.
    eprintln!("seed {seed}");
    let mut numbers = Numbers(seed);
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("root")).unwrap();
    let path = dir.path().join("root/trace");
    let mut running: Option<Child> = None;
    let mut survived = 0;
    for round in 0..200 {
        let mut server = running.take().unwrap_or_else(|| server(dir.path()));
        let _ = std::fs::remove_file(&path);
        let mut client = process("client", dir.path());
        let output = client.stdout.take().unwrap();
        let (says_flushed, hears_flushed) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut lines = Vec::new();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains("flushed") {
                    let _ = says_flushed.send(());
                }
                lines.push(line);
            }
            lines
        });
        // Most are killed once something is promised, some before.
        let promises = round % 4 != 3;
        if promises {
            hears_flushed.recv_timeout(Duration::from_secs(60)).expect("the client flushes");
        }
        std::thread::sleep(Duration::from_micros(numbers.next() % 30_000));
        match round % 3 {
            0 => end(&mut client),
            1 => {
                end(&mut server);
                // It notices, and ends by itself.
                client.wait().unwrap();
            }
            _ => {
                end(&mut server);
                end(&mut client);
            }
        }
        let lines = reader.join().unwrap();
        let (written, flushed) = (last(&lines, "written"), last(&lines, "flushed"));
        let mut promised = flushed;
        if round % 3 == 0 {
            // The server lives: it keeps what the client had filled, and closes the trace.
            promised = written;
            let visitor = Client::connect(&Address::Unix(dir.path().join("socket")), None).unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            while !visitor.sessions().unwrap().is_empty() {
                assert!(Instant::now() < deadline, "the session of a dead client does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            running = Some(server);
        }
        if !path.exists() || std::fs::metadata(&path).unwrap().len() < 64 {
            assert_eq!(promised, 0, "round {round}");
            continue;
        }
        let trace = Trace::open(&path).unwrap();
        assert_eq!(trace.closed(), round % 3 == 0, "round {round}");
        // Whole or not, nobody takes it for all that was to be recorded.
        let missing =
            if round % 3 == 0 { Damage::Ended { why: EndReason::ClientVanished } } else { Damage::NotClosed };
        assert!(trace.damage().contains(&missing), "round {round}: {:?}", trace.damage());
        let all =
            if trace.closed() && trace.stream(1).is_some() { entries(&path, 1) } else { beginning(&path, 1) };
        let count = all.len() as u64 / 24;
        assert!(count >= promised, "round {round}: {count} of {promised} entries");
        for (number, entry) in (0..).zip(all.chunks(24)) {
            assert_eq!(entry, sample(number), "round {round}");
        }
        assert!(!promises || promised > 0, "round {round}");
        survived += u64::from(count > 0);
    }
    if let Some(mut server) = running {
        end(&mut server);
    }
    assert!(survived >= 150, "{survived} of 200");
}
