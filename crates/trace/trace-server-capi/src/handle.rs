//! The objects behind the caller's pointers.

use std::ffi::c_void;
use std::sync::OnceLock;

use trace_format::EntryType;
use trace_server::{
    Client, DataReader, DataWriter, Engine, EngineOptions, EntryCursor, EntryReader, EntryWriter,
    Multiplexer, SharedWriter,
};

use crate::describe::Described;
use crate::{Failure, argument};

/// `memtap_client`.
pub(crate) struct CClient {
    pub(crate) client: Client,
    pub(crate) types: Vec<EntryType>,
    /// The stream that was described last.
    pub(crate) described: Option<Described>,
}

/// `memtap_writer`.
pub(crate) struct CWriter(pub(crate) EntryWriter);

/// `memtap_shared_writer`.
pub(crate) struct CSharedWriter(pub(crate) SharedWriter);

/// `memtap_reader`.
pub(crate) struct CReader {
    pub(crate) reader: EntryReader,
    /// The entries and the indices of the last batch.
    pub(crate) entries: HeldEntries,
    pub(crate) indices: Vec<u64>,
}

/// `memtap_data_writer`.
pub(crate) struct CDataWriter(pub(crate) DataWriter);

/// `memtap_data_reader`.
pub(crate) struct CDataReader {
    pub(crate) reader: DataReader,
    /// The last datum.
    pub(crate) datum: Vec<u8>,
}

/// Entries as C gets them: at an address that suits any type.
#[derive(Default)]
pub(crate) struct HeldEntries(Vec<u64>);

impl HeldEntries {
    pub(crate) fn hold(&mut self, bytes: &[u8]) -> *const c_void {
        self.0.clear();
        let (words, rest) = bytes.as_chunks::<8>();
        self.0.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.0.push(u64::from_ne_bytes(last));
        self.0.as_ptr().cast()
    }
}

/// `memtap_cursor`.
pub(crate) struct CCursor {
    pub(crate) cursor: EntryCursor,
    pub(crate) stream: u32,
    pub(crate) held: HeldEntries,
}

/// `memtap_multiplexer`.
pub(crate) struct CMultiplexer {
    pub(crate) multiplexer: Multiplexer,
    pub(crate) held: HeldEntries,
}

/// The server inside this process: one for all clients, so that threads can join sessions.
pub(crate) fn engine() -> Result<&'static Engine, Failure> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    if let Some(engine) = ENGINE.get() {
        return Ok(engine);
    }
    let engine = Engine::start(EngineOptions::default())?;
    Ok(ENGINE.get_or_init(|| engine))
}

/// # Safety
/// `handle` must be null or one that this library gave out, not closed, and not used by another thread during the call.
pub(crate) unsafe fn of<'a, T>(handle: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller promises that it is null, or live and used by nobody else.
    unsafe { handle.as_mut() }.ok_or_else(|| argument("the handle is null"))
}

/// Gives an object to the caller.
///
/// # Safety
/// `place` must be null or valid for a write.
pub(crate) unsafe fn give<T>(place: *mut *mut T, object: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(argument("the place for the handle is null"));
    }
    // SAFETY: not null, and a place is valid for the write.
    unsafe { place.write(Box::into_raw(Box::new(object))) };
    Ok(())
}

/// Takes an object back from the caller.
///
/// # Safety
/// `handle` must be null or one that [`give`] gave, which nobody uses any more.
pub(crate) unsafe fn take<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: it came from a box, and the caller gives it back once.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}
