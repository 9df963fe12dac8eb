//! Files that import each other in a circle can only be understood together: such a circle may contain three files at most.
//!
//! An arrow leads from a file to the file that defines what it names by a path (`crate::`, `super::`, `self::`, or through a name brought
//! in by a `use`). Re-exports are followed to their target, so that a `mod.rs` that re-exports its children's names connects nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::source::{Source, Token, after_group};

/// So many files may import each other in a circle.
const MAX_CIRCLE: usize = 3;

/// A path in a `use` or an expression.
type Segments = Vec<String>;

/// What a file brings in and names.
#[derive(Default)]
struct Module {
    /// The file.
    path: PathBuf,
    /// What it hands on: name to path; the name of a glob is `*`.
    exports: Vec<(String, Segments)>,
    /// What it names.
    named: Vec<Segments>,
}

/// Fails where a circle is larger.
pub(super) fn check(sources: &[Source]) -> Result<String> {
    let mut packages: BTreeMap<&Path, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        packages.entry(&source.package).or_default().push(source);
    }
    let mut problems = String::new();
    let mut largest = 1;
    for sources in packages.values() {
        for circle in circles(&arrows(sources)) {
            largest = largest.max(circle.len());
            if circle.len() > MAX_CIRCLE {
                let files: Vec<_> = circle.iter().map(|path| path.display().to_string()).collect();
                let _ = write!(problems, "\n  {} files: {}", files.len(), files.join(", "));
            }
        }
    }
    if !problems.is_empty() {
        bail!("more than {MAX_CIRCLE} files import each other in a circle:{problems}");
    }
    Ok(format!("at most {largest} files import each other in a circle"))
}

/// Which file of a crate names something of which others.
pub(super) fn arrows(sources: &[&Source]) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let modules: BTreeMap<Segments, Module> =
        sources.iter().map(|source| (module_path(source), module(source))).collect();
    let mut arrows = BTreeMap::new();
    for (place, module) in &modules {
        let mut to = BTreeSet::new();
        for path in &module.named {
            if let Some(path) = absolute(place, path) {
                to.extend(resolve(&modules, &path, 0));
            }
        }
        to.remove(&module.path);
        arrows.insert(module.path.clone(), to);
    }
    arrows
}

/// Where a file stands in its crate's tree of modules. Binaries beside a library are trees of their own.
fn module_path(source: &Source) -> Segments {
    let inside =
        source.path.strip_prefix(source.package.join("src")).expect("sources are collected below src");
    let mut segments: Segments =
        inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if segments.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        segments.pop();
    }
    segments
}

fn module(source: &Source) -> Module {
    let mut module = Module { path: source.path.clone(), ..Module::default() };
    let tokens = &source.tokens;
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].word() == Some("use") {
            let is_export = is_exported(tokens, at);
            let end = (at..tokens.len()).find(|&i| tokens[i].is(';')).unwrap_or(tokens.len());
            for (name, path) in tree(&tokens[at + 1..end], &[]) {
                if is_export {
                    module.exports.push((name, path));
                } else {
                    module.named.push(path);
                }
            }
            at = end;
        } else if tokens[at].word().is_some_and(is_root) && !preceded_by_path(tokens, at) {
            // `self` alone is a receiver, `crate` and `super` alone are those of `pub(crate)`.
            let (path, end) = expression(tokens, at);
            if path.len() > 1 {
                module.named.push(path);
            }
            at = end;
        } else {
            at += 1;
        }
    }
    module
}

fn is_root(word: &str) -> bool {
    ["crate", "super", "self"].contains(&word)
}

fn preceded_by_path(tokens: &[Token], at: usize) -> bool {
    // `pub(in crate::a)` and `$crate` name nothing.
    at.checked_sub(1)
        .is_some_and(|i| tokens[i].is(':') || tokens[i].is('$') || tokens[i].word() == Some("in"))
}

/// Whether `pub` or `pub(...)` stands before a `use`.
fn is_exported(tokens: &[Token], at: usize) -> bool {
    match at.checked_sub(1).map(|i| &tokens[i]) {
        Some(Token::Word(word)) => word == "pub",
        Some(Token::Mark(')')) => tokens[..at].iter().rev().take(8).any(|token| token.word() == Some("pub")),
        _ => false,
    }
}

/// A path of an expression or type: words with two colons between them.
fn expression(tokens: &[Token], at: usize) -> (Segments, usize) {
    let mut path = vec![tokens[at].word().expect("a path begins with a word").to_owned()];
    let mut i = at + 1;
    while tokens.get(i).is_some_and(|t| t.is(':')) && tokens.get(i + 1).is_some_and(|t| t.is(':')) {
        let Some(word) = tokens.get(i + 2).and_then(Token::word) else { break };
        path.push(word.to_owned());
        i += 3;
    }
    (path, i)
}

