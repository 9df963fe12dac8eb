//! Where variables of a name lie: a condition on names becomes one on addresses, by which frames are skipped.
//!
//! A place counts if anything there ever had the name, in any process and at any time, so that no row is lost. Names of memory whose
//! places are not known exactly (regions, sections, files without symbols) have no answer, and everything is read for them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use analysis::Session;
use analysis::machine::Machine;
use memref::VirtAddr;
use symbols::{Instance, LinkAddr};

use crate::Error;
use crate::named_blocks::{NamedBlocks, instances};

/// Each access is compared with all ranges: more than so many cost more than they save.
const MOST_RANGES: usize = 256;

/// Finds places by names.
#[derive(Debug)]
pub(crate) struct NamedPlaces {
    blocks: NamedBlocks,
    /// By the number of their module.
    statics: HashMap<Arc<str>, Vec<(u32, Range<LinkAddr>)>>,
    /// Each file at each of its places once, by the number of the module.
    mapped: HashMap<u32, Vec<Instance>>,
    /// Names of other memory.
    others: HashSet<String>,
    /// In a machine's memory any program may have been anywhere.
    is_machine: bool,
}

impl NamedPlaces {
    pub(crate) fn of(session: &Session) -> Result<Self, Error> {
        let blocks = NamedBlocks::of(session)?;
        let (mut statics, mut mapped) = (HashMap::<Arc<str>, Vec<_>>::new(), HashMap::<u32, Vec<_>>::new());
        let (mut others, mut seen) = (HashSet::new(), HashSet::new());
        for resolver in blocks.resolvers() {
            let regions = resolver.image().regions().regions();
            others.extend(regions.iter().map(|region| region.name.to_string()));
            for one in instances(resolver) {
                let module = &one.module;
                let number = module.serial();
                if !seen.insert((number, one.bias, one.start, one.end)) {
                    continue;
                }
                let places = mapped.entry(number).or_default();
                places.push(one.clone());
                if places.len() > 1 {
                    continue;
                }
                let sections = module.sections().iter();
                others.extend(sections.map(|section| format!("{}:{}", module.name(), section.name)));
                others.insert(module.name().to_owned());
            }
        }
        for (number, instances) in &mapped {
            let module = &instances[0].module;
            let mut names: HashMap<LinkAddr, Option<Arc<str>>> = HashMap::new();
            for (range, start) in module.data_ranges() {
                let name = names.entry(start);
                let name = name.or_insert_with(|| Some(module.data_at(start)?.name.into()));
                if let Some(name) = name {
                    statics.entry(Arc::clone(name)).or_default().push((*number, range));
                }
            }
        }
        Ok(Self { blocks, statics, mapped, others, is_machine: Machine::of(session).is_some() })
    }

    /// Where anything lies that has one of these names, one range at least. `None`: that is not known, or it is in too many places.
    pub(crate) fn ranges(&self, names: &BTreeSet<Arc<str>>) -> Option<Vec<Range<VirtAddr>>> {
        let mut all = Vec::new();
        for name in names {
            // In brackets are the kinds of memory.
            if self.is_machine || name.starts_with('[') || self.others.contains(&**name) {
                return None;
            }
            self.add_statics(name, &mut all)?;
            self.add_blocks(name, &mut all);
        }
        let mut ranges = joined(all);
        if ranges.is_empty() {
            // No range at all would ask for everything.
            ranges.push(VirtAddr(0)..VirtAddr(0));
        }
        (ranges.len() <= MOST_RANGES).then_some(ranges)
    }

    /// `None` where a file is placed around the end of the address space.
    fn add_statics(&self, name: &str, all: &mut Vec<Range<VirtAddr>>) -> Option<()> {
        for (module, range) in self.statics.get(name).into_iter().flatten() {
            for one in self.mapped.get(module).into_iter().flatten() {
                let (start, end) = (one.placed(range.start), one.placed(range.end));
                if start >= end {
                    return None;
                }
                all.push(start..end);
            }
        }
        Some(())
    }

    fn add_blocks(&self, name: &str, all: &mut Vec<Range<VirtAddr>>) {
        for (.., block) in self.blocks.find(name) {
            // A mapping has the rest of its last page, too.
            let end = block.start.0.saturating_add(block.extent());
            let end = end.checked_next_multiple_of(VirtAddr::PAGE_BYTES).unwrap_or(u64::MAX);
            all.push(block.start..VirtAddr(end));
        }
    }
}

/// The same addresses in disjoint ranges, in order.
fn joined(mut ranges: Vec<Range<VirtAddr>>) -> Vec<Range<VirtAddr>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<VirtAddr>> = Vec::new();
    for range in ranges {
        match all.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_one() {
        let check = |ranges: &[(u64, u64)], expect: &[(u64, u64)]| {
            let of = |ranges: &[(u64, u64)]| -> Vec<Range<VirtAddr>> {
                ranges.iter().map(|(start, end)| VirtAddr(*start)..VirtAddr(*end)).collect()
            };
            assert_eq!(joined(of(ranges)), of(expect), "{ranges:?}");
        };
        check(&[], &[]);
        check(&[(8, 16), (0, 4)], &[(0, 4), (8, 16)]);
        check(&[(8, 16), (0, 8), (9, 12)], &[(0, 16)]);
        check(&[(0, 9), (4, 6), (20, 21), (21, 22)], &[(0, 9), (20, 22)]);
    }
}
