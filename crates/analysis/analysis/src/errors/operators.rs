//! Which of C++'s operators a call of the allocator was: within the C++ library they call each other and malloc, and the innermost is told.
//!
//! An operator that ends with a jump to `free` leaves no call of its own, and neither does a function that ends with a jump to the
//! operator. What was called is known where the call names it: by its address, by a slot of the global offset table, or by a function
//! that has no choice but to jump there. A call through another pointer says nothing.

use std::sync::Arc;

use memref::{Allocation, AllocationFunction, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use x86::{Instruction, MAX_INSTRUCTION_BYTES, Transfer};

use crate::code_files::CodeFiles;

/// Functions that do more before they jump to an operator are not followed.
const MOST_INSTRUCTIONS: usize = 32;

/// What is known of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CalledOperator {
    /// An operator of the library made it, for somebody.
    pub(super) is_within: bool,
    /// Whether it is for an array; nothing where the call does not say it.
    pub(super) is_array: Option<bool>,
    /// The call was one of the C library's function.
    pub(super) is_plain: bool,
}

impl CalledOperator {
    /// Whether an operator was called, whichever function it went on to.
    pub(super) fn is_operator(self) -> bool {
        self.is_within || self.is_array.is_some()
    }

    /// A call of the function of that name, by one of that name.
    fn named(caller: Option<&str>, callee: Option<&str>) -> Self {
        let is_within = caller.is_some_and(|caller| is_operator(caller).is_some());
        let callee = callee.filter(|_| !is_within);
        Self { is_within, is_array: callee.and_then(is_operator), is_plain: callee.is_some_and(is_plain) }
    }
}

/// Looks at calls.
#[derive(Debug, Default)]
pub(super) struct CalledOperators {
    files: CodeFiles,
    known: FxHashMap<CodeId, CalledOperator>,
}

impl CalledOperators {
    /// What the call of that event is.
    pub(super) fn of(&mut self, resolver: &mut Resolver, event: &Allocation) -> CalledOperator {
        use AllocationFunction::{Delete, DeleteArray, Free, Malloc, New, NewArray};
        match event.function {
            NewArray | DeleteArray => CalledOperator { is_array: Some(true), ..CalledOperator::default() },
            New | Delete | Malloc | Free => {
                let code = resolver.resolve_code(event.ip);
                if let Some(known) = self.known.get(&code) {
                    return *known;
                }
                let caller = function_name(resolver, event.ip);
                let callee = self.callee(resolver, event.ip);
                let called = CalledOperator::named(caller.as_deref(), callee.as_deref());
                self.known.insert(code, called);
                called
            }
            // No operator goes on to these by a jump.
            _ => CalledOperator { is_plain: true, ..CalledOperator::default() },
        }
    }

    /// The operator, or function of the C library, that a call leads to without a choice.
    fn callee(&mut self, resolver: &mut Resolver, call: VirtAddr) -> Option<Arc<str>> {
        let is_known = |name: &str| is_operator(name).is_some() || is_plain(name);
        let mut at = call;
        for count in 0..MOST_INSTRUCTIONS {
            let mut buffer = [0; MAX_INSTRUCTION_BYTES];
            let instruction = Instruction::decode(self.files.at(resolver, at, &mut buffer)?, at.0)?;
            let step = if count == 0 { Step::of_call(&instruction) } else { Step::within(&instruction) };
            at = match step? {
                Step::Next(next) => next,
                Step::To(target) => match function_name(resolver, target).filter(|name| is_known(name)) {
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

/// Whether that is one of the C library's functions that operators go on to, or an entry of a procedure linkage table for it.
fn is_plain(function: &str) -> bool {
    const NAMES: [&str; 7] =
        ["malloc", "free", "cfree", "free_sized", "free_aligned_sized", "__libc_malloc", "__libc_free"];
    NAMES.contains(&function.strip_suffix("@plt").unwrap_or(function))
}

/// Whether that is one of the operators, and then whether for arrays.
fn is_operator(function: &str) -> Option<bool> {
    // Entries of procedure linkage tables have the linker's names.
    const STARTS: [(&str, bool); 8] = [
        ("operator new[](", true),
        ("operator delete[](", true),
        ("_Zna", true),
        ("_Zda", true),
        ("operator new(", false),
        ("operator delete(", false),
        ("_Znw", false),
        ("_Zdl", false),
    ];
    STARTS.iter().find(|(start, _)| function.starts_with(start)).map(|(_, is_array)| *is_array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_and_other_functions() {
        for (name, expect) in [
            ("operator new(unsigned long)", Some(false)),
            ("operator new[](unsigned long)@plt", Some(true)),
            ("operator delete[](void*, unsigned long)", Some(true)),
            ("operator delete(void*)@plt", Some(false)),
            ("_Znam@plt", Some(true)),
            ("_ZdlPvm@plt", Some(false)),
            ("operator newer", None),
            ("malloc", None),
        ] {
            assert_eq!(is_operator(name), expect, "{name}");
        }
    }

    #[test]
    fn a_call_is_what_it_names() {
        let told = |is_array| CalledOperator { is_array, ..CalledOperator::default() };
        let plain = CalledOperator { is_plain: true, ..CalledOperator::default() };
        let within = CalledOperator { is_within: true, ..CalledOperator::default() };
        let check = |caller, callee, expect| {
            assert_eq!(CalledOperator::named(caller, callee), expect, "{caller:?} {callee:?}");
        };
        check(Some("main"), Some("operator delete(void*)@plt"), told(Some(false)));
        check(Some("main"), Some("_ZdaPv"), told(Some(true)));
        check(Some("main"), Some("free@plt"), plain);
        check(None, Some("free"), plain);
        check(None, Some("__libc_malloc"), plain);
        check(Some("operator delete(void*)"), Some("free@plt"), within);
        // The C++ library calls a destructor by its table of virtual functions, and that jumps to operator delete.
        check(None, None, told(None));
        check(Some("main"), Some("free_list"), told(None));
    }

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
