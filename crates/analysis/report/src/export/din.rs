//! Accesses as the cache simulator DineroIV reads them.

use std::io::Write;

use analysis::Moment;
use memref::Access;
use trace_format::{Form, KindSet};

use super::{AccessBytes, EventOrder, Exporter, Needs};
use crate::Error;

/// A line an access: 0 for a load, 1 for a store, and the address. A modify is both.
#[derive(Debug, Default)]
pub struct Din {
    lines: Vec<u8>,
}

impl Exporter for Din {
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
            Form::Din.put(access, &[], &mut self.lines);
        }
        Ok(out.write_all(&self.lines)?)
    }
}
