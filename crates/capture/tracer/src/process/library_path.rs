//! The path by which the loader of another program finds this library: its own path, or, where that no longer
//! leads to the library (another root directory, other mounts), the path of a descriptor that was opened earlier.

use core::ffi::CStr;
use core::fmt::Write;

use tracee::sys;
use tracee::text::Text;

use crate::process::kept_descriptor::KeptDescriptor;
use crate::state::process::PROCESS;

/// The way to a descriptor.
const DESCRIPTORS: &[u8] = b"/proc/self/fd/";
static LIBRARY: KeptDescriptor = KeptDescriptor::none();

/// The program is about to change what paths mean.
pub(crate) fn keep() {
    if LIBRARY.number().is_none()
        && let Some(file) = own().and_then(sys::open_read)
    {
        LIBRARY.keep(&file);
    }
}

/// The loader was given that path: where it is that of a descriptor, it is kept for the programs that this one starts.
pub(crate) fn adopt(path: &CStr) {
    let number = path.to_bytes().strip_prefix(DESCRIPTORS).and_then(|rest| proc_files::number(rest, 10));
    if let Some((number, _)) = number {
        LIBRARY.adopt(number as i32);
    }
}

fn own() -> Option<&'static CStr> {
    CStr::from_bytes_until_nul(&PROCESS.settings().library).ok().filter(|path| !path.is_empty())
}

/// Whether the library's own path leads to it.
pub(crate) fn is_at_its_path() -> bool {
    own().is_some_and(sys::can_read)
}

/// The path for a program that is about to be executed; `None` where there is none.
pub(crate) fn for_exec() -> Option<Text<1024>> {
    let mut path = Text::new();
    if let Some(own) = own().filter(|path| sys::can_read(path)) {
        path.push(own.to_bytes());
        return Some(path);
    }
    path.push(DESCRIPTORS);
    write!(path, "{}", LIBRARY.number()?).ok()?;
    let mut terminated = path;
    terminated.push(b"\0");
    let is_there = CStr::from_bytes_until_nul(terminated.as_bytes()).is_ok_and(sys::can_read);
    (is_there && LIBRARY.for_exec().is_some()).then_some(path)
}

/// That program was not executed.
pub(crate) fn after_failed_exec() {
    LIBRARY.after_failed_exec();
}
