//! Changes of code: by the program's writes, and by its mappings. The affected translated code is forgotten.

use code_cache::Place;

use crate::memory::code_ranges;
use crate::memory::code_views::{self, CodeStretch, CodeStretches, FileId};
use crate::memory::pages::{self, PAGE_BYTES};
use crate::state::process::PROCESS;
use crate::translate::engine::ENGINE;
use crate::translate::entry_table;

/// What a system call does to the program's mappings. Lengths are as the program gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappingChange {
    /// There is a mapping now. `fd`: -1 where there is no file.
    Mapped { start: u64, len: u64, prot: i32, shared: bool, fd: i32, offset: u64 },
    /// A mapping is about to go.
    Unmapped { start: u64, len: u64 },
    /// The rights to memory have changed.
    Protected { start: u64, len: u64, prot: i32 },
    /// Bytes have changed otherwise than by writing.
    Discarded { start: u64, len: u64 },
    /// A file was written by a call, at these places in it.
    Written { file: FileId, stretch: CodeStretch },
    /// Memory is about to be moved.
    Moving { start: u64, len: u64 },
    /// It was; `keeps`: what is left there stays mapped.
    Moved { old: u64, old_len: u64, new: u64, new_len: u64, keeps: bool },
    /// Shared memory was attached at an address.
    Attached { start: u64 },
    /// Shared memory is about to be detached.
    Detached { start: u64 },
}

impl MappingChange {
    /// What can be executed now, and what can't any more.
    fn note_rights(self) {
        let stretch =
            |start: u64, len: u64| CodeStretch { start, end: start.saturating_add(pages::whole_pages(len)) };
        match self {
            // The kernel changes more than was named.
            Self::Protected { prot, .. } if prot & (libc::PROT_GROWSDOWN | libc::PROT_GROWSUP) != 0 => {
                code_ranges::forget_all();
            }
            Self::Mapped { start, len, prot, .. } | Self::Protected { start, len, prot } => {
                code_ranges::set(stretch(start, len), prot);
            }
            Self::Unmapped { start, len } | Self::Moving { start, len } => {
                code_ranges::forget(stretch(start, len))
            }
            Self::Moved { new, new_len, .. } => code_ranges::forget(stretch(new, new_len)),
            Self::Discarded { .. } | Self::Written { .. } | Self::Attached { .. } => {}
            // How long it was the kernel knows.
            Self::Detached { .. } => code_ranges::forget_all(),
        }
    }

    /// Where code is to be forgotten.
    fn stretches(self) -> CodeStretches {
        // To the end of the last page.
        let stretch =
            |start: u64, len: u64| CodeStretch { start, end: start.saturating_add(pages::whole_pages(len)) };
        match self {
            Self::Mapped { start, len, prot, shared, fd, offset } => {
                code_views::mapped(stretch(start, len), prot, shared, fd, offset)
            }
            Self::Unmapped { start, len } => code_views::unmapped(stretch(start, len)),
            Self::Protected { start, len, prot } => code_views::protected(stretch(start, len), prot),
            Self::Discarded { start, len } => code_views::changed(stretch(start, len)),
            Self::Written { file, stretch } => code_views::written(file, stretch),
            Self::Moving { start, len } => code_views::moving(stretch(start, len)),
            Self::Moved { old, old_len, new, new_len, keeps } => {
                code_views::moved(stretch(old, old_len), stretch(new, new_len), keeps)
            }
            Self::Attached { start } => code_views::attached(start),
            Self::Detached { start } => code_views::detached(start),
        }
    }
}

/// The program changes its mappings: what can be executed is noted, and code is forgotten, if it is translated at all. Nobody translates between the two, and what
/// this takes of the heap is given back before a fork.
pub(crate) fn on_mapping(change: MappingChange) {
    change.note_rights();
    if !PROCESS.settings().translate {
        return;
    }
    let mut engine = ENGINE.lock();
    for stretch in change.stretches() {
        engine.invalidate(stretch.start, stretch.end);
        entry_table::forget(stretch.start, stretch.end);
    }
}

/// A page with code is about to be written, or was: the code is forgotten, and the page can be written. Whether the code that
/// writes may be among it; `None`: there is no such page.
pub(crate) fn open_code(start: u64, len: u64, rip: u64) -> Option<bool> {
    let mut engine = ENGINE.lock();
    let changed = code_views::open(start, start.saturating_add(len))?;
    for stretch in &changed {
        engine.invalidate(stretch.start, stretch.end);
    }
    let Place::At { addr, .. } = engine.place(rip) else { return Some(false) };
    let is_near = |stretch: &CodeStretch| addr.abs_diff(stretch.start) < 2 * PAGE_BYTES;
    // A long path may lead from elsewhere to what is written.
    Some(changed.iter().any(|stretch| is_near(stretch) || engine.is_of(rip, stretch.start, stretch.end)))
}

/// The kernel, or the tracer, writes there for the program: code in such pages is forgotten. Returns whether there was any.
pub(crate) fn on_write_for_program(start: u64, len: u64) -> bool {
    open_code(start, len, 0).is_some()
}

/// As [`on_write_for_program`], and true also where another thread's write has opened the page meanwhile: the write is made again.
pub(crate) fn can_write_again(addr: u64, len: u64) -> bool {
    on_write_for_program(addr, len) || code_views::was_opened(addr)
}
