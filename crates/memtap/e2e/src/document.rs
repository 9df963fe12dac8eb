//! The commands that documents tell their readers to type, and the output they show.
//!
//! In a block of kind `console`, a line that begins with `$ ` is a command (if it ends with a backslash, the following lines
//! belong to it), and the lines until the next command are its output. The output need not be complete: `...` stands for lines
//! that are left out. Numbers differ between machines, so any number matches any other, except on a line that is only a number.

use std::path::Path;

/// A command of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentCommand {
    /// The heading above it.
    pub section: String,
    /// Its line in the document, from 1.
    pub line: usize,
    /// What is typed.
    pub text: String,
    /// What is shown.
    pub shown: Vec<String>,
}

/// The commands of a document, in their order.
///
/// # Panics
/// Where the document can't be read, or a block does not begin with a command.
pub fn document_commands(path: &Path) -> Vec<DocumentCommand> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    commands(&text)
}

fn commands(text: &str) -> Vec<DocumentCommand> {
    let mut found: Vec<DocumentCommand> = Vec::new();
    let mut fence: Option<bool> = None;
    let mut section = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(kind == "console") };
            continue;
        }
        if fence != Some(true) {
            if fence.is_none() && line.starts_with('#') {
                section = line.trim_start_matches('#').trim().to_owned();
            }
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            found.push(DocumentCommand {
                section: section.clone(),
                line: number,
                text: command.to_owned(),
                shown: Vec::new(),
            });
            continue;
        }
        let last =
            found.last_mut().unwrap_or_else(|| panic!("line {number}: nothing was typed that shows this"));
        if last.shown.is_empty() && last.text.ends_with('\\') {
            last.text.push('\n');
            last.text.push_str(line);
        } else {
            last.shown.push(line.to_owned());
        }
    }
    found
}

/// The first line that is shown and was not printed, if there is one.
pub fn not_printed<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let printed: Vec<String> = printed.lines().map(normalised).collect();
    let mut next = 0;
    let mut may_skip = false;
    for line in shown {
        if line.trim() == "..." {
            may_skip = true;
            continue;
        }
        let expect = normalised(line);
        let rest = printed.get(next..).unwrap_or_default();
        let Some(place) = rest.iter().position(|line| *line == expect).filter(|at| may_skip || *at == 0)
        else {
            return Some(line);
        };
        next += place + 1;
        may_skip = false;
    }
    let is_over = may_skip || shown.is_empty() || printed.len() == next;
    if is_over { None } else { Some("(the end: `...` says that there is more)") }
}

/// A line with its numbers as `#`, its white space as one blank, and without how often something happened, which is not said of what
/// happened once. A line that is nothing but a number is that number.
fn normalised(line: &str) -> String {
    let line = line.trim();
    if line.bytes().all(|byte| byte.is_ascii_digit()) {
        return line.to_owned();
    }
    let mut text = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_digit() {
            // A number goes on over digits, over marks and blanks between them, and in hexadecimal.
            let is_hexadecimal = letter == '0' && letters.peek() == Some(&'x');
            while let Some(more) = letters.peek() {
                let belongs = more.is_ascii_digit()
                    || is_hexadecimal && (*more == 'x' || more.is_ascii_hexdigit())
                    || [' ', '.', ','].contains(more) && followed_by_digit(letters.clone());
                if !belongs {
                    break;
                }
                letters.next();
            }
            text.push('#');
        } else if letter.is_whitespace() {
            if !text.ends_with(' ') && !text.is_empty() {
                text.push(' ');
            }
        } else {
            text.push(letter);
        }
    }
    text.replace(", # times", "")
}

fn followed_by_digit(mut letters: impl Iterator<Item = char>) -> bool {
    letters.next();
    letters.find(|letter| *letter != ' ').is_some_and(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_what_they_show() {
        let text = "# A\n\n```console\n$ one\nseen\n$ two \\\n    three\nmore\n```\n\n```c\n$ no\n```\n";
        let command = |line, text: &str, shown: &[&str]| DocumentCommand {
            section: "A".to_owned(),
            line,
            text: text.to_owned(),
            shown: shown.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(
            commands(text),
            [command(4, "one", &["seen"]), command(6, "two \\\n    three", &["more"])]
        );
    }

    #[test]
    fn numbers_are_alike() {
        for (a, b, alike) in [
            (" 54.8 %  146 968      694", "9 %  1 234 567 1 2", true),
            ("at 0x404080: 19", "at 0xf00: 2", true),
            ("shelf  4", "shelves 4", false),
            ("wrote x: 316 878 accesses, 192.3 KiB", "wrote x: 9 accesses, 1 KiB", true),
            ("race on x (8 bytes, 3 times)", "race on x (4 bytes)", true),
            ("0", "3", false),
        ] {
            assert_eq!(normalised(a) == normalised(b), alike, "{a} | {b}");
        }
    }

    #[test]
    fn lines_that_were_not_printed() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let check = |shown: &str, printed: &str, expect: Option<&str>| {
            assert_eq!(not_printed(&lines(shown), printed), expect, "{shown:?} of {printed:?}");
        };
        check("a\nb", "a\nb\n", None);
        check("a\n...\nc", "a\nb\nc\n", None);
        check("a\nc", "a\nb\nc\n", Some("c"));
        check("a\n...", "a\nb\nc\n", None);
        check("", "anything\n", None);
        check("a", "a\nb\n", Some("(the end: `...` says that there is more)"));
    }
}
