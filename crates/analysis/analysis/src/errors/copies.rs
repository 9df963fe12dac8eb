//! Copies by functions of the C library: those whose source and destination overlap although the
//! function does not allow it (C17, 7.24.2), and the bytes that each one stores ([`super::overruns`]).
//!
//! In glibc, memcpy and memmove are one function, so only the call instruction tells which was called ([`Callees`]).
//! Calls through a pointer and copies that the compiler inlined are not checked. Where the library's own instructions
//! were recorded, their loads and stores tell what was copied; the known variants of memmove access no other bytes
//! ([`super::exact`]). String functions store exactly what they copy, but may load an aligned vector that begins before
//! the source. In that case the source begins at the first byte of another load within that vector. Without such a
//! load, or where the first byte of the vector itself may be the source, an overlap is reported only if there is one
//! wherever the source can begin. A copy of an object to itself is not reported: compilers generate it for assignments.

use std::ops::Range;

use memref::{Access, BlockFunction, BlockOp, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, CodeName, Resolver};

use super::exact::{c_library_function, is_exact_copy};
use crate::amount;
use crate::callees::{Callees, library_function};
use crate::stack::{CallPlace, RETURN_BYTES};

/// Rows of bytes that are kept of one call; what copies from both ends joins them.
const MOST_ROWS: usize = 64;
/// A function that is called uses no more of the stack below its return address.
const MOST_FRAME: u64 = 4096;

/// What of a function's accesses tells of its source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyWay {
    /// All, and they must not overlap.
    Exactly,
    /// What it stores, and they must not overlap.
    Strings,
    /// What it stores.
    Stores,
    /// What functions that it calls store as well, and the kernel, of its caller's frame.
    Inner,
}

/// Functions that store one row of bytes, all of which their caller asked for.
const FUNCTIONS: [(&str, CopyWay); 23] = [
    ("memcpy", CopyWay::Exactly),
    ("mempcpy", CopyWay::Exactly),
    ("wmemcpy", CopyWay::Exactly),
    ("strcpy", CopyWay::Strings),
    ("stpcpy", CopyWay::Strings),
    ("memmove", CopyWay::Stores),
    ("memset", CopyWay::Stores),
    ("strncpy", CopyWay::Stores),
    ("stpncpy", CopyWay::Stores),
    ("strcat", CopyWay::Stores),
    ("strncat", CopyWay::Stores),
    ("wcscpy", CopyWay::Stores),
    ("sprintf", CopyWay::Inner),
    ("vsprintf", CopyWay::Inner),
    ("snprintf", CopyWay::Inner),
    ("vsnprintf", CopyWay::Inner),
    ("gets", CopyWay::Inner),
    ("fgets", CopyWay::Inner),
    ("fread", CopyWay::Inner),
    ("read", CopyWay::Inner),
    ("pread", CopyWay::Inner),
    ("recv", CopyWay::Inner),
    ("readlink", CopyWay::Inner),
];

fn is_known(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<CopyFunction> {
    let name = library_function(name);
    let (name, way) = *FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    Some(CopyFunction { name, way })
}

/// One of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopyFunction {
    name: &'static str,
    way: CopyWay,
}

/// A copy that must not have been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverlappingCopy {
    /// In words.
    pub(super) what: String,
    pub(super) destination: VirtAddr,
    pub(super) len: u64,
    pub(super) place: Option<CallPlace>,
}

/// What a call stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredCopy {
    pub(super) function: &'static str,
    pub(super) bytes: Range<u64>,
    pub(super) call: CopyCall,
}

/// The call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CopyCall {
    /// Its instruction, and where that was.
    pub(super) code: CodeId,
    pub(super) place: Option<CallPlace>,
    /// Where its return address is.
    pub(super) slot: VirtAddr,
    /// The canonical frame address of the function that makes it.
    pub(super) caller: Option<VirtAddr>,
}

/// What is to be said of a copy, and looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedCopy {
    pub(super) overlapping: Option<OverlappingCopy>,
    pub(super) stored: Option<StoredCopy>,
}

/// Looks at copies.
#[derive(Debug, Default)]
pub(super) struct OverlappingCopies {
    callees: Callees,
    calls: FxHashMap<CodeId, Option<CopyFunction>>,
    copying: FxHashMap<CodeId, Copying>,
    running: FxHashMap<ThreadId, RunningCopy>,
}

/// Whether an instruction is one of the library's, and of those that it copies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copying {
    No,
    Exactly,
    Strings,
    Otherwise,
}

