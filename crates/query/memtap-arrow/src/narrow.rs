//! The conditions of an engine that reading can apply by itself. Engines check
//! each row again, so the result may have too many rows, but never too few.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use memref::{AccessKind, ThreadId, VirtAddr};
use trace_format::KindSet;

use crate::{Scan, TraceTable};

/// Threads that a range of numbers may name one by one; no trace has more, and a longer range is no list.
const MOST_THREADS: u64 = 1 << 16;

/// The numbers of both ranges.
fn both(one: Option<&Range<u64>>, other: &Range<u64>) -> Range<u64> {
    one.map_or_else(|| other.clone(), |one| one.start.max(other.start)..one.end.min(other.end))
}

fn one_range(ranges: &mut Vec<Range<VirtAddr>>, wanted: &Range<u64>) {
    let before = ranges.first().map(|range| range.start.0..range.end.0);
    let now = both(before.as_ref(), wanted);
    *ranges = vec![VirtAddr(now.start)..VirtAddr(now.end.max(now.start))];
}

impl Scan {
    /// Whether rows of its table can be left out: other tables are read whole.
    pub fn can_leave_out(&self) -> bool {
        matches!(self.table, TraceTable::Accesses | TraceTable::Allocations | TraceTable::Syncs)
    }

    /// Wants only rows with one of these numbers in a column. `false`: it can't leave out others. Rows that touch a byte of a range of
    /// addresses may begin before it, and come, too.
    pub fn keep_numbers(&mut self, column: &str, numbers: &Range<u64>) -> bool {
        if !self.can_leave_out() {
            return false;
        }
        match column {
            "cycle" => self.filter.cycles = Some(both(self.filter.cycles.as_ref(), numbers)),
            "ip" => one_range(&mut self.filter.ips, numbers),
            "addr" => one_range(&mut self.filter.addresses, numbers),
            "thread" => {
                if numbers.end.saturating_sub(numbers.start) > MOST_THREADS {
                    return false;
                }
                self.keep_threads(
                    numbers.clone().filter_map(|number| u32::try_from(number).ok()).map(ThreadId),
                );
            }
            _ => return false,
        }
        true
    }

    /// Wants only rows of these threads. `false`: it can't leave out others.
    pub fn keep_threads(&mut self, wanted: impl IntoIterator<Item = ThreadId>) -> bool {
        if !self.can_leave_out() {
            return false;
        }
        let wanted: BTreeSet<_> = wanted.into_iter().collect();
        self.threads = Some(match self.threads.take() {
            Some(before) => before.intersection(&wanted).copied().collect(),
            None => wanted,
        });
        true
    }

    /// Wants only accesses to variables and heap blocks of these names. `false`: it can't leave out others.
    pub fn keep_variables(&mut self, names: &[&str]) -> bool {
        if self.table != TraceTable::Accesses {
            return false;
        }
        let wanted: BTreeSet<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        self.variables = Some(match self.variables.take() {
            Some(before) => before.intersection(&wanted).cloned().collect(),
            None => wanted,
        });
        true
    }

    /// Wants only accesses of these kinds: load, store, modify, prefetch. `false`: it can't leave out others, or there is no such kind.
    pub fn keep_kinds(&mut self, names: &[&str]) -> bool {
        let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::Modify, AccessKind::Prefetch];
        let kind =
            |name: &&str| kinds.into_iter().find(|kind| kind.to_string() == **name).map(KindSet::access);
        let known = names.iter().map(kind).collect::<Option<Vec<_>>>();
        let Some(known) = known.filter(|_| self.table == TraceTable::Accesses) else { return false };
        let wanted = known.into_iter().fold(0, |all, kinds| all | kinds.0);
        self.filter.kinds = KindSet(self.filter.kinds.0 & wanted);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_meet() {
        let mut scan = Scan::of(TraceTable::Accesses);
        assert!(scan.keep_numbers("cycle", &(5..20)) && scan.keep_numbers("cycle", &(0..9)));
        assert_eq!(scan.filter.cycles, Some(5..9));
        assert!(scan.keep_numbers("addr", &(16..32)) && scan.keep_numbers("addr", &(64..70)));
        assert_eq!(scan.filter.addresses, [VirtAddr(64)..VirtAddr(64)], "nothing is in both");
        assert!(scan.keep_threads([ThreadId(1), ThreadId(2)]) && scan.keep_numbers("thread", &(2..9)));
        assert_eq!(scan.threads, Some([ThreadId(2)].into()));
        assert!(scan.keep_kinds(&["load", "modify"]) && scan.keep_kinds(&["load", "store"]));
        assert_eq!(scan.filter.kinds, KindSet::access(AccessKind::Load));
        assert!(scan.keep_variables(&["a", "b"]) && scan.keep_variables(&["b", "c"]));
        assert_eq!(scan.variables, Some(["b".into()].into()));
    }

    #[test]
    fn what_it_cannot_leave_out_changes_nothing() {
        let mut scan = Scan::of(TraceTable::Accesses);
        assert!(!scan.keep_numbers("size", &(1..9)));
        assert!(!scan.keep_numbers("thread", &(0..u64::MAX)));
        assert!(!scan.keep_kinds(&["lode"]));
        assert!(scan.is_all());
        let mut scan = Scan::of(TraceTable::Gaps);
        assert!(!scan.keep_numbers("cycle", &(5..9)) && !scan.keep_threads([ThreadId(1)]));
        assert!(scan.is_all());
        assert!(!Scan::of(TraceTable::Syncs).keep_kinds(&["load"]));
        assert!(!Scan::of(TraceTable::Allocations).keep_variables(&["a"]));
    }
}
