//! Writers.

use std::ffi::{c_int, c_void};

use crate::handle::{CClient, CSharedWriter, CWriter, give, of, take};
use crate::{argument, remember, status};

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_writer_open(
    client: *mut CClient,
    stream: u32,
    writer: *mut *mut CWriter,
) -> c_int {
    // SAFETY: the caller's handle and place.
    let open = || unsafe { give(writer, CWriter(of(client)?.client.writer(stream)?)) };
    status(open())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_next_entry(writer: *mut CWriter) -> *mut c_void {
    // SAFETY: the caller's handle.
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
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_submit(writer: *mut CWriter) {
    // SAFETY: the caller's handle.
    if let Ok(writer) = unsafe { of(writer) } {
        writer.0.commit();
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_write(
    writer: *mut CWriter,
    entries: *const c_void,
    count: usize,
) -> c_int {
    let write = || {
        // SAFETY: the caller's handle.
        let writer = unsafe { of(writer) }?;
        if count == 0 {
            return Ok(());
        }
        let bytes = count.checked_mul(writer.0.entry_bytes()).filter(|_| !entries.is_null());
        let bytes = bytes.ok_or_else(|| argument("the entries are null, or too many"))?;
        // SAFETY: not null, and the header asks for that many entries.
        Ok(writer.0.push_all(unsafe { std::slice::from_raw_parts(entries.cast(), bytes) })?)
    };
    status(write())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_writer_close(writer: *mut CWriter) -> c_int {
    // SAFETY: the caller's handle, for the last time.
    let taken = unsafe { take(writer) };
    status(taken.map_or(Ok(()), |writer| Ok(writer.0.close()?)))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_shared_writer_open(
    client: *mut CClient,
    stream: u32,
    writer: *mut *mut CSharedWriter,
) -> c_int {
    // SAFETY: the caller's handle and place.
    let open = || unsafe { give(writer, CSharedWriter(of(client)?.client.shared_writer(stream)?)) };
    status(open())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_shared_write(
    writer: *const CSharedWriter,
    entry: *const c_void,
    bytes: usize,
) -> c_int {
    let write = || {
        // SAFETY: the caller's handle; it may be shared, and is only read.
        let writer = unsafe { writer.as_ref() }.ok_or_else(|| argument("the handle is null"))?;
        if entry.is_null() {
            return Err(argument("the entry is null"));
        }
        // SAFETY: not null, and the header asks for that many bytes.
        Ok(writer.0.push(unsafe { std::slice::from_raw_parts(entry.cast(), bytes) })?)
    };
    status(write())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_shared_writer_close(writer: *mut CSharedWriter) -> c_int {
    // SAFETY: the caller's handle, for the last time.
    let taken = unsafe { take(writer) };
    status(taken.map_or(Ok(()), |writer| Ok(writer.0.close()?)))
}
