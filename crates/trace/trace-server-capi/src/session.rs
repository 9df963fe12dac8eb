//! Clients, sessions, traces, types and streams.

use std::ffi::{CStr, c_char, c_int};

use memref::{ProcessId, ThreadId};
use trace_format::{EntryType, Field, FieldRole, StreamDescription};
use trace_server::{Address, By, Client, EntryStream, OpenMode, SyncWhen, TraceOptions};

use crate::handle::{CClient, engine, give, of, take};
use crate::{Failure, argument, guid_at, put, status, text};

const REPLACE: u32 = 1;
const SYNC_NEVER: u32 = 2;
const SYNC_EACH_FLUSH: u32 = 4;

/// `memtap_field`.
#[repr(C)]
pub(crate) struct CField {
    name: *const c_char,
    offset: u16,
    bytes: u8,
    role: u8,
}

impl CField {
    /// With a name that lives as long as the field is used.
    pub(crate) fn new(field: &Field, name: &CStr) -> Self {
        Self { name: name.as_ptr(), offset: field.offset, bytes: field.bytes, role: field.role as u8 }
    }
}

/// `memtap_stream_info`.
#[repr(C)]
pub(crate) struct CStreamInfo {
    stream: u32,
    entry_bytes: u32,
    entries: u64,
    stored_bytes: u64,
    first_cycle: u64,
    last_cycle: u64,
    first_wall_ns: u64,
    last_wall_ns: u64,
    name: [u8; 64],
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_connect(
    url: *const c_char,
    token: *const c_char,
    client: *mut *mut CClient,
) -> c_int {
    let connect = || {
        let connected = if url.is_null() {
            Client::embedded(engine()?)
        } else {
            // SAFETY: a text is null or ends with a zero byte.
            let address: Address = unsafe { text(url, "the url") }?.parse()?;
            // SAFETY: not null, and a text ends with a zero byte.
            let token = if token.is_null() { None } else { Some(unsafe { text(token, "the token") }?) };
            Client::connect(&address, token)?
        };
        // SAFETY: a place is null or valid for the write.
        unsafe { give(client, CClient { client: connected, types: Vec::new(), described: None }) }
    };
    status(connect())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_disconnect(client: *mut CClient) {
    // SAFETY: a handle is null or live; the caller gives it back here and never uses it again.
    drop(unsafe { take(client) });
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_session_create(
    client: *mut CClient,
    name: *const c_char,
    session: *mut u64,
) -> c_int {
    let create = || {
        // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte, a place is null or valid.
        unsafe {
            let number = of(client)?.client.create_session(text(name, "the name")?)?;
            put(session, number);
        }
        Ok(())
    };
    status(create())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_session_open(client: *mut CClient, session: u64) -> c_int {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    status(unsafe { of(client) }.and_then(|client| Ok(client.client.open_session(session)?)))
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_session_leave(client: *mut CClient) -> c_int {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    status(unsafe { of(client) }.and_then(|client| Ok(client.client.leave_session()?)))
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_trace_create(
    client: *mut CClient,
    specifier: *const c_char,
    flags: u32,
    segment_entries: u32,
) -> c_int {
    let create = || {
        if flags & !(REPLACE | SYNC_NEVER | SYNC_EACH_FLUSH) != 0 {
            return Err(argument("there are no such flags"));
        }
        let sync = match flags & (SYNC_NEVER | SYNC_EACH_FLUSH) {
            0 => SyncWhen::Closed,
            SYNC_NEVER => SyncWhen::Never,
            _ => SyncWhen::Flushed,
        };
        let options = TraceOptions { replace: flags & REPLACE != 0, sync, segment_entries };
        // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
        let (client, specifier) = unsafe { (of(client)?, text(specifier, "the specifier")?) };
        Ok(client.client.create_trace(specifier, &options)?)
    };
    status(create())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
unsafe fn open(client: *mut CClient, specifier: *const c_char, mode: OpenMode) -> Result<(), Failure> {
    // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
    let (client, specifier) = unsafe { (of(client)?, text(specifier, "the specifier")?) };
    Ok(client.client.open_trace(specifier, mode)?)
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_trace_open(client: *mut CClient, specifier: *const c_char) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
    status(unsafe { open(client, specifier, OpenMode::Read) })
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_trace_append(client: *mut CClient, specifier: *const c_char) -> c_int {
    // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
    status(unsafe { open(client, specifier, OpenMode::Append) })
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_trace_close(client: *mut CClient, file_bytes: *mut u64) -> c_int {
    let close = || {
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe { put(file_bytes, of(client)?.client.close_trace()?) };
        Ok(())
    };
    status(close())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_property(
    client: *mut CClient,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    let add = || {
        // SAFETY: a handle is null or live and used by nobody else, texts are null or end with a zero byte.
        let (client, key, value) = unsafe { (of(client)?, text(key, "the key")?, text(value, "the value")?) };
        Ok(client.client.add_property(key, value)?)
    };
    status(add())
}

fn add_type(client: &mut CClient, entry_type: EntryType) -> u32 {
    client.types.push(entry_type);
    client.types.len() as u32
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_type_register(
    client: *mut CClient,
    guid: *const u8,
    name: *const c_char,
    entry_bytes: u32,
    fields: *const CField,
    field_count: usize,
    number: *mut u32,
) -> c_int {
    let register = || {
        // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
        let (client, name) = unsafe { (of(client)?, text(name, "the name")?) };
        if fields.is_null() && field_count > 0 {
            return Err(argument("the fields are null"));
        }
        // SAFETY: a GUID is null or has 16 bytes.
        let guid = unsafe { guid_at(guid) }?;
        let fields = if field_count == 0 {
            &[]
        } else {
            // SAFETY: not null, and an array has as many fields as its count says.
            unsafe { std::slice::from_raw_parts(fields, field_count) }
        };
        let fields = fields.iter().map(|field| {
            let role = match field.role {
                0 => FieldRole::Plain,
                1 => FieldRole::Growing,
                2 => FieldRole::Address,
                _ => return Err(argument("there is no such role of a field")),
            };
            // SAFETY: a text is null or ends with a zero byte.
            let name = unsafe { text(field.name, "the name of a field") }?.to_owned();
            Ok(Field { name, offset: field.offset, bytes: field.bytes, role })
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let entry_type = EntryType { guid, name: name.into(), entry_bytes, fields };
        // What the server would call malformed, said better.
        let probe = EntryStream::new("", entry_type.clone());
        if trace_format::StreamDescription::from_bytes(&probe.to_bytes()).is_none() {
            let what = "entries have 1 to 4096 bytes; fields have 1, 2, 4 or 8 bytes, lie inside and come in their order";
            return Err(argument(what));
        }
        // SAFETY: a place is null or valid for the write.
        unsafe { put(number, add_type(client, entry_type)) };
        Ok(())
    };
    status(register())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_type_own(
    client: *mut CClient,
    name: *const c_char,
    number: *mut u32,
) -> c_int {
    let own = || {
        // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
        let (client, name) = unsafe { (of(client)?, text(name, "the name")?) };
        let entry_type = EntryType::own(name)
            .ok_or_else(|| argument(&format!("{name}: memtap has no type of that name")))?;
        // SAFETY: a place is null or valid for the write.
        unsafe { put(number, add_type(client, entry_type)) };
        Ok(())
    };
    status(own())
}

/// Adds a stream of a known type, with what `describe` says of it.
///
/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
unsafe fn register(
    client: *mut CClient,
    name: *const c_char,
    number: u32,
    stream: *mut u32,
    describe: impl FnOnce(&mut StreamDescription),
) -> c_int {
    let register = || {
        // SAFETY: a handle is null or live and used by nobody else, a text is null or ends with a zero byte.
        let (client, name) = unsafe { (of(client)?, text(name, "the name")?) };
        let known = (number as usize).checked_sub(1).and_then(|place| client.types.get(place));
        let entry_type = known.ok_or_else(|| argument("there is no such type"))?.clone();
        let mut description = EntryStream::new(name, entry_type);
        describe(&mut description);
        let number = client.client.add_stream(&description)?;
        // SAFETY: a place is null or valid for the write.
        unsafe { put(stream, number) };
        Ok(())
    };
    status(register())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_stream_register(
    client: *mut CClient,
    name: *const c_char,
    number: u32,
    stream: *mut u32,
) -> c_int {
    // SAFETY: these are this function's own arguments, with the caller's promises for them.
    unsafe { register(client, name, number, stream, |_| ()) }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_thread_stream_register(
    client: *mut CClient,
    name: *const c_char,
    number: u32,
    process: u32,
    thread: u32,
    stream: *mut u32,
) -> c_int {
    let of_thread = |description: &mut StreamDescription| {
        description.process = Some(ProcessId(process));
        description.thread = Some(ThreadId(thread));
    };
    // SAFETY: these are this function's own arguments, with the caller's promises for them.
    unsafe { register(client, name, number, stream, of_thread) }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_streams(
    client: *mut CClient,
    infos: *mut CStreamInfo,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    let list = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let streams = unsafe { of(client) }?.client.streams()?;
        if infos.is_null() && capacity > 0 {
            return Err(argument("the place for the streams is null"));
        }
        for (place, stream) in streams.iter().take(capacity).enumerate() {
            let mut name = [0; 64];
            let full = &stream.description.name;
            let cut = full.floor_char_boundary(63);
            name[..cut].copy_from_slice(&full.as_bytes()[..cut]);
            let info = CStreamInfo {
                stream: stream.number,
                entry_bytes: stream.description.entry_type.entry_bytes,
                entries: stream.entries,
                stored_bytes: stream.stored_bytes,
                first_cycle: stream.cycles.min,
                last_cycle: stream.cycles.max,
                first_wall_ns: stream.wall_ns.min,
                last_wall_ns: stream.wall_ns.max,
                name,
            };
            // SAFETY: not null, and an array has as many elements as `capacity` says.
            unsafe { infos.add(place).write(info) };
        }
        // SAFETY: a place is null or valid for the write.
        unsafe { put(count, streams.len()) };
        Ok(())
    };
    status(list())
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_flush(client: *mut CClient, sync: c_int) -> c_int {
    // SAFETY: a handle is null or live, and used by nobody else during the call.
    status(unsafe { of(client) }.and_then(|client| Ok(client.client.flush(sync != 0)?)))
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_seek(
    client: *mut CClient,
    stream: u32,
    by: c_int,
    value: u64,
    index: *mut u64,
) -> c_int {
    let seek = || {
        let by = match by {
            0 => By::Index,
            1 => By::Cycle,
            2 => By::WallNs,
            _ => return Err(argument("a seek goes by index, cycle or wall clock")),
        };
        // SAFETY: a handle is null or live and used by nobody else, a place is null or valid for the write.
        unsafe { put(index, of(client)?.client.seek(stream, by, value)?) };
        Ok(())
    };
    status(seek())
}
