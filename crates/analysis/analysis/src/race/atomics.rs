//! Which accesses are atomic operations. On x86-64 an atomic load and most
//! atomic stores are plain moves, so the instruction alone is not enough:
//!
//! 1. an instruction with a lock prefix, or an exchange with memory, is atomic; any other read-modify-write is not;
//! 2. a variable that debug information gives an atomic type (`_Atomic`, `std::atomic`,
//!    Rust's `Atomic*`) is accessed atomically, and so are guards of static variables;
//! 3. code from a library's header or module of atomics is atomic, and so is a line of the
//!    program that calls such a function by name (for example `atomic_`, `__atomic_`, `__sync_`);
//! 4. otherwise a plain move is atomic if an instruction of (1) was seen at the same address, unless
//!    the variable is known to have a plain type and the line is known to name no such function;
//! 5. a plain store to a variable of (4), by a thread that exchanged it before, releases a lock of
//!    the program's own, which x86-64 allows. From then on plain moves to that variable are atomic.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memref::{AccessKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{Resolver, VariableId};
use trace_format::Trace;
use x86::Instruction;

use super::access_site::AccessSite;
use super::calls::CallEffect;
use super::runtimes::Runtimes;
use crate::Error;
use crate::code_files::CodeFiles;

/// What an access means to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Nothing that is looked at: inside the C library.
    Ignored,
    /// It synchronises.
    Atomic,
    /// It must be synchronised.
    Plain,
}

/// What is known of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeKind {
    Ignored,
    /// Of the C library: what its functions do for the program may be looked at.
    CLibrary,
    /// Of a run-time library whose variables we don't know: nothing of it is reported.
    Runtime,
    /// Of a runtime that is linked into the program, which looks at the program's variables and lets it look at its own as it knows to be
    /// safe: nothing is reported of which it is a side.
    LinkedRuntime,
    Locked,
    /// As locked, and one by which a lock may be taken.
    Exchange,
    AtomicLine,
    PlainLine,
    Unknown,
}

/// What is known of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Atomic,
    Plain,
    /// Some of its members are atomic.
    Mixed,
    Unknown,
}

/// What is known of an address that a locked instruction has accessed.
#[derive(Debug, Default)]
struct Cell {
    /// Who exchanged it, and has not stored to it since.
    takers: Vec<ThreadId>,
    /// One of them released it by a plain store.
    is_lock: bool,
}

/// What has been found out so far.
#[derive(Debug, Default)]
pub(crate) struct Atomics {
    codes: FxHashMap<u64, (CodeKind, CallEffect)>,
    types: FxHashMap<VariableId, Type>,
    parts: FxHashMap<(VariableId, u64), Type>,
    /// Addresses that a locked instruction has accessed.
    cells: FxHashMap<u64, Cell>,
    files: HashMap<String, Option<Arc<Vec<String>>>>,
    code_files: CodeFiles,
    runtimes: Runtimes,
}

/// Libraries whose inner accesses are ignored.
const IGNORED: [&str; 10] = [
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-2",
    "libpthread",
    "libgomp",
    "libm.so",
    "libgcc_s",
    "librt",
    "libmemtap",
];
/// Those of them that are the C library itself.
const C_LIBRARY: [&str; 2] = ["libc.so", "libc-"];
/// Whether what a module does to memory is its own business: the C library, the loader, the run-time of OpenMP.
pub(crate) fn is_inner(module: &str) -> bool {
    IGNORED.iter().any(|ignored| module.starts_with(ignored))
}

/// Libraries whose accesses synchronise and are never reported.
const RUNTIME: [&str; 7] =
    ["libstdc++", "libc++", "libatomic", "libasan", "libomp.so", "libomp-", "libiomp5.so"];
/// Those of them whose threads work for the program, in ways that are not modelled.
const SCHEDULERS: [&str; 3] = ["libomp.so", "libomp-", "libiomp5.so"];

/// The libraries of a trace, by their file names, that run the program's work on threads of their own and whose synchronisation is not
/// modelled: LLVM's OpenMP and Intel's. Whatever they access counts as synchronisation, which may hide races.
///
/// # Errors
/// Where the trace can't be read.
pub fn unmodelled_runtimes(trace: &Trace) -> Result<BTreeSet<String>, Error> {
    let names = trace.modules()?.into_iter().filter_map(|module| {
        let name = module.path.rsplit('/').next()?.to_owned();
        SCHEDULERS.iter().any(|scheduler| name.starts_with(scheduler)).then_some(name)
    });
    Ok(names.collect())
}

