//! The functions that call instructions reach, as far as the code tells: by address, through a slot of the global offset
//! table, or through a function that can only jump there. The target of a call through any other pointer is unknown.

use std::sync::Arc;

use memref::VirtAddr;
use symbols::Resolver;
use x86::{Instruction, Transfer};

use crate::code_files::CodeFiles;

/// Functions that do more before they jump on are not followed.
const MOST_INSTRUCTIONS: usize = 32;

/// Looks at calls.
#[derive(Debug, Default)]
pub(crate) struct Callees {
    files: CodeFiles,
}

impl Callees {
    /// The function with a name that is asked for, or with a slot of the global offset table, that the call there leads to without a choice.
    pub(crate) fn of(
        &mut self,
        resolver: &mut Resolver,
        call: VirtAddr,
        is_asked: fn(&str) -> bool,
    ) -> Option<Arc<str>> {
        let mut at = call;
        for count in 0..MOST_INSTRUCTIONS {
            let instruction = self.files.instruction(resolver, at)?;
            let step = if count == 0 { Step::of_call(&instruction) } else { Step::within(&instruction) };
            at = match step? {
                Step::Next(next) => next,
                Step::To(target) => match function_name(resolver, target).filter(|name| is_asked(name)) {
                    Some(name) => return Some(name),
                    None => target,
                },
                Step::Through(slot) => {
                    let (_, instance) = resolver.image().instance_at(slot)?;
                    return instance.module.slot_function(instance.linked(slot)).map(Arc::from);
                }
            };
        }
        None
    }

    /// Whether the instruction there accesses memory at a place of its module, as a variable of it.
    pub(crate) fn names_static(&mut self, resolver: &Resolver, ip: VirtAddr) -> bool {
        self.files.instruction(resolver, ip).is_some_and(|one| one.rip_relative().is_some())
    }
}

/// The C library's function that a procedure linkage table's entry, or a function that checks bounds as well, is for: `memcpy` of
/// `memcpy@plt` and `__memcpy_chk`.
pub(crate) fn library_function(name: &str) -> &str {
    let name = name.strip_suffix("@plt").unwrap_or(name);
    let checked = name.strip_prefix("__").and_then(|inner| inner.strip_suffix("_chk"));
    checked.unwrap_or(name)
}

/// The name of the function at an address.
fn function_name(resolver: &mut Resolver, ip: VirtAddr) -> Option<Arc<str>> {
    resolver.code_name(ip)?.function.clone()
}

/// Where execution goes on, whatever registers and variables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// At the next instruction.
    Next(VirtAddr),
    /// There.
    To(VirtAddr),
    /// Where that word of memory says: only of a slot of the global offset table is it known.
    Through(VirtAddr),
}

impl Step {
    /// After a call; nothing where it may go anywhere, or is no call.
    fn of_call(instruction: &Instruction) -> Option<Self> {
        match instruction.transfer() {
            Transfer::Call(target) => Some(Self::To(VirtAddr(target))),
            Transfer::CallIndirect => Self::through(instruction),
            _ => None,
        }
    }

    /// After an instruction of the function that was called; nothing where it has a choice, calls or returns.
    fn within(instruction: &Instruction) -> Option<Self> {
        match instruction.transfer() {
            Transfer::Next => Some(Self::Next(VirtAddr(instruction.next()))),
            Transfer::Jump(target) => Some(Self::To(VirtAddr(target))),
            Transfer::JumpIndirect => Self::through(instruction),
            _ => None,
        }
    }

    fn through(instruction: &Instruction) -> Option<Self> {
        instruction.rip_relative().map(|operand| Self::Through(VirtAddr(operand.target)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_followed_where_they_have_no_choice() {
        let check = |bytes: &[u8], of_call, within| {
            let instruction = Instruction::decode(bytes, 0x1000).expect("it is an instruction");
            assert_eq!((Step::of_call(&instruction), Step::within(&instruction)), (of_call, within));
        };
        let (to, through) = (Step::To(VirtAddr(0x1105)), Step::Through(VirtAddr(0x1106)));
        check(&[0xe8, 0, 1, 0, 0], Some(to), None);
        check(&[0xe9, 0, 1, 0, 0], None, Some(to));
        // call and jmp *0x100(%rip)
        check(&[0xff, 0x15, 0, 1, 0, 0], Some(through), None);
        check(&[0xff, 0x25, 0, 1, 0, 0], None, Some(through));
        // call *8(%rax), call *%rax, jmp *%rdx
        check(&[0xff, 0x50, 8], None, None);
        check(&[0xff, 0xd0], None, None);
        check(&[0xff, 0xe2], None, None);
        // endbr64, jne, ret
        check(&[0xf3, 0x0f, 0x1e, 0xfa], None, Some(Step::Next(VirtAddr(0x1004))));
        check(&[0x75, 0x10], None, None);
        check(&[0xc3], None, None);
    }
}
