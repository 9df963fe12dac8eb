//! The fields of heap blocks that findings refer to. They are named after the
//! replay, because the type of a block is known only when all accesses have voted.

use std::sync::Arc;

use memref::{ProcessId, VirtAddr};
use symbols::{BlockId, Names, VariableId, VariableKind};

use super::{BlockTypes, HeapTypes, TypeConflict};
use crate::{Error, Session};

/// An address of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariableAddress {
    pub(crate) variable: VariableId,
    pub(crate) addr: VirtAddr,
}

impl VariableAddress {
    /// The same, where the variable is a block.
    pub(crate) fn in_block(self, names: &Names) -> Option<BlockAddress> {
        match names.variable(self.variable)?.kind {
            VariableKind::Block { process, block, .. } => {
                Some(BlockAddress { process, block, addr: self.addr })
            }
            _ => None,
        }
    }
}

/// An address of a heap block, or next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAddress {
    pub(crate) process: ProcessId,
    pub(crate) block: BlockId,
    pub(crate) addr: VirtAddr,
}

/// Names the fields of places.
#[derive(Debug)]
pub(crate) struct FieldNames {
    types: Option<Arc<HeapTypes>>,
}

impl FieldNames {
    /// For so many places: where there is none, nothing is read.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub(crate) fn new(session: &Session, places: impl Iterator<Item = BlockAddress>) -> Result<Self, Error> {
        Self::found(places, || session.heap_types())
    }

    /// The same, where the votes for the blocks' types are already there; `None` where nothing can have one.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub(crate) fn of_votes(
        session: &Session,
        votes: Option<BlockTypes>,
        places: impl Iterator<Item = BlockAddress>,
    ) -> Result<Self, Error> {
        match votes {
            Some(votes) => Self::found(places, || session.keep_heap_types(votes)),
            None => Ok(Self { types: None }),
        }
    }

    fn found(
        mut places: impl Iterator<Item = BlockAddress>,
        types: impl FnOnce() -> Result<Arc<HeapTypes>, Error>,
    ) -> Result<Self, Error> {
        Ok(Self { types: places.next().map(|_| types()).transpose()? })
    }

    /// The name of an address of a block with its field: `<malloc0003@make+12>.alive`. Nothing where no field is known.
    pub(crate) fn name(&self, names: &Names, at: VariableAddress) -> Option<String> {
        let path = self.path(at.in_block(names)?)?;
        Some(format!("{}{path}", names.variable(at.variable)?.name))
    }

    /// What is to be appended to a block's name: `.alive`, `[3].alive`.
    pub(crate) fn path(&self, place: BlockAddress) -> Option<String> {
        let types = self.types.as_ref()?;
        types.field_path_in(types.number_of(place.process, place.block)?, place.addr)
    }

    /// The structure that a place's block is, and the field that it lies in: `cell.alive`.
    pub(crate) fn typed(&self, place: BlockAddress) -> Option<TypedName> {
        let types = self.types.as_ref()?;
        let number = types.number_of(place.process, place.block)?;
        // Numbers tell less than the call that allocated them.
        let type_ = types.type_at(number, place.addr).filter(|type_| types.is_aggregate(*type_))?;
        let type_name = Arc::clone(types.name(type_));
        let field = types.field_in(number, place.addr).map(|field| format!("{type_name}.{field}"));
        Some(TypedName { type_name, field, conflicts: types.conflicts_in(number) })
    }
}

/// What a place is by its block's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypedName {
    pub(crate) type_name: Arc<str>,
    pub(crate) field: Option<String>,
    pub(crate) conflicts: Vec<TypeConflict>,
}
