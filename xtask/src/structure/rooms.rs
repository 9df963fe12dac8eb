//! The rooms of a crate are layered: no room uses one that uses it, directly or indirectly.
//!
//! A room is a folder below `src`, or a file directly in `src`; the crate's root belongs to none. An arrow between two
//! rooms is one between files of theirs (`circles`). Methods of a type that another room defines do not count as arrows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::circles::{arrows, circles};
use super::source::Source;

/// A crate whose rooms are checked.
struct Layered {
    package: &'static str,
    /// Rooms that still are in a circle. One that is in none any more must be taken out, and none may be added.
    knot: &'static [&'static str],
}

const CRATES: &[Layered] = &[
    Layered { package: "crates/capture/tracer", knot: &[] },
    Layered { package: "crates/capture/recorder", knot: &[] },
];

/// Which room uses which others, and the files that do.
type RoomArrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<PathBuf>>>;

/// Fails where a room is in a circle that is not known, or a known one is gone.
pub(super) fn check(sources: &[Source]) -> Result<String> {
    let mut problems = String::new();
    let mut lines = Vec::new();
    for layered in CRATES {
        let package = Path::new(layered.package);
        let sources: Vec<&Source> = sources.iter().filter(|source| source.package == package).collect();
        if sources.is_empty() {
            let _ = write!(problems, "\n  {}: there is no such crate", layered.package);
        }
        problems.push_str(&problems_of(layered, &sources));
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        lines.push(match layered.knot.len() {
            0 => format!("no circle of rooms in {name}"),
            some => format!("{some} rooms of {name} are still in circles"),
        });
    }
    if !problems.is_empty() {
        bail!("rooms use each other in a circle, or do so no more:{problems}");
    }
    Ok(lines.join(", "))
}

/// What is wrong with a crate's rooms: a line each.
fn problems_of(layered: &Layered, sources: &[&Source]) -> String {
    let rooms = room_arrows(sources);
    let to = |arrows: &BTreeMap<PathBuf, BTreeSet<PathBuf>>| arrows.keys().cloned().collect();
    let found = circles(&rooms.iter().map(|(room, arrows)| (room.clone(), to(arrows))).collect());
    let known = |room: &PathBuf| layered.knot.iter().any(|known| Path::new(known) == room);
    let mut problems = String::new();
    for circle in found.iter().filter(|circle| !circle.iter().all(known)) {
        let names: Vec<_> = circle.iter().map(|room| room.display().to_string()).collect();
        let _ = write!(problems, "\n  {}: {}", layered.package, names.join(", "));
        for room in circle {
            for (other, files) in rooms[room].iter().filter(|(other, _)| circle.contains(*other)) {
                let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                let _ = write!(problems, "\n    {} uses {}", files.join(", "), other.display());
            }
        }
    }
    for room in layered.knot {
        if !found.iter().any(|circle| circle.contains(Path::new(room))) {
            let _ = write!(problems, "\n  {}: {room} is in no circle any more", layered.package);
        }
    }
    problems
}

/// The arrows between a crate's rooms.
fn room_arrows(sources: &[&Source]) -> RoomArrows {
    let inside: BTreeMap<&Path, &Path> = sources
        .iter()
        .filter_map(|source| {
            Some((source.path.as_path(), source.path.strip_prefix(source.package.join("src")).ok()?))
        })
        .collect();
    let mut rooms = RoomArrows::new();
    for (file, to) in arrows(sources) {
        let Some((file, room)) = inside.get(file.as_path()).and_then(|file| Some((*file, room_of(file)?)))
        else {
            continue;
        };
        let others = rooms.entry(room.clone()).or_default();
        for other in to.iter().filter_map(|file| room_of(inside.get(file.as_path())?)) {
            if other != room {
                others.entry(other).or_default().insert(file.to_path_buf());
            }
        }
    }
    rooms
}

/// The room of a file, by its place below `src`; `None` for the crate's root.
fn room_of(file: &Path) -> Option<PathBuf> {
    let room = Path::new(file.components().next()?.as_os_str()).with_extension("");
    (room != Path::new("lib") && room != Path::new("main")).then_some(room)
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    fn check(files: &[(&str, &str)], knot: &'static [&'static str]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: Path::new("crates/a/b/src").join(path),
            package: PathBuf::from("crates/a/b"),
            text: (*text).to_owned(),
            tokens: tokens(text),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let layered = Layered { package: "crates/a/b", knot };
        let problems = problems_of(&layered, &sources.iter().collect::<Vec<_>>());
        problems.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    }

    /// No two files use each other, but their rooms do, through a third one.
    const CIRCLE: [(&str, &str); 6] = [
        ("lib.rs", "mod x; mod y; mod z; pub use x::a::f;"),
        ("x/mod.rs", "mod a; mod b;"),
        ("x/a.rs", "use crate::y::a::f;"),
        ("x/b.rs", "use super::a::f;"),
        ("y/a.rs", "fn f() { crate::z::f(); }"),
        ("z.rs", "use crate::{x::b::f}; use crate::f;"),
    ];

    #[test]
    fn rooms_that_use_each_other_are_a_circle_where_their_files_are_none() {
        let expected = ["crates/a/b: x, y, z", "x/a.rs uses y", "y/a.rs uses z", "z.rs uses x"];
        assert_eq!(check(&CIRCLE, &[]), expected);
        assert_eq!(check(&CIRCLE, &["x", "y"]), expected);
    }

    #[test]
    fn a_known_circle_may_stay_and_must_shrink() {
        assert_eq!(check(&CIRCLE, &["x", "y", "z"]), Vec::<String>::new());
        let layers = [("x/a.rs", "use crate::y::a::f;"), ("y/a.rs", "use super::b::f;"), ("y/b.rs", "")];
        assert_eq!(check(&layers, &["y"]), ["crates/a/b: y is in no circle any more"]);
        assert_eq!(check(&layers, &[]), Vec::<String>::new());
    }
}
