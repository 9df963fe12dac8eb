//! Damaged files cause errors or fewer names, and never end the program.

mod support;

use std::sync::{Arc, LazyLock};

use object::{Object, ObjectSection};
use proptest::prelude::*;
use support::build;
use symbols::{Error, Module};

const SOURCE: &str = r#"
namespace a { struct s { int x; struct { short y[3]; unsigned b : 3; } z[2]; union { long l; float f; } u; } v = { 1 }; }
static int *next(int n) { static int counter; counter += n; return &counter; }
int main(int argc, char **) { return *next(argc) + a::v.x; }
"#;

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    [["-g", "-O0"], ["-gdwarf-4", "-O2"], ["-g", "-gz"]]
        .iter()
        .map(|flags| std::fs::read(build("g++", SOURCE, flags).path).unwrap())
        .collect()
});

/// Asks everything that a file can be asked.
fn ask_all(bytes: Vec<u8>) -> Result<Module, Error> {
    let module = Module::from_bytes("damaged", Arc::from(bytes))?;
    let extent = module.extent();
    assert!(extent.start <= extent.end);
    for object in module.data_objects() {
        if let Some(layout) = module.type_at(object.address) {
            for offset in 0..layout.bytes.min(64) {
                let _path = layout.path(offset, Some(4));
            }
            let _part = layout.find(".z[1].y[2]");
        }
    }
    for symbol in module.symbols().take(300) {
        assert!(symbol.name().len() < 1 << 20);
        let _frames = module.frames(symbol.address);
        let _data = module.data_at(symbol.address.offset(1));
    }
    let _found = module.find_variable("a::v.z[1].y");
    let _found = module.find_function("main");
    let _found = module.type_named("a::s");
    Ok(module)
}

/// Where the sections with names and debug information lie: what is changed there is read.
fn interesting(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let word = |at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0usize, |all, byte| all << 8 | *byte as usize)
    };
    let (table, count) = (word(40, 8), word(60, 2));
    let mut ranges = vec![0..64, table..table + 64 * count];
    for index in 0..count {
        let header = table + 64 * index;
        let (kind, flags) = (word(header + 4, 4), word(header + 8, 8));
        // Everything that is kept in the file and is not code or data.
        if kind != 8 && flags & 2 == 0 && word(header + 32, 8) != 0 {
            ranges.push(word(header + 24, 8)..word(header + 24, 8) + word(header + 32, 8));
        }
    }
    ranges
}

#[test]
fn whole_files_are_read() {
    for bytes in FILES.iter() {
        let module = ask_all(bytes.clone()).unwrap();
        assert!(module.debug_problem().is_none(), "{:?}", module.debug_problem());
    }
}

/// Where a section lies in a file.
fn section(bytes: &[u8], name: &str) -> std::ops::Range<usize> {
    let elf = object::File::parse(bytes).unwrap();
    let (at, len) = elf.section_by_name(name).unwrap().file_range().unwrap();
    at as usize..(at + len) as usize
}

/// What is left has names, and whoever reads them is told that some are missing.
#[test]
fn damaged_debug_information_is_told() {
    for (file, name, first) in [
        // The header of the first unit, the entries of a unit, the header of a table of lines, and compressed bytes.
        (0, ".debug_info", 0),
        (0, ".debug_info", 60),
        (0, ".debug_abbrev", 8),
        (0, ".debug_line", 4),
        (1, ".debug_line", 4),
        (1, ".debug_info", 60),
        (2, ".debug_info", 30),
    ] {
        let mut bytes = FILES[file].clone();
        let place = section(&bytes, name);
        bytes[place.start + first..][..40].fill(0xee);
        let module = ask_all(bytes).unwrap();
        let problem = module.debug_problem().unwrap_or_else(|| panic!("{name} of file {file} at {first}"));
        let text = problem.to_string();
        assert!(text.starts_with("damaged: debug information is damaged ("), "{text}");
        assert!(text.ends_with("names come from symbols alone") && !text.contains('\n'), "{text}");
        // The symbol is there all the same.
        let main = module.symbols().find(|symbol| symbol.name() == "main").unwrap();
        assert_eq!(module.function_at(main.address.offset(1)).unwrap().name(), "main");
    }
}

#[test]
fn not_elf() {
    for bytes in [b"".as_slice(), b"\x7fELF", b"#!/bin/sh", &[0; 4096]] {
        assert!(matches!(ask_all(bytes.to_vec()), Err(Error::NotElf { .. })));
    }
    let mut other = FILES[0].clone();
    other[18] = 183;
    assert!(matches!(ask_all(other), Err(Error::OtherArchitecture { machine: 183, .. })));
    let mut half = FILES[0].clone();
    half[4] = 1;
    assert!(matches!(ask_all(half), Err(Error::NotElf { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn truncated(file in 0..3usize, part in 0.0..1.0f64) {
        let bytes = &FILES[file];
        let len = (bytes.len() as f64 * part) as usize;
        let _any = ask_all(bytes[..len].to_vec());
    }

    #[test]
    fn bytes_changed(file in 0..3usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut bytes = FILES[file].clone();
        let ranges = interesting(&bytes);
        for (range, at, value) in &changes {
            let range = range.get(&ranges);
            bytes[range.start + at.index(range.len())] = *value;
        }
        let _any = ask_all(bytes);
    }
}
