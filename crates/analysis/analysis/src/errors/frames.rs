//! Where the frames of running functions are, by the return addresses that calls write.

use memref::{Access, AccessKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use x86::Transfer;

use crate::code_files::CodeFiles;
use crate::stack::FrameEntries;

/// Bytes of a return address.
pub(super) const SLOT_BYTES: u32 = 8;

/// What an instruction, or an access of it, does to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameChange {
    None,
    Call,
    Return,
}

/// Knows the instructions that change frames. Of code that is in no file nobody knows.
#[derive(Debug, Default)]
pub(super) struct FrameCode {
    files: CodeFiles,
    known: Vec<Option<FrameChange>>,
}

impl FrameCode {
    /// What the instruction there does.
    pub(super) fn of(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> FrameChange {
        let index = resolver.resolve_code(ip).0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        match self.known[index] {
            Some(change) => change,
            None => *self.known[index].insert(look(&mut self.files, resolver, ip)),
        }
    }
}

/// The frames of all threads.
#[derive(Debug, Default)]
pub(super) struct CallFrames {
    pub(super) code: FrameCode,
    /// Addresses of return addresses, the outermost first.
    threads: FxHashMap<ThreadId, Vec<VirtAddr>>,
    entries: FrameEntries,
    /// The canonical frame addresses of the functions that nobody saw called, of threads where one of these runs.
    outermost: FxHashMap<ThreadId, VirtAddr>,
}

impl CallFrames {
    /// An access to what is no block and no variable, which may be a stack: what it does to the thread's frames.
    pub(super) fn access(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        access: &Access,
    ) -> FrameChange {
        if access.size != SLOT_BYTES || !matches!(access.kind, AccessKind::Load | AccessKind::Store) {
            return FrameChange::None;
        }
        let change = self.code.of(resolver, access.ip);
        match (change, access.kind) {
            (FrameChange::Call, AccessKind::Store) => {
                let slots = self.threads.entry(thread).or_default();
                while slots.pop_if(|slot| *slot <= access.addr).is_some() {}
                slots.push(access.addr);
            }
            (FrameChange::Return, AccessKind::Load) => {
                let slots = self.threads.entry(thread).or_default();
                let mut returned = None;
                while let Some(slot) = slots.pop_if(|slot| *slot <= access.addr) {
                    returned = Some(slot);
                }
                if returned != Some(access.addr) {
                    self.outermost.remove(&thread);
                }
            }
            _ => return FrameChange::None,
        }
        change
    }

    /// The canonical frame address of the function that runs.
    pub(super) fn cfa(&self, thread: ThreadId) -> Option<VirtAddr> {
        match self.threads.get(&thread).and_then(|slots| slots.last()) {
            Some(slot) => Some(slot.offset(SLOT_BYTES.into())),
            None => self.outermost.get(&thread).copied(),
        }
    }

    /// The same at an access of that function's own, which may be the first to tell.
    pub(super) fn cfa_at(
        &mut self,
        resolver: &Resolver,
        thread: ThreadId,
        code: CodeId,
        access: &Access,
    ) -> Option<VirtAddr> {
        let known = self.cfa(thread);
        if known.is_none()
            && let Some(cfa) = self.entries.cfa(resolver, code, access)
        {
            self.outermost.insert(thread, cfa);
            return Some(cfa);
        }
        known
    }
}

fn look(files: &mut CodeFiles, resolver: &Resolver, ip: VirtAddr) -> FrameChange {
    match files.instruction(resolver, ip).map(|one| one.transfer()) {
        Some(Transfer::Call(_) | Transfer::CallIndirect) => FrameChange::Call,
        Some(Transfer::Return(_)) => FrameChange::Return,
        _ => FrameChange::None,
    }
}
