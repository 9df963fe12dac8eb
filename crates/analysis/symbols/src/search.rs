//! From names to addresses: for `--start FN`, for watching a variable, and for listing what was never accessed.

use std::sync::Arc;

use elf::LinkAddr;
use memref::{RegionKind, VirtAddr};

use crate::dwarf::Missing;
use crate::{
    DataObject, Error, Instance, Module, ProcessImage, Symbol, SymbolKind, TypeLayout, names::placed,
};

/// Where something is: in a process, or (`Place<LinkAddr>`) in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<A = VirtAddr> {
    /// First byte.
    pub addr: A,
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
    /// parameters.
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

impl Module {
    /// The static variables that an expression names: a name, fields and elements of it where debug information tells
    /// the type, and a range: `frame`, `next::counter`, `frame.pixels[3].red`, `table+16:8`. A static variable of a
    /// function is also found by its name alone.
    ///
    /// # Errors
    /// If there is no such variable (the error suggests near names, or says what became of it), field or range.
    pub fn find_variable(&self, expression: &str) -> Result<Vec<Place<LinkAddr>>, Error> {
        let objects = self.data_objects();
        if let Some(found) = find_among(expression, &objects, |address| self.type_at(address)) {
            return found;
        }
        let stem = split_range(expression).0;
        let bad = |reason: String| Error::BadExpression { expression: expression.to_owned(), reason };
        let name = stem.split(['.', '[']).next().unwrap_or(stem);
        let name = name.rsplit("::").next().unwrap_or(name);
        if let Some(missing) = self.debug().and_then(|debug| debug.missing(name)) {
            return Err(bad(match missing {
                Missing::OptimisedAway => {
                    format!(
                        "the compiler has optimised {name} away; build without optimisation, or make it volatile"
                    )
                }
                Missing::Constant => format!(
                    "the compiler has made {name} a constant, which has no memory; build without optimisation, or make it volatile"
                ),
                Missing::Local => format!(
                    "{name} is a local variable, in registers or on a stack; name a static variable, or the function that allocates a block"
                ),
            }));
        }
        let locals = self.thread_locals();
        let suggestions = nearest(stem, objects.iter().chain(&locals).map(|object| object.name.clone()));
        Err(Error::NoVariable { name: stem.to_owned(), suggestions })
    }

    /// The thread-local variables that an expression names, as [`find_variable`](Self::find_variable). Addresses are offsets
    /// in the module's template.
    ///
    /// # Errors
    /// If there is no such variable, field or range.
    pub fn find_thread_local(&self, expression: &str) -> Result<Vec<Place<LinkAddr>>, Error> {
        let locals = self.thread_locals();
        find_among(expression, &locals, |offset| self.thread_local_type(offset)).unwrap_or_else(|| {
            let name = split_range(expression).0.to_owned();
            Err(Error::NoVariable { name, suggestions: Vec::new() })
        })
    }
}

/// What an expression names of these; `None` where it begins with the name of none.
fn find_among(
    expression: &str,
    objects: &[DataObject],
    type_at: impl Fn(LinkAddr) -> Option<Arc<TypeLayout>>,
) -> Option<Result<Vec<Place<LinkAddr>>, Error>> {
    let (stem, range) = split_range(expression);
    // Names may hold dots and brackets themselves: the longest that is a variable.
    let ends = stem.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
    let mut ends: Vec<usize> = ends.chain([stem.len()]).collect();
    ends.reverse();
    let bad = |reason: String| Error::BadExpression { expression: expression.to_owned(), reason };
    for (name, path) in ends.into_iter().filter_map(|end| stem.split_at_checked(end)) {
        let found: Vec<_> = objects.iter().filter(|object| is_object_named(object, name)).collect();
        if found.is_empty() {
            continue;
        }
        let place = |object: &&DataObject| {
            let (mut offset, mut len) = (0, object.bytes);
            if !path.is_empty() {
                let layout = type_at(object.address);
                let layout = layout.ok_or_else(|| bad(format!("the type of {name} is not known")))?;
                let part = layout.find(path).ok_or_else(|| bad(format!("{name} has no part {path}")))?;
                (offset, len) = (part.0, part.1.bytes);
            }
            if let Some((skip, part)) = range {
                let rest = len.checked_sub(skip).filter(|rest| part.unwrap_or(1) <= *rest && *rest != 0);
                let rest = rest.ok_or_else(|| bad(format!("{stem} has only {len} bytes")))?;
                (offset, len) = (offset.saturating_add(skip), part.unwrap_or(rest));
            }
            let addr = object.address.offset(offset);
            Ok(Place { addr, len, name: format!("{}{path}", object.name) })
        };
        return Some(found.iter().map(place).collect());
    }
    None
}

