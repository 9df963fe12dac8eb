//! OpenTelemetry's profiles (`ProfilesData` of opentelemetry/proto/profiles/v1development): one profile for each kind of value,
//! since a profile there has one. All of them share a dictionary of stacks, places, functions and texts. Field numbers are those of
//! that schema. The first entry of each table is empty, which is what a number says that is not there.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::Session;

use super::CallTree;
use super::message::Message;
use super::samples::{Place, Places, Sample, Texts, VALUES, samples, values};

/// Tables of the dictionary.
mod table {
    pub(super) const MAPPINGS: u32 = 1;
    pub(super) const LOCATIONS: u32 = 2;
    pub(super) const FUNCTIONS: u32 = 3;
    pub(super) const LINKS: u32 = 4;
    pub(super) const STRINGS: u32 = 5;
    pub(super) const ATTRIBUTES: u32 = 6;
    pub(super) const STACKS: u32 = 7;
}

/// Fields of a profile.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLES: u32 = 2;
    pub(super) const TIME_UNIX_NANO: u32 = 3;
}

/// Fields of a sample.
mod sample {
    pub(super) const STACK_INDEX: u32 = 1;
    pub(super) const VALUES: u32 = 4;
}

/// A message with one message in it.
fn around(field: u32, inner: &Message) -> Message {
    let mut message = Message::default();
    message.message(field, inner);
    message
}

/// A resource's or a profile's attribute that is a text.
fn attribute(key: &str, value: &str) -> Message {
    let mut text = Message::default();
    text.text(1, value);
    let mut message = Message::default();
    message.text(1, key).message(2, &text);
    message
}

/// Whose profile it is, and whose words these are.
fn resource(session: &Session, profiles: &[Message]) -> Message {
    let mut scope = Message::default();
    scope.text(1, "memtap").text(2, env!("CARGO_PKG_VERSION"));
    let mut of_scope = around(1, &scope);
    for profile in profiles {
        of_scope.message(2, profile);
    }
    let mut resource = Message::default();
    resource.message(1, &attribute("process.command_line", crate::title(session)));
    let mut whole = around(1, &resource);
    whole.message(2, &of_scope);
    whole
}

/// Writes the profiles of a session.
///
/// # Errors
/// Where the output can't be written.
pub fn otlp(session: &Session, tree: &CallTree, out: &mut dyn Write) -> io::Result<()> {
    let mut texts = Texts::new();
    let mut places = Places::default();
    let samples = samples(tree, &mut places);
    let mut profiles = Vec::new();
    for (kind, (name, unit)) in VALUES.iter().enumerate() {
        let mut sample_type = Message::default();
        sample_type.number(1, texts.number(name)).number(2, texts.number(unit));
        let mut profile = around(profile::SAMPLE_TYPE, &sample_type);
        for (stack, Sample { count, .. }) in (1..).zip(&samples) {
            let value = values(count)[kind];
            if value > 0 {
                let mut message = Message::default();
                message.number(sample::STACK_INDEX, stack).numbers(sample::VALUES, &[value]);
                profile.message(profile::SAMPLES, &message);
            }
        }
        profile.fixed(profile::TIME_UNIX_NANO, session.trace().created_ns());
        profiles.push(profile);
    }
    let mut whole = around(1, &resource(session, &profiles));
    whole.message(2, &dictionary(tree, &samples, &places, &mut texts));
    out.write_all(whole.bytes())
}

/// What samples name by number.
fn dictionary(tree: &CallTree, samples: &[Sample<'_>], places: &Places, texts: &mut Texts) -> Message {
    let mut whole = Message::default();
    let empty = Message::default();
    for table in
        [table::MAPPINGS, table::LOCATIONS, table::FUNCTIONS, table::LINKS, table::ATTRIBUTES, table::STACKS]
    {
        whole.message(table, &empty);
    }
    let mut mappings: HashMap<&str, u64> = HashMap::new();
    for Place { function, line } in places.all() {
        let mut message = Message::default();
        if let Some(module) = tree.functions[*function as usize].module.as_deref() {
            let next = mappings.len() as u64 + 1;
            let number = *mappings.entry(module).or_insert(next);
            message.number(1, number);
            if number == next {
                let mut mapping = Message::default();
                mapping.number(4, texts.number(module));
                whole.message(table::MAPPINGS, &mapping);
            }
        }
        let mut in_function = Message::default();
        in_function.number(1, u64::from(*function) + 1).number(2, u64::from(line.line));
        message.message(3, &in_function);
        whole.message(table::LOCATIONS, &message);
    }
    for function in &tree.functions {
        let name = texts.number(&function.name);
        let file = texts.number(&tree.files[function.file as usize]);
        let mut message = Message::default();
        message.number(1, name).number(2, name).number(3, file);
        whole.message(table::FUNCTIONS, &message);
    }
    for Sample { stack, .. } in samples {
        let mut message = Message::default();
        message.numbers(1, stack);
        whole.message(table::STACKS, &message);
    }
    for text in texts.all() {
        whole.text(table::STRINGS, text);
    }
    whole
}
