//! The code cache of this process, and what it needs from the process while it translates:
//! reading code, learning where code is left, and passing definitions of blocks to the recorder.

use core::sync::atomic::{AtomicU64, Ordering};

use blocks::{MAX_DEFINITION_BYTES, encode_definition};
use buffers::DefinitionWriter;
use code_cache::{Defined, Engine, Mode, Untranslatable};
use memref::GapReason;
use tracee::lock::Lock;
use tracee::sys;

use crate::emit::recorder;
use crate::emit::work::Work;
use crate::memory::code_ranges::{self, Executable};
use crate::memory::{code_views, program_memory};
use crate::recording::breakpoint;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::translate::entry_table;

pub(crate) static ENGINE: Lock<Engine> = Lock::new(Engine::new());
/// Blocks that were asked for and not there. Of so many one, not the first, is timed and stands for all: the clock is a system call, and
/// what it says goes into a mean.
static TRANSLATED: AtomicU64 = AtomicU64::new(0);
const TIMED_OF: u64 = 16;
static DEFINITIONS: Lock<Definitions> =
    Lock::new(Definitions { writer: DefinitionWriter::new(), bytes: [0; MAX_DEFINITION_BYTES] });

/// Where definitions go.
struct Definitions {
    writer: DefinitionWriter,
    /// One is made here, so that its room need not be cleared each time.
    bytes: [u8; MAX_DEFINITION_BYTES],
}

/// In a forked child: definitions go into buffers of its own.
pub(crate) fn forget_definitions() {
    DEFINITIONS.lock().writer.forget();
}

/// What the cache needs of this process.
pub(crate) struct Around {
    pub(crate) mode: Mode,
}

impl code_cache::Environment for Around {
    fn read(&self, addr: u64, into: &mut [u8]) -> usize {
        let executable = match code_ranges::around(addr) {
            Executable::Within(stretch) => (stretch.end - addr).min(into.len() as u64),
            // The processor faults there.
            Executable::Not => return 0,
            Executable::Unknown => into.len() as u64,
        };
        // Before: what is written from now on is told.
        code_views::watch(addr, executable);
        let Some(all) = into.get_mut(..executable as usize) else { return 0 };
        if program_memory::read_by_kernel(addr, all) { all.len() } else { 0 }
    }

    fn resolve(&self, addr: u64, mode: Mode) -> u64 {
        if PROCESS.owns_code(addr) { entry_table::resolve(addr, mode) } else { addr }
    }

    fn is_stop(&self, addr: u64) -> bool {
        self.is_own(addr) || breakpoint::is_at(addr)
    }

    fn is_own(&self, addr: u64) -> bool {
        PROCESS.owns_code(addr)
            || self.mode == Mode::Record && entry_table::is_real(addr)
            || self.mode == Mode::Silent && entry_table::raises(addr)
    }

    fn define(&mut self, id: u32, block: Defined<'_>) -> bool {
        let Some(pool) = PROCESS.pool() else { return false };
        if self.mode != Mode::Record {
            return true;
        }
        let process = PROCESS.number.load(Ordering::Relaxed);
        let control = pool.control();
        loop {
            if control.is_closed() {
                return true;
            }
            let freed = control.freed_word().load(Ordering::Acquire);
            let mut definitions = DEFINITIONS.lock();
            let Definitions { writer, bytes } = &mut *definitions;
            let len = encode_definition(id, block.extent, block.values, block.accesses, bytes);
            if writer.write(&pool, process, bytes.get(..len).unwrap_or(&[])).is_ok() {
                return true;
            }
            drop(definitions);
            recorder::wait_for_free(control, freed);
        }
    }
}

/// From now on indirect branches from code of that kind to that address leave the cache.
pub(crate) fn intercept(thread: &mut TracedThread, addr: u64, mode: Mode) {
    let known = &mut thread.translation.known;
    if !known.is_stop(addr, mode) {
        let mut engine = ENGINE.lock();
        engine.intercept(addr, mode);
        known.note_stop(addr, mode);
    }
}

