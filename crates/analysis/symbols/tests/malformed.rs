//! Damaged files give errors or fewer names, and never end the program.

mod support;

use std::sync::{Arc, LazyLock};

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
fn ask_all(bytes: Vec<u8>) -> Result<(), Error> {
    let module = Module::from_bytes("damaged", Arc::from(bytes))?;
    let (low, high) = module.extent();
    assert!(low <= high);
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
        let _data = module.data_at(symbol.address.wrapping_add(1));
    }
    let _found = module.find_variable("a::v.z[1].y");
    let _found = module.find_function("main");
    let _found = module.type_named("a::s");
    Ok(())
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
        ask_all(bytes.clone()).unwrap();
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
