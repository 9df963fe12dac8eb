//! The first replay on several cores: each worker takes the votes of its
//! slices, and the results are joined as if one worker had taken all votes.
//!
//! Types, blocks and the candidates of a block are numbered in the order in which they are met,
//! and the first one wins a tie. That order is reconstructed from what each worker knew after
//! each of its slices. A block with more candidates than workers keep cannot be handled this way.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event};
use symbols::VariableId;
use trace_format::{ExecutedFrame, Filter};

use super::votes::{BlockTypes, MOST_CANDIDATES, PlacedType, TypeVote, VotedBlock, VotedVariable};
use crate::replay::{SliceMarks, SliceWorker};
use crate::typing::KnownAllocation;
use crate::{Error, Moment, Session, Tool};

/// Takes the votes of slices.
#[derive(Debug)]
struct VotesWorker {
    votes: BlockTypes,
    types: SliceMarks,
    blocks: SliceMarks,
    /// The slices that it took.
    slices: Vec<usize>,
}

impl VotesWorker {
    fn new() -> Self {
        Self {
            votes: BlockTypes::divided(),
            types: SliceMarks::default(),
            blocks: SliceMarks::default(),
            slices: Vec::new(),
        }
    }
}

impl Tool for VotesWorker {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.votes.accesses(at, accesses)
    }

    fn takes_executions(&self) -> bool {
        self.votes.takes_executions()
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        self.votes.executions(at, frame, part)
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.votes.event(at, event)
    }
}

impl SliceWorker for VotesWorker {
    fn end_slice(&mut self, number: usize) {
        self.types.end_slice(number, self.votes.types.count());
        self.blocks.end_slice(number, self.votes.blocks.len());
        self.slices.push(number);
        self.votes.slices += 1;
    }
}

impl Session {
    /// The votes of all accesses.
    pub(super) fn votes(&self) -> Result<BlockTypes, Error> {
        if self.workers() > 1 {
            let workers = (0..self.workers()).map(|_| VotesWorker::new()).collect();
            let (_, workers) = self.replay_divided(workers, Vec::new())?;
            if let Some(votes) = joined(workers) {
                return Ok(votes);
            }
        }
        let mut votes = BlockTypes::default();
        self.replay(&Filter::default(), None, &mut votes)?;
        Ok(votes)
    }
}

