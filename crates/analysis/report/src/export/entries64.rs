//! Accesses as entries of 32 bytes, the form of Simutrace's streams: cycle (48 bits),
//! whether the data is a whole word, a tag whose lowest bit marks a store; instruction;
//! address; data. A modify becomes two entries, unless its bytes were imported as one.

use std::io::Write;

use analysis::Moment;
use memref::{Access, AccessKind};
use trace_format::{Form, KindSet};

use super::{AccessBytes, EventOrder, Exporter, Needs};
use crate::Error;

/// Entries thread by thread, without a header.
#[derive(Debug, Default)]
pub struct Entries64 {
    entries: Vec<u8>,
}

impl Exporter for Entries64 {
    fn needs(&self) -> Needs {
        let events = EventOrder::ByThread;
        Needs { events, kinds: KindSet::ACCESSES, bytes: true, ..Needs::default() }
    }

    fn accesses(
        &mut self,
        at: &mut Moment<'_>,
        accesses: &[Access],
        bytes: &mut AccessBytes,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        self.entries.clear();
        for access in accesses {
            if access.kind == AccessKind::Prefetch {
                return Err(Error::Format("prefetches can't be written as entries64"));
            }
            let value = bytes.next(at.thread)?;
            Form::Entries64.put(access, value.as_deref().unwrap_or(&[]), &mut self.entries);
        }
        Ok(out.write_all(&self.entries)?)
    }
}
