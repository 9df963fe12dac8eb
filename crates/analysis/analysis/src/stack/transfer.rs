//! The effect of an instruction on a call stack.

use memref::{Access, AccessKind, VirtAddr};
use symbols::{CodeId, FunctionId, Resolver};
use x86::{Instruction, MAX_INSTRUCTION_BYTES, Transfer};

use crate::code_files::CodeFiles;

/// Bytes of a return address.
pub(crate) const RETURN_BYTES: u32 = 8;
/// A function's first access comes with one of its first instructions: it saves registers.
const PROLOGUE_BYTES: u64 = 16;

/// The effect of an instruction on a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEdge {
    /// Nothing.
    None,
    /// It calls.
    Call,
    /// It returns.
    Return,
}

/// What is known of one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructed {
    pub(super) edge: CallEdge,
    /// The function that it is in.
    pub(super) function: FunctionId,
    /// Whether that has a name: all code of a module without symbols counts as one function.
    pub(super) is_named: bool,
    /// Whether it is one of the first of its function.
    pub(super) is_prologue: bool,
    /// How far from itself it calls, if it says so: a file may be mapped elsewhere in another process.
    reach: Option<u64>,
}

impl Instructed {
    /// Where the instruction calls, if it says so itself and is at `ip`.
    pub(super) fn target(&self, ip: VirtAddr) -> Option<VirtAddr> {
        self.reach.map(|reach| VirtAddr(ip.0.wrapping_add(reach)))
    }
}

/// What is known of all instructions, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Instructions {
    all: Vec<Option<Instructed>>,
    files: CodeFiles,
}

impl Instructions {
    /// What is known of the instruction at `ip`, whose number is `code`.
    #[inline]
    pub(super) fn get(&mut self, resolver: &Resolver, ip: VirtAddr, code: CodeId) -> &Instructed {
        let index = code.0 as usize;
        if !matches!(self.all.get(index), Some(Some(_))) {
            self.find(resolver, ip, code);
        }
        self.all[index].as_ref().expect("it was found")
    }

    /// What an access does to a stack of calls.
    pub(crate) fn edge(&mut self, resolver: &mut Resolver, access: &Access) -> CallEdge {
        if access.size != RETURN_BYTES {
            return CallEdge::None;
        }
        let code = resolver.resolve_code(access.ip);
        self.get(resolver, access.ip, code).edge.of_access(access)
    }

    /// Whether an instruction neither calls nor returns.
    pub(crate) fn goes_on(&mut self, resolver: &Resolver, ip: VirtAddr, code: CodeId) -> bool {
        self.get(resolver, ip, code).edge == CallEdge::None
    }

    #[cold]
    fn find(&mut self, resolver: &Resolver, ip: VirtAddr, code: CodeId) {
        let name = resolver.names().code(code);
        let function = name.as_ref().map_or(FunctionId(u32::MAX), |name| name.function_id);
        let is_named = name.as_ref().is_some_and(|name| name.function.is_some());
        let is_prologue = is_named && name.is_some_and(|name| name.offset < PROLOGUE_BYTES);
        let mut bytes = [0; MAX_INSTRUCTION_BYTES];
        let bytes = self.files.at(resolver, ip, &mut bytes);
        let (edge, target) = bytes.map_or((CallEdge::None, None), |bytes| edge(ip, bytes));
        let reach = target.map(|target| target.0.wrapping_sub(ip.0));
        let known = Instructed { edge, function, is_named, is_prologue, reach };
        let index = code.0 as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, None);
        }
        self.all[index] = Some(known);
    }
}

fn edge(ip: VirtAddr, bytes: &[u8]) -> (CallEdge, Option<VirtAddr>) {
    let transfer =
        Instruction::decode(bytes, ip.0).map_or(Transfer::Next, |instruction| instruction.transfer());
    match transfer {
        Transfer::Call(target) => (CallEdge::Call, Some(VirtAddr(target))),
        Transfer::CallIndirect => (CallEdge::Call, None),
        Transfer::Return(_) => (CallEdge::Return, None),
        _ => (CallEdge::None, None),
    }
}

impl CallEdge {
    /// What an access of such an instruction does. A call writes its return address; one through memory also loads where it goes. A
    /// return reads it.
    #[inline]
    pub(super) fn of_access(self, access: &Access) -> Self {
        let is_done = match self {
            Self::None => true,
            Self::Call => access.kind == AccessKind::Store && access.size == RETURN_BYTES,
            Self::Return => access.kind == AccessKind::Load && access.size == RETURN_BYTES,
        };
        if is_done { self } else { Self::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reaches_as_far_wherever_its_file_is_mapped() {
        let known = |reach| Instructed {
            edge: CallEdge::Call,
            function: FunctionId(0),
            is_named: true,
            is_prologue: false,
            reach,
        };
        let back = known(Some(0x1000_u64.wrapping_sub(0x3000)));
        assert_eq!(back.target(VirtAddr(0x3000)), Some(VirtAddr(0x1000)));
        assert_eq!(back.target(VirtAddr(0x7f00_0000_3000)), Some(VirtAddr(0x7f00_0000_1000)));
        assert_eq!(known(None).target(VirtAddr(0x3000)), None);
    }

    #[test]
    fn calls_and_returns_are_told_from_the_rest() {
        let check = |bytes: &[u8], expect| assert_eq!(edge(VirtAddr(0x1000), bytes).0, expect, "{bytes:x?}");
        assert_eq!(edge(VirtAddr(0x1000), &[0xe8, 1, 0, 0, 0]), (CallEdge::Call, Some(VirtAddr(0x1006))));
        check(&[0xff, 0xd0], CallEdge::Call);
        check(&[0xff, 0x15, 1, 0, 0, 0], CallEdge::Call);
        check(&[0xc3], CallEdge::Return);
        check(&[0xf3, 0xc3], CallEdge::Return);
        check(&[0xc2, 8, 0], CallEdge::Return);
        // jmp, push, syscall, and what is cut.
        check(&[0xff, 0x25, 1, 0, 0, 0], CallEdge::None);
        check(&[0x50], CallEdge::None);
        check(&[0x0f, 0x05], CallEdge::None);
        check(&[0xe8, 1], CallEdge::None);
        check(&[], CallEdge::None);
    }
}
