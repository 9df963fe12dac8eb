//! Copies of structures that contain pointers, for the duration of one call.

use core::mem::offset_of;

use tracee::sys;

use crate::memory::pages::{self, PAGE_BYTES};
use crate::memory::{program_memory, program_writes};
use crate::signal::mask::OURS;
use crate::state::thread::TracedThread;
use crate::syscall::table::{Arg, SignalSet};

impl TracedThread {
    /// Room that lasts until the next system call of this thread; null where there is no memory.
    pub(crate) fn scratch(&mut self, bytes: usize) -> *mut u8 {
        if self.system_call.scratch_len < bytes {
            let len = bytes.next_multiple_of(PAGE_BYTES as usize);
            let Some(memory) = sys::map_anonymous(len as u64, sys::PROT_READ | sys::PROT_WRITE) else {
                return core::ptr::null_mut();
            };
            if !self.system_call.scratch.is_null() {
                // SAFETY: used only within the system call for which it was asked.
                unsafe { sys::munmap(self.system_call.scratch as u64, self.system_call.scratch_len as u64) };
            }
            (self.system_call.scratch, self.system_call.scratch_len) = (memory, len);
        }
        self.system_call.scratch
    }
}

pub(crate) const MSGHDR_BYTES: u64 = size_of::<libc::msghdr>() as u64;
pub(crate) const MMSGHDR_BYTES: u64 = size_of::<libc::mmsghdr>() as u64;
pub(crate) const MASK_BYTES: u64 = size_of::<SignalSet>() as u64;
pub(crate) const IOVEC_BYTES: u64 = size_of::<libc::iovec>() as u64;

/// What the kernel writes into a msghdr or mmsghdr but pointers: where, and how many bytes.
const WRITTEN_FIELDS: [(u64, u64); 4] = [
    (offset_of!(libc::msghdr, msg_namelen) as u64, size_of::<libc::socklen_t>() as u64),
    (offset_of!(libc::msghdr, msg_controllen) as u64, size_of::<libc::size_t>() as u64),
    (offset_of!(libc::msghdr, msg_flags) as u64, size_of::<libc::c_int>() as u64),
    (offset_of!(libc::mmsghdr, msg_len) as u64, size_of::<libc::c_uint>() as u64),
];

/// Message headers of a call, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct CopiedHeaders {
    /// Our copy of them.
    pub(crate) copy: u64,
    /// The program's.
    pub(crate) original: u64,
    /// Bytes of all of them.
    pub(crate) len: u64,
}

/// Copies of structures that hold pointers, for the time of one call.
pub(crate) struct Scratch {
    pub(crate) next: *mut u8,
    pub(crate) end: *mut u8,
    /// Message headers to copy back.
    pub(crate) back: [CopiedHeaders; 4],
    pub(crate) backs: usize,
    /// The signals that are blocked while the call waits, where it says so.
    pub(crate) mask: Option<u64>,
}

/// Room for vectors: UIO_MAXIOV of them, twice, and some headers.
const SCRATCH_BYTES: usize = 256 << 10;

impl Scratch {
    pub(crate) fn new(thread: &mut TracedThread) -> Self {
        let start = thread.scratch(SCRATCH_BYTES);
        let end = if start.is_null() { start } else { start.wrapping_add(SCRATCH_BYTES) };
        Self {
            next: start,
            end,
            back: [CopiedHeaders { copy: 0, original: 0, len: 0 }; 4],
            backs: 0,
            mask: None,
        }
    }

    /// Copies bytes of the program; `None` where there is no room or nothing to read.
    pub(crate) fn copy(&mut self, from: u64, len: u64) -> Option<u64> {
        let place = self.next;
        let room = self.end as u64 - place as u64;
        let padded = len.checked_next_multiple_of(16)?;
        if padded > room {
            return None;
        }
        self.next = place.wrapping_add(padded as usize);
        // SAFETY: `place` has room for `len` bytes.
        let room = unsafe { core::slice::from_raw_parts_mut(place, len as usize) };
        if !program_memory::read(from, room) {
            return None;
        }
        Some(place as u64)
    }

