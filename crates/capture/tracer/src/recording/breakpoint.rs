//! Functions of unmodified programs whose entry starts or stops recording: a trap replaces their first byte.

use core::sync::atomic::{AtomicBool, Ordering};

use buffers::{Breakpoint as Wanted, BreakpointKind};
use memref::MarkerKind;
use tracee::frame::UContext;
use tracee::lock::Lock;
use tracee::{maps, sys};

use crate::memory::pages::{self, PAGE_BYTES};
use crate::protect::burst;
use crate::recording::control;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

const TRAP: u8 = 0xcc;

#[derive(Clone, Copy)]
struct Breakpoint {
    addr: u64,
    original: u8,
    kind: BreakpointKind,
}

/// All of a process.
pub(crate) struct Breakpoints {
    list: [Option<Breakpoint>; buffers::MAX_BREAKPOINTS],
}

/// Those of this process.
pub(crate) static BREAKPOINTS: Lock<Breakpoints> = Lock::new(Breakpoints::new());

impl Breakpoints {
    pub(crate) const fn new() -> Self {
        Self { list: [None; buffers::MAX_BREAKPOINTS] }
    }
}

/// Whether there are any: each instruction that is translated asks.
static PLANTED: AtomicBool = AtomicBool::new(false);

/// Writes a byte of code. The page stays writable: a later trap writes here again.
fn write_code(addr: u64, byte: u8) -> bool {
    let page = pages::start_of_page(addr);
    let all = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
    // SAFETY: adds a right to a page of code, and changes the first byte of an instruction in one store.
    unsafe {
        if sys::failed(sys::mprotect(page, PAGE_BYTES, all)) {
            return false;
        }
        (addr as *mut u8).write_volatile(byte);
    }
    true
}

/// Plants those that the recorder asked for. Modules are found by their path.
pub(crate) fn plant(wanted: &[Option<Wanted>]) {
    let mut breakpoints = BREAKPOINTS.lock();
    for (place, wanted) in breakpoints.list.iter_mut().zip(wanted) {
        let Some(wanted) = wanted else { continue };
        let mut base = None;
        maps::each(|mapping| {
            if mapping.offset == 0 && mapping.name == wanted.module() && base.is_none() {
                base = Some(mapping.start);
            }
        });
        // The recorder has made the address relative to the module's first mapping.
        let Some(addr) = base.map(|base| base.wrapping_add(wanted.address)) else { continue };
        PLANTED.store(true, Ordering::Relaxed);
        if PROCESS.settings().translate {
            // The cache asks, code stays as it is.
            *place = Some(Breakpoint { addr, original: 0, kind: wanted.kind });
            continue;
        }
        // SAFETY: the entry of a function of a mapped module.
        let original = unsafe { (addr as *const u8).read() };
        if write_code(addr, TRAP) {
            *place = Some(Breakpoint { addr, original, kind: wanted.kind });
        }
    }
}

/// Forgets all of a translated process, whose code is as it was.
pub(crate) fn forget() {
    *BREAKPOINTS.lock() = Breakpoints::new();
}

/// Whether some function of this process starts recording.
pub(crate) fn some_start() -> bool {
    let breakpoints = BREAKPOINTS.lock();
    breakpoints.list.iter().flatten().any(|breakpoint| breakpoint.kind == BreakpointKind::Start)
}

/// What is wanted at an address.
pub(crate) fn kind_at(addr: u64) -> Option<BreakpointKind> {
    let breakpoints = BREAKPOINTS.lock();
    breakpoints.list.iter().flatten().find(|breakpoint| breakpoint.addr == addr).map(|found| found.kind)
}

/// Whether something is.
pub(crate) fn is_at(addr: u64) -> bool {
    PLANTED.load(Ordering::Relaxed) && kind_at(addr).is_some()
}

/// A trap was executed: ours? Then it does what it is for, and the instruction that it replaces is executed.
pub(crate) fn on_trap(thread: &mut TracedThread, context: &mut UContext) -> bool {
    let addr = context.gregs.rip.wrapping_sub(1);
    let breakpoints = BREAKPOINTS.lock();
    let Some(breakpoint) =
        breakpoints.list.iter().flatten().find(|breakpoint| breakpoint.addr == addr).copied()
    else {
        return false;
    };
    context.gregs.rip = addr;
    match breakpoint.kind {
        BreakpointKind::Start => control::start(thread, addr, MarkerKind::Start),
        BreakpointKind::Stop => control::stop(thread, addr),
    }
    // The engine copies the instruction from here; another thread that enters the function meanwhile is not seen to.
    write_code(addr, breakpoint.original);
    burst::execute_one(thread, context);
    write_code(addr, TRAP);
    true
}
