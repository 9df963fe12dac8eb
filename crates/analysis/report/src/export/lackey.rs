//! Accesses as Valgrind's `lackey --trace-mem=yes` prints those of data.

use std::io::Write;

use analysis::Moment;
use memref::Access;
use trace_format::{Form, KindSet};

use super::{AccessBytes, EventOrder, Exporter, Needs};
use crate::Error;

/// A line an access: its letter, address and size.
#[derive(Debug, Default)]
pub struct Lackey {
    lines: Vec<u8>,
}

impl Exporter for Lackey {
    fn needs(&self) -> Needs {
        Needs { events: EventOrder::Session, kinds: KindSet::ACCESSES, ..Needs::default() }
    }

    fn accesses(
        &mut self,
        _: &mut Moment<'_>,
        accesses: &[Access],
        _: &mut AccessBytes,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        self.lines.clear();
        for access in accesses {
            Form::Lackey.put(access, &[], &mut self.lines);
        }
        Ok(out.write_all(&self.lines)?)
    }
}