    /// The address to give to the kernel for an argument.
    pub(crate) unsafe fn translate(&mut self, kind: Arg, arg: u64, args: &[usize; 6]) -> Option<u64> {
        let count = |index: u8| args.get(usize::from(index)).map_or(0, |&count| count as u64);
        let is_mask = matches!(kind, Arg::Mask | Arg::MaskPair);
        if !is_mask && !pages::are_viewed() {
            // The kernel follows it itself, and says what is wrong with it.
            return Some(arg);
        }
        // SAFETY: structures with pointers in them are read as the kernel would read them.
        unsafe {
            match kind {
                Arg::InVectors(index) | Arg::OutVectors(index) => self.vectors(arg, count(index)),
                Arg::InMessage | Arg::OutMessage => {
                    let copy = self.message(arg)?;
                    if kind == Arg::OutMessage {
                        self.remember(copy, arg, MSGHDR_BYTES);
                    }
                    Some(copy)
                }
                Arg::InMessages(index) | Arg::OutMessages(index) => {
                    let count = count(index).min(libc::UIO_MAXIOV as u64);
                    let copy = self.copy(arg, count * MMSGHDR_BYTES)?;
                    for index in 0..count {
                        self.open_message(copy + index * MMSGHDR_BYTES)?;
                    }
                    self.remember(copy, arg, count * MMSGHDR_BYTES);
                    Some(copy)
                }
                Arg::Mask => {
                    let copy = self.copy(arg, MASK_BYTES)?;
                    self.mask = Some(*(copy as *const u64));
                    *(copy as *mut u64) &= !OURS;
                    Some(copy)
                }
                Arg::MaskPair => {
                    // A pointer, and the length of what it points to.
                    let copy = self.copy(arg, size_of::<[u64; 2]>() as u64)?;
                    let mask = *(copy as *const u64);
                    if mask != 0 {
                        let own = self.copy(mask, MASK_BYTES)?;
                        self.mask = Some(*(own as *const u64));
                        *(own as *mut u64) &= !OURS;
                        *(copy as *mut u64) = own;
                    }
                    Some(copy)
                }
                _ => Some(pages::open_address(arg)),
            }
        }
    }

    /// A copy of iovecs whose bases are open.
    pub(crate) unsafe fn vectors(&mut self, at: u64, count: u64) -> Option<u64> {
        if count > libc::UIO_MAXIOV as u64 || count == 0 {
            // The kernel's own error, or nothing to read.
            return Some(pages::open_address(at));
        }
        // SAFETY: the caller's promise; the copy is ours to change.
        unsafe {
            let copy = self.copy(at, count * IOVEC_BYTES)?;
            for index in 0..count {
                let base = (copy + index * IOVEC_BYTES) as *mut u64;
                base.write(pages::open_address(base.read()));
            }
            Some(copy)
        }
    }

    pub(crate) unsafe fn message(&mut self, at: u64) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            let copy = self.copy(at, MSGHDR_BYTES)?;
            self.open_message(copy)?;
            Some(copy)
        }
    }

    /// Opens the pointers of a msghdr that was copied: name, vectors, control.
    pub(crate) unsafe fn open_message(&mut self, copy: u64) -> Option<()> {
        let header = copy as *mut libc::msghdr;
        let open = |pointer: *mut libc::c_void| pages::open_address(pointer as u64) as *mut libc::c_void;
        // SAFETY: `copy` is a whole msghdr in our own memory, at an address that suits it.
        unsafe {
            (*header).msg_name = open((*header).msg_name);
            (*header).msg_iov =
                self.vectors((*header).msg_iov as u64, (*header).msg_iovlen as u64)? as *mut libc::iovec;
            (*header).msg_control = open((*header).msg_control);
        }
        Some(())
    }

    pub(crate) fn remember(&mut self, copy: u64, original: u64, len: u64) {
        if let Some(place) = self.back.get_mut(self.backs) {
            *place = CopiedHeaders { copy, original, len };
            self.backs += 1;
        }
    }

    /// What the kernel wrote into message headers, but for the pointers: lengths and flags. `false`: the program's can't be written.
    pub(crate) fn copy_back(&self) -> bool {
        let mut is_written = true;
        for &CopiedHeaders { copy, original, len } in self.back.iter().take(self.backs) {
            let stride = if len == MSGHDR_BYTES { MSGHDR_BYTES } else { MMSGHDR_BYTES };
            for header in (0..len).step_by(stride as usize) {
                for (offset, bytes) in WRITTEN_FIELDS {
                    if offset >= stride {
                        continue;
                    }
                    let at = header + offset;
                    // SAFETY: our copy is whole: the kernel has just accepted it. The program's header is where the kernel
                    // would have written.
                    unsafe {
                        let from = core::slice::from_raw_parts((copy + at) as *const u8, bytes as usize);
                        is_written &= program_writes::write(original + at, from);
                    }
                }
            }
        }
        is_written
    }
}
