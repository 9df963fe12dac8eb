//! Data of any length.

use std::ffi::{c_char, c_int, c_void};

use trace_server::EntryStream;

use crate::handle::{CClient, CDataReader, CDataWriter, give, of, take};
use crate::{argument, guid_at, put, status, text};

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_stream_register(
    client: *mut CClient,
    guid: *const u8,
    name: *const c_char,
    stream: *mut u32,
) -> c_int {
    let register = || {
        // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
        let (client, name) = unsafe { (of(client)?, text(name, "the name")?) };
        // SAFETY: a GUID is null or has 16 bytes.
        let guid = unsafe { guid_at(guid) }?;
        let number = client.client.add_stream(&EntryStream::of_data(name, guid))?;
        // SAFETY: a place is null or valid for the write.
        unsafe { put(stream, number) };
        Ok(())
    };
    status(register())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_writer_open(
    client: *mut CClient,
    stream: u32,
    writer: *mut *mut CDataWriter,
) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
    let open = || unsafe { give(writer, CDataWriter(of(client)?.client.data_writer(stream)?)) };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_write(
    writer: *mut CDataWriter,
    data: *const c_void,
    bytes: usize,
    reference: *mut u64,
) -> c_int {
    let write = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let writer = unsafe { of(writer) }?;
        let data = match (data.is_null(), bytes) {
            (_, 0) => &[],
            (true, _) => return Err(argument("the data are null")),
            // SAFETY: not null, and an array has as many bytes as its count says.
            (false, bytes) => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) },
        };
        let written = writer.0.push(data)?;
        // SAFETY: a place is null or valid for the write.
        unsafe { put(reference, written) };
        Ok(())
    };
    status(write())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_writer_close(writer: *mut CDataWriter) -> c_int {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    let taken = unsafe { take(writer) };
    status(taken.map_or(Ok(()), |writer| Ok(writer.0.close()?)))
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_reader_open(
    client: *mut CClient,
    stream: u32,
    reader: *mut *mut CDataReader,
) -> c_int {
    let open = || {
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe {
            let opened = of(client)?.client.data_reader(stream)?;
            give(reader, CDataReader { reader: opened, datum: Vec::new() })
        }
    };
    status(open())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_read(
    reader: *mut CDataReader,
    reference: u64,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> c_int {
    let read = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let CDataReader { reader, datum } = unsafe { of(reader) }?;
        let got = reader.get(reference)?;
        let (place, len) = match got {
            Some(got) => {
                *datum = got;
                let bytes = datum.len();
                datum.push(0);
                (datum.as_ptr().cast(), bytes)
            }
            None => (std::ptr::null(), 0),
        };
        // SAFETY: places are null or valid for the writes.
        unsafe {
            put(data, place);
            put(bytes, len);
        }
        Ok(())
    };
    status(read())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_data_reader_close(reader: *mut CDataReader) {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    drop(unsafe { take(reader) });
}
