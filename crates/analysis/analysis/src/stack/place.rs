//! Where something happened: an instruction and its calling context.

use std::collections::BTreeMap;

use memref::ProcessId;
use symbols::{BlockId, CodeId};

use super::context::ContextId;
use crate::Session;

/// An instruction in a calling context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallPlace {
    /// How the program came there.
    pub context: ContextId,
    /// The instruction.
    pub code: CodeId,
}

/// Blocks of one process: those from a number on are its own, those before are its parent's.
#[derive(Clone, Debug, Default)]
struct OwnBlocks {
    first: u32,
    places: Vec<Option<CallPlace>>,
}

/// Where each block of each process was allocated.
#[derive(Clone, Debug, Default)]
pub struct BlockPlaces {
    parents: BTreeMap<ProcessId, ProcessId>,
    own: BTreeMap<ProcessId, OwnBlocks>,
}

impl BlockPlaces {
    /// Of the processes of that session, none of which has a block yet.
    pub(super) fn of(session: &Session) -> Self {
        let records = session.trace().processes().iter();
        let parents = records.filter_map(|record| Some((record.process, record.parent?)));
        // A process number is given after that of the parent.
        let parents = parents.filter(|(child, parent)| parent < child).collect();
        Self { parents, own: BTreeMap::new() }
    }

    /// The call that allocated a block; `None` where it was made by code whose accesses were not recorded.
    pub fn get(&self, process: ProcessId, block: BlockId) -> Option<CallPlace> {
        let mut process = process;
        loop {
            match self.own.get(&process) {
                Some(own) if block.0 >= own.first => {
                    return own.places.get((block.0 - own.first) as usize).copied().flatten();
                }
                // It is older than the first block of this process.
                _ => process = *self.parents.get(&process)?,
            }
        }
    }

    pub(super) fn put(&mut self, process: ProcessId, block: BlockId, place: CallPlace) {
        let own = self.own.entry(process).or_insert(OwnBlocks { first: block.0, places: Vec::new() });
        let Some(index) = block.0.checked_sub(own.first) else { return };
        let index = index as usize;
        if index >= own.places.len() {
            own.places.resize(index + 1, None);
        }
        own.places[index] = Some(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: ProcessId = ProcessId(0);
    const CHILD: ProcessId = ProcessId(1);

    fn place(code: u32) -> CallPlace {
        CallPlace { context: ContextId(0), code: CodeId(code) }
    }

    #[test]
    fn a_child_knows_where_its_parent_allocated() {
        let mut places = BlockPlaces::default();
        places.parents.insert(CHILD, PARENT);
        places.put(PARENT, BlockId(0), place(1));
        places.put(PARENT, BlockId(1), place(2));
        assert_eq!(places.get(CHILD, BlockId(1)), Some(place(2)));
        // Both go on numbering where the parent was.
        places.put(CHILD, BlockId(2), place(3));
        places.put(PARENT, BlockId(2), place(4));
        assert_eq!(places.get(CHILD, BlockId(2)), Some(place(3)));
        assert_eq!(places.get(PARENT, BlockId(2)), Some(place(4)));
        assert_eq!(places.get(CHILD, BlockId(0)), Some(place(1)));
        assert_eq!(places.get(CHILD, BlockId(9)), None);
    }

    #[test]
    fn a_block_without_a_context_leaves_a_hole() {
        let mut places = BlockPlaces::default();
        places.put(PARENT, BlockId(3), place(1));
        places.put(PARENT, BlockId(5), place(2));
        assert_eq!(places.get(PARENT, BlockId(4)), None);
        assert_eq!(places.get(PARENT, BlockId(2)), None);
        assert_eq!(places.get(PARENT, BlockId(5)), Some(place(2)));
    }
}
