//! A rough picture of what is read while an index is built: accesses by parts of the run and by groups of pages.
//!
//! It has a bounded size, whatever is read: where a process has too many groups, groups become larger.

use std::collections::BTreeMap;

use memref::ProcessId;
use serde_json::{Value, json};
use trace_format::{BuildStep, Interval};

/// Parts of the run.
const COLUMNS: usize = 200;
/// Groups of pages of a process.
const MOST_ROWS: usize = 256;
/// The binary logarithm of a page's bytes.
const PAGE_SHIFT: u32 = 12;

/// What is known of a process.
#[derive(Debug, Default)]
struct ProcessSketch {
    whole: Option<Interval>,
    /// The binary logarithm of the pages of a group.
    shift: u32,
    /// Accesses by group and part of the run.
    rows: BTreeMap<u64, Vec<u64>>,
    accesses: u64,
}

impl ProcessSketch {
    fn add(&mut self, step: &BuildStep<'_>) {
        self.whole = Some(step.whole);
        let columns = self.columns(step.cycles);
        let parts = (columns.end() - columns.start() + 1) as u64;
        for cell in step.cells {
            let count: u64 = cell.counts.iter().copied().map(u64::from).sum();
            let row = self.rows.entry(cell.page >> self.shift).or_insert_with(|| vec![0; COLUMNS]);
            self.accesses += count;
            // Where in the frame they were is not known.
            for (place, column) in columns.clone().enumerate() {
                row[column] += count / parts + u64::from((place as u64) < count % parts);
            }
        }
        while self.rows.len() > MOST_ROWS {
            self.coarsen();
        }
    }

    /// The parts of the run that have these cycles.
    fn columns(&self, cycles: Interval) -> std::ops::RangeInclusive<usize> {
        let Some(whole) = self.whole.filter(|whole| !whole.is_none() && !cycles.is_none()) else {
            return 0..=0;
        };
        let length = u128::from(whole.max - whole.min) + 1;
        let column = |cycle: u64| {
            let into = u128::from(cycle.clamp(whole.min, whole.max) - whole.min);
            // Less than the number of columns, as `into` is less than the length.
            (into * COLUMNS as u128 / length) as usize
        };
        column(cycles.min)..=column(cycles.max)
    }

    /// Joins two groups each.
    fn coarsen(&mut self) {
        self.shift += 1;
        for (group, counts) in std::mem::take(&mut self.rows) {
            let row = self.rows.entry(group >> 1).or_insert_with(|| vec![0; COLUMNS]);
            row.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    fn json(&self) -> Value {
        let address = |group: u64| u128::from(group) << (self.shift + PAGE_SHIFT);
        let row = |(group, counts): (&u64, &Vec<u64>)| json!({"address": format!("{:#x}", address(*group)), "counts": counts});
        json!({
            "columns": COLUMNS,
            "accesses": self.accesses,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// What is known of all processes.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    processes: BTreeMap<ProcessId, ProcessSketch>,
}

impl Sketch {
    /// Adds a frame.
    pub(crate) fn add(&mut self, step: &BuildStep<'_>) {
        self.processes.entry(step.process).or_default().add(step);
    }

    /// The process that has most accesses so far.
    pub(crate) fn json(&self) -> Value {
        let busiest = self.processes.values().max_by_key(|process| process.accesses);
        busiest.map_or(Value::Null, ProcessSketch::json)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trace_format::PageCell;

    use super::*;

    fn cell(page: u64, loads: u32) -> PageCell {
        PageCell { page, counts: [loads, 0, 0], bytes: 0, read_lines: 0, written_lines: 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nothing_is_lost_however_much_there_is(
            frames in proptest::collection::vec(
                (0..1_000_000_u64, 0..5_000_u64, proptest::collection::vec((0..1_u64 << 36, 0..900_u32), 0..40)),
                1..40,
            ),
        ) {
            let whole = Interval { min: 0, max: 1_005_000 };
            let mut sketch = ProcessSketch::default();
            let mut accesses = 0;
            for (from, cycles, cells) in &frames {
                let cells: Vec<PageCell> = cells.iter().map(|&(page, loads)| cell(page, loads)).collect();
                accesses += cells.iter().map(|cell| u64::from(cell.counts[0])).sum::<u64>();
                let cycles = Interval { min: *from, max: from + cycles };
                sketch.add(&BuildStep { done: 1, all: 1, process: ProcessId(0), cycles, whole, cells: &cells });
            }
            prop_assert!(sketch.rows.len() <= MOST_ROWS);
            prop_assert_eq!(sketch.rows.values().flatten().sum::<u64>(), accesses);
            prop_assert_eq!(sketch.accesses, accesses);
        }
    }

    #[test]
    fn a_frame_is_where_its_cycles_are() {
        let mut sketch = ProcessSketch::default();
        let whole = Interval { min: 100, max: 100 + 2 * COLUMNS as u64 - 1 };
        let mut add = |min, max, cells: &[PageCell]| {
            let cycles = Interval { min, max };
            sketch.add(&BuildStep { done: 1, all: 2, process: ProcessId(0), cycles, whole, cells });
        };
        add(100, 101, &[cell(5, 7)]);
        add(104, 107, &[cell(5, 3), cell(6, 1)]);
        add(u64::MAX, 0, &[]);
        add(0, u64::MAX, &[cell(9, COLUMNS as u32)]);
        assert_eq!(sketch.rows[&5][..5], [7, 0, 2, 1, 0]);
        assert_eq!(sketch.rows[&6][..5], [0, 0, 1, 0, 0]);
        assert_eq!(sketch.rows[&9], vec![1; COLUMNS]);
        sketch.coarsen();
        assert_eq!(sketch.json()["rows"][1]["address"], "0x6000");
    }
}
