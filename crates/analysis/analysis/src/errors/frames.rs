//! Calls and returns, by the return addresses that they write and read.

use memref::{Access, AccessKind, VirtAddr};
use symbols::Resolver;
use x86::Transfer;

use crate::code_files::CodeFiles;

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
    /// What an access does.
    pub(super) fn change(&mut self, resolver: &mut Resolver, access: &Access) -> FrameChange {
        if access.size != SLOT_BYTES {
            return FrameChange::None;
        }
        match (access.kind, self.of(resolver, access.ip)) {
            (AccessKind::Store, FrameChange::Call) => FrameChange::Call,
            (AccessKind::Load, FrameChange::Return) => FrameChange::Return,
            _ => FrameChange::None,
        }
    }

    /// What the instruction there does.
    fn of(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> FrameChange {
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

fn look(files: &mut CodeFiles, resolver: &Resolver, ip: VirtAddr) -> FrameChange {
    match files.instruction(resolver, ip).map(|one| one.transfer()) {
        Some(Transfer::Call(_) | Transfer::CallIndirect) => FrameChange::Call,
        Some(Transfer::Return(_)) => FrameChange::Return,
        _ => FrameChange::None,
    }
}
