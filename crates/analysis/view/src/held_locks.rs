//! When a thread holds a lock: the cycles, or the time, in which it holds at least one, alone or shared with other readers.
//!
//! They follow from the calls that take locks and give them up. A lock that was taken before the recording is not known, and one that is
//! never given up is held to the end. What is given up without having been taken by the same thread changes nothing.

use std::collections::HashMap;
use std::ops::Range;

use memref::{Sync, SyncKind, VirtAddr};

use crate::divided::Divided;

/// When a thread holds a lock, in cycles or in time.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    /// In their order, disjoint, none empty.
    stretches: Vec<Range<u64>>,
}

impl HeldLocks {
    /// Of a thread's events, in their order.
    pub(crate) fn of(syncs: impl Iterator<Item = Sync>) -> Self {
        let mut locked = Self::default();
        // A lock may be taken again by who holds it.
        let mut held: HashMap<VirtAddr, u64> = HashMap::new();
        let mut since = 0;
        for sync in syncs {
            match sync.kind {
                SyncKind::Lock | SyncKind::LockShared => {
                    if held.is_empty() {
                        since = sync.cycle;
                    }
                    *held.entry(sync.object).or_default() += 1;
                }
                SyncKind::Unlock => {
                    let Some(count) = held.get_mut(&sync.object) else { continue };
                    *count -= 1;
                    if *count == 0 {
                        held.remove(&sync.object);
                        if held.is_empty() {
                            locked.add(since..sync.cycle);
                        }
                    }
                }
                _ => {}
            }
        }
        if !held.is_empty() {
            locked.add(since..u64::MAX);
        }
        locked
    }

    /// What comes after all that is there.
    fn add(&mut self, stretch: Range<u64>) {
        match self.stretches.last_mut() {
            _ if stretch.is_empty() => {}
            Some(last) if last.end == stretch.start => last.end = stretch.end,
            _ => self.stretches.push(stretch),
        }
    }

    /// Those of a span.
    fn within<'a>(&'a self, span: &'a Range<u64>) -> impl Iterator<Item = Range<u64>> + 'a {
        let first = self.stretches.partition_point(|stretch| stretch.end <= span.start);
        let met = self.stretches.iter().skip(first).take_while(|stretch| stretch.start < span.end);
        met.map(|stretch| stretch.start.max(span.start)..stretch.end.min(span.end))
    }

    /// How much of a span.
    pub(crate) fn count(&self, span: &Range<u64>) -> u64 {
        self.within(span).map(|stretch| stretch.end - stretch.start).sum()
    }

    /// How much in each of so many columns of a span: columns that have some, with how much.
    pub(crate) fn columns(&self, span: &Range<u64>, columns: u64) -> Vec<[u64; 2]> {
        let columns = Divided { range: span.clone(), parts: columns };
        let mut counts: Vec<[u64; 2]> = Vec::new();
        for stretch in self.within(span) {
            for column in columns.part(stretch.start)..=columns.part(stretch.end - 1) {
                let count =
                    stretch.end.min(columns.first(column + 1)) - stretch.start.max(columns.first(column));
                match counts.last_mut().filter(|[last, _]| *last == column) {
                    // Of more columns than there are values, some have none.
                    _ if count == 0 => {}
                    Some([_, before]) => *before += count,
                    None => counts.push([column, count]),
                }
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use memref::SyncFunction;
    use proptest::prelude::*;

    use super::*;

    fn sync(cycle: u64, kind: SyncKind, object: u64) -> Sync {
        let (function, object) = (SyncFunction::Mutex, VirtAddr(object));
        Sync { cycle, order: 0, ip: VirtAddr(0), kind, function, object, value: 0 }
    }

    fn check(events: &[(u64, SyncKind, u64)], expect: &[[u64; 2]]) {
        let locked = HeldLocks::of(events.iter().map(|&(cycle, kind, object)| sync(cycle, kind, object)));
        let stretches: Vec<[u64; 2]> =
            locked.stretches.iter().map(|stretch| [stretch.start, stretch.end]).collect();
        assert_eq!(stretches, expect, "{events:?}");
    }

    #[test]
    fn a_lock_is_held_until_it_is_given_up_as_often_as_it_was_taken() {
        use SyncKind::{Acquire, Lock, LockShared, Unlock};
        check(&[], &[]);
        check(&[(3, Lock, 1), (5, Unlock, 1)], &[[3, 5]]);
        check(&[(3, Lock, 1), (3, Unlock, 1)], &[]);
        check(&[(3, Lock, 1), (4, Lock, 1), (5, Unlock, 1), (7, Unlock, 1)], &[[3, 7]]);
        check(&[(3, Lock, 1), (4, LockShared, 2), (5, Unlock, 1), (7, Unlock, 2)], &[[3, 7]]);
        check(&[(3, Lock, 1), (5, Unlock, 1), (5, Lock, 2), (7, Unlock, 2)], &[[3, 7]]);
        check(&[(1, Unlock, 1), (2, Acquire, 1), (3, Lock, 2)], &[[3, u64::MAX]]);
    }

    const CYCLES: u64 = 60;

    /// Whether a lock is held in each cycle, looked at one by one.
    fn model(events: &[Sync]) -> Vec<bool> {
        let mut held = [0_u32; 3];
        let mut next = events.iter().peekable();
        let mut at = |cycle| {
            while let Some(event) = next.next_if(|event| event.cycle <= cycle) {
                let count = &mut held[event.object.0 as usize];
                match event.kind {
                    SyncKind::Unlock => *count = count.saturating_sub(1),
                    SyncKind::Lock | SyncKind::LockShared => *count += 1,
                    _ => {}
                }
            }
            held.iter().any(|count| *count > 0)
        };
        (0..CYCLES).map(&mut at).collect()
    }

    fn kind() -> impl Strategy<Value = SyncKind> {
        prop_oneof![
            3 => Just(SyncKind::Lock),
            1 => Just(SyncKind::LockShared),
            4 => Just(SyncKind::Unlock),
            1 => Just(SyncKind::Release),
        ]
    }

    proptest! {
        #[test]
        fn cycles_are_those_of_a_count_one_by_one(
            drawn in prop::collection::vec((0u64..4, kind(), 0u64..3), 0..40),
            from in 0u64..CYCLES - 1, len in 1u64..CYCLES, columns in 1u64..80,
        ) {
            let mut cycle = 0;
            let events: Vec<Sync> = drawn.into_iter().map(|(after, kind, object)| {
                cycle += after;
                sync(cycle, kind, object)
            }).collect();
            let held = model(&events);
            let locked = HeldLocks::of(events.into_iter());
            let part = from..(from + len).min(CYCLES);
            let in_part: Vec<u64> = part.clone().filter(|cycle| held[*cycle as usize]).collect();
            prop_assert_eq!(locked.count(&part), in_part.len() as u64);
            let mut expect = vec![0; columns as usize];
            for cycle in in_part {
                expect[((cycle - part.start) * columns / (part.end - part.start)) as usize] += 1;
            }
            let mut counts = vec![0; columns as usize];
            for [column, count] in locked.columns(&part, columns) {
                prop_assert!(count > 0);
                counts[column as usize] += count;
            }
            prop_assert_eq!(counts, expect);
        }
    }
}
