//! Clients that send frames over connections that are cut.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{entries, options, place, remote, remote_with, sample, sample_type};
use trace_format::Trace;
use trace_server::{Address, Client, Engine, EngineOptions, EntryStream, Error, RefusalReason, TraceOptions};

/// How a proxy treats connections.
#[derive(Default)]
struct Cutting {
    /// State of a generator of random numbers.
    random: AtomicU64,
    /// Connections that are still to be cut.
    cuts: AtomicU64,
    /// No connection is let through.
    is_closed: AtomicBool,
    /// The server's side of a cut connection stays open.
    server_hears_nothing: bool,
    bytes: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
}

impl Cutting {
    /// Cuts all connections, and lets no other one through until [`Self::open`].
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for stream in self.connections.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).unwrap();
        }
    }

    fn open(&self) {
        self.is_closed.store(false, Ordering::Release);
    }

    fn draw(&self, below: u64) -> u64 {
        let step = |seed: u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let seed = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(0);
        (seed >> 33) % below
    }
}

/// Passes bytes on, up to so many; whether there were more.
fn pump(mut from: TcpStream, mut to: TcpStream, mut left: u64, cutting: &Cutting) {
    let mut bytes = [0; 4096];
    while left > 0 {
        let most = left.min(bytes.len() as u64) as usize;
        let Ok(count @ 1..) = from.read(&mut bytes[..most]) else { break };
        left -= count as u64;
        cutting.bytes.fetch_add(count as u64, Ordering::Relaxed);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
}

/// A connection through a proxy, until it is cut.
fn connect(client: TcpStream, server: TcpStream, is_cut: bool, cutting: &Arc<Cutting>) {
    let other = |stream: &TcpStream| stream.try_clone().unwrap();
    cutting.connections.lock().unwrap().push(other(&client));
    for (from, to) in [(other(&client), other(&server)), (other(&server), other(&client))] {
        let left = if is_cut { cutting.draw(60_000) } else { u64::MAX };
        let (cutting, client, server) = (cutting.clone(), other(&client), other(&server));
        std::thread::spawn(move || {
            pump(from, to, left, &cutting);
            let _ = client.shutdown(Shutdown::Both);
            if cutting.server_hears_nothing {
                // Its side stays open, as where a cable was pulled.
                std::mem::forget(server);
            } else {
                let _ = server.shutdown(Shutdown::Both);
            }
        });
    }
}

/// A proxy before a server, and its address.
fn proxy(server: &Address, cutting: &Arc<Cutting>) -> Address {
    let Address::Tcp { port: behind, .. } = *server else { panic!("{server} is not TCP") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let cutting = cutting.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), false) = (client, cutting.is_closed.load(Ordering::Acquire)) else { continue };
            let Ok(server) = TcpStream::connect(("127.0.0.1", behind)) else { continue };
            let one_less = |cuts: u64| cuts.checked_sub(1);
            let is_cut = cutting.cuts.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok();
            connect(client, server, is_cut, &cutting);
        }
    });
    Address::Tcp { host: "127.0.0.1".into(), port }
}

/// A client with a channel that is kept; cuts before that are nothing that it could go on after.
fn kept(address: &Address, token: &str) -> Client {
    loop {
        if let Ok(client) = Client::connect(address, Some(token))
            && client.keep(600, |_| ()).is_ok()
        {
            return client;
        }
    }
}

/// A client whose own workers encode what the server keeps.
fn encoding(upstream: Client) -> Client {
    let options = EngineOptions { upstream: Some(Arc::new(upstream)), ..options() };
    Client::embedded(&Engine::start(options).unwrap())
}

const NUMBERS: u64 = 60_000;

/// Writes some streams of samples in small segments, of which each goes as a frame.
fn write(client: &Client, name: &str) -> Vec<u32> {
    client.create_session("frames").unwrap();
    client.create_trace(name, &TraceOptions { segment_entries: 1000, ..TraceOptions::default() }).unwrap();
    let stream = |_| client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let streams: Vec<u32> = (0..3).map(stream).collect();
    let mut writers: Vec<_> = streams.iter().map(|stream| client.writer(*stream).unwrap()).collect();
    for number in 0..NUMBERS {
        writers[number as usize % 3].push(&sample(number)).unwrap();
        if number % 20_000 == 0 {
            client.flush(false).unwrap();
        }
    }
    writers.into_iter().for_each(|writer| writer.close().unwrap());
    client.close_trace().unwrap();
    client.leave_session().unwrap();
    streams
}

