//! Hits of watchpoints: the watched bytes of an access are noted before it is made. The hit is reported
//! after the access, with the content of the bytes before and after and the stack that led there.

use core::sync::atomic::{AtomicU64, Ordering};

use buffers::Record;
use buffers::list::{CHOICE_STOP, CHOICE_THREAD, CHOICE_VALUE};
use memref::{AccessKind, BlockKind, VirtAddr};
use tracee::lock::Lock;
use tracee::sys;
use x86::Registers;

use crate::emit::recorder;
use crate::memory::pages;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::touched::{Touch, Touched};
use crate::watch::list::{KINDS, LIST};
use crate::watch::stack::{self, MOST_FRAMES};

/// Which hits are told, and whether the process stops at them; written by the constructor. Bits as in the list.
pub(crate) static CHOICES: AtomicU64 = AtomicU64::new(0);
pub(crate) static CHOSEN_VALUE: AtomicU64 = AtomicU64::new(0);
pub(crate) static CHOSEN_THREAD: AtomicU64 = AtomicU64::new(0);

/// Held by a thread that stops the process, until it is continued: there is one stop at a time.
static STOPPED: Lock<()> = Lock::new(());

/// In a forked child: a thread of the parent's may have been stopping it.
pub(crate) fn be_child() {
    // SAFETY: the lock guards nothing but itself, and the thread that forked does not hold it: it is not at a hit.
    unsafe { STOPPED.reset() };
}

/// What is watched of an access of that kind: loads are bit 0, stores bit 1.
fn bits_of(kind: AccessKind) -> u32 {
    u32::from(kind.reads()) | u32::from(kind.writes()) << 1
}

core::arch::global_asm!(
    ".globl memtap_peek",
    ".hidden memtap_peek",
    ".globl memtap_peek_bytes",
    ".hidden memtap_peek_bytes",
    ".globl memtap_peek_fault",
    ".hidden memtap_peek_fault",
    // memtap_peek(to, from, len): zero where the bytes could be read.
    "memtap_peek:",
    "mov rcx, rdx",
    "memtap_peek_bytes:",
    "rep movsb",
    "xor eax, eax",
    "ret",
    "memtap_peek_fault:",
    "mov eax, 1",
    "ret",
);

unsafe extern "C" {
    fn memtap_peek(to: *mut u8, from: u64, len: u64) -> u32;
    fn memtap_peek_bytes();
    fn memtap_peek_fault();
}

/// A fault of [`value`]: it goes on, and knows. `false`: it is no such fault.
pub(crate) fn on_fault(rip: &mut u64) -> bool {
    let is_own = *rip == memtap_peek_bytes as *const () as u64;
    if is_own {
        *rip = memtap_peek_fault as *const () as u64;
    }
    is_own
}

/// At most 8 bytes of the program's memory; `None` where there is nothing to read.
fn value(addr: u64, len: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    // SAFETY: writes the array; a fault of reading is caught.
    let failed = unsafe { memtap_peek(bytes.as_mut_ptr(), pages::open_address(addr), len.min(8)) };
    (failed == 0).then(|| u64::from_le_bytes(bytes))
}

/// Whether watched bytes are of memory that we see: nothing is closed elsewhere. What is translated is seen everywhere.
fn is_watched(addr: u64, end: u64) -> bool {
    PROCESS.settings().translate || pages::is_viewed(addr, end - addr)
}

/// Where an access is made.
pub(crate) enum Origin<'a> {
    /// Before the instruction at `ip`, with these registers.
    Instruction(&'a Registers),
    /// In a function of ours that the program calls.
    Call,
}

impl Touched {
    /// An access is about to be made. `known` where nothing was changed yet.
    pub(crate) fn note(&mut self, addr: u64, len: u64, kind: AccessKind, known: bool) {
        let end = addr.saturating_add(len);
        LIST.lock().each(addr, end, |watch| {
            if watch.bits & bits_of(kind) != 0
                && is_watched(watch.start.max(addr), watch.end.min(end))
                && let Some(place) = self.list.get_mut(self.count)
            {
                let (from, to) = (watch.start.max(addr), watch.end.min(end));
                let old = if known { value(from, to - from) } else { None };
                if old.is_none() && known {
                    // The access will fault.
                    return;
                }
                place.write(Touch { id: watch.id & !KINDS, kind, addr: from, len: to - from, old });
                self.count += 1;
            }
        });
    }

