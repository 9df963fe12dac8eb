//! Tests that a frame of accesses begins when these could first have been made: after the buffer before them was read, or when their
//! process began.

use std::sync::Arc;

use buffers::Content;
use memref::ThreadId;
use trace_format::{CreateOptions, Encoders, Filter, Trace, TraceWriter};
use trace_server::Workers;

use super::gathered::HeldBuffer;
use super::tests::{buffer, define};
use super::{Contents, Sink};
use crate::store::memory_plan::MemoryPlan;

const BEGAN: u64 = 50;

/// Begins of the frames of a thread, whose buffers have these numbers and were read at these times; the frame is full after each.
fn check(workers: usize, is_behind: bool, read: &[(u32, u64)], expect: &[u64]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.memtap");
    let mut memory = MemoryPlan::new(None, 2);
    (memory.frame_bytes, memory.piece_buffers) = (1, 2);
    let options =
        CreateOptions { encoder: Some(Encoders::BLOCKS), frame_bytes: 1, ..CreateOptions::default() };
    let trace = TraceWriter::create(&path, options).unwrap();
    let contents = Contents { regions: u32::MAX, data: false, flow: false, verify: false };
    let some_workers = (workers > 0).then(|| Arc::new(Workers::start(workers)));
    let mut sink = Sink::new(trace.clone(), contents, some_workers, memory, None);
    sink.add_process(0, std::process::id(), None, BEGAN).unwrap();
    sink.add_process(1, std::process::id(), Some(0), BEGAN).unwrap();
    define(&mut sink);
    for &(sequence, read_ns) in read {
        let words = buffer(1 + 10 * u64::from(sequence));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut held = HeldBuffer::of(&bytes);
        held.read_ns = read_ns;
        sink.fall_behind(is_behind);
        sink.take(0, 0, 1, sequence, Content::Flow, held).unwrap();
        sink.enter_coded().unwrap();
    }
    sink.settle(0).unwrap();
    sink.finish().unwrap();
    drop(sink);
    trace.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let frames = trace.shard(ThreadId(0)).access_frames(&Filter::default());
    // A buffer may be several frames.
    let mut begins: Vec<u64> = frames.iter().map(|frame| frame.bounds.wall_ns.min).collect();
    begins.dedup();
    assert_eq!(begins, expect, "{workers} workers, {is_behind}, {read:?}");
}

#[test]
fn a_frame_begins_when_the_buffer_before_it_was_read() {
    let read = [(0, 100), (1, 200), (2, 300), (3, 400), (4, 500)];
    for (workers, is_behind) in [(0, false), (1, true), (2, true), (2, false)] {
        check(workers, is_behind, &read, &[BEGAN, 100, 200, 300, 400]);
    }
}

#[test]
fn a_frame_begins_before_its_buffer_was_read_that_came_too_early() {
    check(0, false, &[(0, 100), (2, 200), (1, 300)], &[BEGAN, 100, 200]);
}