fn check(path: &std::path::Path, streams: &[u32]) {
    for (place, stream) in streams.iter().enumerate() {
        let all: Vec<u8> = (place as u64..NUMBERS).step_by(3).flat_map(sample).collect();
        assert!(entries(path, *stream) == all, "stream {stream}");
    }
    let trace = Trace::open(path).unwrap();
    assert!(trace.closed() && trace.damage().is_empty(), "{:?}", trace.damage());
}

#[test]
fn what_a_client_encodes_is_the_trace() {
    let place = place();
    let streams = write(&encoding(place.client()), "near");
    check(&place.file("near"), &streams);
    let (place, address, token) = remote("127.0.0.1").unwrap();
    let cutting = Arc::new(Cutting::default());
    let client = Client::connect(&proxy(&address, &cutting), Some(&token)).unwrap();
    let streams = write(&encoding(client), "far");
    check(&place.file("far"), &streams);
    // What travels is the file, and little more for each of its frames.
    let file_bytes = std::fs::metadata(place.file("far")).unwrap().len();
    let travelled = cutting.bytes.load(Ordering::Relaxed);
    assert!(travelled < file_bytes * 3 / 2, "{travelled} bytes for a file of {file_bytes}");
}

#[test]
fn connections_that_are_cut_anywhere_lose_and_double_nothing() {
    for seed in 0..8 {
        let (place, address, token) = remote("127.0.0.1").unwrap();
        let cutting = Arc::new(Cutting {
            random: AtomicU64::new(seed),
            cuts: AtomicU64::new(12),
            server_hears_nothing: seed % 2 == 1,
            ..Cutting::default()
        });
        let client = encoding(kept(&proxy(&address, &cutting), &token));
        let streams = write(&client, "cut");
        check(&place.file("cut"), &streams);
        assert!(cutting.cuts.load(Ordering::Acquire) < 8, "seed {seed}: hardly a connection was cut");
    }
}

#[test]
fn a_client_goes_on_after_seconds_without_a_network() {
    let (place, address, token) = remote("127.0.0.1").unwrap();
    let cutting = Arc::new(Cutting::default());
    let client = kept(&proxy(&address, &cutting), &token);
    cutting.close();
    let again = cutting.clone();
    let opening = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        again.open();
    });
    let streams = write(&encoding(client), "late");
    check(&place.file("late"), &streams);
    opening.join().unwrap();
}

#[test]
fn a_client_that_does_not_come_back_is_not_waited_for_longer() {
    let patience = Duration::from_secs(1);
    let (place, address, token) = remote_with(EngineOptions { patience, ..options() }, "127.0.0.1").unwrap();
    let cutting = Arc::new(Cutting::default());
    let client = kept(&proxy(&address, &cutting), &token);
    client.create_session("short").unwrap();
    client.create_trace("short", &TraceOptions::default()).unwrap();
    let sessions = || place.client().sessions().unwrap().len();
    assert_eq!(sessions(), 1);
    cutting.close();
    while sessions() > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Trace::open(place.file("short")).unwrap().closed());
    cutting.open();
    let error = client.flush(false).unwrap_err();
    let is_told = matches!(error, Error::Gone { .. } | Error::Refused { reason: RefusalReason::Unknown, .. });
    assert!(is_told, "{error}");
}

#[test]
fn a_client_that_leaves_is_not_waited_for() {
    let (place, address, token) = remote("127.0.0.1").unwrap();
    let client = kept(&address, &token);
    client.create_session("left").unwrap();
    client.create_trace("left", &TraceOptions::default()).unwrap();
    drop(client);
    assert_eq!(place.client().sessions().unwrap().len(), 0);
}

#[test]
fn a_trace_of_frames_is_added_to() {
    let place = place();
    let client = place.client();
    let encoding = encoding(place.client());
    let streams = write(&encoding, "first");
    client.create_session("more").unwrap();
    client.open_trace("first", trace_server::OpenMode::Append).unwrap();
    let mut writer = client.writer(streams[0]).unwrap();
    writer.push(&sample(NUMBERS)).unwrap();
    writer.close().unwrap();
    client.close_trace().unwrap();
    let more = entries(&place.file("first"), streams[0]);
    assert_eq!(more.len(), (NUMBERS as usize / 3 + 1) * 24);
}
