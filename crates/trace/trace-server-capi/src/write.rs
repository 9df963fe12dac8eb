//! Writers.

use std::ffi::{c_int, c_void};

use crate::handle::{CClient, CSharedWriter, CWriter, give, of, take};
use crate::{argument, remember, status};

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_writer_open(
    client: *mut CClient,
    stream: u32,
    writer: *mut *mut CWriter,
) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
    let open = || unsafe { give(writer, CWriter(of(client)?.client.writer(stream)?)) };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_next_entry(writer: *mut CWriter) -> *mut c_void {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    let next = unsafe { of(writer) }.and_then(|writer| Ok(writer.0.next_entry()?));
    match next {
        Ok(place) => place.cast(),
        Err(failure) => {
            remember(failure);
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_submit(writer: *mut CWriter) {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    if let Ok(writer) = unsafe { of(writer) } {
        writer.0.commit();
    }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_write(
    writer: *mut CWriter,
    entries: *const c_void,
    count: usize,
) -> c_int {
    let write = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let writer = unsafe { of(writer) }?;
        if count == 0 {
            return Ok(());
        }
        let bytes = count.checked_mul(writer.0.entry_bytes()).filter(|_| !entries.is_null());
        let bytes = bytes.ok_or_else(|| argument("the entries are null, or too many"))?;
        // SAFETY: not null, and an array has as many entries as its count says.
        Ok(writer.0.push_all(unsafe { std::slice::from_raw_parts(entries.cast(), bytes) })?)
    };
    status(write())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_writer_close(writer: *mut CWriter) -> c_int {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    let taken = unsafe { take(writer) };
    status(taken.map_or(Ok(()), |writer| Ok(writer.0.close()?)))
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_shared_writer_open(
    client: *mut CClient,
    stream: u32,
    writer: *mut *mut CSharedWriter,
) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
    let open = || unsafe { give(writer, CSharedWriter(of(client)?.client.shared_writer(stream)?)) };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_shared_write(
    writer: *const CSharedWriter,
    entry: *const c_void,
    bytes: usize,
) -> c_int {
    let write = || {
        // SAFETY: a shared writer's handle is null or live; others may use it too, and it is only read.
        let writer = unsafe { writer.as_ref() }.ok_or_else(|| argument("the handle is null"))?;
        if entry.is_null() {
            return Err(argument("the entry is null"));
        }
        // SAFETY: not null, and an array has as many bytes as its count says.
        Ok(writer.0.push(unsafe { std::slice::from_raw_parts(entry.cast(), bytes) })?)
    };
    status(write())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_shared_writer_close(writer: *mut CSharedWriter) -> c_int {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    let taken = unsafe { take(writer) };
    status(taken.map_or(Ok(()), |writer| Ok(writer.0.close()?)))
}
