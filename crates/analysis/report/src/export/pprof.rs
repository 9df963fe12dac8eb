//! The profile format of pprof (profile.proto): one sample per stack and line, with
//! accesses, bytes and allocations as its values. Field numbers are those of that schema.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::Session;

use super::CallTree;
use super::message::Message;
use super::samples::{Place, Places, Sample, Texts, VALUES, samples, values};

/// Fields of a profile.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// Writes the profile of a session.
///
/// # Errors
/// Where the output can't be written.
pub fn pprof(session: &Session, tree: &CallTree, out: &mut dyn Write) -> io::Result<()> {
    let mut texts = Texts::new();
    let mut whole = Message::default();
    for (name, unit) in VALUES {
        let mut kind = Message::default();
        kind.number(1, texts.number(name)).number(2, texts.number(unit));
        whole.message(profile::SAMPLE_TYPE, &kind);
    }
    let mut places = Places::default();
    for Sample { stack, count } in samples(tree, &mut places) {
        let mut sample = Message::default();
        sample.numbers(1, &stack).numbers(2, &values(count));
        whole.message(profile::SAMPLE, &sample);
    }
    let mut mappings: HashMap<&str, u64> = HashMap::new();
    for (number, Place { function, line }) in places.all().iter().enumerate() {
        let mut message = Message::default();
        message.number(1, number as u64 + 1);
        if let Some(module) = tree.functions[*function as usize].module.as_deref() {
            let next = mappings.len() as u64 + 1;
            let id = *mappings.entry(module).or_insert(next);
            message.number(2, id);
            if id == next {
                let mut mapping = Message::default();
                mapping.number(1, id).number(5, texts.number(module));
                // It has functions, file names, lines and what was inlined: nobody needs to look for them.
                mapping.number(7, 1).number(8, 1).number(9, 1).number(10, 1);
                whole.message(profile::MAPPING, &mapping);
            }
        }
        let mut place = Message::default();
        place.number(1, u64::from(*function) + 1).number(2, u64::from(line.line));
        message.message(4, &place);
        whole.message(profile::LOCATION, &message);
    }
    for (number, function) in tree.functions.iter().enumerate() {
        let name = texts.number(&function.name);
        let file = texts.number(&tree.files[function.file as usize]);
        let mut message = Message::default();
        message.number(1, number as u64 + 1).number(2, name).number(3, name).number(4, file);
        whole.message(profile::FUNCTION, &message);
    }
    whole.number(profile::TIME_NANOS, session.trace().created_ns());
    whole.numbers(profile::COMMENT, &[texts.number(crate::title(session))]);
    whole.number(profile::DEFAULT_SAMPLE_TYPE, texts.number("accesses"));
    for text in texts.all() {
        whole.text(profile::STRING_TABLE, text);
    }
    out.write_all(whole.bytes())
}
