//! The streams that the trace of a whole machine has in addition to its accesses (docs/format.md, *Machines*).
//!
//! The accesses of each vCPU are those of a thread. `pages` maps their virtual addresses to physical ones: it
//! gives the place of a page for the first access of a frame to it, and whenever the page has moved. The
//! accesses carry the bytes that stores wrote, if that was requested. `found` holds changes of memory that no
//! instruction wrote. This module has the bytes of the entries; the streams are listed in [`crate::StreamKind`].

use memref::VirtAddr;

use crate::bytes::{put_words, u32_at, u64_at};

/// Bit of a page's place: a device answers there.
pub const PLACE_DEVICE: u64 = 1 << 63;

/// From access `index` on, the virtual page lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Index of the access among those of its thread.
    pub index: u64,
    /// Number of the virtual page.
    pub page: u64,
    /// Number of the physical page, with [`PLACE_DEVICE`].
    pub place: u64,
}

/// Bytes found in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// When they were found.
    pub cycle: u64,
    /// When all of memory was known before: they were written in between.
    pub since: u64,
    /// Where, physically.
    pub addr: u64,
    /// How many.
    pub len: u64,
    /// Where they are in the stream of bytes.
    pub at: u64,
}

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskEntry {
    /// When.
    pub cycle: u64,
    /// Where the kernel holds it.
    pub address: VirtAddr,
    /// The process id.
    pub process: u32,
    /// The thread id.
    pub thread: u32,
    /// The process id of the process that made it.
    pub parent: u32,
    /// 0 goes on, 1 made, 2 runs another program, 3 ended.
    pub change: u8,
    /// Its name, padded with zeros.
    pub name: [u8; 16],
}

/// A point where all of memory is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// When.
    pub cycle: u64,
    /// When that was, ns since the Unix epoch.
    pub time_ns: u64,
}

impl PageEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 24] {
        put_words(&[self.index, self.page, self.place])
    }

    /// From 24 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { index: u64_at(bytes, 0), page: u64_at(bytes, 8), place: u64_at(bytes, 16) }
    }
}

impl FoundEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 40] {
        put_words(&[self.cycle, self.since, self.addr, self.len, self.at])
    }

    /// From 40 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            cycle: u64_at(bytes, 0),
            since: u64_at(bytes, 8),
            addr: u64_at(bytes, 16),
            len: u64_at(bytes, 24),
            at: u64_at(bytes, 32),
        }
    }
}

impl CheckpointEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 16] {
        put_words(&[self.cycle, self.time_ns])
    }

    /// From 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { cycle: u64_at(bytes, 0), time_ns: u64_at(bytes, 8) }
    }
}

impl TaskEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 48] {
        let ids = u64::from(self.process) | u64::from(self.thread) << 32;
        let rest = u64::from(self.parent) | u64::from(self.change) << 32;
        put_words(&[self.cycle, self.address.0, ids, rest, u64_at(&self.name, 0), u64_at(&self.name, 8)])
    }

    /// From 48 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        if let Some(from) = bytes.get(32..48) {
            name.copy_from_slice(from);
        }
        Self {
            cycle: u64_at(bytes, 0),
            address: VirtAddr(u64_at(bytes, 8)),
            process: u32_at(bytes, 16),
            thread: u32_at(bytes, 20),
            parent: u32_at(bytes, 24),
            change: bytes.get(28).copied().unwrap_or(0),
            name,
        }
    }

    /// Its name as text.
    pub fn name(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let page = PageEntry { index: 1, page: 2, place: 3 | PLACE_DEVICE };
        assert_eq!(PageEntry::from_bytes(&page.to_bytes()), page);
        let found = FoundEntry { cycle: 1, since: 2, addr: 3, len: 4, at: 5 };
        assert_eq!(FoundEntry::from_bytes(&found.to_bytes()), found);
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"init");
        let task =
            TaskEntry { cycle: 1, address: VirtAddr(2), process: 3, thread: 4, parent: 5, change: 3, name };
        assert_eq!(TaskEntry::from_bytes(&task.to_bytes()), task);
        assert_eq!(task.name(), "init");
        let checkpoint = CheckpointEntry { cycle: 6, time_ns: 7 };
        assert_eq!(CheckpointEntry::from_bytes(&checkpoint.to_bytes()), checkpoint);
    }
}
