//! The stack of a thread of the program: the functions that led to an instruction, as addresses.
//!
//! The modules' own unwind tables are used (crate `unwind`). The module of an instruction is looked
//! up in the list of mappings once for each module, and forgotten when something is unmapped.

use core::mem::offset_of;

use tracee::lock::{Guard, Lock};
use tracee::{guarded, maps, sys, tls};
use unwind::{Cache, FrameTable, StackFrame, UnwindSource};
use x86::Registers;

use crate::memory::pages::{self, PAGE_VIEWED};
use crate::module_headers::{MappedHeaders, ModuleSpan};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_watch::OwnStack;

/// Frames that are told of one stack, the innermost ones.
pub(crate) const MOST_FRAMES: usize = 64;
const MAX_MODULES: usize = 256;

/// A module with tables: all of it, the segment that holds them, and their list.
#[derive(Clone, Copy)]
struct UnwindModule {
    start: u64,
    end: u64,
    segment: ModuleSpan,
    list: u64,
}

pub(crate) struct KnownModules {
    cache: Cache,
    modules: [UnwindModule; MAX_MODULES],
    len: usize,
}

static KNOWN: Lock<KnownModules> = Lock::new(KnownModules {
    cache: Cache::new(),
    modules: [UnwindModule { start: 0, end: 0, segment: ModuleSpan { start: 0, end: 0 }, list: 0 };
        MAX_MODULES],
    len: 0,
});
/// Held during a fork.
pub(crate) struct HeldModules(#[allow(dead_code)] Guard<'static, KnownModules>);

/// Holds what is known of modules as it is.
pub(crate) fn hold() -> HeldModules {
    HeldModules(KNOWN.lock())
}

/// Something is about to be unmapped or replaced.
pub(crate) fn forget(start: u64, end: u64) {
    let mut known = KNOWN.lock();
    let len = known.len;
    if known.modules.iter().take(len).any(|module| module.start < end && start < module.end) {
        known.len = 0;
        known.cache.clear();
    }
}

/// Writes the addresses of the frames of a thread that stands before the instruction at `ip` with these registers, the
/// innermost one first; of calls the address of their last byte. Our own frames are left out. Returns how many.
pub(crate) fn frames(
    thread: &mut TracedThread,
    ip: u64,
    registers: &Registers,
    into: &mut [u64; MOST_FRAMES],
) -> usize {
    let r = registers;
    let frame = StackFrame::new([
        r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15, ip,
    ]);
    if thread.watch.stack.end == 0 {
        thread.watch.stack = own_stack(r.rsp);
    }
    // What lies above the stack pointer on the thread's own stack is there.
    let OwnStack { start, end } = thread.watch.stack;
    let own =
        if (start..end).contains(&r.rsp) { OwnStack { start: r.rsp, end } } else { OwnStack::default() };
    let mut known = KNOWN.lock();
    let KnownModules { cache, modules, len } = &mut *known;
    let mut memory = StackMemory { modules, len, own, words: [0; WORDS], at: 0, filled: 0 };
    let mut count = 0;
    unwind::unwind(cache, &mut memory, frame, |place, _| {
        if PROCESS.owns_code(place) {
            return true;
        }
        if let Some(entry) = into.get_mut(count) {
            *entry = place;
            count += 1;
        }
        count < MOST_FRAMES
    });
    count
}

/// As [`frames`], of the code that calls this: the frames of the program that called one of our functions.
#[inline(never)]
pub(crate) fn callers(thread: &mut TracedThread, into: &mut [u64; MOST_FRAMES]) -> usize {
    let mut registers = Registers::default();
    let rip: u64;
    // SAFETY: reads registers, and writes them into a structure of 18 words.
    unsafe {
        core::arch::asm!(
            "mov [{to} + {rbx}], rbx",
            "mov [{to} + {rbp}], rbp",
            "mov [{to} + {rsp}], rsp",
            "mov [{to} + {r12}], r12",
            "mov [{to} + {r13}], r13",
            "mov [{to} + {r14}], r14",
            "mov [{to} + {r15}], r15",
            "lea {ip}, [rip]",
            to = in(reg) &raw mut registers,
            ip = out(reg) rip,
            rbx = const offset_of!(Registers, rbx),
            rbp = const offset_of!(Registers, rbp),
            rsp = const offset_of!(Registers, rsp),
            r12 = const offset_of!(Registers, r12),
            r13 = const offset_of!(Registers, r13),
            r14 = const offset_of!(Registers, r14),
            r15 = const offset_of!(Registers, r15),
            options(nostack, preserves_flags),
        );
    }
    frames(thread, rip, &registers, into)
}

/// Where the calling thread's own stack is, if the stack pointer is on it: the first thread's has a name, those of the C
/// library end at the thread's control block, in the same mapping. Nobody unmaps them under the thread. Anything else
/// (coroutines, stacks of signals) is read with care: a range that holds no stack pointer.
fn own_stack(rsp: u64) -> OwnStack {
    let fs = tls::fs_base();
    let mut own = OwnStack { start: 0, end: 1 };
    maps::each(|mapping| {
        let span = mapping.start..mapping.end;
        if !span.contains(&rsp) {
        } else if mapping.name == b"[stack]" {
            // It grows.
            own = OwnStack { start: mapping.end.saturating_sub(STACK_BYTES), end: mapping.end };
        } else if rsp < fs && span.contains(&fs) {
            own = OwnStack { start: mapping.start, end: fs };
        }
    });
    own
}

/// How far below its end the first thread's stack is taken for one without a look.
const STACK_BYTES: u64 = 1 << 20;
const WORDS: usize = 64;

/// Memory of this process, read without a fault: a stretch at a time, by the kernel, which says where there is none.
struct StackMemory<'a> {
    modules: &'a mut [UnwindModule; MAX_MODULES],
    len: &'a mut usize,
    /// Of the thread's own stack what can be read as it is.
    own: OwnStack,
    words: [u64; WORDS],
    at: u64,
    filled: u64,
}

