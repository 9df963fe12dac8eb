//! Instructions that the cache does not execute: the engine of `x86` executes them, and their accesses are recorded here.

use buffers::Record;
use code_cache::{FS_SPILL, Mode};
use memref::{AccessKind, MarkerKind, VirtAddr};
use tracee::frame::{SigInfo, UContext};
use tracee::text::Text;
use tracee::tls;
use x86::{Operand, Refused, StepOutcome};

use crate::emit::work::Work;
use crate::memory::program_memory;
use crate::protect::sharing;
use crate::recording::{breakpoint, control};
use crate::registers::SEGV_ACCERR;
use crate::signal::delivery;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::touched::Touched;
use crate::translate::{code_changes, context, translated_thread, verify};
use crate::watch::hits::Origin;

/// An instruction that the cache does not execute.
pub(crate) fn special(thread: &mut TracedThread, context: &mut UContext, addr: u64, native: Option<u64>) {
    context.gregs.rip = addr;
    match breakpoint::kind_at(addr) {
        Some(buffers::BreakpointKind::Start) => control::start(thread, addr, MarkerKind::Start),
        Some(buffers::BreakpointKind::Stop) => control::stop(thread, addr),
        None => {}
    }
    Work::Traps.add(1);
    let mut name = Text::<32>::new();
    // SAFETY: the cache has read the instruction from there.
    unsafe { x86::mnemonic(addr, &mut name) };
    match name.as_bytes() {
        // The base of gs is the tracer's. The instruction runs natively, and so does all that comes after it.
        b"Wrgsbase" if !tls::by_gs() => {
            verify::not_recorded(thread);
            translated_thread::lose_thread(thread, b"sets its own gs base");
            return;
        }
        // The thread's state is no longer found by its base of fs.
        b"Wrfsbase" if !tls::by_gs() && !translated_thread::tell_apart_by_gs(thread) => {
            verify::not_recorded(thread);
            translated_thread::lose_thread(thread, b"sets its own fs base");
            return;
        }
        _ => {}
    }
    let state = delivery::vector_state(context);
    let recorded = thread.mode() == Mode::Record;
    let watches = PROCESS.settings().watches;
    if recorded && !watches && !breakpoint::is_at(addr) {
        thread.emit(&Record::Counter { ip: VirtAddr(addr), count: 1, name: name.as_bytes() });
    }
    // SAFETY: the cache has read the instruction from there.
    let ordered = recorded && sharing::current().is_some() && unsafe { x86::is_locked(addr) };
    if ordered && let Some(pool) = PROCESS.pool() {
        thread.emit(&Record::Order { order: pool.control().next_own_order() });
    }
    let regs = &mut context.gregs;
    let engine = thread.engine;
    thread.nested = None;
    // SAFETY: the cache has read the instruction from there.
    let repeated = unsafe { x86::is_repeated(addr) };
    let mut held = HeldAccesses {
        thread,
        ip: addr,
        recorded,
        watched: Touched::new(),
        before_it: *regs,
        repeated,
        list: [HeldAccess { addr: 0, len: 0, kind: AccessKind::Load, bytes: [0; MAX_LOOK], known: false };
            HELD],
        count: 0,
        begun: 0,
    };
    let before = regs.rcx;
    // SAFETY: this thread's engine, which nobody else uses; the state is that of the signal frame; the accesses are the
    // program's own.
    let outcome = unsafe { (*engine).step(regs, state, &mut held) };
    match outcome {
        // Of a repeated instruction that was left at an element that can't be accessed those before it are done.
        StepOutcome::Again if held.begun > before.wrapping_sub(context.gregs.rcx) => {}
        StepOutcome::Executed | StepOutcome::Again => held.tell(true),
        StepOutcome::Fault => {
            let own = thread.nested.take().unwrap_or(SigInfo::fault(libc::SIGSEGV, 1, 0));
            if own.code != SEGV_ACCERR || !code_changes::can_write_again(own.addr, 1) {
                // SAFETY: the context that we return to.
                unsafe { delivery::deliver(thread, own.signo, &own, context) };
            }
            verify::not_recorded(thread);
            context::leave(thread, context);
            return;
        }
        StepOutcome::NotEmulated(_) | StepOutcome::Refused => {
            held.count = 0;
            held.watched.clear();
            let regs = context.gregs;
            // SAFETY: the cache has read the instruction from there.
            unsafe { x86::accesses(&regs, tls::fs_base(), 0, |operand: Operand| held.hold(operand)) };
            held.tell(false);
            // Without a copy the program's own instruction runs, and its trap or fault comes back.
            context.gregs.rip = native.unwrap_or(addr);
        }
    }
    if let Some(live) = thread.translation.live().filter(|_| watches) {
        // It may have been the one that sets the base of fs.
        live.set_spill(FS_SPILL, tls::fs_base());
    }
    if recorded && outcome != StepOutcome::Again {
        if PROCESS.settings().flow {
            // SAFETY: the cache has read the instruction from there.
            let len = unsafe { x86::length(addr) };
            thread.emit(&Record::Executed { ip: VirtAddr(addr), len });
        }
        thread.count(1);
    }
    if ordered && let Some(pool) = PROCESS.pool() {
        thread.note_order_now(&pool);
    }
    if recorded {
        verify::executed(thread, context, outcome);
    } else {
        verify::not_recorded(thread);
    }
    if outcome == StepOutcome::Executed || outcome == StepOutcome::Again {
        context::leave(thread, context);
    }
}

