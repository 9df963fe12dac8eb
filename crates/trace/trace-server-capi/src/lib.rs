//! `libmemtap.so`: the trace store's client library for C. Its documentation is the header, `include/memtap_client.h`.
//!
//! It only does this: pointers are checked for null, text is checked for UTF-8, and each call
//! becomes one of `trace_server::Client`. Errors are numbers, with a text that the thread keeps.
//!
//! What can't be checked, every caller guarantees by including the header.
//! `# Safety` sections and `SAFETY` lines refer to these guarantees:
//!
//! - A *handle* is null, or came from this library and was not closed; one thread uses it at a time, except for shared writers.
//! - A *text* is null, or ends with a zero byte and stays unchanged during the call.
//! - A *place* for a result is null, or valid for a write of its type.
//! - An *array* has as many elements as the accompanying count says, and they stay unchanged during the call.

mod data;
mod describe;
mod handle;
mod read;
mod session;
mod write;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use trace_format::Guid;
use trace_server::Error;

/// A null pointer, text that is not UTF-8, a length that does not fit.
const ARGUMENT: c_int = 100;
/// There is no server, or it is gone.
const CHANNEL: c_int = 101;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// A failure: its number and its text.
struct Failure(c_int, String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Refused { reason, .. } => *reason as c_int,
            Error::Usage { .. } | Error::Address { .. } | Error::Token { .. } => ARGUMENT,
            _ => CHANNEL,
        };
        Self(code, error.to_string())
    }
}

fn argument(text: &str) -> Failure {
    Failure(ARGUMENT, text.into())
}

/// Remembers a failure's text, and gives its number.
fn remember(Failure(code, text): Failure) -> c_int {
    LAST.with_borrow_mut(|last| *last = c_text(&text));
    code
}

/// A text for C, with spaces for the zeros inside of it.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn status(result: Result<(), Failure>) -> c_int {
    result.map_or_else(remember, |()| 0)
}

/// # Safety
/// `text` must be null or a string that ends with a zero and stays unchanged during the call.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(argument(&format!("{what} is null")));
    }
    // SAFETY: not null, and a text ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| argument(&format!("{what} is not UTF-8")))
}

/// # Safety
/// `guid` must be null or point to 16 bytes.
unsafe fn guid_at(guid: *const u8) -> Result<Guid, Failure> {
    if guid.is_null() {
        return Err(argument("the GUID is null"));
    }
    // SAFETY: not null, and the caller promises 16 bytes.
    Ok(Guid(unsafe { guid.cast::<[u8; 16]>().read_unaligned() }))
}

/// Stores a result where the caller wants it; a null place is not wanted.
///
/// # Safety
/// `place` must be null or valid for a write.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and a place is valid for the write.
        unsafe { place.write(value) };
    }
}

/// The text of the thread's last failure.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn memtap_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
