//! Counting by variable, basic block by basic block: accesses of a block
//! at fixed distances are one addition if all of them lie in one variable.

use std::ops::Range;

use blocks::{BasicBlock, BlockAccess};
use memref::{Access, VirtAddr};
use symbols::{DataVersion, Resolver, VariableId};
use trace_format::{ExecutedFrame, ExecutedItem};

use super::slot::slot;
use crate::executed_blocks::ExecutedBlocks;
use crate::near_accesses::{NearAccess, NearAccesses, count_of, near_accesses};
use crate::{Count, Moment};

/// Accesses of a block whose addresses follow from the same values.
#[derive(Clone, Debug)]
struct AccessGroup {
    /// The one with the lowest address.
    lowest: BlockAccess,
    /// From there to the first byte of the one with the highest.
    span: u64,
    /// All of them.
    count: Count,
    /// Which ones they are, in the list of all groups' accesses.
    members: Range<usize>,
    found: FoundVariable,
}

/// The variable that a group's accesses were in the last time.
#[derive(Clone, Copy, Debug)]
struct FoundVariable {
    /// Addresses of the lowest access with which all of them are in it.
    start: u64,
    end: u64,
    /// The resolver's, when it was asked.
    version: DataVersion,
    variable: VariableId,
}

/// An access of a group.
#[derive(Clone, Copy, Debug)]
struct GroupMember {
    /// From the address of the lowest one.
    distance: u64,
    count: Count,
}

/// How a block is counted.
#[derive(Clone, Debug)]
enum GroupedBlock {
    /// By these groups.
    Groups(Range<usize>),
    /// How many accesses it makes depends on its values.
    OneByOne,
}

/// Counts executions by variable.
#[derive(Debug, Default)]
pub(super) struct VariableGroups {
    known: ExecutedBlocks,
    blocks: Vec<GroupedBlock>,
    groups: Vec<AccessGroup>,
    members: Vec<GroupMember>,
    expanded: Vec<Access>,
}

impl VariableGroups {
    /// Adds a part of a frame's executions to counts by the number of the variable.
    pub(super) fn add(
        &mut self,
        at: &mut Moment<'_>,
        frame: &ExecutedFrame,
        part: Range<usize>,
        counts: &mut Vec<Count>,
    ) {
        let numbers = self.known.enter(at.thread, frame);
        for number in self.blocks.len()..self.known.all().len() {
            self.group(number);
        }
        let Self { blocks, groups, members, expanded, .. } = self;
        for item in frame.items(part) {
            let of_block = match item {
                ExecutedItem::Block { number, values, .. } => {
                    match &blocks[numbers[number as usize] as usize] {
                        GroupedBlock::Groups(groups) => Some((groups.clone(), values)),
                        GroupedBlock::OneByOne => None,
                    }
                }
                ExecutedItem::Single(_) => None,
            };
            let Some((of_block, values)) = of_block else {
                expanded.clear();
                frame.expand(&item, expanded);
                for access in expanded.iter() {
                    let name = at.resolver.resolve_data(access.addr);
                    slot(counts, name.variable.0).add(access);
                }
                continue;
            };
            for group in &mut groups[of_block] {
                let lowest = group.lowest.address(values, frame.fs_base()).0;
                let found = &group.found;
                let all = VirtAddr(lowest)..VirtAddr(lowest.saturating_add(group.span + 1));
                if found.start <= lowest && lowest < found.end && at.resolver.holds_since(all, found.version)
                {
                    // It was counted to before, so it has a place.
                    counts[found.variable.0 as usize] += group.count;
                } else {
                    group.find(lowest, at.resolver, members, counts);
                }
            }
        }
    }

    fn group(&mut self, number: usize) {
        let block = &self.known.all()[number];
        let grouped = match block.is_fixed() {
            true => GroupedBlock::Groups(groups_of(block, &mut self.groups, &mut self.members)),
            false => GroupedBlock::OneByOne,
        };
        self.blocks.push(grouped);
    }
}

impl AccessGroup {
    /// Counts an execution where the variable is not known.
    fn find(
        &mut self,
        lowest: u64,
        resolver: &mut Resolver,
        members: &[GroupMember],
        counts: &mut Vec<Count>,
    ) {
        let (variable, range) = resolver.data_range(VirtAddr(lowest));
        if self.span < range.end.0.saturating_sub(lowest) {
            let (start, end) = (range.start.0, range.end.0 - self.span);
            self.found = FoundVariable { start, end, version: resolver.data_version(), variable };
            *slot(counts, variable.0) += self.count;
            return;
        }
        for GroupMember { distance, count } in &members[self.members.clone()] {
            let variable = resolver.resolve_data(VirtAddr(lowest.wrapping_add(*distance))).variable;
            *slot(counts, variable.0) += *count;
        }
    }
}

/// Appends the groups of a block whose accesses are made once each.
fn groups_of(
    block: &BasicBlock,
    groups: &mut Vec<AccessGroup>,
    members: &mut Vec<GroupMember>,
) -> Range<usize> {
    let start = groups.len();
    for NearAccesses { lowest, span, members: near } in near_accesses(block.accesses()) {
        let begin = members.len();
        let member =
            |near: &NearAccess| GroupMember { distance: near.distance, count: count_of(&near.access) };
        members.extend(near.iter().map(member));
        groups.push(AccessGroup {
            lowest,
            span,
            count: members[begin..].iter().map(|member| member.count).sum(),
            members: begin..members.len(),
            found: FoundVariable { start: 1, end: 0, version: DataVersion::NONE, variable: VariableId(0) },
        });
    }
    start..groups.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Definition, Extent, MAX_DEFINITION_BYTES, RecordedValues, encode_definition};
    use memref::AccessKind;

    fn groups(accesses: &[BlockAccess]) -> Vec<(i64, u64, u64)> {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(0x1000), 9);
        let len = encode_definition(0, extent, RecordedValues::plain(4), accesses, &mut bytes);
        let (definition, _) = Definition::decode(&bytes[..len]).expect("it was just encoded");
        let block = BasicBlock::new(&definition).expect("it has its values");
        let (mut groups, mut members) = (Vec::new(), Vec::new());
        groups_of(&block, &mut groups, &mut members);
        groups.iter().map(|group| (group.lowest.displacement, group.span, group.count.accesses())).collect()
    }

    #[test]
    fn accesses_at_fixed_distances_are_one_group() {
        let at = |base: u8, displacement: i64| BlockAccess {
            base,
            displacement,
            size: 8,
            kind: AccessKind::Load,
            ..BlockAccess::NONE
        };
        assert_eq!(groups(&[at(0, 8), at(1, 0), at(0, -8)]), [(-8, 16, 2), (0, 0, 1)]);
        // Too far away, and where the sum wraps.
        assert_eq!(groups(&[at(0, 0), at(0, 4096), at(0, 4097)]), [(0, 4096, 2), (4097, 0, 1)]);
        assert_eq!(groups(&[at(0, i64::MIN), at(0, i64::MAX)]).len(), 2);
        let short = |displacement| BlockAccess { short: true, ..at(0, displacement) };
        assert_eq!(groups(&[short(0), short(8), short(8)]), [(0, 0, 1), (8, 0, 2)]);
        let scaled = |index, scale| BlockAccess { index, scale, ..at(0, 0) };
        assert_eq!(groups(&[scaled(1, 4), scaled(1, 8), scaled(1, 8)]).len(), 2);
        assert_eq!(groups(&[BlockAccess { kind: AccessKind::Prefetch, ..at(0, 0) }]), [(0, 0, 0)]);
    }
}
