//! The result of the replays, from which every output is made.

use rtvm::replay::{Replay, ReplayOutcome};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Real-time virtual memory: every release gives its pages back at once.
    Rtmmu,
    /// A page table, and a heap that shrinks at its end.
    Conventional,
}

impl System {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rtmmu => "rtmmu",
            Self::Conventional => "conventional",
        }
    }
}

/// What a trace had that a heap can't replay, or should not.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Frees of blocks that were free already.
    pub double_frees: u64,
    /// Frees of addresses at which no known block begins: allocated before the trace, inherited, or wrong.
    pub unknown_frees: u64,
    /// New blocks over living ones, whose release the trace does not have.
    pub overlapping_blocks: u64,
    /// Accesses to blocks after their release.
    pub accesses_after_free: u64,
    /// Block operations beyond the last address.
    pub accesses_outside: u64,
    /// Mappings and unmappings of a part of a mapping, whose pages stay until all of it goes.
    pub partial_mappings: u64,
    /// Block operations, each of which is an access to every page that it touches.
    pub block_operations: u64,
    /// Accesses that are not replayed because only the heap was asked for.
    pub accesses_beside_heap: u64,
    /// Events that the trace says are missing.
    pub gaps: u64,
}

impl Findings {
    /// Each count with its name, in the order of tables and JSON.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("double_frees", self.double_frees),
            ("unknown_frees", self.unknown_frees),
            ("overlapping_blocks", self.overlapping_blocks),
            ("accesses_after_free", self.accesses_after_free),
            ("accesses_outside", self.accesses_outside),
            ("partial_mappings", self.partial_mappings),
            ("block_operations", self.block_operations),
            ("accesses_beside_heap", self.accesses_beside_heap),
            ("gaps", self.gaps),
        ]
    }
}

/// One workload through both systems.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// The program, or `synthetic`.
    pub workload: String,
    /// The seed of a synthetic workload.
    pub seed: Option<u64>,
    /// What it took real-time virtual memory.
    pub rtmmu: ReplayOutcome,
    /// What it took the page table.
    pub conventional: ReplayOutcome,
    /// Points in time at which real-time virtual memory had more pages than the page table.
    pub points_above: u64,
    /// What the workload had that could not be replayed.
    pub findings: Findings,
}

impl ComparedRun {
    pub(super) fn new(workload: String, seed: Option<u64>, replay: &Replay<'_>, findings: Findings) -> Self {
        Self {
            workload,
            seed,
            rtmmu: replay.rtmmu().clone(),
            conventional: replay.conventional().clone(),
            points_above: replay.points_above(),
            findings,
        }
    }

    /// Both systems with their outcomes, in the order of tables.
    pub fn systems(&self) -> [(System, &ReplayOutcome); 2] {
        [(System::Rtmmu, &self.rtmmu), (System::Conventional, &self.conventional)]
    }

    /// How much worse the conventional system is: worst release, pages.
    pub fn ratios(&self) -> [(&'static str, f64); 5] {
        let (a, b) = (&self.rtmmu, &self.conventional);
        let ratio = |b: f64, a: f64| if a > 0.0 { b / a } else { 1.0 };
        [
            ("max_alloc_ns", ratio(b.max_alloc_ns, a.max_alloc_ns)),
            ("max_free_ns", ratio(b.max_free_ns, a.max_free_ns)),
            ("max_free_touches", ratio(b.max_free_touches as f64, a.max_free_touches as f64)),
            ("peak_pages", ratio(f64::from(b.peak_pages), f64::from(a.peak_pages))),
            ("mean_pages", ratio(b.mean_pages(), a.mean_pages())),
        ]
    }
}

/// Smallest, middle and largest of some ratios.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one; of an even number the larger of both.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(1.0);
        Self { min: at(0), median: at(values.len() / 2), max: at(values.len().saturating_sub(1)) }
    }
}

/// The spread of each ratio over the runs.
pub fn spreads(runs: &[ComparedRun]) -> Vec<(&'static str, Spread)> {
    let names = runs.first().map(ComparedRun::ratios).into_iter().flatten();
    names
        .enumerate()
        .map(|(index, (name, _))| (name, Spread::of(runs.iter().map(|run| run.ratios()[index].1).collect())))
        .collect()
}
