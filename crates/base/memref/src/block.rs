//! Block operations: one call that copies, fills or fetches a run of bytes (MadT, Table I: Y, W, G).

use crate::{Cycle, Order, VirtAddr, coded::coded};

coded! {
    /// What a block operation does.
    BlockKind: u8 {
        /// Reads `src` and writes `dst` (like memcpy).
        Copy = 0 "copy",
        /// Writes `dst` from something that is not memory of the process (like memset, or read from a file).
        Fill = 1 "fill",
        /// Reads `src` into something that is not memory of the process (like write to a file, or strlen).
        Fetch = 2 "fetch",
    }
}

coded! {
    /// The call that made a block operation.
    BlockFunction: u8 {
        /// memcpy
        Memcpy = 0 "memcpy",
        /// memmove
        Memmove = 1 "memmove",
        /// mempcpy
        Mempcpy = 2 "mempcpy",
        /// memccpy
        Memccpy = 3 "memccpy",
        /// memset
        Memset = 4 "memset",
        /// bzero, explicit_bzero
        Bzero = 5 "bzero",
        /// bcopy
        Bcopy = 6 "bcopy",
        /// strcpy
        Strcpy = 7 "strcpy",
        /// stpcpy
        Stpcpy = 8 "stpcpy",
        /// strncpy
        Strncpy = 9 "strncpy",
        /// stpncpy
        Stpncpy = 10 "stpncpy",
        /// strcat
        Strcat = 11 "strcat",
        /// strncat
        Strncat = 12 "strncat",
        /// strlen
        Strlen = 13 "strlen",
        /// strnlen
        Strnlen = 14 "strnlen",
        /// strcmp
        Strcmp = 15 "strcmp",
        /// strncmp
        Strncmp = 16 "strncmp",
        /// strcasecmp
        Strcasecmp = 17 "strcasecmp",
        /// strncasecmp
        Strncasecmp = 18 "strncasecmp",
        /// memcmp
        Memcmp = 19 "memcmp",
        /// bcmp
        Bcmp = 20 "bcmp",
        /// memchr
        Memchr = 21 "memchr",
        /// memrchr
        Memrchr = 22 "memrchr",
        /// rawmemchr
        Rawmemchr = 23 "rawmemchr",
        /// strchr, index
        Strchr = 24 "strchr",
        /// strrchr, rindex
        Strrchr = 25 "strrchr",
        /// strchrnul
        Strchrnul = 26 "strchrnul",
        /// wmemcpy
        Wmemcpy = 27 "wmemcpy",
        /// wmemmove
        Wmemmove = 28 "wmemmove",
        /// wmempcpy
        Wmempcpy = 29 "wmempcpy",
        /// wmemset
        Wmemset = 30 "wmemset",
        /// wcscpy
        Wcscpy = 31 "wcscpy",
        /// wcsncpy
        Wcsncpy = 32 "wcsncpy",
        /// wcscat
        Wcscat = 33 "wcscat",
        /// wcslen
        Wcslen = 34 "wcslen",
        /// wcscmp
        Wcscmp = 35 "wcscmp",
        /// wcsncmp
        Wcsncmp = 36 "wcsncmp",
        /// wmemcmp
        Wmemcmp = 37 "wmemcmp",
        /// wmemchr
        Wmemchr = 38 "wmemchr",
        /// fread
        Fread = 39 "fread",
        /// fwrite
        Fwrite = 40 "fwrite",
        /// read
        Read = 41 "read",
        /// pread64
        Pread = 42 "pread",
        /// readv, preadv, preadv2
        Readv = 43 "readv",
        /// recvfrom, recvmsg, recvmmsg
        Recv = 44 "recv",
        /// write
        Write = 45 "write",
        /// pwrite64
        Pwrite = 46 "pwrite",
        /// writev, pwritev, pwritev2
        Writev = 47 "writev",
        /// sendto, sendmsg, sendmmsg
        Send = 48 "send",
        /// any other system call that read or wrote the program's memory
        Syscall = 49 "syscall",
        /// a signal frame that the kernel wrote
        Signal = 50 "signal",
        /// the zeros that calloc or realloc wrote or the bytes that realloc moved
        Allocator = 51 "allocator",
    }
}

/// One block operation of one thread. It stands for `len` bytes; the single accesses that it is made of are not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockOp {
    /// When, on the thread's own clock.
    pub cycle: Cycle,
    /// When, among the session's ordered events as far as this thread had seen them.
    pub order: Order,
    /// The address of the call (of the instruction after it where only the return address is known).
    pub ip: VirtAddr,
    /// What was done.
    pub kind: BlockKind,
    /// By which call.
    pub function: BlockFunction,
    /// First byte written; zero for a fetch. For a comparison, the second operand that was read.
    pub dst: VirtAddr,
    /// First byte read; zero for a fill. For a signal frame the signal's number, zero where it was not recorded.
    pub src: VirtAddr,
    /// Bytes read or written (not the bytes that were allowed).
    pub len: u64,
}

impl BlockOp {
    /// The range that was written, if any: address and bytes.
    pub fn written(&self) -> Option<(VirtAddr, u64)> {
        matches!(self.kind, BlockKind::Copy | BlockKind::Fill).then_some((self.dst, self.len))
    }

    /// The first range that was read, if any: address and bytes.
    pub fn read(&self) -> Option<(VirtAddr, u64)> {
        matches!(self.kind, BlockKind::Copy | BlockKind::Fetch).then_some((self.src, self.len))
    }

    /// The second range that was read, for a comparison of two ranges: address and bytes.
    pub fn compared(&self) -> Option<(VirtAddr, u64)> {
        (self.kind == BlockKind::Fetch && self.dst.0 != 0).then_some((self.dst, self.len))
    }
}