/// Accesses that one instruction makes at most; a repeated one makes more, an element after the other.
const HELD: usize = 64;

/// Bytes that are recorded of each.
const MAX_LOOK: usize = 64;

/// An access that is being made.
#[derive(Clone, Copy)]
struct HeldAccess {
    addr: u64,
    len: u32,
    kind: AccessKind,
    bytes: [u8; MAX_LOOK],
    /// Those of a load were read.
    known: bool,
}

/// The accesses of one instruction, or of one element of a repeated one.
struct HeldAccesses<'a> {
    thread: &'a mut TracedThread,
    ip: u64,
    recorded: bool,
    /// What of its accesses is watched, and the registers before the instruction.
    watched: Touched,
    before_it: x86::Registers,
    repeated: bool,
    list: [HeldAccess; HELD],
    count: usize,
    /// Elements of a repeated instruction that were begun.
    begun: u64,
}

impl HeldAccesses<'_> {
    fn hold(&mut self, operand: Operand) {
        if PROCESS.settings().watches {
            self.begun += 1;
            if self.recorded {
                if self.watched.is_full() {
                    // A repeated string instruction: what came before is done.
                    self.tell_watched();
                }
                self.watched.note(operand.addr, operand.len.into(), operand.kind, true);
            }
            return;
        }
        if self.repeated && self.list.get(..self.count).is_some_and(is_element) {
            // Each element stores once, at its end: the one before is done.
            self.tell(true);
        }
        self.begun += u64::from(self.count == 0);
        let data = self.recorded && PROCESS.settings().data;
        if let Some(place) = self.list.get_mut(self.count) {
            let (addr, len, kind) = (operand.addr, operand.len, operand.kind);
            *place = HeldAccess { addr, len, kind, ..*place };
            place.known = data && kind == AccessKind::Load && look(place);
            self.count += 1;
        }
    }

    fn tell_watched(&mut self) {
        let origin = Origin::Instruction(&self.before_it);
        self.watched.tell(self.thread, self.ip, &origin);
    }

    /// Records what was held: it was made, or is about to be.
    fn tell(&mut self, made: bool) {
        if PROCESS.settings().watches {
            return self.tell_watched();
        }
        let count = core::mem::take(&mut self.count);
        let Some(pool) = PROCESS.pool().filter(|_| self.recorded) else { return };
        for making in self.list.iter_mut().take(count) {
            let (addr, len, kind) = (making.addr, making.len, making.kind);
            if !PROCESS.settings().data {
                self.thread.emit_access(&pool, self.ip, addr, len, kind);
                continue;
            }
            let known = match kind {
                // Memory that can only be written has no bytes that could be read beforehand.
                AccessKind::Load => making.known,
                AccessKind::Store | AccessKind::Modify => made && look(making),
                AccessKind::Prefetch => false,
            };
            let bytes = making.bytes.get(..len as usize).filter(|_| known).unwrap_or(&[]);
            let (ip, addr, size) = (VirtAddr(self.ip), VirtAddr(addr), len.min(u16::MAX.into()) as u16);
            self.thread.emit(&Record::Data { ip, addr, kind, size, bytes });
        }
    }
}

/// Whether the accesses that are held may be all of an element: a load alone may be followed by its store.
fn is_element(held: &[HeldAccess]) -> bool {
    held.len() == 2 || held.first().is_some_and(|making| making.kind != AccessKind::Load)
}

/// Reads what lies where an access is made. `false`: nothing can be read there, or it is too long.
fn look(making: &mut HeldAccess) -> bool {
    let len = making.len as usize;
    making.bytes.get_mut(..len).is_some_and(|place| program_memory::read(making.addr, place))
}

