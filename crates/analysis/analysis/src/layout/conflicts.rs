//! Accesses to the blocks of a type that disagree about that type.

use rustc_hash::FxHashMap;

use super::pools::Pool;
use super::votes::{BlockTypes, DecidedType};

/// A type that was voted for, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeConflict {
    /// Its name.
    pub name: String,
    /// Its votes.
    pub votes: u64,
    /// All of them, also for what was decided.
    pub all: u64,
}

impl TypeConflict {
    /// Its part of all votes.
    pub fn share(&self) -> f64 {
        self.votes as f64 / self.all.max(1) as f64
    }
}

/// The votes for what was decided, and those against it, by type.
#[derive(Debug, Default)]
pub(super) struct TypeConflicts {
    agreed: FxHashMap<u32, u64>,
    others: FxHashMap<u32, FxHashMap<u32, u64>>,
}

impl TypeConflicts {
    /// Adds those of a block.
    pub(super) fn add(&mut self, decided: &DecidedType) {
        let type_ = decided.placed.type_;
        *self.agreed.entry(type_).or_default() += decided.votes;
        for (other, votes) in &decided.others {
            *self.others.entry(type_).or_default().entry(other.type_).or_default() += votes;
        }
    }

    /// Adds those of a block that several types share.
    pub(super) fn add_pool(&mut self, pool: &Pool) {
        for one in pool.objects() {
            *self.agreed.entry(one.type_).or_default() += one.votes;
        }
        for one in &pool.doubtful {
            *self.others.entry(one.taken_for).or_default().entry(one.type_).or_default() += one.votes;
        }
    }

    /// The part of the votes that agree.
    pub(super) fn confidence(&self, type_: u32) -> f64 {
        let agreed = self.agreed.get(&type_).copied().unwrap_or(0);
        agreed as f64 / self.all(type_).max(1) as f64
    }

    /// The part of all votes that do not agree.
    pub(super) fn doubt(&self) -> f64 {
        let agreed: u64 = self.agreed.values().sum();
        let others: u64 = self.others.values().flat_map(FxHashMap::values).sum();
        others as f64 / (agreed + others).max(1) as f64
    }

    fn all(&self, type_: u32) -> u64 {
        let against: u64 = self.others.get(&type_).into_iter().flat_map(FxHashMap::values).sum();
        self.agreed.get(&type_).copied().unwrap_or(0) + against
    }

    /// What else was voted for, most first.
    pub(super) fn against(&self, types: &BlockTypes, type_: u32) -> Vec<TypeConflict> {
        let all = self.all(type_);
        let others = self.others.get(&type_).into_iter().flatten();
        let mut others: Vec<TypeConflict> = others
            .map(|(other, votes)| TypeConflict {
                name: types.types.layout(*other).name.to_string(),
                votes: *votes,
                all,
            })
            .collect();
        others.sort_by(|a, b| b.votes.cmp(&a.votes).then_with(|| a.name.cmp(&b.name)));
        others
    }
}
