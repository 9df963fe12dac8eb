//! Makes every write, truncation, sync and read fail, once or from then on:
//! nothing panics, nothing wrong is read, and nothing is lost silently.

mod common;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use memref::{Event, GapReason, ThreadId};
use trace_format::{
    CreateOptions, Encoders, Filter, Limits, Storage, SyncPolicy, Trace, TraceSource, TraceWriter,
};

use common::{events, small};

/// Bytes in memory whose operations begin to fail.
#[derive(Clone)]
struct Failing {
    bytes: Arc<Mutex<Vec<u8>>>,
    countdown: Arc<AtomicI64>,
    /// Whether all operations fail from then on, or one.
    for_good: bool,
}

impl Failing {
    fn new(countdown: i64, for_good: bool) -> Self {
        Self { bytes: Arc::default(), countdown: Arc::new(AtomicI64::new(countdown)), for_good }
    }

    fn fails(&self) -> bool {
        let left = self.countdown.fetch_sub(1, Ordering::Relaxed);
        left == 0 || (left < 0 && self.for_good)
    }

    fn happened(&self) -> bool {
        self.countdown.load(Ordering::Relaxed) < 0
    }
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl Storage for Failing {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let fails = self.fails();
        // A full disk takes a part.
        let taken = if fails { &bytes[..bytes.len() / 2] } else { bytes };
        let mut file = self.bytes.lock().unwrap();
        let start = offset as usize;
        assert!(start <= file.len(), "no holes");
        let end = (start + taken.len()).max(file.len());
        file.resize(end, 0);
        file[start..start + taken.len()].copy_from_slice(taken);
        if fails { Err(full()) } else { Ok(()) }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        if self.fails() {
            return Err(full());
        }
        self.bytes.lock().unwrap().truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.fails() { Err(full()) } else { Ok(()) }
    }
}

impl TraceSource for Failing {
    fn len_bytes(&self) -> io::Result<u64> {
        if self.fails() { Err(full()) } else { Ok(self.bytes.lock().unwrap().len() as u64) }
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if self.fails() {
            return Err(full());
        }
        let start = offset as usize;
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[start..start + bytes.len()]);
        Ok(())
    }
}

fn open(bytes: &Failing) -> Result<Trace, trace_format::Error> {
    Trace::open_on(
        Box::new(bytes.bytes.lock().unwrap().clone()),
        "test",
        Encoders::default(),
        Limits::default(),
    )
}

/// Writes the small model; returns whether anything failed.
fn write(storage: &Failing) -> Result<(), trace_format::Error> {
    let options =
        CreateOptions { segment_entries: 4, data: true, sync: SyncPolicy::EachFlush, ..Default::default() };
    let writer = TraceWriter::create_on(Box::new(storage.clone()), "test", options)?;
    let written = small().try_write(&writer).and(writer.flush());
    let finished = writer.clone().finish();
    // Another try, where the first one left the trace open.
    let _ = writer.finish();
    written.and(finished)
}

#[test]
fn every_write_may_fail_once() {
    let total: usize = small().shards.iter().map(Vec::len).sum();
    for countdown in 0.. {
        let storage = Failing::new(countdown, false);
        let result = write(&storage);
        if !storage.happened() {
            assert!(result.is_ok());
            assert!(countdown > 20, "{countdown} operations");
            return;
        }
        assert!(result.is_err(), "operation {countdown}: the failure is told");
        if countdown == 0 {
            continue;
        }
        let trace = open(&storage).unwrap();
        assert!(trace.closed(), "operation {countdown}");
        let report = trace.check().unwrap();
        assert!(report.is_sound(), "operation {countdown}: {:?}", report.findings);
        let mut found = 0;
        for thread in [0, 1] {
            for event in events(&trace.shard(ThreadId(thread)), &Filter::default()) {
                found += match event {
                    Event::Gap(gap) if gap.reason == GapReason::StoreFailed => gap.count as usize,
                    _ => 1,
                };
            }
        }
        assert_eq!(found, total, "operation {countdown}: each event is there or in a gap");
    }
}

#[test]
fn a_disk_that_stays_full_leaves_a_readable_trace() {
    for countdown in 1.. {
        let storage = Failing::new(countdown, true);
        let result = write(&storage);
        if !storage.happened() {
            return;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("test: cannot "), "{error}");
        let trace = open(&storage).unwrap();
        for thread in [0, 1] {
            let read = events(&trace.shard(ThreadId(thread)), &Filter::default());
            let written = &small().shards[thread as usize];
            let known = |event: &&Event<String>| {
                written.contains(event) || matches!(event, Event::Gap(_) | Event::Marker(_))
            };
            assert_eq!(read.iter().filter(known).count(), read.len(), "operation {countdown}");
        }
    }
}

#[test]
fn every_read_may_fail() {
    let storage = Failing::new(i64::MAX, false);
    write(&storage).unwrap();
    let mut failures = 0;
    for countdown in 0.. {
        let source = Failing { countdown: Arc::new(AtomicI64::new(countdown)), ..storage.clone() };
        let result = Trace::open_on(Box::new(source.clone()), "test", Encoders::default(), Limits::default())
            .and_then(|trace| {
                for thread in [0, 1] {
                    trace
                        .shard(ThreadId(thread))
                        .events(&Filter::default())
                        .collect::<Result<Vec<_>, _>>()?;
                }
                trace.check()
            });
        if !source.happened() {
            assert!(result.unwrap().is_sound());
            break;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("test: cannot "), "{error}");
        failures += 1;
    }
    assert!(failures > 20);
}

#[test]
fn a_full_device_is_named() {
    let options = CreateOptions { force: true, ..Default::default() };
    let error = TraceWriter::create("/dev/full", options).unwrap_err().to_string();
    assert!(
        error.starts_with("/dev/full: cannot write the file header at offset 0: No space left"),
        "{error}"
    );
}