impl Atomics {
    /// What an access of such an instruction is.
    #[inline]
    pub(crate) fn of_access(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        code: CodeKind,
        addr: VirtAddr,
        size: u32,
        kind: AccessKind,
    ) -> Nature {
        match code {
            CodeKind::Ignored | CodeKind::CLibrary => return Nature::Ignored,
            CodeKind::Runtime | CodeKind::LinkedRuntime => return Nature::Atomic,
            CodeKind::Locked => {
                self.cells.entry(addr.0).or_default();
                return Nature::Atomic;
            }
            CodeKind::Exchange => {
                let takers = &mut self.cells.entry(addr.0).or_default().takers;
                if !takers.contains(&thread) {
                    takers.push(thread);
                }
                return Nature::Atomic;
            }
            _ if kind == AccessKind::Modify => return Nature::Plain,
            _ => {}
        }
        if !Self::has_atomic_size(size) {
            return Nature::Plain;
        }
        let of = self.variable(resolver, addr);
        let atomic = match (of, code) {
            (Type::Atomic, _) | (_, CodeKind::AtomicLine) => true,
            (Type::Plain, CodeKind::PlainLine) => self.is_of_lock(thread, addr, kind),
            _ => self.is_cell(addr),
        };
        if atomic { Nature::Atomic } else { Nature::Plain }
    }

    /// Whether a plain move of so many bytes may be atomic.
    pub(super) fn has_atomic_size(size: u32) -> bool {
        size <= 16 && size.is_power_of_two()
    }

    /// Whether a locked instruction has accessed an address.
    #[inline]
    pub(super) fn is_cell(&self, addr: VirtAddr) -> bool {
        self.cells.contains_key(&addr.0)
    }

    /// Addresses of the variable at one, if no part of it is of an atomic type. They are this variable's as long as
    /// [`Resolver::holds_since`] says so.
    pub(super) fn plain_range(&mut self, resolver: &mut Resolver, addr: VirtAddr) -> Option<Range<VirtAddr>> {
        let variable = resolver.resolve_data(addr).variable;
        let is_plain = matches!(self.types.get(&variable), Some(Type::Plain | Type::Unknown));
        is_plain.then(|| resolver.whole_data_range(addr).1)
    }

    /// Whether a plain move to a variable of a plain type is one to a lock of the program's own.
    fn is_of_lock(&mut self, thread: ThreadId, addr: VirtAddr, kind: AccessKind) -> bool {
        let Some(cell) = self.cells.get_mut(&addr.0) else { return false };
        if kind == AccessKind::Store
            && let Some(index) = cell.takers.iter().position(|taker| *taker == thread)
        {
            cell.takers.swap_remove(index);
            cell.is_lock = true;
        }
        cell.is_lock
    }

    /// Whether the word is a lock of the program's own, by all that is known.
    pub(crate) fn is_lock(&self, addr: VirtAddr) -> bool {
        self.cells.get(&addr.0).is_some_and(|cell| cell.is_lock)
    }

    /// What a block operation is, by its caller.
    pub(crate) fn of_block(code: CodeKind) -> Nature {
        match code {
            CodeKind::Ignored | CodeKind::CLibrary | CodeKind::Runtime | CodeKind::LinkedRuntime => {
                Nature::Ignored
            }
            _ => Nature::Plain,
        }
    }

    /// Whether one of two accesses that seem to race is one of a runtime that is linked into the program.
    pub(crate) fn is_of_linked_runtime(
        &mut self,
        resolver: &mut Resolver,
        first: AccessSite,
        second: AccessSite,
    ) -> bool {
        [first, second].iter().any(|site| self.code(resolver, site.ip).0 == CodeKind::LinkedRuntime)
    }

    /// Whether two accesses that seem to race may both be atomic by what became known later: a plain move that came before
    /// the first locked instruction at its address.
    pub(crate) fn may_both_be_atomic(
        &mut self,
        resolver: &mut Resolver,
        addr: VirtAddr,
        first: AccessSite,
        second: AccessSite,
    ) -> bool {
        if !self.is_cell(addr) {
            return false;
        }
        let of = self.variable(resolver, addr);
        let mut may = |site: AccessSite| match self.code(resolver, site.ip).0 {
            CodeKind::Locked | CodeKind::Exchange | CodeKind::AtomicLine | CodeKind::Runtime => true,
            _ if site.kind == AccessKind::Modify => false,
            CodeKind::PlainLine => of != Type::Plain,
            _ => true,
        };
        may(first) && may(second)
    }

