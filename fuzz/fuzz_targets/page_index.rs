//! Any entries in a page index whose checksums and key hold: believed or refused, and asked, within the memory that its trace allows.
#![no_main]

use std::io;
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use memref::VirtAddr;
use trace_format::{
    CreateOptions, Encoders, Filter, Limits, PageIndex, Storage, StreamDescription, StreamKind, Trace, TraceWriter,
};

const TRACE: &[u8] = include_bytes!("../../crates/trace/trace-format/tests/golden/v3.memtap");
const INDEX: &[u8] = include_bytes!("../../crates/trace/trace-format/tests/golden/v3.memtap.mtx");
const ENTRY_BYTES: usize = 48;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Storage for Memory {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock().unwrap();
        file.truncate(offset as usize);
        file.extend_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, len_bytes: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(len_bytes as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(bytes: &[u8]) -> Trace {
    Trace::open_on(Box::new(bytes.to_vec()), "fuzz", Encoders::default(), Limits::default()).expect("a golden file")
}

/// The entries of a stream of the golden index, with bytes changed.
fn entries(index: &Trace, kind: StreamKind, changes: &[(u16, u8)], more: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(mut cursor) = index.typed(kind, None) {
        while let Ok(Some(frame)) = cursor.next_frame() {
            all.extend_from_slice(frame.bytes);
        }
    }
    all.extend_from_slice(&more[..more.len() / ENTRY_BYTES * ENTRY_BYTES]);
    for &(at, to) in changes {
        if let Some(byte) = all.get_mut(usize::from(at)) {
            *byte = to;
        }
    }
    all
}

fuzz_target!(|input: ([(Vec<(u16, u8)>, Vec<u8>); 3], u64, u64)| {
    let (streams, start, end) = input;
    let (trace, golden) = (open(TRACE), open(INDEX));
    let memory = Memory::default();
    let writer = TraceWriter::create_on(Box::new(memory.clone()), "fuzz", CreateOptions::default()).unwrap();
    for (key, value) in golden.properties() {
        writer.set_property(key, value).unwrap();
    }
    let kinds = [StreamKind::PageCells, StreamKind::IndexedFrames, StreamKind::PageTotals];
    for (kind, (changes, more)) in kinds.into_iter().zip(&streams) {
        let mut stream = writer.typed(StreamDescription::of_kind(kind, None), 1 << 16);
        stream.push(0, &entries(&golden, kind, changes, more)).unwrap();
        stream.flush().unwrap();
    }
    writer.finish().unwrap();
    let bytes = memory.0.lock().unwrap().clone();
    let Ok(index) = PageIndex::of_file(&trace, open(&bytes)) else { return };
    let filter = Filter { addresses: vec![VirtAddr(start)..VirtAddr(end)], ..Filter::default() };
    let _ = (index.totals(), index.cells(), index.frames_touching(&filter), index.unreadable_entries());
});