impl Copying {
    fn named(name: &CodeName) -> Self {
        let is_string =
            |function: &str| ["__strcpy_", "__stpcpy_"].iter().any(|start| function.starts_with(start));
        match c_library_function(name) {
            Some(function) if is_exact_copy(function) => Self::Exactly,
            Some(function) if is_string(function) => Self::Strings,
            Some(_) => Self::Otherwise,
            None => Self::No,
        }
    }
}

/// The first of the loads that a copy makes.
#[derive(Clone, Copy, Debug)]
struct FirstLoad {
    addr: u64,
    bytes: u64,
}

/// A call that has not returned yet.
#[derive(Debug)]
struct RunningCopy {
    function: CopyFunction,
    call: CopyCall,
    first: Option<FirstLoad>,
    /// The lowest address that was loaded from, and is no whole number of the first load's bytes.
    unaligned: u64,
    /// Whether something was loaded from the first one's address again.
    is_repeated: bool,
    loads: Range<u64>,
    stores: Range<u64>,
    /// What the library's instructions stored, whichever they are, and where the first one did.
    stored: Vec<Range<u64>>,
    first_store: Option<u64>,
    /// Of the first store.
    place: Option<CallPlace>,
}

/// A range, and one more in it.
fn join(range: &mut Range<u64>, bytes: Range<u64>) {
    *range = match range.is_empty() {
        true => bytes,
        false => range.start.min(bytes.start)..range.end.max(bytes.end),
    };
}

impl OverlappingCopies {
    /// A call by the instruction at `ip`.
    pub(super) fn called(&mut self, resolver: &mut Resolver, thread: ThreadId, ip: VirtAddr, call: CopyCall) {
        let callees = &mut self.callees;
        let look = || callees.of(resolver, ip, is_known).and_then(|name| known(&name));
        let function = *self.calls.entry(call.code).or_insert_with(look);
        // What one that calls others is asked for is known by its own call.
        let is_inside =
            |copy: &RunningCopy| copy.function.way == CopyWay::Inner && call.slot < copy.call.slot;
        if let Some(function) = function
            && !self.running.get(&thread).is_some_and(is_inside)
        {
            self.running.insert(thread, RunningCopy::new(function, call));
        }
    }

    /// Whether accesses have to be looked at.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// An access of a thread whose innermost frame begins there.
    pub(super) fn access(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        cfa: VirtAddr,
        access: &Access,
        place: Option<CallPlace>,
    ) {
        let copy = self.running.get_mut(&thread).filter(|copy| {
            let own = copy.call.slot.offset(RETURN_BYTES.into());
            own == cfa || copy.function.way == CopyWay::Inner && cfa < own && access.kind.writes()
        });
        let Some(copy) = copy.filter(|copy| copy.can_be_asked_for(access.addr)) else { return };
        // The function's own frame; a vector of the source may begin there.
        let frame = cfa.0.saturating_sub(MOST_FRAME)..cfa.0;
        if frame.contains(&access.addr.0) && (access.kind.writes() || access.size <= RETURN_BYTES) {
            return;
        }
        let code = resolver.resolve_code(access.ip);
        let callees = &mut self.callees;
        let copying = self.copying.entry(code).or_insert_with(|| match resolver.code_name(access.ip) {
            Some(name) if !callees.names_static(resolver, access.ip) => Copying::named(&name),
            _ => Copying::No,
        });
        let copying = *copying;
        if copying != Copying::No && access.kind.writes() {
            copy.place = copy.place.or(place);
            copy.store(access.addr, access.size.into());
        }
        match (copy.function.way, copying) {
            (CopyWay::Exactly, Copying::Exactly) | (CopyWay::Strings, Copying::Strings) => copy.add(access),
            _ => {}
        }
    }

    /// The kernel wrote there, in a system call.
    pub(super) fn kernel_stored(&mut self, thread: ThreadId, (addr, len): (VirtAddr, u64)) {
        let copy = self.running.get_mut(&thread).filter(|copy| copy.function.way == CopyWay::Inner);
        if let Some(copy) = copy.filter(|copy| copy.can_be_asked_for(addr)) {
            copy.store(addr, len);
        }
    }

    /// A return by the address there: what the call that ends by it did.
    pub(super) fn returned(&mut self, thread: ThreadId, slot: VirtAddr) -> Option<EndedCopy> {
        // One whose return was not seen was left otherwise.
        self.running.get(&thread).filter(|copy| copy.call.slot <= slot)?;
        let copy = self.running.remove(&thread).filter(|copy| copy.call.slot == slot)?;
        Some(EndedCopy { overlapping: copy.overlapping(), stored: copy.stored() })
    }
}

