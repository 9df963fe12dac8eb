//! The paths of descriptors, and the path of the program itself where the kernel would name another one.

use core::ffi::CStr;
use core::fmt::Write;

use tracee::sys;
use tracee::text::Text;

use crate::memory::{program_memory, program_writes};
use crate::state::process::PROCESS;

/// Whether a path names the program of this process, where the kernel would name another one.
pub(crate) fn is_own_link(path: u64) -> bool {
    const LINK: &[u8] = b"/proc/self/exe\0";
    PROCESS.settings().image().is_some() && {
        let mut bytes = [0u8; LINK.len()];
        program_memory::read(path, &mut bytes) && bytes == LINK
    }
}

/// What that link leads to.
pub(crate) fn read_own_link(into: u64, len: u64) -> isize {
    let Some(image) = PROCESS.settings().image() else { return -(sys::EINVAL as isize) };
    let count = image.len().min(len as usize);
    if count == 0 {
        return -(sys::EINVAL as isize);
    }
    let bytes = image.get(..count).unwrap_or(&[]);
    // SAFETY: the program's own array.
    if unsafe { program_writes::write(into, bytes) } { count as isize } else { -(sys::EFAULT as isize) }
}

/// The path of the file that a descriptor stands for, as /proc tells it.
pub(crate) fn path_of_descriptor(fd: i32, into: &mut Text<1024>) {
    let mut link = Text::<64>::new();
    if write!(link, "/proc/self/fd/{fd}\0").is_ok()
        && let Ok(link) = CStr::from_bytes_with_nul(link.as_bytes())
    {
        push_target(link, into);
    }
}

/// Where a link leads to.
pub(crate) fn push_target(link: &CStr, into: &mut Text<1024>) {
    let mut path = [0u8; 1024];
    let args = [link.as_ptr() as usize, path.as_mut_ptr() as usize, path.len(), 0, 0, 0];
    // SAFETY: a terminated name; the kernel writes at most the array.
    let len = unsafe { sys::syscall(libc::SYS_readlink as usize, args) };
    if !sys::failed(len) {
        into.push(path.get(..len as usize).unwrap_or(&[]));
    }
}
