//! What a server logs for its operator, and how much.

use std::str::FromStr;

/// How much is said. Each level has what those before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// Nothing.
    Nothing,
    /// What could not be completed.
    Errors,
    /// Who was refused, and why.
    #[default]
    Refusals,
    /// Who came and left, and who reads and writes which trace.
    Sessions,
    /// Every request.
    Requests,
}

impl LogLevel {
    /// All of them, the quietest first.
    pub const ALL: [Self; 5] = [Self::Nothing, Self::Errors, Self::Refusals, Self::Sessions, Self::Requests];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Errors => "errors",
            Self::Refusals => "refusals",
            Self::Sessions => "sessions",
            Self::Requests => "requests",
        }
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| format!("{text}: no level of logging; there are {}", names()))
    }
}

/// The text on one line that does nothing to a terminal.
pub(super) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        // Beside the control characters those that turn the direction of writing.
        if letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_does_nothing_to_a_terminal() {
        assert_eq!(printable("a b ü"), "a b ü");
        assert_eq!(printable("a\nb\u{1b}[2J\u{202e}\u{9b}"), "a\\nb\\u{1b}[2J\\u{202e}\\u{9b}");
    }

    #[test]
    fn levels_have_names() {
        for level in LogLevel::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert!("loud".parse::<LogLevel>().unwrap_err().contains("nothing, errors"));
    }
}
