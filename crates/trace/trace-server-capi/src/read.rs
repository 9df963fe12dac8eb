//! Readers.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;

use memref::VirtAddr;
use trace_format::{Filter, KindSet};
use trace_server::{Entry, EntryCursor, Error, MergedEntry};

use crate::handle::{CClient, CCursor, CMultiplexer, CReader, HeldEntries, give, of, take};
use crate::{argument, put, status, text};

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

/// The filter that is meant; null asks for everything.
///
/// # Safety
/// `asked` must be null, or point to a filter that stays unchanged during the call.
unsafe fn filter_of(asked: *const CFilter) -> Filter {
    // SAFETY: the caller's promise.
    unsafe { asked.as_ref() }.map_or_else(Filter::default, filter)
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
        let filter = unsafe { filter_of(asked) };
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe {
            let opened = of(client)?.client.reader(stream, &filter)?;
            give(reader, CReader { reader: opened, entries: HeldEntries::default(), indices: Vec::new() })
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
        let held = entries.hold(got.bytes());
        let count = got.entries().len();
        indices.clear();
        indices.extend((0..count).map(|place| got.index(place)));
        let (next_index, end_index, lost) = (got.next_index(), got.end_index(), got.lost());
        let first_index = indices.first().copied().unwrap_or(next_index);
        // SAFETY: not null, and a place is valid for the write.
        unsafe { batch.write(CBatch { entries: held, count, first_index, next_index, end_index, lost }) };
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

/// `memtap_entry`.
#[repr(C)]
pub(crate) struct CEntry {
    entry: *const c_void,
    index: u64,
    stream: u32,
    bytes: u32,
}

impl CEntry {
    const NONE: Self = Self { entry: std::ptr::null(), index: u64::MAX, stream: 0, bytes: 0 };

    /// An entry that `held` keeps until the next one comes.
    fn held_by(held: &mut HeldEntries, stream: u32, index: u64, bytes: &[u8]) -> Self {
        Self { entry: held.hold(bytes), index, stream, bytes: bytes.len() as u32 }
    }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_cursor_open(
    client: *mut CClient,
    stream: u32,
    asked: *const CFilter,
    cursor: *mut *mut CCursor,
) -> c_int {
    let open = || {
        // SAFETY: a filter is null, or one that stays unchanged during the call.
        let filter = unsafe { filter_of(asked) };
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe {
            let opened = of(client)?.client.cursor(stream, &filter)?;
            give(cursor, CCursor { cursor: opened, stream, held: HeldEntries::default() })
        }
    };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_cursor_seek(cursor: *mut CCursor, index: u64) -> c_int {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    status(unsafe { of(cursor) }.map(|cursor| cursor.cursor.seek(index)))
}

/// Gives the entry that a cursor comes to.
///
/// # Safety
/// `cursor` must be null or live and used by nobody else, `place` null or valid for a write.
unsafe fn moved(
    cursor: *mut CCursor,
    place: *mut CEntry,
    step: impl for<'a> FnOnce(&'a mut EntryCursor) -> Result<Option<Entry<'a>>, Error>,
) -> c_int {
    let go = || {
        // SAFETY: the caller's promise.
        let CCursor { cursor, stream, held } = unsafe { of(cursor) }?;
        let entry = step(cursor)?
            .map_or(CEntry::NONE, |Entry { index, bytes }| CEntry::held_by(held, *stream, index, bytes));
        // SAFETY: the caller's promise.
        unsafe { put(place, entry) };
        Ok(())
    };
    status(go())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_cursor_next(cursor: *mut CCursor, place: *mut CEntry) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
    unsafe { moved(cursor, place, EntryCursor::next_entry) }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_cursor_previous(cursor: *mut CCursor, place: *mut CEntry) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
    unsafe { moved(cursor, place, EntryCursor::previous_entry) }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_cursor_close(cursor: *mut CCursor) {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    drop(unsafe { take(cursor) });
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_multiplexer_open(
    client: *mut CClient,
    streams: *const u32,
    count: usize,
    field: *const c_char,
    asked: *const CFilter,
    multiplexer: *mut *mut CMultiplexer,
) -> c_int {
    let open = || {
        if streams.is_null() || count == 0 {
            return Err(argument("there are no streams to multiplex"));
        }
        // SAFETY: not null, and an array has as many streams as its count says.
        let streams = unsafe { std::slice::from_raw_parts(streams, count) };
        let field = if field.is_null() {
            None
        } else {
            // SAFETY: not null, and a text ends with a zero byte.
            Some(unsafe { text(field, "the name of the field") }?)
        };
        // SAFETY: a filter is null, or one that stays unchanged during the call.
        let filter = unsafe { filter_of(asked) };
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe {
            let opened = of(client)?.client.multiplexer(streams, field, &filter)?;
            give(multiplexer, CMultiplexer { multiplexer: opened, held: HeldEntries::default() })
        }
    };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_multiplexer_next(
    multiplexer: *mut CMultiplexer,
    place: *mut CEntry,
) -> c_int {
    let next = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let CMultiplexer { multiplexer, held } = unsafe { of(multiplexer) }?;
        let entry = multiplexer.next_entry()?.map_or(CEntry::NONE, |MergedEntry { stream, index, bytes }| {
            CEntry::held_by(held, stream, index, bytes)
        });
        // SAFETY: a place is null or valid for the write.
        unsafe { put(place, entry) };
        Ok(())
    };
    status(next())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_multiplexer_close(multiplexer: *mut CMultiplexer) {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    drop(unsafe { take(multiplexer) });
}
