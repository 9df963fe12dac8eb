//! Makes code pages writable, once per mapping, never per toggle.
//!
//! A whole executable mapping is made writable (read, write, execute) when its first site is opened. Where
//! that is forbidden (W^X enforced by SELinux or seccomp), writes go through `/proc/self/mem` in aligned
//! eight-byte words instead: slower, but the same protocol holds with eight bytes as the atomic unit.

use crate::{error::Refusal, maps, sys};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// How bytes reach a code page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The mapping is writable: ordinary stores.
    Direct,
    /// The mapping cannot be made writable: `/proc/self/mem`.
    ProcMem,
}

const CAPACITY: usize = 1024;

/// An opened mapping. `start` is written last (release) and is 0 while the slot is free; bit 0 of `end_and_access` is
/// set for [`Access::ProcMem`], bit 1 where the mapping was writable before.
struct Opened {
    start: AtomicUsize,
    end_and_access: AtomicUsize,
}

static OPENED: [Opened; CAPACITY] =
    [const { Opened { start: AtomicUsize::new(0), end_and_access: AtomicUsize::new(0) } }; CAPACITY];
/// Slots ever used; only grows.
static USED: AtomicUsize = AtomicUsize::new(0);
/// The descriptor of `/proc/self/mem` plus one; 0 before the first use.
static PROC_MEM: AtomicI32 = AtomicI32::new(0);

/// Opens the mapping that covers `[addr, addr + len_bytes)`, unless it is open already.
pub fn open(addr: usize, len_bytes: usize) -> Result<Access, Refusal> {
    let end = addr.checked_add(len_bytes).ok_or(Refusal::NotMapped)?;
    if let Some(access) = opened(addr, end) {
        return Ok(access);
    }
    let mut access = open_mapping(addr)?;
    while let Some(covered) = end_of(addr).filter(|covered| *covered < end) {
        // The site runs on into the next mapping.
        if open_mapping(covered)? == Access::ProcMem {
            access = Access::ProcMem;
        }
        if end_of(covered).is_none_or(|further| further >= end) {
            break;
        }
    }
    Ok(access)
}

fn open_mapping(addr: usize) -> Result<Access, Refusal> {
    let mapping = maps::find(addr).ok_or(Refusal::NotMapped)?;
    if !mapping.executable {
        return Err(Refusal::NotExecutable);
    }
    if mapping.shared && !mapping.writable {
        return Err(Refusal::NotWritable);
    }
    let len_bytes = mapping.end - mapping.start;
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: adds the right to write to an existing mapping; reading and executing stay as they were.
    let direct = mapping.writable
        || unsafe { sys::syscall(libc::SYS_mprotect, [mapping.start, len_bytes, rights as usize, 0, 0, 0]) }
            == 0;
    let access = if direct { Access::Direct } else { Access::ProcMem };
    if access == Access::ProcMem && proc_mem().is_none() {
        return Err(Refusal::NotWritable);
    }
    remember(mapping.start, mapping.end, access, mapping.writable)?;
    Ok(access)
}

/// Takes the right to write from the mappings that got it here, or gives it to them again: no patch may be made in
/// between.
pub fn seal(sealed: bool) {
    let write = if sealed { 0 } else { libc::PROT_WRITE };
    let rights = libc::PROT_READ | libc::PROT_EXEC | write;
    for slot in slots() {
        let start = slot.start.load(Ordering::Acquire);
        let word = slot.end_and_access.load(Ordering::Relaxed);
        if start > 1 && word & MARKS == 0 && maps::find(start).is_some_and(|now| now.executable) {
            // SAFETY: code that was mapped readable and executable when it was opened, and is code now.
            unsafe { sys::syscall(libc::SYS_mprotect, [start, word - start, rights as usize, 0, 0, 0]) };
        }
    }
}

/// The low bits of `end_and_access`; ends are page-aligned.
const MARKS: usize = 3;

