//! A Rust file as this check reads it: its tokens without comments, quoted text, and code that is built only for tests.
//!
//! This is a scanner, not a parser: identifiers and single characters are
//! all that the checks need, and xtask stays a crate that builds in seconds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell;

/// One file of one crate.
pub(super) struct Source {
    /// Its place in the repository.
    pub(super) path: PathBuf,
    /// The crate's directory in the repository.
    pub(super) package: PathBuf,
    /// The file as it stands on disk.
    pub(super) text: String,
    /// Identifiers and punctuation outside of tests.
    pub(super) tokens: Vec<Token>,
}

/// An identifier, or one character of punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Mark(char),
}

impl Token {
    /// The identifier, if it is one.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Mark(_) => None,
        }
    }

    /// Whether it is this character.
    pub(super) fn is(&self, mark: char) -> bool {
        *self == Self::Mark(mark)
    }
}

/// Every file below a `src` of the crates and of xtask itself.
pub(super) fn all() -> Result<Vec<Source>> {
    let mut files = Vec::new();
    for package in packages()? {
        collect(&package, &package.join("src"), &mut files)?;
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The directories of all crates, relative to the repository.
pub(super) fn packages() -> Result<Vec<PathBuf>> {
    let mut packages = vec![PathBuf::from("xtask")];
    for wing in entries(Path::new("crates"))? {
        packages.extend(
            entries(&wing)?
                .into_iter()
                .filter(|dir| shell::repository().join(dir).join("Cargo.toml").exists()),
        );
    }
    packages.sort();
    Ok(packages)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let full = shell::repository().join(dir);
    let read = std::fs::read_dir(&full).with_context(|| format!("{}: can't be read", full.display()))?;
    read.map(|entry| Ok(dir.join(entry?.file_name()))).collect()
}

fn collect(package: &Path, dir: &Path, files: &mut Vec<Source>) -> Result<()> {
    if !shell::repository().join(dir).is_dir() {
        return Ok(());
    }
    for path in entries(dir)? {
        let full = shell::repository().join(&path);
        if full.is_dir() {
            collect(package, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&full)
                .with_context(|| format!("{}: can't be read", full.display()))?;
            let tokens = without_tests(tokens(&text));
            files.push(Source { path, package: package.to_path_buf(), text, tokens });
        }
    }
    Ok(())
}

/// The tokens of a text. Comments and what stands in quotes are left out; lifetimes look like a quote and a word.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match c {
            '/' if next == Some('/') => at = end_of_line(&chars, at),
            '/' if next == Some('*') => at = end_of_comment(&chars, at),
            '"' => at = end_of_string(&chars, at),
            '\'' => at = end_of_char(&chars, at),
            'r' | 'b' | 'c' if is_raw(&chars, at).is_some() => at = is_raw(&chars, at).unwrap_or(at + 1),
            c if c.is_alphabetic() || c == '_' => {
                let end = (at..chars.len()).find(|&i| !(chars[i].is_alphanumeric() || chars[i] == '_'));
                let end = end.unwrap_or(chars.len());
                tokens.push(Token::Word(chars[at..end].iter().collect()));
                at = end;
            }
            c if c.is_whitespace() => at += 1,
            c => {
                tokens.push(Token::Mark(c));
                at += 1;
            }
        }
    }
    tokens
}

fn end_of_line(chars: &[char], at: usize) -> usize {
    (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len())
}

fn end_of_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn end_of_string(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// After a character literal, or after the quote of a lifetime.
fn end_of_char(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => (at + 3..chars.len()).find(|&i| chars[i] == '\'').map_or(chars.len(), |i| i + 1),
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

/// After a raw string or a string with a letter before it, if one begins here.
fn is_raw(chars: &[char], at: usize) -> Option<usize> {
    let mut i = at;
    while matches!(chars.get(i), Some('r' | 'b' | 'c')) && i < at + 2 {
        i += 1;
    }
    let hashes = chars[i..].iter().take_while(|&&c| c == '#').count();
    if chars.get(i + hashes) != Some(&'"') {
        return None;
    }
    if chars[at..i].contains(&'r') {
        let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
        let from = i + hashes + 1;
        return (from..chars.len()).find(|&j| chars[j..].starts_with(&close)).map(|j| j + close.len());
    }
    (hashes == 0).then(|| end_of_string(chars, i))
}

/// Leaves out every item with an attribute that names `test`: `#[cfg(test)] mod tests { ... }`, `#[cfg(all(test, ...))] use ...;`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = tokens[at].is('#') && tokens.get(at + 1).is_some_and(|t| t.is('['));
        if !is_attribute {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = after_group(&tokens, at + 1);
        let attribute = &tokens[at..end];
        let names = |word: &str| attribute.iter().any(|token| token.word() == Some(word));
        at = if names("cfg") && names("test") && !names("not") { after_item(&tokens, end) } else { end };
    }
    kept
}

/// After the bracket that closes the one at `at`.
pub(super) fn after_group(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// After the item that begins at `at`: its semicolon, or the brace that closes it.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at] {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') => return after_group(tokens, at),
            Token::Mark('(' | '[') => at = after_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        without_tests(tokens(text)).iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_text_are_left_out() {
        assert_eq!(
            words("a /* b /* c */ d */ e // f\n\"g\\\"h\" i r#\"j\"k\"# l b'm' n '\\'' o"),
            ["a", "e", "i", "l", "b", "n", "o"]
        );
    }

    #[test]
    fn lifetimes_are_words_and_characters_are_not() {
        assert_eq!(
            words("fn f<'a>(x: &'a str) -> char { 'b' }"),
            ["fn", "f", "a", "x", "a", "str", "char"]
                .map(|w| w.to_owned())
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(
            words(
                "struct A; #[cfg(test)] mod tests { struct B; } #[cfg(all(test, not_loom))] use c::d; struct E;"
            ),
            ["struct", "A", "struct", "E"]
        );
        assert_eq!(words("#[cfg(not(test))] struct A;"), ["struct", "A"]);
    }
}
