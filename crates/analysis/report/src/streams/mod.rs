//! Streams of a trace that are not events of the program: the basic blocks that were entered,
//! and what is known of a machine. Each is written as lines of its own format or as JSON.

mod flow;
mod physical;
mod tasks;
mod unexplained_stores;

use std::io::Write;

use analysis::Session;
use analysis::machine::Machine;

use crate::Error;
use crate::export::Selection;

/// One of these streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraStream {
    /// The blocks that threads entered.
    Flow,
    /// What tasks of a machine's guest did.
    Tasks,
    /// What was found written in a machine's memory that no instruction wrote.
    Found,
    /// A machine's accesses with their physical addresses.
    Physical,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamForm {
    /// A line of words an entry.
    Text,
    /// A JSON object an entry.
    JsonLines,
}

impl ExtraStream {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Tasks => "tasks",
            Self::Found => "found",
            Self::Physical => "physical",
        }
    }

    /// Writes it, or a part of it.
    ///
    /// # Errors
    /// Where the trace has no such stream or can't be read, or the output can't be written.
    pub fn write(
        self,
        session: &Session,
        selection: &Selection,
        form: StreamForm,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        if self == Self::Flow {
            return flow::write(session, selection, form, out);
        }
        if Machine::of(session).is_none() {
            return Err(Error::NoMachine { stream: self.name() });
        }
        if self == Self::Found {
            return unexplained_stores::write(session, selection, form, out);
        }
        for record in session.trace().threads() {
            if selection.thread.is_none_or(|thread| thread == record.thread) {
                match self {
                    Self::Physical => physical::write(session, record, selection, form, out)?,
                    _ => tasks::write(session, record, selection, form, out)?,
                }
            }
        }
        Ok(())
    }
}
