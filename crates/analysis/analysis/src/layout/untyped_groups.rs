//! Executions whose accesses have no vote, because no instruction with a known type touches
//! the program's heap. They are counted block by block. Accesses of a block at fixed
//! distances are looked up together, if all of them hit the same things as the last time.

use std::ops::Range;
use std::sync::Arc;

use blocks::{BasicBlock, BlockAccess};
use memref::{AccessKind, ThreadId, VirtAddr};
use symbols::{DataVersion, Resolver, VariableId};
use trace_format::ExecutedFrame;

use super::votes::VotedVariable;
use crate::executed_blocks::ExecutedBlocks;
use crate::near_accesses::{NearAccess, NearAccesses, near_accesses};
use crate::typing::CodeTypes;

/// What is known of instructions and variables. What nobody asked about is not known, and is not asked here: the order of the first
/// questions is that of the accesses.
#[derive(Clone, Copy)]
pub(super) struct KnownSoFar<'a> {
    pub(super) types: &'a CodeTypes,
    pub(super) variables: &'a [VotedVariable],
    /// Whether a block is a mapping.
    pub(super) is_mapping: &'a dyn Fn(u32) -> bool,
}

impl KnownSoFar<'_> {
    fn thing(&self, variable: VariableId) -> Thing {
        match self.variables.get(variable.0 as usize) {
            None | Some(VotedVariable::NotYet) => Thing::NotYet,
            Some(VotedVariable::Other) => Thing::Other,
            Some(VotedVariable::Block(block)) if (self.is_mapping)(*block) => Thing::Mapping,
            Some(VotedVariable::Block(_)) => Thing::Block,
        }
    }
}

/// What accesses lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    NotYet,
    /// No block of the heap.
    Other,
    Mapping,
    /// A block whose accesses are counted.
    Block,
}

/// Accesses of a block whose addresses follow from the same values.
#[derive(Clone, Debug)]
struct UntypedGroup {
    lowest: BlockAccess,
    /// From there to the first byte of the one with the highest address.
    span: u64,
    members: Range<usize>,
    /// Addresses of the lowest access with which all lie in the same, since a version of the resolver's.
    start: u64,
    end: u64,
    version: DataVersion,
    /// Those of them that are counted there.
    counted: u64,
    /// The resolver's version of the code in which none of the instructions knows a type, where that matters.
    code_version: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct GroupMember {
    distance: u64,
    ip: VirtAddr,
}

/// How a block is looked at.
#[derive(Clone, Debug)]
enum LookedAt {
    Groups(Range<usize>),
    /// How many accesses it makes depends on its values, or some of them vote.
    OneByOne,
}

/// Looks at executions.
#[derive(Debug, Default)]
pub(super) struct UntypedGroups {
    known: ExecutedBlocks,
    blocks: Vec<LookedAt>,
    groups: Vec<UntypedGroup>,
    members: Vec<GroupMember>,
}

impl UntypedGroups {
    /// The numbers of the blocks of a frame, in its own order.
    pub(super) fn enter(&mut self, thread: ThreadId, frame: &ExecutedFrame) -> Arc<[u32]> {
        let numbers = self.known.enter(thread, frame);
        for number in self.blocks.len()..self.known.all().len() {
            let block = &self.known.all()[number];
            let looked_at = match block.is_fixed() {
                true => LookedAt::Groups(groups_of(block, &mut self.groups, &mut self.members)),
                false => LookedAt::OneByOne,
            };
            self.blocks.push(looked_at);
        }
        numbers
    }

