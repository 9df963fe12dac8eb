//! What `check` finds where checksums hold: rules of the format that entries break.

use trace_format::{
    CreateOptions, Finding, ProcessRecord, StreamDescription, StreamKind, ThreadRecord, Trace, TraceWriter,
};

/// Frames are checked side by side, yet each goes on where the one before it ended.
#[test]
fn cycles_that_decrease_are_found_in_frames_and_between_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let marks = StreamDescription::of_kind(StreamKind::Orders, Some((process, thread)));
    let mut marks = writer.typed(marks, 2);
    let frames: [([u64; 2], bool); 6] = [
        ([1, 2], true),
        ([2, 3], true),
        // Before the last one of the frame before, and before the last one that was in order.
        ([1, 9], false),
        ([2, 4], false),
        ([5, 4], false),
        ([5, 6], true),
    ];
    for cycle in frames.iter().flat_map(|(cycles, _)| cycles) {
        let order = 0_u64;
        marks.push(*cycle, &[cycle.to_le_bytes(), order.to_le_bytes()].concat()).unwrap();
    }
    marks.flush().unwrap();
    writer.finish().unwrap();
    let report = Trace::open(&path).unwrap().check().unwrap();
    let mut found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| match finding {
            Finding::Invariant { offset, what, .. } => (*offset, *what == "its cycles decrease"),
            other => panic!("{other}"),
        })
        .collect();
    // Their headers tell of no orders, so there is something else to find of the others.
    found.sort_unstable();
    let expected: Vec<_> = frames.iter().map(|(_, is_in_order)| !is_in_order).collect();
    assert_eq!(found.iter().map(|(_, decrease)| *decrease).collect::<Vec<_>>(), expected);
}