/// The names that a `use` brings in, each with its path.
fn tree(tokens: &[Token], prefix: &[String]) -> Vec<(String, Segments)> {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Word(word) if word == "as" => {
                let name = tokens.get(at + 1).and_then(Token::word).unwrap_or("_");
                return vec![(name.to_owned(), path)];
            }
            Token::Word(word) if word == "self" && !path.is_empty() => at += 1,
            Token::Word(word) => {
                path.push(word.clone());
                at += 1;
            }
            Token::Mark('*') => return vec![("*".to_owned(), path)],
            Token::Mark('{') => {
                let inside = &tokens[at + 1..after_group(tokens, at) - 1];
                return split(inside).into_iter().flat_map(|part| tree(part, &path)).collect();
            }
            Token::Mark(_) => at += 1,
        }
    }
    let Some(name) = path.last().cloned() else { return Vec::new() };
    vec![(name, path)]
}

/// The parts between commas that stand in no braces.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is('{') {
            at = after_group(tokens, at);
            continue;
        }
        if tokens[at].is(',') {
            parts.push(&tokens[from..at]);
            from = at + 1;
        }
        at += 1;
    }
    parts.push(&tokens[from..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// A path from the crate's root; `None` where it leads above that. Another crate's path ends in the file that names it, and
/// so makes no arrow.
fn absolute(place: &[String], path: &[String]) -> Option<Segments> {
    match path.first().map(String::as_str) {
        Some("crate") => Some(path[1..].to_vec()),
        Some("self") => Some([place, &path[1..]].concat()),
        Some("super") => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            Some([place.get(..place.len().checked_sub(ups)?)?, &path[ups..]].concat())
        }
        Some(_) => Some([place, path].concat()),
        None => None,
    }
}

/// The files that define what a path names.
fn resolve(modules: &BTreeMap<Segments, Module>, path: &[String], depth: usize) -> Vec<PathBuf> {
    const MAX_DEPTH: usize = 16;
    if depth > MAX_DEPTH {
        return Vec::new();
    }
    // The deepest module on the way; what is left names an item in it.
    let Some(len) = (0..=path.len()).rev().find(|&len| modules.contains_key(&path[..len])) else {
        return Vec::new();
    };
    let (place, rest) = path.split_at(len);
    let module = &modules[place];
    let Some(item) = rest.first() else { return vec![module.path.clone()] };
    for (name, target) in &module.exports {
        let is_glob = name == "*";
        if name != item && !is_glob {
            continue;
        }
        let Some(mut target) = absolute(place, target) else { continue };
        if is_glob {
            target.push(item.clone());
        } else {
            target.extend(rest[1..].iter().cloned());
        }
        let found = resolve(modules, &target, depth + 1);
        let is_own = is_glob && found == [module.path.clone()];
        if !found.is_empty() && !is_own {
            return found;
        }
    }
    vec![module.path.clone()]
}

/// The strongly connected parts of more than one file (Tarjan's algorithm, by repeated reachability: crates are small).
pub(super) fn circles(arrows: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> Vec<BTreeSet<PathBuf>> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        arrows.keys().map(|from| (from, reachable(arrows, from))).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for (from, to) in &reach {
        if seen.contains(from) {
            continue;
        }
        let circle: BTreeSet<PathBuf> =
            to.iter().filter(|other| reach[**other].contains(*from)).map(|path| (*path).clone()).collect();
        seen.extend(to.iter().filter(|other| circle.contains(**other)).copied());
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

fn reachable<'a>(
    arrows: &'a BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    from: &'a PathBuf,
) -> BTreeSet<&'a PathBuf> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for to in arrows.get(at).into_iter().flatten() {
            if found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: Path::new("crates/a/b/src").join(path),
            package: PathBuf::from("crates/a/b"),
            text: text.to_owned(),
            tokens: tokens(text),
        }
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        let found = circles(&arrows(&sources.iter().collect::<Vec<_>>()));
        let name = |path: &PathBuf| path.file_stem().expect("it is a file").to_string_lossy().into_owned();
        found.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn two_that_name_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod x; mod y;"),
            ("x.rs", "use crate::y::Y;"),
            ("y.rs", "fn f() { super::x::g(); }"),
        ];
        assert_eq!(circles_of(&files), [["x", "y"]]);
    }

    #[test]
    fn reexports_are_followed() {
        let files = [
            ("lib.rs", "mod error; mod x; pub use error::Error; pub use x::*;"),
            ("error.rs", "pub enum Error {}"),
            ("x.rs", "use crate::{Error, X as Y}; pub(crate) struct X; impl X { fn f(&self) {} }"),
        ];
        assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_parent_that_uses_its_child_which_uses_it_is_a_circle() {
        let files = [
            ("lib.rs", "mod x;"),
            ("x/mod.rs", "mod y; mod z; use self::y::Y; struct X;"),
            ("x/y.rs", "use super::{X, z::{Z, W}};"),
            ("x/z.rs", "use memref::Access;"),
        ];
        assert_eq!(circles_of(&files), [["mod", "y"]]);
    }
}
