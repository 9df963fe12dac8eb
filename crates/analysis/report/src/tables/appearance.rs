//! The appearance of a printed table: its width, and whether it uses colours.

use std::fmt;

/// What a table is printed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Columns of characters; `None`: as many as it takes.
    pub columns: Option<usize>,
    /// All figures whole, however few columns that leaves for names.
    pub exact: bool,
    /// Whether escape sequences give colours.
    pub colour: bool,
}

/// What a line of a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    /// A head, a total.
    Strong,
    /// What stands for things that are not shown.
    Faint,
}

/// Text in a tone.
pub(super) struct Toned<'a>(pub(super) Look, pub(super) Tone, pub(super) &'a str);

impl fmt::Display for Toned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(look, tone, text) = self;
        let start = match tone {
            Tone::Strong if look.colour => "\x1b[1m",
            Tone::Faint if look.colour => "\x1b[2m",
            _ => return f.write_str(text),
        };
        write!(f, "{start}{text}\x1b[0m")
    }
}
