//! From names to addresses: for `--start FN`, for watching a variable, for listing what was never touched.

use memref::{RegionKind, VirtAddr};

use crate::{Error, Module, ProcessImage, Symbol, SymbolKind, names::placed};

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub addr: VirtAddr,
    /// Bytes.
    pub len: u64,
    /// Its full name.
    pub name: String,
}

/// A static variable in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedVariable {
    /// First byte.
    pub addr: VirtAddr,
    /// Bytes.
    pub bytes: u64,
    /// Its name.
    pub name: String,
    /// What its memory is for.
    pub region: RegionKind,
    /// The file name of its module.
    pub module: String,
}

/// Names offered for one that isn't there.
const MAX_SUGGESTIONS: usize = 3;

impl Module {
    /// The functions of that name, which may be the mangled name, the whole demangled one, or the demangled one without
    /// parameters. Addresses are the file's.
    ///
    /// # Errors
    /// If there is none; the error suggests near names.
    pub fn find_function(&self, name: &str) -> Result<Vec<Symbol<'_>>, Error> {
        let functions = || self.symbols().filter(|symbol| symbol.kind == SymbolKind::Function);
        let found: Vec<_> = functions().filter(|symbol| is_named(symbol, name)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let suggestions =
            nearest(name, functions().map(|symbol| without_parameters(&symbol.name()).to_owned()));
        Err(Error::NoFunction { name: name.to_owned(), suggestions })
    }
}

impl ProcessImage {
    /// All static variables of the modules mapped now, in the order of addresses.
    pub fn variables(&self) -> Vec<PlacedVariable> {
        let mut all = Vec::new();
        for (_, instance) in self.instances() {
            all.extend(instance.module.data_objects().into_iter().map(|object| PlacedVariable {
                addr: placed(instance.bias, object.address),
                bytes: object.bytes,
                name: object.name,
                region: object.section.region(),
                module: instance.module.name().to_owned(),
            }));
        }
        all
    }
}

fn is_named(symbol: &Symbol<'_>, name: &str) -> bool {
    if symbol.raw_name == name {
        return true;
    }
    // Demangling is slow; the last part of the name occurs in the mangled one.
    let last = name.rsplit("::").next().unwrap_or(name);
    let last = last.split(['(', '<']).next().unwrap_or(last);
    if !symbol.raw_name.contains(last) || !symbol.raw_name.starts_with('_') {
        return false;
    }
    let demangled = symbol.name();
    demangled == name || without_parameters(&demangled) == name
}

/// `ns::f(int)` without `(int)`.
fn without_parameters(name: &str) -> &str {
    name.split_once('(').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

/// The names that differ least.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let limit = (name.chars().count() / 3).max(1);
    let mut near: Vec<(usize, String)> =
        names.filter_map(|other| Some((distance(name, &other, limit)?, other))).collect();
    near.sort();
    near.dedup();
    near.into_iter().map(|(_, name)| name).take(MAX_SUGGESTIONS).collect()
}

/// Characters to insert, delete or replace, if no more than `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().filter(|distance| *distance <= limit)
}
