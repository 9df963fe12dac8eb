//! Limits on the resources for reading a trace. A file of a few megabytes can claim
//! gigabytes; its claims are compared with these limits before anything is allocated.

use std::sync::OnceLock;

/// A trace whose frames want more than this shows them as damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one frame at a time, each: as it is stored; what its attributes decode to, together; and its entries.
    pub frame_bytes: u64,
}

/// Enough for the longest frames that memtap writes: 4,194,304 accesses of 32 bytes.
const LEAST: u64 = 128 << 20;
/// More than this is nobody's frame.
const MOST: u64 = 1 << 30;

impl Default for Limits {
    /// A hundredth of the machine's memory, but 128 MiB at least and a GiB at most.
    fn default() -> Self {
        static MEMORY: OnceLock<u64> = OnceLock::new();
        let memory = *MEMORY.get_or_init(|| memory_bytes().unwrap_or(0));
        Self { frame_bytes: (memory / 100).clamp(LEAST, MOST) }
    }
}

/// The machine's memory.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
