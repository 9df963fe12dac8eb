//! Code that the program writes by system calls: into a file, or a memory file, that it executes through a shared mapping, and into its own
//! memory through `/proc/self/mem`. The rights of a mapping do not keep the kernel from writing, so the call is examined after it was made.

use core::fmt::Write;

use tracee::sys;
use tracee::text::Text;

use crate::memory::code_views::{self, CodeStretch};
use crate::memory::program_memory;
use crate::state::process::PROCESS;
use crate::syscall::call::SystemCall;
use crate::syscall::paths;
use crate::translate::code_changes::{self, MappingChange};

/// Past all addresses of programs, and all files that one executes.
const ALL: u64 = 1 << 47;

/// Where a call writes into what a descriptor stands for; `None`: at the descriptor's own position.
struct Written {
    fd: usize,
    at: Option<u64>,
}

/// A call was made with that result: code that it has written is forgotten.
pub(crate) fn after(call: &SystemCall, result: isize) {
    if sys::failed(result) || !PROCESS.settings().translate {
        return;
    }
    let [first, second, third, fourth, ..] = call.args;
    let written = match call.number {
        libc::SYS_open => return note_open(first, second, result),
        libc::SYS_openat => return note_open(second, third, result),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile | libc::SYS_ftruncate => {
            Written { fd: first, at: None }
        }
        libc::SYS_fallocate => Written { fd: first, at: None },
        libc::SYS_pwrite64 | libc::SYS_pwritev => Written { fd: first, at: Some(fourth as u64) },
        // Minus one is the descriptor's position.
        libc::SYS_pwritev2 => Written { fd: first, at: Some(fourth as u64).filter(|&at| at != u64::MAX) },
        libc::SYS_splice | libc::SYS_copy_file_range => Written { fd: third, at: None },
        _ => return,
    };
    if !code_views::is_written_by_calls() {
        return;
    }
    let Some(file) = code_views::file_of(written.fd as i32) else { return };
    // Without a place it may be anywhere: others may have moved the descriptor's position meanwhile.
    let stretch = match written.at {
        Some(start) => CodeStretch { start, end: start.saturating_add(result as u64) },
        None => CodeStretch { start: 0, end: ALL },
    };
    if code_views::is_memory(file) {
        let (start, len) = (stretch.start, stretch.end - stretch.start);
        code_changes::on_mapping(MappingChange::Discarded { start, len });
    }
    code_changes::on_mapping(MappingChange::Written { file, stretch });
}

/// A file was opened: it may be this process's memory.
fn note_open(path: usize, flags: usize, fd: isize) {
    if flags as i32 & libc::O_ACCMODE == libc::O_RDONLY {
        return;
    }
    let mut room = [0; 64];
    if !program_memory::string(path as u64, &mut room).is_some_and(|path| path.to_bytes().ends_with(b"mem")) {
        return;
    }
    let mut name = Text::<64>::new();
    let mut target = Text::<1024>::new();
    paths::path_of_descriptor(fd as i32, &mut target);
    if write!(name, "/proc/{}/mem", sys::getpid()).is_ok()
        && target.as_bytes() == name.as_bytes()
        && let Some(file) = code_views::file_of(fd as i32)
    {
        code_views::note_memory(file);
    }
}
