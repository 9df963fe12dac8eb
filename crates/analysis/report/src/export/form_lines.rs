//! One line per access, in the formats of other tools: Valgrind's Lackey and the cache simulator DineroIV.

use std::io::Write;

use analysis::Moment;
use memref::Access;
use trace_format::{Form, KindSet};

use super::{AccessBytes, EventOrder, Exporter, Needs};
use crate::Error;

/// Writes accesses in one of the forms.
#[derive(Debug)]
pub struct FormLines {
    form: Form,
    lines: Vec<u8>,
}

impl FormLines {
    /// In that form.
    pub fn new(form: Form) -> Self {
        Self { form, lines: Vec::new() }
    }
}

impl Exporter for FormLines {
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
            self.form.put(access, &[], &mut self.lines);
        }
        Ok(out.write_all(&self.lines)?)
    }
}
