//! Accesses at the addresses that the map shows: virtual addresses for a program, physical addresses for a machine.

use analysis::machine::Places;
use analysis::{Error, Session};
use memref::{Access, AccessKind, ThreadId, VirtAddr};
use trace_format::{AccessCursor, Filter};

/// Accesses of a thread or vCPU, in order.
pub(crate) struct ShownAccesses {
    cursor: AccessCursor,
    /// Where pages lie, of a vCPU.
    places: Option<Places>,
    block: Vec<Access>,
}

impl ShownAccesses {
    /// Those that match, which begin with the first one of a frame. `physical`: of a vCPU.
    pub(crate) fn new(
        session: &Session,
        thread: ThreadId,
        filter: &Filter,
        physical: bool,
    ) -> Result<Self, Error> {
        let trace = session.trace();
        let places = if physical { Some(Places::new(trace, thread)?) } else { None };
        Ok(Self { cursor: trace.shard(thread).accesses(filter), places, block: Vec::new() })
    }

    /// The next ones, with the number of the first of them.
    pub(crate) fn next_block(&mut self) -> Result<Option<(u64, &[Access])>, Error> {
        let Some(places) = &mut self.places else {
            // A block has the accesses of a whole frame, tens of megabytes: it is not copied.
            return match self.cursor.next_block()? {
                Some(_) => Ok(Some((self.cursor.first_index(), self.cursor.block()))),
                None => Ok(None),
            };
        };
        let Some(block) = self.cursor.next_block()? else { return Ok(None) };
        self.block.clear();
        self.block.extend_from_slice(block);
        let first = self.cursor.first_index();
        for (index, access) in (first..).zip(&mut self.block) {
            places.go_to(index)?;
            match places.physical.address(access) {
                Some(addr) => access.addr = VirtAddr(addr),
                // Damage: where it was is not known. A prefetch counts nowhere.
                None => access.kind = AccessKind::Prefetch,
            }
        }
        Ok(Some((first, &self.block)))
    }

    /// Whether some could not be read.
    pub(crate) fn is_lossy(&self) -> bool {
        !self.cursor.lost().is_empty()
    }
}
