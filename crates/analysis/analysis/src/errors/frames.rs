//! Where the frames of running functions are, by the return addresses that calls write.

use memref::{Access, AccessKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use x86::Transfer;

use crate::code_files::CodeFiles;

/// Bytes of a return address.
const SLOT_BYTES: u32 = 8;

/// What an instruction does to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameChange {
    None,
    Call,
    Return,
}

/// The frames of all threads.
#[derive(Debug, Default)]
pub(super) struct CallFrames {
    files: CodeFiles,
    known: Vec<Option<FrameChange>>,
    /// Addresses of return addresses, the outermost first.
    threads: FxHashMap<ThreadId, Vec<VirtAddr>>,
}

impl CallFrames {
    /// An access to what is no block and no variable, which may be a stack.
    pub(super) fn access(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        code: CodeId,
        access: &Access,
    ) {
        if access.size != SLOT_BYTES || !matches!(access.kind, AccessKind::Load | AccessKind::Store) {
            return;
        }
        let index = code.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        let change = match self.known[index] {
            Some(change) => change,
            None => *self.known[index].insert(look(&mut self.files, resolver, access.ip)),
        };
        match (change, access.kind) {
            (FrameChange::Call, AccessKind::Store) => {
                let slots = self.threads.entry(thread).or_default();
                while slots.pop_if(|slot| *slot <= access.addr).is_some() {}
                slots.push(access.addr);
            }
            (FrameChange::Return, AccessKind::Load) => {
                let slots = self.threads.entry(thread).or_default();
                while slots.pop_if(|slot| *slot <= access.addr).is_some() {}
            }
            _ => {}
        }
    }

    /// The canonical frame address of the function that runs.
    pub(super) fn cfa(&self, thread: ThreadId) -> Option<VirtAddr> {
        Some(self.threads.get(&thread)?.last()?.offset(SLOT_BYTES.into()))
    }
}

fn look(files: &mut CodeFiles, resolver: &Resolver, ip: VirtAddr) -> FrameChange {
    match files.instruction(resolver, ip).map(|one| one.transfer()) {
        Some(Transfer::Call(_) | Transfer::CallIndirect) => FrameChange::Call,
        Some(Transfer::Return(_)) => FrameChange::Return,
        _ => FrameChange::None,
    }
}
