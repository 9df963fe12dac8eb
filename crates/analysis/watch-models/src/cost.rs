//! From events to cycles: the latencies of Tables 4 and 5 and the formulas of section 4.1.1, as data.

use serde::{Deserialize, Serialize};

use crate::{Counters, UnitKind};

/// Table 4: events that the pipeline is fully exposed to, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fixed {
    /// A fault into the kernel, T_kernel.
    pub kernel_fault: f64,
    /// A system call, T_syscall.
    pub syscall: f64,
    /// A signal from the kernel, T_signal.
    pub signal: f64,
    /// A fault to a handler of the program's own level, T_user.
    pub user_fault: f64,
    /// A range update that is more than one entry (section 4.1.1).
    pub complex_update: f64,
}

/// Table 5: events that overlap with others, in cycles. The paper timed logs of them; here a handler costs a constant and
/// something for each level of the tree it goes through.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handlers {
    /// Loading watchpoints by a software handler, T_SW_check: constant part.
    pub software_load: f64,
    /// And for each level of the tree.
    pub software_load_level: f64,
    /// Storing watchpoints by a software handler, T_SW_set: constant part.
    pub software_store: f64,
    /// And for each level of the tree.
    pub software_store_level: f64,
    /// One load by hardware, T_HW_check.
    pub hardware_load: f64,
    /// Changing the protection of one page, T_VM.
    pub protection_change: f64,
    /// Writing one entry of the trie, T_MLPT.
    pub trie_write: f64,
    /// Reading one entry of the trie to decide about the level above, a part of T_MLPT.
    pub trie_scan: f64,
    /// Writing a byte of a bitmap, T_bitmap.
    pub bitmap_byte: f64,
    /// Deciding to switch to or from a bitmap, and doing so without the writing.
    pub bitmap_switch: f64,
}

/// What the program and the software that watches without hardware take, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Software {
    /// The program itself, for each access (all instructions around it included).
    pub program_access: f64,
    /// An always-on shadow value look-up, for each access: the baseline of taint analysis.
    pub taint_access: f64,
    /// An always-on check of read and write sets, for each access: the baseline of race detection.
    pub race_access: f64,
}

/// A set of costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Its name.
    pub name: String,
    /// Table 4.
    pub fixed: Fixed,
    /// Table 5.
    pub handlers: Handlers,
    /// The baselines.
    pub software: Software,
}

impl CostModel {
    /// The paper's: Table 4 as printed. Table 5 names its events without figures; section 4.5 says that a miss or overflow of
    /// the range cache took "hundreds to thousands" of cycles, which the handlers' figures here span for trees of 16 to
    /// a million ranges, and a load by hardware is one that misses the first-level cache. The baselines are Umbra's
    /// +133 % (section 4.2, with three cycles an access) and the upper end of "3-10x" that section 1.1 gives for checking
    /// read and write sets in software.
    pub fn paper_2012() -> Self {
        Self {
            name: "paper-2012".into(),
            fixed: Fixed {
                kernel_fault: 700.0,
                syscall: 400.0,
                signal: 3000.0,
                user_fault: 20.0,
                complex_update: 64.0,
            },
            handlers: Handlers {
                software_load: 100.0,
                software_load_level: 30.0,
                software_store: 150.0,
                software_store_level: 50.0,
                hardware_load: 14.0,
                protection_change: 500.0,
                trie_write: 4.0,
                trie_scan: 2.0,
                bitmap_byte: 1.0,
                bitmap_switch: 200.0,
            },
            software: Software { program_access: 3.0, taint_access: 4.0, race_access: 27.0 },
        }
    }

    /// Cycles that a unit of that kind takes for these events: the formulas of section 4.1.1. (For Mondriaan the paper
    /// prints a sum of faults and T_user; a product is meant.)
    pub fn cycles(&self, kind: UnitKind, counters: &Counters) -> Cycles {
        let Self { fixed, handlers, software, .. } = self;
        let count = |number: u64| number as f64;
        let software_check = count(counters.software_loads) * handlers.software_load
            + count(counters.software_load_levels) * handlers.software_load_level;
        let software_set = count(counters.software_stores) * handlers.software_store
            + count(counters.software_store_levels) * handlers.software_store_level;
        let hardware_check = count(counters.hardware_loads) * handlers.hardware_load;
        match kind {
            // The kernel looks into its list at each fault, and writes it at each change.
            UnitKind::VirtualMemory => Cycles {
                faults: count(counters.faults) * (fixed.kernel_fault + fixed.signal)
                    + count(counters.false_faults) * fixed.kernel_fault * 2.0
                    + software_check,
                changes: count(counters.changes) * fixed.syscall
                    + software_set
                    + count(counters.protection_changes) * handlers.protection_change,
                misses: 0.0,
            },
            UnitKind::MemTracker => Cycles {
                faults: count(counters.faults) * fixed.user_fault,
                changes: 0.0,
                misses: count(counters.misses) * fixed.user_fault + software_check + software_set,
            },
            UnitKind::Mondriaan => Cycles {
                faults: count(counters.faults) * fixed.user_fault,
                changes: count(counters.trie_writes) * handlers.trie_write
                    + count(counters.trie_scans) * handlers.trie_scan,
                misses: hardware_check,
            },
            UnitKind::RangeCache | UnitKind::RangeCacheBitmap => Cycles {
                faults: count(counters.faults) * fixed.user_fault,
                changes: count(counters.complex_updates) * fixed.complex_update
                    + count(counters.to_bitmap + counters.from_bitmap) * handlers.bitmap_switch
                    + count(counters.bitmap_bytes) * handlers.bitmap_byte,
                misses: count(counters.misses + counters.write_backs) * fixed.user_fault
                    + software_check
                    + software_set
                    + hardware_check,
            },
            UnitKind::Software => {
                Cycles { faults: 0.0, changes: 0.0, misses: count(counters.accesses) * software.taint_access }
            }
        }
    }
}

/// What a unit takes, in cycles, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cycles {
    /// Accesses that hit a watchpoint, or something that is closed because of one.
    pub faults: f64,
    /// Watchpoints that are set and removed.
    pub changes: f64,
    /// What the unit's caches do not hold: loads from the backing store, and stores to it.
    pub misses: f64,
}

impl Cycles {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.faults + self.changes + self.misses
    }
}
