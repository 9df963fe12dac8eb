//! Which of C++'s operators a call of the allocator was: within the C++ library they call each other and malloc, and the innermost is told.

use memref::{Allocation, AllocationFunction, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use x86::{Instruction, MAX_INSTRUCTION_BYTES, Transfer};

use crate::code_files::CodeFiles;

/// What is known of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CalledOperator {
    /// An operator of the library made it, for somebody.
    pub(super) is_within: bool,
    /// Whether it is for an array; nothing where the call does not say it.
    pub(super) is_array: Option<bool>,
}

impl CalledOperator {
    /// Whether an operator was called, whichever function it went on to.
    pub(super) fn is_operator(self) -> bool {
        self.is_within || self.is_array.is_some()
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
            NewArray | DeleteArray => CalledOperator { is_within: false, is_array: Some(true) },
            New | Delete | Malloc | Free => {
                let code = resolver.resolve_code(event.ip);
                if let Some(known) = self.known.get(&code) {
                    return *known;
                }
                let called = self.look(resolver, event);
                self.known.insert(code, called);
                called
            }
            _ => CalledOperator::default(),
        }
    }

    fn look(&mut self, resolver: &mut Resolver, event: &Allocation) -> CalledOperator {
        let name = |resolver: &mut Resolver, ip: VirtAddr| resolver.code_name(ip)?.function.clone();
        let caller = name(resolver, event.ip);
        let is_within = caller.is_some_and(|caller| is_operator(&caller).is_some());
        let mut buffer = [0; MAX_INSTRUCTION_BYTES];
        let bytes = self.files.at(resolver, event.ip, &mut buffer);
        let call = bytes.and_then(|bytes| Instruction::decode(bytes, event.ip.0));
        let target = call.and_then(|call| match call.transfer() {
            Transfer::Call(target) => Some(VirtAddr(target)),
            _ => None,
        });
        let callee = target.and_then(|target| name(resolver, target));
        let is_array = callee.filter(|_| !is_within).and_then(|callee| is_operator(&callee));
        CalledOperator { is_within, is_array }
    }
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
}
