//! What a stream contains, as it was declared.

use std::ffi::{CString, c_char, c_int};

use trace_format::StreamDescription;

use crate::handle::{CClient, of};
use crate::session::CField;
use crate::{argument, c_text, put, status};

/// No process, or no thread.
const NONE: u32 = u32::MAX;
const IS_DATA: u32 = 1;
const IS_HIDDEN: u32 = 2;

/// `memtap_stream_description`.
#[repr(C)]
pub(crate) struct CDescription {
    guid: [u8; 16],
    name: *const c_char,
    type_name: *const c_char,
    fields: *const CField,
    field_count: usize,
    entry_bytes: u32,
    process: u32,
    thread: u32,
    flags: u32,
}

/// What a description that C has points to.
pub(crate) struct Described {
    name: CString,
    type_name: CString,
    _field_names: Vec<CString>,
    fields: Vec<CField>,
}

impl Described {
    fn new(description: &StreamDescription) -> Self {
        let fields = &description.entry_type.fields;
        let names: Vec<CString> = fields.iter().map(|field| c_text(&field.name)).collect();
        let fields = fields.iter().zip(&names).map(|(field, name)| CField::new(field, name)).collect();
        Self {
            name: c_text(&description.name),
            type_name: c_text(&description.entry_type.name),
            _field_names: names,
            fields,
        }
    }
}

/// # Safety
/// The promises at the head of `lib.rs` hold for the arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_stream_describe(
    client: *mut CClient,
    stream: u32,
    place: *mut CDescription,
) -> c_int {
    let describe = || {
        // SAFETY: a handle is null or live, and used by nobody else during the call.
        let client = unsafe { of(client) }?;
        let streams = client.client.streams()?;
        let found = streams.iter().find(|known| known.number == stream);
        let description = &found.ok_or_else(|| argument("the trace has no such stream"))?.description;
        let described = client.described.insert(Described::new(description));
        let owner = |number: Option<u32>| number.unwrap_or(NONE);
        let c_description = CDescription {
            guid: description.entry_type.guid.0,
            name: described.name.as_ptr(),
            type_name: described.type_name.as_ptr(),
            fields: described.fields.as_ptr(),
            field_count: described.fields.len(),
            entry_bytes: description.entry_type.entry_bytes,
            process: owner(description.process.map(|process| process.0)),
            thread: owner(description.thread.map(|thread| thread.0)),
            flags: if description.variable { IS_DATA } else { 0 }
                | if description.hidden { IS_HIDDEN } else { 0 },
        };
        // SAFETY: a place is null or valid for the write.
        unsafe { put(place, c_description) };
        Ok(())
    };
    status(describe())
}