impl ProcessImage {
    /// The functions of that name in the modules mapped now, as [`Module::find_function`].
    ///
    /// # Errors
    /// If there is none; the error suggests near names.
    pub fn find_function(&self, name: &str) -> Result<Vec<Place>, Error> {
        let place = |bias, symbol: Symbol<'_>| Place {
            addr: placed(bias, symbol.address),
            len: symbol.bytes,
            name: symbol.name().into_owned(),
        };
        self.search(|instance| {
            let found = instance.module.find_function(name)?;
            Ok(found.into_iter().map(|symbol| place(instance.bias, symbol)).collect())
        })
        .unwrap_or_else(|| Err(Error::NoFunction { name: name.to_owned(), suggestions: Vec::new() }))
    }

    /// The static variables that an expression names in the modules mapped now, as [`Module::find_variable`].
    ///
    /// # Errors
    /// If there is no such variable (the error suggests near names), field or range.
    pub fn find_variable(&self, expression: &str) -> Result<Vec<Place>, Error> {
        self.search(|instance| {
            let found = instance.module.find_variable(expression)?;
            let place = |place: Place<LinkAddr>| Place {
                addr: instance.placed(place.addr),
                len: place.len,
                name: place.name,
            };
            Ok(found.into_iter().map(place).collect())
        })
        .unwrap_or_else(|| Err(Error::NoVariable { name: expression.to_owned(), suggestions: Vec::new() }))
    }

    /// What the modules have together; else the most telling error.
    fn search(
        &self,
        find: impl Fn(&Instance) -> Result<Vec<Place>, Error>,
    ) -> Option<Result<Vec<Place>, Error>> {
        let mut all = Vec::new();
        let mut problem: Option<Error> = None;
        for (_, instance) in self.instances() {
            match find(instance) {
                Ok(found) => all.extend(found),
                Err(error) => {
                    let keep = problem.as_ref().is_some_and(|known| weight(known) >= weight(&error));
                    problem = if keep { problem } else { Some(error) };
                }
            }
        }
        if all.is_empty() { problem.map(Err) } else { Some(Ok(all)) }
    }

    /// All static variables of the modules mapped now, in the order of addresses.
    pub fn variables(&self) -> Vec<PlacedVariable> {
        let mut all = Vec::new();
        for (_, instance) in self.instances() {
            all.extend(instance.module.data_objects().into_iter().map(|object| PlacedVariable {
                addr: instance.placed(object.address),
                bytes: object.bytes,
                name: object.name,
                region: object.section.region(),
                module: instance.module.name().to_owned(),
            }));
        }
        all
    }
}

/// A wrong field is more telling than a suggestion, and that more than none.
fn weight(error: &Error) -> u8 {
    match error {
        Error::NoFunction { suggestions, .. } | Error::NoVariable { suggestions, .. } => {
            u8::from(!suggestions.is_empty())
        }
        _ => 2,
    }
}

/// `table+16:8` is `table` and 16 bytes to skip, of which 8 follow.
fn split_range(expression: &str) -> (&str, Option<(u64, Option<u64>)>) {
    let split = || {
        let (stem, range) = expression.rsplit_once('+')?;
        let (skip, len) = match range.split_once(':') {
            Some((skip, len)) => (skip, Some(parse_number(len)?)),
            None => (range, None),
        };
        Some((stem.trim_end(), Some((parse_number(skip)?, len))))
    };
    split().unwrap_or((expression, None))
}

fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn is_object_named(object: &DataObject, name: &str) -> bool {
    let last = || object.name.rsplit_once("::").map(|(_, last)| last);
    let numbered =
        || object.name.rsplit_once('.').filter(|(_, digits)| digits.bytes().all(|b| b.is_ascii_digit()));
    object.name == name || last() == Some(name) || numbered().is_some_and(|(stem, _)| stem == name)
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
    let limit = name.chars().count().div_ceil(3).max(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let check = |expression, expect| assert_eq!(split_range(expression), expect);
        check("table", ("table", None));
        check("table+16", ("table", Some((16, None))));
        check("table+0x10:8", ("table", Some((16, Some(8)))));
        check("a.b[1]+2:1", ("a.b[1]", Some((2, Some(1)))));
        check("operator+", ("operator+", None));
        check("table+16:x", ("table+16:x", None));
    }

    #[test]
    fn near_names() {
        let near = |name| nearest(name, ["counter", "count", "frame", "main"].map(String::from).into_iter());
        assert_eq!(near("conter"), ["counter"]);
        assert_eq!(near("mian"), ["main"]);
        assert_eq!(near("man"), ["main"]);
        assert_eq!(near("something"), Vec::<String>::new());
    }
}
