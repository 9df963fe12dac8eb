//! `memtap errors`: errors in the use of memory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::errors::{FoundErrors, MemoryError};
use analysis::{Session, has_stacks};
use anyhow::{Context, Result};
use clap::Parser;
use report::tables::deaths::deaths;
use report::tables::errors::{errors_json, errors_text};

use crate::inputs;
use crate::output::{Out, note_problems, working_directory};

/// There are errors, and --fail-on-error asked.
const FOUND: u8 = 3;

/// Find memory errors: use after free, out of bounds, invalid frees, overlapping copies, uninitialised bytes; and leaks
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// As JSON: all of them
    #[arg(long)]
    json: bool,
    /// Print SARIF 2.1.0, which editors and code review services show next to the code; paths below the working directory are relative to it
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
    /// Exit with status 3 if there are errors (blocks that were never freed or never used do not count)
    #[arg(long)]
    fail_on_error: bool,
    /// Suppress the findings that this file lists: each line is KIND:FUNCTION or FUNCTION, and matches findings with that function in one
    /// of their stacks (* and ? are wildcards); # starts a comment
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
    /// Show this many calls whose blocks were never freed or never used
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Do not cut stacks and function names to the width of the terminal (100 columns without one)
    #[arg(long)]
    wide: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let suppressions = args.suppressions.as_deref().map(read).transpose()?.unwrap_or_default();
    let session = inputs::program_session(&args.file, "errors")?;
    let is_wrong = print(&session, args, &suppressions, Out::stdout())?;
    note_problems(&session);
    for death in deaths(&session)? {
        say!("memtap: note: {death}");
    }
    Ok(if args.fail_on_error && is_wrong { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

/// Prints the errors for people, as `memtap errors FILE` does without options.
pub(crate) fn print_all(session: &Session, out: Out) -> Result<()> {
    let command_line = ["errors".as_ref(), "--".as_ref(), session.trace().path().as_os_str()];
    print(session, &Args::parse_from(command_line), &[], out).map(drop)
}

/// Prints the errors. Whether there are any.
fn print(session: &Session, args: &Args, suppressions: &[Suppression], mut out: Out) -> Result<bool> {
    let FoundErrors { errors: mut found, missing } = FoundErrors::of(session)?;
    let before = found.len();
    found.retain(|error| !suppressions.iter().any(|suppression| suppression.fits(error)));
    let suppressed = before - found.len();
    if args.json {
        errors_json(&found, missing > 0, &mut out)?;
    } else if args.sarif {
        report::sarif::errors(&found, missing > 0, &working_directory()?, &mut out)?;
    } else {
        let look = out.look(args.wide);
        errors_text(&found, missing > 0, args.top, out.width(args.wide), look, &mut out)?;
    }
    out.finish()?;
    if !has_stacks(session) {
        say!(
            "memtap: note: accesses to stacks were not recorded, so stacks of functions are not known; record with --tracer translate"
        );
    }
    if suppressed > 0 {
        let is = if suppressed == 1 { "is" } else { "are" };
        say!("memtap: {} {is} suppressed", report::amount(suppressed as u64, "finding"));
    }
    Ok(found.iter().any(|error| error.kind.is_error()))
}

/// What is left away.
#[derive(Debug, PartialEq, Eq)]
struct Suppression {
    kind: Option<String>,
    function: String,
}

impl Suppression {
    fn read(line: &str) -> Option<Self> {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            return None;
        }
        // Names of C++ have colons themselves.
        let kind = line.split_once(':').filter(|(kind, rest)| {
            !rest.starts_with(':') && kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        });
        Some(match kind {
            Some((kind, function)) => {
                Self { kind: Some(kind.to_owned()), function: function.trim().to_owned() }
            }
            None => Self { kind: None, function: line.to_owned() },
        })
    }

    fn fits(&self, error: &MemoryError) -> bool {
        let places = [&error.access, &error.allocated, &error.freed].into_iter().flatten();
        self.kind.as_ref().is_none_or(|kind| *kind == error.kind.name())
            && places.flat_map(|place| &place.stack).any(|function| is_like(&self.function, function))
    }
}

fn read(path: &Path) -> Result<Vec<Suppression>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.lines().filter_map(Suppression::read).collect())
}

/// Whether a name fits a pattern with `*` and `?`.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_suppressions() {
        let check = |line: &str, expect: Option<(Option<&str>, &str)>| {
            let expect = expect.map(|(kind, function)| Suppression {
                kind: kind.map(str::to_owned),
                function: function.to_owned(),
            });
            assert_eq!(Suppression::read(line), expect, "{line}");
        };
        check("leak:main # for ever", Some((Some("leak"), "main")));
        check("std::vector*", Some((None, "std::vector*")));
        check("use_after_free: Pool::get", Some((Some("use_after_free"), "Pool::get")));
        check("# nothing", None);
    }

    #[test]
    fn patterns() {
        for (pattern, name, expect) in [
            ("main", "main", true),
            ("ma*n", "maiden", true),
            ("*::get", "Pool::get", true),
            ("m?in", "main", true),
            ("main", "main2", false),
            ("*a*b", "xaxbx", false),
            ("*", "", true),
        ] {
            assert_eq!(is_like(pattern, name), expect, "{pattern} {name}");
        }
    }
}