impl RunningCopy {
    fn new(function: CopyFunction, call: CopyCall) -> Self {
        let unaligned = u64::MAX;
        Self {
            function,
            call,
            first: None,
            unaligned,
            is_repeated: false,
            loads: 0..0,
            stores: 0..0,
            stored: Vec::new(),
            first_store: None,
            place: None,
        }
    }

    /// Whether a store there may be one that the caller asked for: a function that calls others stores much that is its own.
    fn can_be_asked_for(&self, addr: VirtAddr) -> bool {
        let is_callers = || self.call.caller.is_some_and(|cfa| (self.call.slot..cfa).contains(&addr));
        self.function.way != CopyWay::Inner || is_callers()
    }

    fn store(&mut self, addr: VirtAddr, len: u64) {
        if len == 0 {
            return;
        }
        self.first_store.get_or_insert(addr.0);
        let mut bytes = addr.0..addr.0.saturating_add(len);
        self.stored.retain(|row| {
            let is_apart = row.end < bytes.start || bytes.end < row.start;
            if !is_apart {
                bytes = row.start.min(bytes.start)..row.end.max(bytes.end);
            }
            is_apart
        });
        if self.stored.len() < MOST_ROWS {
            self.stored.push(bytes);
        }
    }

    /// The row of bytes that has the first one.
    fn stored(&self) -> Option<StoredCopy> {
        let first = self.first_store?;
        let bytes = self.stored.iter().find(|row| row.contains(&first))?.clone();
        Some(StoredCopy { function: self.function.name, bytes, call: self.call })
    }

    fn add(&mut self, access: &Access) {
        let bytes = access.addr.0..access.addr.0.saturating_add(access.size.into());
        if access.kind.reads() {
            self.is_repeated |= self.first.is_some_and(|first| first.addr == access.addr.0);
            let load = FirstLoad { addr: access.addr.0, bytes: access.size.max(1).into() };
            if !load.addr.is_multiple_of(self.first.get_or_insert(load).bytes) {
                self.unaligned = self.unaligned.min(access.addr.0);
            }
            join(&mut self.loads, bytes.clone());
        }
        if access.kind.writes() {
            join(&mut self.stores, bytes);
        }
    }

    fn overlapping(&self) -> Option<OverlappingCopy> {
        let len = self.stores.end - self.stores.start;
        let FirstLoad { addr: first, bytes: size } = self.first?;
        let vector = first..=first.saturating_add(size - 1);
        // Of what was not recorded nobody knows where it began.
        let is_of_string = self.function.way == CopyWay::Strings;
        let sources = if !is_of_string {
            (self.loads.end - self.loads.start == len).then_some(self.loads.start..=self.loads.start)?
        } else if !first.is_multiple_of(size) {
            first..=first
        } else if vector.contains(&self.unaligned) {
            let earliest = if self.is_repeated { first } else { self.unaligned };
            earliest..=self.unaligned
        } else {
            vector
        };
        if is_of_string && self.loads.end.saturating_sub(*sources.start()) < len {
            return None;
        }
        let destination = self.stores.start;
        let overlaps = |source: u64| source != destination && source.abs_diff(destination) < len;
        let is_one_side = *sources.start() > destination || *sources.end() < destination;
        if !(is_one_side && overlaps(*sources.start()) && overlaps(*sources.end())) {
            return None;
        }
        let is_known = sources.start() == sources.end();
        let what = words(self.function.name, len, destination, is_known.then_some(*sources.start()));
        Some(OverlappingCopy { what, destination: VirtAddr(destination), len, place: self.place })
    }
}

/// The same of a copy that was recorded as one.
pub(super) fn overlapping_block(op: &BlockOp, place: Option<CallPlace>) -> Option<OverlappingCopy> {
    use BlockFunction::{Memcpy, Mempcpy, Stpcpy, Strcpy, Wcscpy, Wmemcpy, Wmempcpy};
    if !matches!(op.function, Memcpy | Mempcpy | Stpcpy | Strcpy | Wcscpy | Wmemcpy | Wmempcpy) {
        return None;
    }
    let ((source, len), (destination, _)) = (op.read()?, op.written()?);
    if source == destination || source.0.abs_diff(destination.0) >= len {
        return None;
    }
    let what = words(op.function.name(), len, destination.0, Some(source.0));
    Some(OverlappingCopy { what, destination, len, place })
}

fn words(function: &str, len: u64, destination: u64, source: Option<u64>) -> String {
    let from = match source {
        Some(source) if source < destination => format!("from {} before", destination - source),
        Some(source) => format!("from {} after", source - destination),
        None => "from next to".to_owned(),
    };
    format!("{function} of {} {from} their destination, which they overlap", amount(len, "byte"))
}

#[cfg(test)]
mod tests {
    use memref::{AccessKind, BlockKind};