impl StackMemory<'_> {
    /// Reads from `addr` on, at most to the end of its page: the next one may not be there.
    fn fill(&mut self, addr: u64) {
        let bytes = pages::rest_of_page(addr).min(size_of_val(&self.words) as u64);
        // SAFETY: the array has that many bytes; where there is nothing to read the copy ends.
        let read = unsafe { guarded::copy(self.words.as_mut_ptr() as u64, addr, bytes as usize) };
        self.at = addr;
        self.filled = read as u64;
    }
}

impl UnwindSource for StackMemory<'_> {
    fn word(&mut self, addr: u64) -> Option<u64> {
        if addr & 7 != 0 {
            return None;
        }
        if (self.own.start..self.own.end).contains(&addr) {
            // SAFETY: an aligned word between the stack pointer and the end of a stack that the thread runs on.
            return Some(unsafe { (addr as *const u64).read_volatile() });
        }
        if pages::page(addr) & PAGE_VIEWED != 0 {
            // A stack that lies in memory that may be closed.
            let mut word = 0u64;
            // SAFETY: a local; where the program may not read, the copy ends.
            let read = unsafe { guarded::copy(&raw mut word as u64, pages::view(addr), size_of_val(&word)) };
            return (read == size_of_val(&word)).then_some(word);
        }
        let offset =
            |memory: &Self| addr.checked_sub(memory.at).filter(|&offset| offset + 8 <= memory.filled);
        if offset(self).is_none() {
            self.fill(addr);
        }
        self.words.get(offset(self)? as usize / 8).copied()
    }

    fn table(&mut self, ip: u64) -> Option<FrameTable<'_>> {
        let module = self.modules.iter().take(*self.len).find(|m| (m.start..m.end).contains(&ip)).copied();
        let module = match module {
            Some(module) => module,
            None => {
                let found = find(ip)?;
                if *self.len == MAX_MODULES {
                    *self.len = 0;
                }
                *self.modules.get_mut(*self.len)? = found;
                *self.len += 1;
                found
            }
        };
        let ModuleSpan { start, end } = module.segment;
        if module.list == 0 {
            return None;
        }
        // SAFETY: a segment of a module that can be read: it stays mapped and as it is until `forget`, which waits for the
        // lock that our caller holds.
        let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
        Some(FrameTable::new(bytes, start, module.list))
    }
}

/// The module of an instruction, from the list of mappings.
fn find(ip: u64) -> Option<UnwindModule> {
    // Of the module that was seen last: its first address, the file's number, and where its mappings have come to.
    let mut last = (0u64, 0u64, 0u64);
    let mut base = None;
    maps::each(|mapping| {
        if mapping.inode == 0 && mapping.name != b"[vdso]" {
            return;
        }
        if mapping.inode == last.1 && mapping.start == last.2 {
            last.2 = mapping.end;
        } else if mapping.offset == 0 && mapping.prot & sys::PROT_READ != 0 {
            last = (mapping.start, mapping.inode, mapping.end);
        }
        if (mapping.start..mapping.end).contains(&ip) && mapping.inode == last.1 {
            base = Some(last.0);
        }
    });
    // SAFETY: the first page of a mapped file, which can be read.
    unsafe { read_headers(base?) }
}

/// Reads the program headers of a module at `base`.
///
/// # Safety
/// The first page of a file must be mapped there.
unsafe fn read_headers(base: u64) -> Option<UnwindModule> {
    // SAFETY: the caller's promise.
    let headers = unsafe { MappedHeaders::at(base) }?;
    let mut module = UnwindModule { start: base, end: base, segment: ModuleSpan::default(), list: 0 };
    for header in headers.iter() {
        let start = headers.start_of(&header);
        if header.kind == libc::PT_LOAD {
            module.end = module.end.max(start.wrapping_add(header.memory_bytes));
        } else if header.kind == libc::PT_GNU_EH_FRAME && header.is_readable() {
            module.list = start;
        }
    }
    let segment = headers.iter().find_map(|header| {
        let start = headers.start_of(&header);
        let span = ModuleSpan { start, end: start.wrapping_add(header.file_bytes) };
        let is_it = header.kind == libc::PT_LOAD && header.is_readable() && span.contains(module.list);
        is_it.then_some(span)
    });
    match segment {
        Some(segment) => module.segment = segment,
        None => module.list = 0,
    }
    (module.end > module.start).then_some(module)
}
