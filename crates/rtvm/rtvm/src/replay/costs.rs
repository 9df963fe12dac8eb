//! The cost model of the RTMMU (section IV-B): the cost of a touch in each memory.
//!
//! An access of the CPU makes three requests at once: the first port reads the cache and then a stack pointer, the
//! second the helper array and then a stack, the third the page table. It takes as long as the slowest of them,
//! plus the access to the translated address. Everything else is software that touches one word after another.

use crate::model::{Memories, Touches};
use crate::space::Lookups;

/// Latencies of a touch by memory, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// What they are of.
    pub name: &'static str,
    /// Each touch that software makes, with the instructions around it.
    pub software_ns: Memories<f64>,
    /// Each touch that hardware makes to translate an address.
    pub hardware_ns: Memories<f64>,
    /// A call of malloc or free, whatever it does.
    pub call_ns: f64,
}

const fn all(ns: f64) -> Memories<f64> {
    Memories { cache: ns, helper: ns, table: ns, regions: ns, frames: ns, control: ns, tags: ns }
}

impl Costs {
    /// The paper's prototype: an OpenRISC soft core without caches on an FPGA, DDR2 on an Avalon bus. The paper states
    /// no latencies. These are fitted to two figures of its Table I: 23.0 us for each page that the conventional system
    /// unmaps in the synthetic workload (4,145,462 us, 180,132 pages), which is five touches here, and 233 us for the
    /// longest allocation of the conventional system. The chips of cache and helper array run at twice the speed of the
    /// page table (section V-A).
    pub const PAPER: Self = Self {
        name: "paper",
        software_ns: all(4_600.0),
        hardware_ns: Memories { cache: 75.0, helper: 75.0, table: 150.0, ..all(150.0) },
        call_ns: 10_000.0,
    };

    /// A processor of 2024 that does all of it in software, over 2^20 pages whose words do not lie in its nearest cache:
    /// measured by `cargo xtask bench rtvm` (docs/overhead.md). The tree is small and stays near.
    pub const MEASURED: Self = Self {
        name: "measured",
        software_ns: Memories { regions: 0.7, frames: 5.0, control: 1.0, tags: 1.0, ..all(7.0) },
        hardware_ns: Memories { cache: 29.0, helper: 29.0, table: 58.0, ..all(0.0) },
        call_ns: 5.0,
    };

    /// All sets.
    pub const ALL: [Self; 2] = [Self::PAPER, Self::MEASURED];

    /// What a translation takes.
    pub fn translation_ns(&self) -> f64 {
        let ports = &self.hardware_ns;
        (2.0 * ports.cache).max(2.0 * ports.helper).max(ports.table)
    }

    /// What a call took that made these touches, among them those of `lookups`.
    pub fn call(&self, touches: &Touches, lookups: &Lookups) -> f64 {
        let software = |all: u64, hardware: u64, ns: f64| (all - hardware) as f64 * ns;
        let ns = &self.software_ns;
        self.call_ns
            + software(touches.cache, lookups.lookups + lookups.read_pointer, ns.cache)
            + software(touches.helper, lookups.lookups + lookups.read_stack, ns.helper)
            + software(touches.table, lookups.lookups, ns.table)
            + software(touches.regions, 0, ns.regions)
            + software(touches.frames, 0, ns.frames)
            + software(touches.control, 0, ns.control)
            + software(touches.tags, 0, ns.tags)
            + lookups.lookups as f64 * self.translation_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_work_at_once_and_software_does_not() {
        let costs = Costs { name: "test", software_ns: all(10.0), hardware_ns: all(1.0), call_ns: 100.0 };
        let mut touches = Touches { cache: 2, helper: 2, table: 1, ..Default::default() };
        let hit = Lookups { lookups: 1, read_pointer: 1, read_stack: 1, ..Default::default() };
        assert_eq!(costs.call(&touches, &hit), 102.0, "two steps of the slowest port");
        assert_eq!(costs.call(&touches, &Lookups::default()), 150.0, "the same by software");
        touches.regions = 3;
        assert_eq!(costs.call(&touches, &hit), 132.0);
        // At double speed, the two steps take no longer than the page table.
        assert_eq!(Costs::PAPER.translation_ns(), Costs::PAPER.hardware_ns.table);
    }
}
