//! The C++ operator that an allocator call came from. Within the C++ library,
//! operators call each other and malloc; the trace records the innermost call.
//!
//! An operator that tail-calls `free` leaves no call of its own, and neither does a function that tail-calls
//! the operator. The called function is known only where the call instruction names it ([`Callees`]).

use memref::{Allocation, AllocationFunction};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};

use crate::callees::{Callees, library_function};

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
    callees: Callees,
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
                let caller = resolver.code_name(event.ip).and_then(|name| name.function.clone());
                let callee = self.callees.of(resolver, event.ip, is_known);
                let called = CalledOperator::named(caller.as_deref(), callee.as_deref());
                self.known.insert(code, called);
                called
            }
            // No operator goes on to these by a jump.
            _ => CalledOperator { is_plain: true, ..CalledOperator::default() },
        }
    }
}

/// Whether operators, or functions that they go on to, have that name.
fn is_known(name: &str) -> bool {
    is_operator(name).is_some() || is_plain(name)
}

/// Whether that is one of the C library's functions that operators go on to, or an entry of a procedure linkage table for it.
fn is_plain(function: &str) -> bool {
    const NAMES: [&str; 7] =
        ["malloc", "free", "cfree", "free_sized", "free_aligned_sized", "__libc_malloc", "__libc_free"];
    NAMES.contains(&library_function(function))
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
}