fn remember(start: usize, end: usize, access: Access, was_writable: bool) -> Result<(), Refusal> {
    let word = end | usize::from(access == Access::ProcMem) | usize::from(was_writable) << 1;
    for (index, slot) in OPENED.iter().enumerate() {
        // A free slot is taken by its start going 0 -> 1, which covers no address.
        if slot.start.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            slot.end_and_access.store(word, Ordering::Relaxed);
            slot.start.store(start, Ordering::Release);
            USED.fetch_max(index + 1, Ordering::AcqRel);
            return Ok(());
        }
    }
    Err(Refusal::TableFull)
}

fn slots() -> &'static [Opened] {
    &OPENED[..USED.load(Ordering::Acquire).min(CAPACITY)]
}

fn opened(addr: usize, end: usize) -> Option<Access> {
    slots().iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let word = slot.end_and_access.load(Ordering::Relaxed);
        (start > 1 && start <= addr && end <= (word & !MARKS)).then_some(if word & 1 == 0 {
            Access::Direct
        } else {
            Access::ProcMem
        })
    })
}

/// Whether code at `addr`, opened for direct stores, takes them (still). Makes one system call, which changes nothing and takes
/// no lock.
#[must_use]
pub fn takes_stores(addr: usize) -> bool {
    /// Add 0 to the word, and compare what was there with 0.
    const ADD_NOTHING: usize = (libc::FUTEX_OP_ADD as usize) << 28;
    if opened(addr, addr + 1) != Some(Access::Direct) {
        return true;
    }
    let nobody = AtomicI32::new(0);
    let word = (addr & !3) as *const u32;
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: nobody waits at either address; the kernel adds 0 to a word of code, or finds that it may not.
    let done = unsafe {
        sys::syscall(
            libc::SYS_futex,
            [&raw const nobody as usize, operation as usize, 0, 0, word as usize, ADD_NOTHING],
        )
    };
    done != -(libc::EFAULT as isize)
}

/// The end of the opened mapping that covers `addr`.
fn end_of(addr: usize) -> Option<usize> {
    slots().iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let end = slot.end_and_access.load(Ordering::Relaxed) & !MARKS;
        (start > 1 && start <= addr && addr < end).then_some(end)
    })
}

/// Forgets the opened mappings that touch `[start, end)`: their code was unloaded.
pub fn forget(start: usize, end: usize) {
    for slot in slots() {
        let from = slot.start.load(Ordering::Acquire);
        let to = slot.end_and_access.load(Ordering::Relaxed) & !MARKS;
        if from > 1 && from < end && start < to {
            slot.start.store(0, Ordering::Release);
        }
    }
}

fn proc_mem() -> Option<i32> {
    let known = PROC_MEM.load(Ordering::Acquire);
    if known != 0 {
        return Some(known - 1);
    }
    let path = c"/proc/self/mem";
    // SAFETY: the path is NUL-terminated and outlives the call.
    let fd = unsafe {
        sys::syscall(
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                (libc::O_RDWR | libc::O_CLOEXEC) as usize,
                0,
                0,
                0,
            ],
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    PROC_MEM.store(fd + 1, Ordering::Release);
    Some(fd)
}

/// Writes one aligned word through `/proc/self/mem`; `false` where the kernel refuses. A child of fork must not use
/// the descriptor of its parent: call [`after_fork`] there.
pub fn write_word(addr: usize, word: u64) -> bool {
    let Some(fd) = proc_mem() else { return false };
    // SAFETY: the kernel reads eight bytes of `word`; the target is checked by the kernel.
    let wrote = unsafe {
        sys::syscall(
            libc::SYS_pwrite64,
            [fd as usize, &raw const word as usize, size_of::<u64>(), addr, 0, 0],
        )
    };
    wrote == size_of::<u64>() as isize
}

/// To be called in the child of a fork: the descriptor of `/proc/self/mem` still names the parent.
pub fn after_fork() {
    PROC_MEM.store(0, Ordering::Release);
}
