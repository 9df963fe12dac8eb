//! The output formats of a latency profile, and which one a file name selects.

use std::path::Path;

use probes::joined::Profile;

use super::{folded, json, text, timeline};
use crate::pages;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyForm {
    /// A table for people.
    Table,
    /// An array of functions.
    Json,
    /// Stacks for a flame graph.
    Folded,
    /// A page.
    Page,
    /// What happened when, for Chrome and Perfetto.
    Timeline,
}

impl LatencyForm {
    /// The form that a file of this name has; without one, or with an ending that says nothing, JSON or the table.
    #[must_use]
    pub fn of(path: Option<&Path>, as_json: bool) -> Self {
        let name = path.map(Path::to_string_lossy).unwrap_or_default();
        match name.rsplit_once('.') {
            _ if name.ends_with(".trace.json") => Self::Timeline,
            Some((_, "html")) => Self::Page,
            Some((_, "folded")) => Self::Folded,
            Some((_, "json")) => Self::Json,
            _ if as_json => Self::Json,
            _ => Self::Table,
        }
    }

    /// Writes a profile so.
    #[must_use]
    pub fn write(self, profile: &Profile) -> String {
        match self {
            Self::Table => text::table(profile),
            Self::Json => format!("{:#}\n", json::functions(profile)),
            Self::Folded => folded::stacks(profile),
            Self::Page => pages::latency::page(profile),
            Self::Timeline => timeline::chrome(profile).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_the_form() {
        let check = |name: &str, as_json, expect| {
            assert_eq!(LatencyForm::of(Some(Path::new(name)), as_json), expect, "{name}");
        };
        check("a/p.json", false, LatencyForm::Json);
        check("p.trace.json", true, LatencyForm::Timeline);
        check("p.html", true, LatencyForm::Page);
        check("p.folded", false, LatencyForm::Folded);
        check("p.txt", false, LatencyForm::Table);
        check("p.txt", true, LatencyForm::Json);
        check("d.html/p", false, LatencyForm::Table);
        assert_eq!(LatencyForm::of(None, true), LatencyForm::Json);
        assert_eq!(LatencyForm::of(None, false), LatencyForm::Table);
    }
}
