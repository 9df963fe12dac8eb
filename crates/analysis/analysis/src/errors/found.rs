//! Everything that is wrong in a trace.

use super::{MemoryError, MemoryErrors};
use crate::stack::Stacks;
use crate::{Error, Session};

/// The errors of a trace.
#[derive(Debug)]
pub struct FoundErrors {
    /// The errors, as [`MemoryErrors::errors`] has them.
    pub errors: Vec<MemoryError>,
    /// Events that are missing from the trace: where there are any, errors may be missed, or reported wrongly.
    pub missing: u64,
}

impl FoundErrors {
    /// Looks for them in all of a trace.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(session: &Session) -> Result<Self, Error> {
        let mut tool = MemoryErrors::new(session)?;
        let mut stacks = Stacks::new(session);
        let mut resolvers = session.replay_in_context(&mut stacks, &mut tool)?;
        let missing = tool.missing;
        Ok(Self { errors: tool.errors(session, &mut stacks, &mut resolvers)?, missing })
    }
}