    fn variable(&mut self, resolver: &mut Resolver, addr: VirtAddr) -> Type {
        let name = resolver.resolve_data(addr);
        let of = match self.types.get(&name.variable) {
            Some(&of) => of,
            None => {
                let of = whole_type(resolver, name.variable, addr);
                self.types.insert(name.variable, of);
                of
            }
        };
        if of != Type::Mixed {
            return of;
        }
        let key = (name.variable, name.offset);
        match self.parts.get(&key) {
            Some(&part) => part,
            None => {
                let part = part_type(resolver, addr, name.offset);
                self.parts.insert(key, part);
                part
            }
        }
    }

    /// Runtimes inside of the program that were met.
    pub(super) fn runtimes(&self) -> &BTreeSet<String> {
        self.runtimes.met()
    }

    /// What is known of an instruction, and what it does about calls.
    #[inline]
    pub(super) fn code(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> (CodeKind, CallEffect) {
        if let Some(&code) = self.codes.get(&ip.0) {
            return code;
        }
        let instruction = self.code_files.instruction(resolver, ip).unwrap_or_default();
        let code = (self.find_code(resolver, ip, &instruction), CallEffect::of(&instruction));
        self.codes.insert(ip.0, code);
        code
    }

    fn find_code(&mut self, resolver: &mut Resolver, ip: VirtAddr, instruction: &Instruction) -> CodeKind {
        let name = resolver.code_name(ip);
        let module = name.as_deref().and_then(|name| name.module.clone());
        if let Some(module) = &module {
            if C_LIBRARY.iter().any(|start| module.starts_with(start)) {
                return CodeKind::CLibrary;
            }
            if is_inner(module) {
                return CodeKind::Ignored;
            }
            if RUNTIME.iter().any(|runtime| module.starts_with(runtime)) {
                return CodeKind::Runtime;
            }
        }
        if name.as_deref().is_some_and(|name| self.runtimes.has(name)) {
            return CodeKind::LinkedRuntime;
        }
        // Each thread of Rust takes a lock there when it begins and when it ends, which orders nothing that is the program's.
        let function = name.as_deref().and_then(|name| name.function.clone());
        if function.is_some_and(|function| function.contains("::stack_overflow::")) {
            return CodeKind::Ignored;
        }
        if instruction.is_locked() {
            return if instruction.is_exchange() { CodeKind::Exchange } else { CodeKind::Locked };
        }
        let Some(name) = name else { return CodeKind::Unknown };
        let Some(frame) = name.frames().first() else { return CodeKind::Unknown };
        let Some(line) = &frame.line else { return CodeKind::Unknown };
        let file = &*line.file;
        if is_atomic_file(file) || is_of_go_atomics(file) {
            return CodeKind::AtomicLine;
        }
        let Some(number) = line.line else { return CodeKind::Unknown };
        let Some(text) = self.text(file, number) else { return CodeKind::Unknown };
        let is_atomic = names_atomic(&text) || file.ends_with(".go") && text.contains("atomic.");
        if is_atomic { CodeKind::AtomicLine } else { CodeKind::PlainLine }
    }

    /// A line of a source file, if the file is there.
    fn text(&mut self, file: &str, number: u32) -> Option<String> {
        let lines = self.files.entry(file.to_owned()).or_insert_with(|| {
            let text = std::fs::read_to_string(file).ok()?;
            Some(Arc::new(text.lines().map(str::to_owned).collect()))
        });
        lines.as_ref()?.get((number as usize).checked_sub(1)?).cloned()
    }
}

fn is_atomic_file(file: &str) -> bool {
    let path = Path::new(file);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    matches!(
        name,
        "atomic"
            | "atomic.h"
            | "atomic_base.h"
            | "atomic.rs"
            | "atomicity.h"
            | "stdatomic.h"
            | "shared_ptr_atomic.h"
            | "atomic_wait.h"
            | "atomic_timed_wait.h"
            | "atomic_futex.h"
    )
}

/// Whether a file is one of Go's packages of atomics, whose functions become plain moves.
fn is_of_go_atomics(file: &str) -> bool {
    file.ends_with(".go") && (file.contains("/sync/atomic/") || file.contains("/runtime/atomic/"))
}

fn names_atomic(line: &str) -> bool {
    ["atomic_", "__atomic", "__sync_", "memory_order", "Ordering::", "omp atomic"]
        .iter()
        .any(|word| line.contains(word))
}

fn is_atomic_name(name: &str) -> bool {
    let name = name.strip_prefix("struct ").unwrap_or(name);
    name.starts_with("_Atomic")
        || name.starts_with("atomic_")
        || name.starts_with("atomic<")
        || name.starts_with("__atomic_base<")
        || name.starts_with("std::atomic")
        || name.starts_with("Atomic")
        || name.contains("sync::atomic::Atomic")
        || name.starts_with("memory_order")
}

fn has_atomic(layout: &symbols::TypeLayout, depth: usize) -> bool {
    if is_atomic_name(&layout.name) {
        return true;
    }
    if depth > 8 {
        return false;
    }
    match &layout.kind {
        symbols::TypeKind::Struct(members) | symbols::TypeKind::Union(members) => {
            members.iter().any(|member| has_atomic(&member.layout, depth + 1))
        }
        symbols::TypeKind::Array { element, .. } => has_atomic(element, depth + 1),
        symbols::TypeKind::Scalar => false,
    }
}

fn whole_type(resolver: &mut Resolver, id: VariableId, addr: VirtAddr) -> Type {
    let guard = resolver.names().variable(id).is_some_and(|variable| {
        variable.name.starts_with("guard variable for") || variable.name.starts_with("_ZGV")
    });
    if guard {
        return Type::Atomic;
    }
    match resolver.type_of(addr) {
        None => Type::Unknown,
        Some(layout) if is_atomic_name(&layout.name) => Type::Atomic,
        Some(layout) if has_atomic(&layout, 0) => Type::Mixed,
        Some(_) => Type::Plain,
    }
}

/// The type of the member at an offset: atomic where any type on the way there is.
fn part_type(resolver: &mut Resolver, addr: VirtAddr, offset: u64) -> Type {
    let Some(layout) = resolver.type_of(addr) else { return Type::Unknown };
    let mut layout = layout;
    let mut offset = offset;
    for _ in 0..16 {
        if is_atomic_name(&layout.name) {
            return Type::Atomic;
        }
        let next = match &layout.kind {
            symbols::TypeKind::Scalar => return Type::Plain,
            symbols::TypeKind::Array { element, .. } => {
                if element.bytes == 0 {
                    return Type::Unknown;
                }
                (offset % element.bytes, Arc::clone(element))
            }
            symbols::TypeKind::Struct(members) | symbols::TypeKind::Union(members) => {
                let holds = |member: &&symbols::Member| {
                    offset >= member.offset && offset - member.offset < member.layout.bytes.max(1)
                };
                // Of members at one place an atomic one decides.
                let found = members
                    .iter()
                    .filter(holds)
                    .max_by_key(|member| (has_atomic(&member.layout, 0), member.layout.bytes));
                let Some(member) = found else { return Type::Unknown };
                (offset - member.offset, Arc::clone(&member.layout))
            }
        };
        (offset, layout) = next;
    }
    Type::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_types_and_lines_are_known_by_their_names() {
        for name in [
            "_Atomic int",
            "atomic_bool",
            "atomic<bool>",
            "std::atomic<int>",
            "AtomicUsize",
            "__atomic_base<int>",
        ] {
            assert!(is_atomic_name(name), "{name}");
        }
        assert!(!is_atomic_name("int") && !is_atomic_name("subatomic"));
        assert!(names_atomic("  atomic_store_explicit(&flag, 1, memory_order_release);"));
        assert!(!names_atomic("  counter++;"));
        assert!(is_atomic_file("/usr/include/c++/12/bits/atomic_base.h"));
        assert!(is_atomic_file("/rustc/abc/library/core/src/sync/atomic.rs"));
        assert!(!is_atomic_file("/tmp/atomic.c"));
        assert!(is_of_go_atomics("/usr/lib/go/src/sync/atomic/value.go"));
        assert!(!is_of_go_atomics("/usr/lib/go/src/sync/mutex.go"));
    }
}
