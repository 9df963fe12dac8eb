//! The stack frame of the function that a thread begins with, whose call was not recorded.
//! An access through the stack or frame pointer gives the value of the register, and call
//! frame information gives the distance from there to the canonical frame address (CFA).

use memref::{Access, VirtAddr};
use symbols::{CodeId, Resolver};
use x86::{Examiner, SegmentBase};

use crate::code_files::CodeFiles;

/// What is known of instructions that access by a frame's registers.
#[derive(Debug, Default)]
pub(super) struct FrameEntries {
    files: CodeFiles,
    /// By the instruction's number: bytes from what it accesses to the CFA.
    known: Vec<Option<Option<i64>>>,
}

impl FrameEntries {
    /// The CFA of the function that makes an access with that instruction; nothing where it goes by another register, or where
    /// nothing tells.
    #[inline]
    pub(super) fn cfa(&mut self, resolver: &Resolver, code: CodeId, access: &Access) -> Option<VirtAddr> {
        let index = code.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        let distance = self.known[index].unwrap_or_else(|| self.distance(resolver, access.ip));
        self.known[index] = Some(distance);
        Some(VirtAddr(access.addr.0.wrapping_add_signed(distance?)))
    }

    #[cold]
    fn distance(&mut self, resolver: &Resolver, ip: VirtAddr) -> Option<i64> {
        let instruction = self.files.instruction(resolver, ip)?;
        let (_, instance) = resolver.image().instance_at(ip)?;
        let rule = instance.module.cfa_rule(instance.linked(ip))?;
        let mut examiner = Examiner::new();
        let effects = examiner.examine(&instruction);
        let mut operands = effects.operands();
        let (operand, others) = (operands.next()?, operands.next());
        let is_plain = others.is_none() && operand.index.is_none() && operand.segment == SegmentBase::Flat;
        (is_plain && operand.base == Some(rule.register)).then(|| rule.offset - operand.displacement)
    }
}
