//! What an analysis requires of a trace, and what to do if the trace does not have it.

use crate::{Error, Session};

/// Refuses a trace in which synchronisation was not recorded: every exchange between its threads would look like a race.
///
/// # Errors
/// [`Error::NoSynchronisation`].
pub fn needs_synchronisation(session: &Session) -> Result<(), Error> {
    if session.trace().properties().contains_key("syncs") { Ok(()) } else { Err(Error::NoSynchronisation) }
}

/// Whether the trace tells in which order threads accessed what they share, atomic variables above all, and not only in
/// which order they called functions that synchronise.
pub fn orders_atomics(session: &Session) -> bool {
    session.trace().properties().get("syncs").is_some_and(|value| value == "1")
}

/// Whether accesses to stacks were recorded, and with them calls and returns.
pub fn has_stacks(session: &Session) -> bool {
    let properties = session.trace().properties();
    let selected = properties.get("regions").is_none_or(|kinds| kinds.split(',').any(|kind| kind == "stack"));
    selected && properties.get("tracer").is_none_or(|tracer| tracer != "protect")
}