/// Code for an address of the program; `None` where there can be none: the program goes on natively.
pub(crate) fn code_for(thread: &mut TracedThread, addr: u64, indirect: bool) -> Option<u64> {
    let mode = thread.mode();
    if !indirect && let Some(code) = thread.translation.known.code(addr, mode) {
        return Some(code);
    }
    let mut around = Around { mode };
    let result = {
        let mut engine = ENGINE.lock();
        if engine.contains(addr) {
            return Some(addr);
        }
        let is_new = match engine.known(addr, mode) {
            Some(code) if !indirect => {
                thread.translation.known.note_code(addr, mode, code);
                return Some(code);
            }
            known => known.is_none(),
        };
        let start = (is_new && TRANSLATED.fetch_add(1, Ordering::Relaxed) % TIMED_OF == TIMED_OF / 2)
            .then(sys::realtime_ns);
        let result = if indirect {
            engine.code_for_indirect(addr, mode, &mut around)
        } else {
            engine.code(addr, mode, &mut around)
        };
        if let Some(start) = start {
            Work::TranslationNs.add(sys::realtime_ns().saturating_sub(start) * TIMED_OF);
        }
        result
    };
    let unwatched = code_views::take_unwatched();
    if unwatched > 0 {
        thread.emit_gap(
            GapReason::LostControl,
            unwatched,
            addr,
            b"code that can't be kept from being written",
        );
    }
    match result {
        Ok(code) => Some(code),
        // Natively it faults there, as it should.
        Err(Untranslatable::Unreadable) => None,
        Err(Untranslatable::Full) => {
            thread.emit_gap(GapReason::LostControl, 1, addr, b"no room for translated code");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use buffers::Content;
    use code_cache::Environment;

    use super::*;
    use crate::memory::pages::PAGE_BYTES;
    use crate::testing;

    #[test]
    fn code_is_read_up_to_where_it_can_be_executed() {
        let code = testing::code(&[0x90; PAGE_BYTES as usize]);
        let around = Around { mode: Mode::Quiet };
        let mut bytes = [0; 16];
        assert_eq!((around.read(code, &mut bytes), bytes), (16, [0x90; 16]));
        bytes.fill(0);
        assert_eq!(around.read(code + PAGE_BYTES - 3, &mut bytes), 3);
        assert_eq!(bytes[..4], [0x90, 0x90, 0x90, 0]);
        assert_eq!(around.read(code + PAGE_BYTES, &mut bytes), 0);
        // It can be read, but not executed.
        let data = [0x90u8; 16];
        assert_eq!(around.read(data.as_ptr() as u64, &mut bytes), 0);
    }

    /// Bytes of definitions that were written for a process.
    fn defined(process: u32) -> usize {
        let pool = PROCESS.pool().expect("it is recorded");
        let is_one = |buffer: &buffers::Buffer| {
            buffer.is_owned_by(process) && buffer.header().content() == Content::Definitions
        };
        pool.buffers().filter(is_one).map(|buffer| buffer.header().filled()).sum()
    }

    #[test]
    fn code_is_made_once_for_each_kind_and_defined_where_it_records() {
        if !testing::is_alone(code_is_made_once_for_each_kind_and_defined_where_it_records) {
            return;
        }
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        // mov rax, [rdi]; ret
        let addr = testing::code(&[0x48, 0x8b, 0x07, 0xc3]);
        PROCESS.recording.store(false, Ordering::Relaxed);
        let quiet = code_for(thread, addr, false).expect("it is code");
        assert!(ENGINE.lock().contains(quiet) && !ENGINE.lock().contains(addr));
        assert_eq!(defined(thread.process), 0);
        PROCESS.recording.store(true, Ordering::Relaxed);
        let recorded = code_for(thread, addr, false).expect("it is code");
        assert_ne!(recorded, quiet);
        let bytes = defined(thread.process);
        assert!(bytes > 0);
        // Nothing is made again, whoever asks: not even for an indirect branch, or for what the cache has.
        for other in [&mut *thread, testing::thread()] {
            let all = [(addr, false), (addr, true), (recorded, false)];
            assert_eq!(all.map(|(addr, indirect)| code_for(other, addr, indirect)), [Some(recorded); 3]);
        }
        assert_eq!((defined(thread.process), ENGINE.lock().translated().blocks), (bytes, 2));
        // The processor faults there.
        assert_eq!(code_for(thread, addr + PAGE_BYTES, false), None);
        // In a child they go into a buffer of its own.
        forget_definitions();
        PROCESS.number.store(1, Ordering::Relaxed);
        code_for(thread, addr + 3, false).expect("it is code");
        assert_eq!(defined(thread.process), bytes);
        assert!(defined(1) > 0);
    }
}