    /// A block of memory is about to be written.
    pub(crate) fn note_write(&mut self, addr: u64, len: usize) {
        if PROCESS.is_watched() && len != 0 {
            self.note(addr, len as u64, AccessKind::Store, true);
        }
    }

    /// Less was written than was noted.
    fn cut(&mut self, end: u64) {
        // SAFETY: `note` wrote the first `count`.
        let list =
            unsafe { core::slice::from_raw_parts_mut(self.list.as_mut_ptr().cast::<Touch>(), self.count) };
        let mut kept = 0;
        for index in 0..list.len() {
            let Some(touch) = list.get(index).copied().filter(|touch| touch.addr < end) else { continue };
            if let Some(place) = list.get_mut(kept) {
                *place = Touch { len: touch.len.min(end - touch.addr), ..touch };
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// What was noted has happened: tells of it.
    pub(crate) fn tell(&mut self, thread: &mut TracedThread, ip: u64, origin: &Origin<'_>) {
        if self.count == 0 {
            return;
        }
        let choices = CHOICES.load(Ordering::Relaxed);
        let count = core::mem::take(&mut self.count);
        // SAFETY: `note` wrote the first `count`.
        let list = unsafe { core::slice::from_raw_parts(self.list.as_ptr().cast::<Touch>(), count) };
        if choices & CHOICE_THREAD != 0 && CHOSEN_THREAD.load(Ordering::Relaxed) != thread.number.into() {
            return;
        }
        let is_told = |new: u64| choices & CHOICE_VALUE == 0 || CHOSEN_VALUE.load(Ordering::Relaxed) == new;
        let now = |touch: &Touch| value(touch.addr, touch.len).unwrap_or(0);
        let last = list.iter().rposition(|touch| is_told(now(touch)));
        let Some(last) = last else { return };
        let stops = choices & CHOICE_STOP != 0;
        let held = stops.then(|| STOPPED.lock());
        let mut addresses = [0; MOST_FRAMES];
        let frames = match origin {
            Origin::Instruction(registers) => stack::frames(thread, ip, registers, &mut addresses),
            Origin::Call if PROCESS.settings().translate => {
                // The function was called from a handler: the program's registers are those before the call.
                let registers = thread.watch.before;
                stack::frames(thread, registers.rip, &registers, &mut addresses)
            }
            Origin::Call => stack::callers(thread, &mut addresses),
        };
        // SAFETY: the words that were just written, as bytes.
        let frames = unsafe { core::slice::from_raw_parts(addresses.as_ptr().cast::<u8>(), frames * 8) };
        for (index, touch) in list.iter().enumerate() {
            let new = now(touch);
            if is_told(new) {
                thread.emit(&Record::Hit {
                    order: recorder::next_order(),
                    ip: VirtAddr(ip),
                    kind: touch.kind,
                    addr: VirtAddr(touch.addr),
                    len: touch.len,
                    watch: touch.id,
                    stops: stops && index == last,
                    old: touch.old,
                    new,
                    stack: frames,
                });
            }
        }
        if let Some(pool) = PROCESS.pool()
            && pool.control().announce()
        {
            sys::futex_wake(pool.control().submitted_word().as_ptr());
        }
        if held.is_some() {
            let args = [sys::getpid() as usize, sys::gettid() as usize, libc::SIGSTOP as usize, 0, 0, 0];
            // SAFETY: stops this process; there are no pointers. It returns when somebody continues it.
            unsafe { sys::syscall(libc::SYS_tgkill as usize, args) };
            if let Some(pool) = PROCESS.pool()
                && let Some(slot) = pool.process(PROCESS.number.load(Ordering::Relaxed))
            {
                slot.resume();
            }
        }
    }
}

/// What a block operation wrote and read: `src` is 0 where it read nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockBytes {
    pub(crate) dst: u64,
    pub(crate) src: u64,
    pub(crate) len: usize,
}

/// A block operation was performed, of whose destination `touched` was noted before.
pub(crate) fn block(
    thread: &mut TracedThread,
    touched: &mut Touched,
    ip: u64,
    kind: BlockKind,
    bytes: BlockBytes,
    origin: &Origin<'_>,
) {
    let BlockBytes { dst, src, len } = bytes;
    let len = len as u64;
    if matches!(kind, BlockKind::Copy | BlockKind::Fill) {
        touched.cut(dst.saturating_add(len));
    }
    if matches!(kind, BlockKind::Copy | BlockKind::Fetch) {
        touched.note(src, len, AccessKind::Load, true);
    }
    touched.tell(thread, ip, origin);
}
