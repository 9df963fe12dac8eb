//! The accesses that C library functions make on behalf of the program. In a translated trace they are made by the library's own
//! instructions. They are attributed to the call in the program that leads there, if it names one of the functions known here.
//!
//! String functions read whole vectors past the end of a string, so only their writes count.

use memref::{AccessKind, ProcessId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::Resolver;

use super::atomics::{Atomics, CodeKind, Nature};
use super::calls::Rows;
use crate::callees::{Callees, library_function};

/// Which accesses of a function are the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// All of its instructions, which access exactly what they are given.
    All,
    /// What its instructions write.
    Stores,
    /// What the kernel does for it.
    Kernel,
}

/// What of a function counts, by its name.
fn counted(name: &str) -> Option<Counted> {
    Some(match library_function(name) {
        "memcpy" | "memmove" | "mempcpy" | "memset" | "bcopy" | "bzero" | "explicit_bzero" => Counted::All,
        "strcpy" | "stpcpy" | "strncpy" | "stpncpy" | "strcat" | "strncat" | "strlcpy" | "strlcat"
        | "memccpy" => Counted::Stores,
        "read" | "pread" | "pread64" | "readv" | "write" | "pwrite" | "pwrite64" | "writev" | "recv"
        | "recvfrom" | "recvmsg" | "send" | "sendto" | "sendmsg" => Counted::Kernel,
        _ => return None,
    })
}

fn is_counted(name: &str) -> bool {
    counted(name).is_some()
}

/// The call in the program that an access of the C library is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LibraryCall {
    pub(super) ip: VirtAddr,
    /// The row of calls that it was made in.
    pub(super) row: u32,
    counted: Counted,
}

impl LibraryCall {
    /// Whether such an access is the program's.
    pub(super) fn counts(self, kind: AccessKind, by_kernel: bool) -> bool {
        match self.counted {
            Counted::All => true,
            Counted::Stores => kind.writes(),
            Counted::Kernel => by_kernel,
        }
    }
}

/// Calls that lead into the C library.
#[derive(Debug, Default)]
pub(super) struct LibraryCalls {
    callees: Callees,
    known: FxHashMap<(ProcessId, u32), Option<LibraryCall>>,
    /// The last answer: most accesses of a call come one after the other.
    last: Option<((ProcessId, u32), Option<LibraryCall>)>,
}

impl LibraryCalls {
    /// The call of a known function that the row of calls leads into the C library by.
    #[inline]
    pub(super) fn of(
        &mut self,
        resolver: &mut Resolver,
        atomics: &mut Atomics,
        rows: &Rows,
        row: u32,
    ) -> Option<LibraryCall> {
        let key = (resolver.process(), row);
        if let Some((_, known)) = self.last.filter(|(last, _)| *last == key) {
            return known;
        }
        let found = match self.known.get(&key) {
            Some(&known) => known,
            None => {
                let found = self.find(resolver, atomics, rows, row);
                self.known.insert(key, found);
                found
            }
        };
        self.last = Some((key, found));
        found
    }

    fn find(
        &mut self,
        resolver: &mut Resolver,
        atomics: &mut Atomics,
        rows: &Rows,
        row: u32,
    ) -> Option<LibraryCall> {
        let (ip, row) =
            rows.outwards(row).find(|&(ip, _)| atomics.code(resolver, ip).0 != CodeKind::CLibrary)?;
        if Atomics::of_block(atomics.code(resolver, ip).0) == Nature::Ignored {
            return None;
        }
        let name = self.callees.of(resolver, ip, is_counted)?;
        Some(LibraryCall { ip, row, counted: counted(&name)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_names() {
        for (name, expect) in [
            ("memcpy", Some(Counted::All)),
            ("memcpy@plt", Some(Counted::All)),
            ("__memmove_chk@plt", Some(Counted::All)),
            ("__strncpy_chk", Some(Counted::Stores)),
            ("read@plt", Some(Counted::Kernel)),
            ("__libc_memcpy", None),
            ("fread", None),
            ("memcmp", None),
        ] {
            assert_eq!(counted(name), expect, "{name}");
        }
    }

    #[test]
    fn of_functions_on_strings_only_stores_count() {
        let call = |counted| LibraryCall { ip: VirtAddr(1), row: 0, counted };
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        assert!(call(Counted::All).counts(load, false) && call(Counted::All).counts(store, true));
        assert!(!call(Counted::Stores).counts(load, false) && call(Counted::Stores).counts(store, false));
        assert!(!call(Counted::Kernel).counts(store, false) && call(Counted::Kernel).counts(store, true));
    }
}
