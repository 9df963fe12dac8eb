//! Regions: the mappings of a process, and how they change.

use crate::{Order, ProcessId, VirtAddr, coded::coded};

coded! {
    /// What a region is for.
    RegionKind: u8 {
        /// Code.
        Text = 0 "text",
        /// Initialised data of the program or a library.
        Data = 1 "data",
        /// Data without initial values.
        Bss = 2 "bss",
        /// Data that never changes after start-up (rodata, relro).
        Rodata = 3 "rodata",
        /// The heap that brk grows.
        Heap = 4 "heap",
        /// Anonymous memory.
        Anonymous = 5 "anon",
        /// A thread's stack.
        Stack = 6 "stack",
        /// A mapped file that is no loaded module, or shared memory.
        File = 7 "file",
        /// Thread control blocks and static thread-local variables.
        Tls = 8 "tls",
        /// Mapped by the kernel (vdso, vvar).
        Kernel = 9 "kernel",
        /// The tracer's own.
        Tracer = 10 "tracer",
    }
}

coded! {
    /// How a region changes.
    RegionChange: u8 {
        /// It appears (and replaces what was in its range).
        Map = 0 "map",
        /// The range disappears.
        Unmap = 1 "unmap",
        /// Its kind, rights or whether it is traced change.
        Change = 2 "change",
    }
}

/// One change of a process's regions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegionEvent<Name> {
    /// When, in the session.
    pub order: Order,
    /// Whose region.
    pub process: ProcessId,
    /// What happens.
    pub change: RegionChange,
    /// What it is for.
    pub kind: RegionKind,
    /// Rights as the program sees them: bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// Whether the tracer records accesses to it.
    pub traced: bool,
    /// First byte.
    pub start: VirtAddr,
    /// Bytes.
    pub len: u64,
    /// Offset of the first byte in the mapped file.
    pub file_offset: u64,
    /// Path of the mapped file, or a bracketed name such as `[heap]`; empty for anonymous memory.
    pub name: Name,
}
