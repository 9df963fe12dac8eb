//! The numbers and names of the encoders, in their only place. The command line, the encoders themselves and error
//! messages take them from here. docs/format.md, *Encoders*, has a section for each, and a test compares the two.

/// Entries as they are.
pub(crate) const RAW: u32 = 0;
/// Each field by itself.
pub(crate) const COLUMNS: u32 = 1;
/// Accesses while they are recorded.
pub(crate) const LIVE: u32 = 2;
/// Accesses by prediction.
pub(crate) const ACCESS: u32 = 3;
/// The same, smaller and slower.
pub(crate) const ACCESS_ARCHIVE: u32 = 4;
/// Each field by itself, in the form that suits it best.
pub(crate) const GENERIC: u32 = 5;
/// Simutrace's.
pub(crate) const VPC: u32 = 6;
/// Accesses by the blocks of code that made them.
pub(crate) const BLOCKS: u32 = 8;

/// An encoder's number and name.
#[derive(Clone, Copy, Debug)]
struct NumberedName {
    number: u32,
    name: &'static str,
}

const fn row(number: u32, name: &'static str) -> NumberedName {
    NumberedName { number, name }
}

/// In the order in which the command line offers them: from fast to compact, then the simple ones.
const NAMES: [NumberedName; 8] = [
    row(LIVE, "live"),
    row(ACCESS, "access"),
    row(ACCESS_ARCHIVE, "access-archive"),
    row(VPC, "vpc"),
    row(GENERIC, "generic"),
    row(COLUMNS, "columns"),
    row(RAW, "raw"),
    row(BLOCKS, "blocks"),
];

/// Numbers that were given away and are not used again.
const RETIRED: [NumberedName; 1] = [row(7, "flow")];

/// The name of one of memtap's encoders; empty where the number is none.
pub(crate) const fn name_of(number: u32) -> &'static str {
    let mut place = 0;
    while place < NAMES.len() {
        if NAMES[place].number == number {
            return NAMES[place].name;
        }
        place += 1;
    }
    ""
}

/// The name of an encoder that earlier memtaps had.
pub(crate) fn retired(number: u32) -> Option<&'static str> {
    RETIRED.iter().find(|retired| retired.number == number).map(|retired| retired.name)
}

/// The names of those that encode any accesses, with data and without.
pub(crate) fn of_accesses() -> impl Iterator<Item = &'static str> {
    // Blocks are what a recorder of translated code hands over; accesses by themselves have none.
    NAMES.iter().filter(|known| known.number != BLOCKS).map(|known| known.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Encoders;

    #[test]
    fn the_documentation_has_a_section_for_each_encoder() {
        let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md");
        let text = std::fs::read_to_string(text).unwrap();
        // Headings are `### 3: \`access\`, and 4: \`access-archive\``, or `### 1: \`columns\``.
        let mut documented = BTreeMap::new();
        for heading in text.lines().filter_map(|line| line.strip_prefix("### ")) {
            for part in heading.split(", and ") {
                if let Some((number, name)) = part.split_once(": `")
                    && let (Ok(number), Some(name)) = (number.parse::<u32>(), name.strip_suffix('`'))
                {
                    documented.insert(number, name.to_owned());
                }
            }
        }
        let known: BTreeMap<u32, String> =
            NAMES.iter().map(|known| (known.number, known.name.to_owned())).collect();
        assert_eq!(documented, known);
    }

    #[test]
    fn every_name_is_an_encoder_that_says_so() {
        let encoders = Encoders::default();
        for known in NAMES {
            let encoder = encoders.by_name(known.name).expect(known.name);
            assert_eq!((encoder.id(), encoder.name()), (known.number, known.name));
        }
        for retired in RETIRED {
            assert!(encoders.get(retired.number).is_none() && encoders.by_name(retired.name).is_none());
        }
    }
}