/// What one would have who took all votes; `None` where only one can take them.
fn joined(mut workers: Vec<VotesWorker>) -> Option<BlockTypes> {
    if workers.iter().any(|worker| worker.votes.is_overfull) {
        return None;
    }
    let mut all = BlockTypes::default();
    let marks: Vec<SliceMarks> = workers.iter_mut().map(|worker| std::mem::take(&mut worker.types)).collect();
    let mut types: Vec<Vec<u32>> = vec![Vec::new(); workers.len()];
    for (worker, met) in SliceMarks::in_order(&marks) {
        types[worker].extend(all.types.join(&workers[worker].votes.types, met));
    }
    for (worker, types) in workers.iter().zip(&types) {
        let BlockTypes { types: code, share, missing, everyones, .. } = &worker.votes;
        all.types.join_code(code, types);
        all.share.accesses += share.accesses;
        all.share.by_variable += share.by_variable;
        all.share.by_flow += share.by_flow;
        all.missing += missing;
        all.everyones.extend(everyones);
    }
    let marks: Vec<SliceMarks> =
        workers.iter_mut().map(|worker| std::mem::take(&mut worker.blocks)).collect();
    let variables: Vec<Vec<VariableId>> = workers.iter().map(|worker| worker.votes.variables()).collect();
    // Of each block here, what each worker has of it.
    let mut parts: Vec<Vec<(usize, u32)>> = Vec::new();
    for (worker, met) in SliceMarks::in_order(&marks) {
        for number in met {
            let variable = variables[worker][number].0 as usize;
            if variable >= all.known.len() {
                all.known.resize(variable + 1, VotedVariable::NotYet);
            }
            let here = match all.known[variable] {
                VotedVariable::Block(here) => here,
                _ => {
                    let block = &workers[worker].votes.blocks[number];
                    let allocated = block.allocated.map(|allocated| KnownAllocation {
                        type_: types[worker][allocated.type_ as usize],
                        ..allocated
                    });
                    all.blocks.push(VotedBlock {
                        votes: Vec::new(),
                        allocated,
                        has_objects: false,
                        ..block.clone()
                    });
                    parts.push(Vec::new());
                    let here = all.blocks.len() as u32 - 1;
                    all.known[variable] = VotedVariable::Block(here);
                    here
                }
            };
            parts[here as usize].push((worker, number as u32));
        }
    }
    for (block, parts) in all.blocks.iter_mut().zip(parts) {
        let mut candidates: Vec<(usize, TypeVote)> = Vec::new();
        for (worker, number) in parts {
            let VotesWorker { votes, slices, .. } = &workers[worker];
            let part = &votes.blocks[number as usize];
            block.has_objects |= part.has_objects;
            candidates.extend(part.votes.iter().map(|vote| {
                let placed = PlacedType { type_: types[worker][vote.placed.type_ as usize], ..vote.placed };
                (slices[vote.slice as usize], TypeVote { placed, slice: 0, ..*vote })
            }));
        }
        // A slice was taken by one, in whose order they are already.
        candidates.sort_by_key(|(slice, _)| *slice);
        for (_, votes) in candidates {
            block.add(votes, all.types.layout(votes.placed.type_).bytes, MOST_CANDIDATES);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use memref::{ProcessId, VirtAddr};
    use symbols::{BlockId, SiteId, TypeKind, TypeLayout};

    use super::*;
    use crate::typing::CodeTypes;

    /// A worker that knows these types, and voted for the last of them in these slices, at a place that is the slice's number.
    fn worker(types: &[&str], slices: &[usize]) -> VotesWorker {
        let layout =
            |name: &&str| Arc::new(TypeLayout { name: (*name).into(), bytes: 8, kind: TypeKind::Scalar });
        let mut worker = VotesWorker::new();
        worker.votes.types = CodeTypes::of(types.iter().map(layout).collect());
        worker.votes.known = vec![VotedVariable::NotYet, VotedVariable::Block(0)];
        let vote = |(number, slice): (usize, &usize)| {
            let placed = PlacedType { type_: types.len() as u32 - 1, base: *slice as u32 };
            TypeVote { placed, count: 1, first: 8, last: 8, furthest: 0, slice: number as u32 }
        };
        worker.votes.blocks.push(VotedBlock {
            start: VirtAddr(0x1000),
            len: 64,
            process: ProcessId(0),
            id: BlockId(0),
            site: SiteId(0),
            votes: slices.iter().enumerate().map(vote).collect(),
            allocated: None,
            is_mapping: false,
            has_objects: false,
        });
        for slice in slices {
            worker.end_slice(*slice);
        }
        worker
    }

    #[test]
    fn types_and_candidates_stand_in_the_order_in_which_one_would_have_met_them() {
        let all = joined(vec![worker(&["b", "c"], &[1, 4]), worker(&["a", "b"], &[0, 2, 3])]).expect("room");
        let names: Vec<&str> = (0..3).map(|number| &*all.types.layout(number).name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(all.blocks.len(), 1, "both met the same block");
        let votes = all.blocks[0].votes.iter().map(|vote| (vote.placed.type_, vote.placed.base));
        assert_eq!(votes.collect::<Vec<_>>(), [(1, 0), (2, 1), (1, 2), (1, 3), (2, 4)]);
    }

    #[test]
    fn candidates_that_one_would_not_have_kept_vote_for_others() {
        let first: Vec<usize> = (0..MOST_CANDIDATES).collect();
        let later: Vec<usize> = (MOST_CANDIDATES..MOST_CANDIDATES + 3).collect();
        let all = joined(vec![worker(&["a"], &later), worker(&["a"], &first)]).expect("room");
        let votes = &all.blocks[0].votes;
        assert_eq!(votes.len(), MOST_CANDIDATES);
        assert_eq!(votes.iter().map(|vote| vote.count).sum::<u64>(), (MOST_CANDIDATES + 3) as u64);
        let (base, count) = (votes[0].placed.base, votes[0].count);
        assert_eq!((base, count), (0, 2), "the first of the others lies at the same place of an element");
    }
}
