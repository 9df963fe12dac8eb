//! The addresses of a program's variables, from binutils: a source that is independent of memtap.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use crate::{run, tool};

/// A section of an ELF file that is loaded.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Section {
    pub name: String,
    pub range: Range<u64>,
}

/// A variable of a program at a fixed address.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Variable {
    pub name: String,
    pub range: Range<u64>,
}

/// The sections `.data` and `.bss`, without the tables that the loader writes.
pub fn data_and_bss(program: &Path) -> Vec<Section> {
    let out = run(Command::new(tool("readelf")).args(["-SW"]).arg(program), b"");
    assert_eq!(out.status, 0, "{}", out.err());
    let found: Vec<Section> = out
        .out()
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(']')?;
            let mut words = rest.split_whitespace();
            let (name, _kind, addr, _offset, size) =
                (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
            if name != ".data" && name != ".bss" {
                return None;
            }
            let start = u64::from_str_radix(addr, 16).ok()?;
            Some(Section { name: name.to_owned(), range: start..start + u64::from_str_radix(size, 16).ok()? })
        })
        .collect();
    assert_eq!(found.len(), 2, "{} has .data and .bss", program.display());
    found
}

/// The variables in data and bss of a program that have a size, demangled; a script has none.
pub fn variables(program: &Path) -> Vec<Variable> {
    if program.extension().is_some_and(|e| e == "sh") {
        return Vec::new();
    }
    let out = run(Command::new(tool("nm")).args(["-SC"]).arg(program), b"");
    assert_eq!(out.status, 0, "{}", out.err());
    out.out()
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(4, ' ');
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            let size = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            "dDbBuV".contains(kind).then(|| Variable { name: name.to_owned(), range: start..start + size })
        })
        .collect()
}