    use super::*;

    const TEXT: u64 = 0x5008;

    fn run(name: &str, accesses: &[(AccessKind, u64, u32)]) -> Option<String> {
        let function = known(name).expect("it is a known function");
        let (code, slot) = (CodeId(0), VirtAddr(0x7000));
        let mut copy = RunningCopy::new(function, CopyCall { code, place: None, slot, caller: None });
        for &(kind, addr, size) in accesses {
            copy.add(&Access { cycle: 0, ip: VirtAddr(1), addr: VirtAddr(addr), size, kind });
        }
        copy.overlapping().map(|found| found.what)
    }

    #[test]
    fn functions_are_known_by_what_is_called() {
        for (name, expect) in [
            ("memcpy", Some(CopyWay::Exactly)),
            ("memcpy@plt", Some(CopyWay::Exactly)),
            ("__memcpy_chk@plt", Some(CopyWay::Exactly)),
            ("__strcpy_chk", Some(CopyWay::Strings)),
            ("memmove", Some(CopyWay::Stores)),
            ("__memmove_chk", Some(CopyWay::Stores)),
            ("strcmp", None),
        ] {
            assert_eq!(known(name).map(|function| function.way), expect, "{name}");
        }
    }

    #[test]
    fn bytes_that_are_read_and_written_are_an_overlap() {
        use AccessKind::{Load, Store};
        let copy = |source, destination| {
            run(
                "memcpy",
                &[
                    (Load, source, 16),
                    (Load, source + 8, 16),
                    (Store, destination, 16),
                    (Store, destination + 8, 16),
                ],
            )
        };
        assert_eq!(copy(TEXT, TEXT + 24), None);
        assert_eq!(copy(TEXT + 24, TEXT), None);
        assert_eq!(copy(TEXT, TEXT), None, "an assignment to itself");
        let what = "memcpy of 24 bytes from 23 before their destination, which they overlap";
        assert_eq!(copy(TEXT, TEXT + 23).as_deref(), Some(what));
        assert!(copy(TEXT + 1, TEXT).is_some());
        // Some of it was not recorded.
        assert_eq!(run("memcpy", &[(Load, TEXT, 16), (Store, TEXT + 8, 16), (Store, TEXT + 16, 16)]), None);
    }

    #[test]
    fn a_string_may_begin_anywhere_in_an_aligned_vector() {
        use AccessKind::{Load, Store};
        let copy = |load, destination, len| run("strcpy", &[(Load, load, 32), (Store, destination, len)]);
        assert!(copy(TEXT, TEXT - 2, 20).is_some(), "it begins where an unaligned load does");
        let aligned = 0x5000;
        assert_eq!(copy(aligned, aligned + 16, 8), None, "its source may begin behind the destination");
        assert_eq!(copy(aligned, aligned - 8, 8), None, "it ends before the earliest source");
        assert_eq!(copy(aligned, aligned - 8, 20), None, "the source may begin 39 bytes behind");
        assert!(copy(aligned, aligned - 8, 40).is_none(), "not all of it was loaded");
        let again = |destination| {
            run(
                "strcpy",
                &[
                    (Load, aligned, 32),
                    (Load, aligned + 9, 16),
                    (Load, aligned + 12, 16),
                    (Store, destination, 19),
                ],
            )
        };
        assert!(
            again(aligned).is_some() && again(aligned - 11).is_none(),
            "its source begins 9 bytes behind"
        );
        let far = [(Load, aligned, 32), (Load, aligned + 32, 32), (Store, aligned - 8, 40)];
        let what = "strcpy of 40 bytes from next to their destination, which they overlap";
        assert_eq!(run("strcpy", &far).as_deref(), Some(what));
    }

    #[test]
    fn calls_that_were_recorded_as_one_tell_all() {
        let op = |function, src: u64, dst: u64, len| {
            let (src, dst) = (VirtAddr(src), VirtAddr(dst));
            let op = BlockOp {
                cycle: 0,
                order: 0,
                ip: VirtAddr(1),
                kind: BlockKind::Copy,
                function,
                dst,
                src,
                len,
            };
            overlapping_block(&op, None).is_some()
        };
        assert!(op(BlockFunction::Memcpy, TEXT, TEXT + 3, 4));
        assert!(op(BlockFunction::Strcpy, TEXT + 3, TEXT, 4));
        assert!(!op(BlockFunction::Memcpy, TEXT, TEXT + 4, 4));
        assert!(!op(BlockFunction::Memcpy, TEXT, TEXT, 4));
        assert!(!op(BlockFunction::Memmove, TEXT, TEXT + 3, 4));
    }
}
