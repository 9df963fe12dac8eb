//! What a trace must have for an analysis, and what to do where it has not.

use crate::{Error, Session};

/// Refuses a trace in which synchronisation was not recorded: every exchange between its threads would look like a race.
///
/// # Errors
/// [`Error::NoSynchronisation`].
pub fn needs_synchronisation(session: &Session) -> Result<(), Error> {
    let recorded = session.trace().properties().get("syncs").is_some_and(|value| value == "1");
    if recorded { Ok(()) } else { Err(Error::NoSynchronisation) }
}
