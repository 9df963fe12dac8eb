//! The access graph: which code accesses which data on which page. Views use its counts to link to each other.
//!
//! A static variable or a region is a node of its own. All heap blocks of one allocation
//! site share a node: a program has millions of blocks, but only hundreds of sites.

use std::collections::HashMap;
use std::hash::Hash;

use memref::{Access, ProcessId};
use symbols::{CodeId, SiteId, VariableId, VariableKind};

use crate::{Count, Error, Moment, Tool};

/// What accesses are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessedThing {
    /// A variable, a section or a region.
    Variable(VariableId),
    /// The blocks that a call of a process allocated.
    Site(ProcessId, SiteId),
}

/// An [`AccessedThing`]: an index into [`Links::things`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThingId(pub u32);

/// Accesses of one instruction to one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLink {
    /// What was accessed.
    pub thing: ThingId,
    /// By which instruction.
    pub code: CodeId,
    /// How often.
    pub count: Count,
}

/// Accesses to one thing on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// Whose page.
    pub process: ProcessId,
    /// Its number.
    pub page: u64,
    /// What was accessed.
    pub thing: ThingId,
    /// How often.
    pub count: Count,
}

/// Counts accesses by variable, by thing and instruction, and by page and thing.
#[derive(Debug, Default)]
pub struct Links {
    things: Vec<AccessedThing>,
    thing_ids: HashMap<AccessedThing, ThingId>,
    /// The thing of each variable, once it was accessed.
    thing_of: Vec<Option<ThingId>>,
    variables: Vec<Count>,
    codes: GatheredCounts<(ThingId, CodeId)>,
    pages: GatheredCounts<(ProcessId, u64, ThingId)>,
}

impl Links {
    /// All that was accessed.
    pub fn things(&self) -> &[AccessedThing] {
        &self.things
    }

    /// What accesses to a variable are counted for.
    pub fn thing_of(&self, variable: VariableId) -> Option<ThingId> {
        self.thing_of.get(variable.0 as usize).copied().flatten()
    }

    /// The variables that were accessed.
    pub fn variables(&self) -> impl Iterator<Item = (VariableId, Count)> + '_ {
        let counts = self.variables.iter().enumerate();
        counts.filter(|(_, count)| count.accesses() > 0).map(|(id, count)| (VariableId(id as u32), *count))
    }

    /// Who accesses what, in no order.
    pub fn by_code(&self) -> Vec<CodeLink> {
        let all = self.codes.all().into_iter();
        all.map(|((thing, code), count)| CodeLink { thing, code, count }).collect()
    }

    /// What lies on which page, in the order of pages, most accessed first.
    pub fn by_page(&self) -> Vec<PageLink> {
        let all = self.pages.all().into_iter();
        let mut all: Vec<PageLink> =
            all.map(|((process, page, thing), count)| PageLink { process, page, thing, count }).collect();
        all.sort_by_key(|link| {
            (link.process, link.page, std::cmp::Reverse(link.count.accesses()), link.thing)
        });
        all
    }

    fn thing(&mut self, at: &Moment<'_>, variable: VariableId) -> ThingId {
        let index = variable.0 as usize;
        if let Some(Some(thing)) = self.thing_of.get(index) {
            return *thing;
        }
        let kind = at.resolver.names().variable(variable).map(|variable| variable.kind);
        let thing = match kind {
            Some(VariableKind::Block { process, block, .. }) => {
                let block = at.resolver.heap().block(block);
                block.map(|block| AccessedThing::Site(process, block.site))
            }
            _ => None,
        };
        let thing = thing.unwrap_or(AccessedThing::Variable(variable));
        let next = ThingId(self.things.len() as u32);
        let id = *self.thing_ids.entry(thing).or_insert(next);
        if id == next {
            self.things.push(thing);
        }
        if index >= self.thing_of.len() {
            self.thing_of.resize(index + 1, None);
            self.variables.resize(index + 1, Count::default());
        }
        self.thing_of[index] = Some(id);
        id
    }
}

impl Tool for Links {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            let variable = at.resolver.resolve_data(access.addr).variable;
            let code = at.resolver.resolve_code(access.ip);
            let thing = self.thing(at, variable);
            let mut count = Count::default();
            count.add(access);
            if count == Count::default() {
                continue;
            }
            self.variables[variable.0 as usize] += count;
            self.codes.add((thing, code), u64::from(thing.0) << 20 ^ u64::from(code.0), count);
            let page = access.addr.page_number();
            self.pages.add((at.process, page, thing), page << 12 ^ u64::from(thing.0), count);
        }
        Ok(())
    }
}

/// Counts by key. The keys of late are kept where they are found at once.
#[derive(Debug)]
pub(crate) struct GatheredCounts<K> {
    late: Vec<Option<(K, Count)>>,
    all: HashMap<K, Count>,
}

const LATE: usize = 4096;

impl<K> Default for GatheredCounts<K> {
    fn default() -> Self {
        Self { late: std::iter::repeat_with(|| None).take(LATE).collect(), all: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> GatheredCounts<K> {
    /// `mixed` is the same number for the same key.
    #[inline]
    pub(crate) fn add(&mut self, key: K, mixed: u64, count: Count) {
        let slot = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % LATE;
        match &mut self.late[slot] {
            Some((late, sum)) if *late == key => *sum += count,
            other => {
                if let Some((late, sum)) = other.replace((key, count)) {
                    *self.all.entry(late).or_default() += sum;
                }
            }
        }
    }

    pub(crate) fn all(&self) -> HashMap<K, Count> {
        let mut all = self.all.clone();
        for (key, count) in self.late.iter().flatten() {
            *all.entry(*key).or_default() += *count;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_share_a_slot_are_counted_apart() {
        let mut counts = GatheredCounts::default();
        let one = Count { loads: 1, stores: 0, modifies: 0, bytes: 4 };
        for key in [1u32, 2, 1, 1, 2, 3] {
            counts.add(key, 7, one);
        }
        let mut all: Vec<(u32, u64)> =
            counts.all().into_iter().map(|(key, count)| (key, count.loads)).collect();
        all.sort_unstable();
        assert_eq!(all, [(1, 3), (2, 2), (3, 1)]);
    }
}
