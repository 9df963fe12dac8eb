//! Makes `/proc/self/status` show the program's signals as it would natively: which it handles, ignores and blocks. The kernel
//! only knows what the tracer does with them. The numbers have a fixed width, so those of the program can replace them.

use core::sync::atomic::{AtomicU64, Ordering};

use tracee::sys;

use crate::memory::{program_memory, program_writes};
use crate::router::dispatch::Maker;
use crate::signal::{actions, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;

/// Descriptors that are looked at.
const KNOWN: usize = 1024;
/// Those that a file named `status` was opened as. One may be another file's by now: its text is looked at.
static OPENED: [AtomicU64; KNOWN / 64] = [const { AtomicU64::new(0) }; KNOWN / 64];

/// More than such a file has, or a read of it gives.
const MOST: usize = 2048;
/// Digits of a set of signals.
const DIGITS: usize = 16;

fn place(fd: usize) -> Option<(&'static AtomicU64, u64)> {
    OPENED.get(fd / 64).map(|word| (word, 1 << (fd % 64)))
}

fn is_noted(fd: usize) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// A call was made with that result: the status of this process that it read is made what it would be.
pub(super) fn after(call: &SystemCall, thread: &TracedThread, maker: &Maker, result: isize) {
    if sys::failed(result) {
        return;
    }
    let [first, second, ..] = call.args;
    match call.number {
        libc::SYS_open => note_open(first, result),
        libc::SYS_openat | libc::SYS_openat2 => note_open(second, result),
        libc::SYS_read | libc::SYS_pread64 if is_noted(first) => {
            on_read(thread, maker, second as u64, result as usize);
        }
        _ => {}
    }
}

fn note_open(path: usize, fd: isize) {
    let mut room = [0; 64];
    let is_status = program_memory::string(path as u64, &mut room)
        .is_some_and(|path| path.to_bytes().rsplit(|&byte| byte == b'/').next() == Some(b"status"));
    if let Some((word, bit)) = place(fd as usize) {
        if is_status {
            word.fetch_or(bit, Ordering::Relaxed);
        } else if is_noted(fd as usize) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

#[cold]
fn on_read(thread: &TracedThread, maker: &Maker, addr: u64, bytes: usize) {
    let mut room = [0; MOST];
    let Some(text) = room.get_mut(..bytes.min(MOST)) else { return };
    if PROCESS.is_vfork_child() || !program_memory::read(addr, text) {
        return;
    }
    if number(text, b"\nTgid:\t") != Some(sys::getpid() as u64) {
        return;
    }
    let own = actions::sets();
    replace(addr, text, b"\nSigIgn:\t", |_| own.ignored);
    replace(addr, text, b"\nSigCgt:\t", |_| own.handled);
    if number(text, b"\nPid:\t") == Some(sys::gettid() as u64) {
        let hidden = thread.signals.virtual_mask;
        replace(addr, text, b"\nSigBlk:\t", |real| match *maker {
            Maker::Handler(mask) => mask | hidden,
            Maker::Gate => real | hidden,
        });
        replace(addr, text, b"\nSigPnd:\t", |real| real | waiting::kept(thread));
    }
}

/// Where what follows a name begins.
fn find(text: &[u8], name: &[u8]) -> Option<usize> {
    text.windows(name.len()).position(|part| part == name).map(|at| at + name.len())
}

/// The decimal number behind a name.
fn number(text: &[u8], name: &[u8]) -> Option<u64> {
    Some(proc_files::number(text.get(find(text, name)?..)?, 10)?.0)
}

/// Has the set behind a name be another one.
fn replace(addr: u64, text: &[u8], name: &[u8], set: impl FnOnce(u64) -> u64) {
    let Some(at) = find(text, name) else { return };
    // To the end of the line: not what a read has cut.
    let Some((real, b"\n")) = text.get(at..at + DIGITS + 1).and_then(|line| proc_files::number(line, 16))
    else {
        return;
    };
    let set = set(real);
    let mut digits = [0; DIGITS];
    for (place, digit) in digits.iter_mut().enumerate() {
        let value = (set >> (4 * (DIGITS - 1 - place))) as u32 & 15;
        *digit = char::from_digit(value, 16).unwrap_or('0') as u8;
    }
    // SAFETY: the call that was made has written these bytes.
    unsafe { program_writes::write(addr.wrapping_add(at as u64), &digits) };
}
