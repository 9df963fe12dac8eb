//! Everything that is known of the races of a trace.

use std::collections::BTreeSet;

use super::{Race, Races, name_fields, unmodelled_runtimes};
use crate::{Error, Session, needs_synchronisation, orders_atomics};

/// The races of a trace, and what has to be known about them.
#[derive(Debug)]
pub struct FoundRaces {
    /// The races, as [`Races::into_races`] has them, with the names of fields.
    pub races: Vec<Race>,
    /// Libraries and runtimes whose synchronisation is not modelled: races may be missed there.
    pub runtimes: BTreeSet<String>,
    /// How many more there are that atomic variables may have ordered.
    pub possibly_ordered: u64,
}

impl FoundRaces {
    /// Looks for them in all of a trace.
    ///
    /// # Errors
    /// [`Error::NoSynchronisation`] where every exchange between threads would look like a race, and where the trace can't be read.
    pub fn of(session: &Session) -> Result<Self, Error> {
        needs_synchronisation(session)?;
        let mut tool =
            if orders_atomics(session) { Races::default() } else { Races::without_order_of_atomics() };
        tool.replay(session)?;
        let mut runtimes = unmodelled_runtimes(session.trace())?;
        runtimes.extend(tool.runtimes());
        let (mut races, possibly_ordered) = tool.into_races();
        name_fields(session, &mut races)?;
        Ok(Self { races, runtimes, possibly_ordered })
    }
}