    /// How many accesses of an execution are to blocks of the heap; `None` where one of them votes, or that is not known yet.
    #[inline]
    pub(super) fn accesses(
        &mut self,
        number: u32,
        (values, fs_base): (&[u64], u64),
        resolver: &mut Resolver,
        known: KnownSoFar<'_>,
    ) -> Option<u64> {
        let Self { blocks, groups, members, .. } = self;
        let looked_at = &mut blocks[number as usize];
        let LookedAt::Groups(of_block) = looked_at else { return None };
        let mut accesses = 0;
        for group in &mut groups[of_block.clone()] {
            let lowest = group.lowest.address(values, fs_base).0;
            let all = VirtAddr(lowest)..VirtAddr(lowest.saturating_add(group.span + 1));
            let is_known = group.start <= lowest
                && lowest < group.end
                && group.code_version.is_none_or(|version| version == resolver.code_version())
                && resolver.holds_since(all, group.version);
            accesses += match is_known {
                true => group.counted,
                false => match group.look(lowest, resolver, known, &members[group.members.clone()]) {
                    Looked::Accesses(counted) => counted,
                    Looked::NotYet => return None,
                    Looked::Votes => {
                        *looked_at = LookedAt::OneByOne;
                        return None;
                    }
                },
            };
        }
        Some(accesses)
    }
}

/// What a group's accesses do.
enum Looked {
    /// So many are to blocks of the heap, and none votes.
    Accesses(u64),
    /// Nobody asked about one of them.
    NotYet,
    /// One of them votes.
    Votes,
}

impl UntypedGroup {
    fn look(
        &mut self,
        lowest: u64,
        resolver: &mut Resolver,
        known: KnownSoFar<'_>,
        members: &[GroupMember],
    ) -> Looked {
        let (variable, range) = resolver.data_range(VirtAddr(lowest));
        if self.span >= range.end.0.saturating_sub(lowest) {
            let mut accesses = 0;
            for member in members {
                let variable = resolver.resolve_data(VirtAddr(lowest.wrapping_add(member.distance))).variable;
                let looked = look_at(known.thing(variable), std::slice::from_ref(member), resolver, known);
                match looked {
                    Looked::Accesses(counted) => accesses += counted,
                    looked => return looked,
                }
            }
            return Looked::Accesses(accesses);
        }
        let thing = known.thing(variable);
        let looked = look_at(thing, members, resolver, known);
        if let Looked::Accesses(counted) = looked {
            (self.start, self.end) = (range.start.0, range.end.0 - self.span);
            (self.version, self.counted) = (resolver.data_version(), counted);
            self.code_version = (thing != Thing::Other).then(|| resolver.code_version());
        }
        looked
    }
}

fn look_at(thing: Thing, members: &[GroupMember], resolver: &mut Resolver, known: KnownSoFar<'_>) -> Looked {
    match thing {
        Thing::NotYet => return Looked::NotYet,
        Thing::Other => return Looked::Accesses(0),
        Thing::Mapping | Thing::Block => {}
    }
    for member in members {
        let code = resolver.resolve_code(member.ip);
        match known.types.asked(code) {
            None => return Looked::NotYet,
            Some(Some(_)) => return Looked::Votes,
            Some(None) => {}
        }
    }
    Looked::Accesses(if thing == Thing::Block { members.len() as u64 } else { 0 })
}

/// Appends the groups of a block whose accesses are made once each.
fn groups_of(
    block: &BasicBlock,
    groups: &mut Vec<UntypedGroup>,
    members: &mut Vec<GroupMember>,
) -> Range<usize> {
    let begin = groups.len();
    let accesses = block.accesses().iter().filter(|access| access.kind != AccessKind::Prefetch).copied();
    let accesses: Vec<BlockAccess> = accesses.collect();
    for NearAccesses { lowest, span, members: near } in near_accesses(&accesses) {
        let first = members.len();
        let member = |near: &NearAccess| GroupMember { distance: near.distance, ip: block.ip(&near.access) };
        members.extend(near.iter().map(member));
        groups.push(UntypedGroup {
            lowest,
            span,
            members: first..members.len(),
            start: 1,
            end: 0,
            version: DataVersion::NONE,
            counted: 0,
            code_version: None,
        });
    }
    begin..groups.len()
}
