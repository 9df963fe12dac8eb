//! Readers.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use memref::VirtAddr;
use trace_format::{Filter, KindSet};

use crate::handle::{CClient, CReader, give, of, take};
use crate::{argument, status};

/// `memtap_filter`.
#[repr(C)]
pub(crate) struct CFilter {
    cycles: [u64; 2],
    wall_ns: [u64; 2],
    addresses: [u64; 2],
    ips: [u64; 2],
    kinds: u32,
}

/// `memtap_batch`.
#[repr(C)]
pub(crate) struct CBatch {
    entries: *const c_void,
    count: usize,
    first_index: u64,
    next_index: u64,
    end_index: u64,
    lost: u64,
}

fn range([from, to]: [u64; 2]) -> Option<Range<u64>> {
    (from != 0 || to != 0).then_some(from..to)
}

fn filter(asked: &CFilter) -> Filter {
    let addresses =
        |asked| range(asked).into_iter().map(|range| VirtAddr(range.start)..VirtAddr(range.end)).collect();
    Filter {
        index: None,
        cycles: range(asked.cycles),
        wall_ns: range(asked.wall_ns),
        kinds: if asked.kinds == 0 { KindSet::ALL } else { KindSet(asked.kinds) },
        addresses: addresses(asked.addresses),
        ips: addresses(asked.ips),
    }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_reader_open(
    client: *mut CClient,
    stream: u32,
    asked: *const CFilter,
    reader: *mut *mut CReader,
) -> c_int {
    let open = || {
        // SAFETY: a filter is null, or one that stays unchanged during the call.
        let filter = unsafe { asked.as_ref() }.map_or_else(Filter::default, filter);
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe {
            let opened = of(client)?.client.reader(stream, &filter)?;
            give(reader, CReader { reader: opened, entries: Vec::new(), indices: Vec::new() })
        }
    };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_read(
    reader: *mut CReader,
    index: u64,
    most: u32,
    batch: *mut CBatch,
) -> c_int {
    let read = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let CReader { reader, entries, indices } = unsafe { of(reader) }?;
        if batch.is_null() {
            return Err(argument("the place for the batch is null"));
        }
        let got = reader.read(index, most)?;
        // As words, so that entries are aligned as C expects.
        entries.clear();
        let (words, rest) = got.bytes().as_chunks::<8>();
        entries.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        entries.push(u64::from_ne_bytes(last));
        let count = got.entries().len();
        indices.clear();
        indices.extend((0..count).map(|place| got.index(place)));
        let (next_index, end_index, lost) = (got.next_index(), got.end_index(), got.lost());
        let first_index = indices.first().copied().unwrap_or(next_index);
        let entries = entries.as_ptr().cast();
        // SAFETY: not null, and a place is valid for the write.
        unsafe { batch.write(CBatch { entries, count, first_index, next_index, end_index, lost }) };
        Ok(())
    };
    status(read())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_entry_index(reader: *const CReader, place: usize) -> u64 {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    let reader = unsafe { reader.as_ref() };
    reader.and_then(|reader| reader.indices.get(place)).copied().unwrap_or(u64::MAX)
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_reader_close(reader: *mut CReader) {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    drop(unsafe { take(reader) });
}