impl x86::Environment for HeldAccesses<'_> {
    fn access(&mut self, operand: Operand) -> Result<u64, Refused> {
        self.hold(operand);
        Ok(operand.addr)
    }

    fn fs_base(&self) -> u64 {
        tls::fs_base()
    }

    fn gs_base(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use AccessKind::{Load, Modify, Store};
    use buffers::flow::{Entries, Entry};

    use super::*;
    use crate::state::settings::Settings;
    use crate::testing;

    #[test]
    fn instructions_are_executed_for_the_program_or_run_in_the_cache() {
        let thread = testing::thread();
        // add [rdi], rax; syscall, which enters the kernel
        let code = testing::code(&[0x48, 0x01, 0x07, 0x0f, 0x05]);
        let mut memory = 40u64;
        let mut context = testing::context();
        (context.gregs.rdi, context.gregs.rax) = (&raw mut memory as u64, 2);
        let native = 0x1234;
        special(thread, &mut context, code, Some(native));
        assert_eq!((memory, context.gregs.rip, context.gregs.rax), (42, code + 3, 2));
        special(thread, &mut context, code + 3, Some(native));
        assert_eq!(context.gregs.rip, native);
        special(thread, &mut context, code + 3, None);
        assert_eq!((memory, context.gregs.rip, context.gregs.rax), (42, code + 3, 2));
    }

    #[test]
    fn elements_of_a_repeated_instruction_are_told_apart() {
        // How many elements have begun after these accesses, and how many of the last one's are held.
        let check = |repeated, accesses: &[AccessKind], expect: (u64, usize)| {
            let nothing =
                HeldAccess { addr: 0, len: 0, kind: AccessKind::Load, bytes: [0; MAX_LOOK], known: false };
            let mut held = HeldAccesses {
                thread: testing::thread(),
                ip: 0,
                recorded: false,
                watched: Touched::new(),
                before_it: x86::Registers::default(),
                repeated,
                list: [nothing; HELD],
                count: 0,
                begun: 0,
            };
            accesses.iter().for_each(|&kind| held.hold(Operand { addr: 0x1000, len: 1, kind }));
            assert_eq!((held.begun, held.count), expect, "{accesses:?}");
        };
        // As movs, stos and cmps access memory.
        check(true, &[Load, Store, Load, Store, Load], (3, 1));
        check(true, &[Store, Store], (2, 1));
        check(true, &[Load, Load, Load], (2, 1));
        // All of another instruction's are made at once.
        check(false, &[Load, Store, Load, Store], (1, 4));
    }

    /// What is recorded while an instruction is executed that stands at that address: kind, address and bytes of each access; and
    /// how many instructions are counted.
    fn recorded(
        thread: &mut TracedThread,
        pool: &buffers::Pool,
        context: &mut UContext,
        addr: u64,
    ) -> (Vec<(AccessKind, u64, Vec<u8>)>, u64) {
        let before = testing::written(thread, pool).len();
        context.gregs.rip = addr;
        // A repeated one may take several turns.
        while context.gregs.rip == addr {
            special(thread, context, addr, None);
        }
        let words = testing::written(thread, pool);
        let mut entries = Entries::new(&words[before..]);
        let mut counted = 0;
        while let Some(entry) = entries.next_entry() {
            counted += if let Entry::Instructions(count) = entry { count } else { 0 };
        }
        let data = testing::records(&words[before..]).into_iter().filter_map(|record| match record {
            Record::Data { ip, addr: at, kind, size, bytes } => {
                assert_eq!((ip, usize::from(size)), (VirtAddr(addr), bytes.len()));
                Some((kind, at.0, bytes.to_vec()))
            }
            _ => None,
        });
        (data.collect(), counted)
    }

    #[test]
    fn accesses_are_recorded_with_what_they_read_and_wrote() {
        if !testing::is_alone(accesses_are_recorded_with_what_they_read_and_wrote) {
            return;
        }
        let (thread, pool) = testing::recorded(Settings { data: true, ..testing::TRANSLATED });
        // rep movsb; add [rdi], al
        let code = testing::code(&[0xf3, 0xa4, 0x00, 0x07]);
        let mut memory = *b"abcd";
        let at = memory.as_mut_ptr() as u64;
        let mut context = testing::context();
        (context.gregs.rsi, context.gregs.rdi, context.gregs.rcx) = (at, at + 1, 2);
        let (data, counted) = recorded(thread, &pool, &mut context, code);
        // The second element loads what the first one has stored.
        let a = || b"a".to_vec();
        assert_eq!(data, [(Load, at, a()), (Store, at + 1, a()), (Load, at + 1, a()), (Store, at + 2, a())]);
        assert_eq!((&memory, counted), (b"aaad", 1));
        (context.gregs.rdi, context.gregs.rax) = (at + 3, 1);
        let (data, counted) = recorded(thread, &pool, &mut context, code + 2);
        assert_eq!((data, counted), (vec![(Modify, at + 3, b"e".to_vec())], 1));
        // In a function that is one event nothing is.
        thread.calls.silent = 1;
        let (data, counted) = recorded(thread, &pool, &mut context, code + 2);
        assert_eq!((&memory, data, counted), (b"aaaf", vec![], 0));
    }
}
