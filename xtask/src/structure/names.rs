//! A type name stands for one thing in the workspace (CONTRIBUTING.md, *Style*).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::source::{Source, Token, after_group};

/// So many definitions make a name one that says too little.
const TOO_MANY: usize = 3;
/// Of a hundred names, so many may be such ones.
const MAX_PERCENT: usize = 2;

/// Fails where more names than that stand for three things or more.
pub(super) fn check(sources: &[Source]) -> Result<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for name in defined(&source.tokens) {
            places.entry(name).or_default().push(source.path.display().to_string());
        }
    }
    let many: Vec<_> = places.iter().filter(|(_, places)| places.len() >= TOO_MANY).collect();
    let summary =
        format!("{} of {} type names stand for {TOO_MANY} things or more", many.len(), places.len());
    if many.len() * 100 > places.len() * MAX_PERCENT {
        let mut list = String::new();
        for (name, places) in many {
            let _ = write!(list, "\n  {name}: {}", places.join(", "));
        }
        bail!("{summary}; at most {MAX_PERCENT} % may:{list}");
    }
    Ok(summary)
}

/// The names of the structs, enums, unions and traits of a file, and of its type aliases outside of impls and traits.
fn defined(tokens: &[Token]) -> Vec<&str> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let name = || tokens.get(at + 1).and_then(Token::word).filter(|name| is_type_name(name));
        match tokens[at].word() {
            Some("struct" | "enum" | "union") => names.extend(name()),
            Some("type") => names.extend(name()),
            Some(word @ ("trait" | "impl")) if starts_item(tokens, at) => {
                if word == "trait" {
                    names.extend(name());
                }
                // What is inside are associated types and functions; types in their bodies are too rare to look for.
                while at < tokens.len() && !tokens[at].is('{') && !tokens[at].is(';') {
                    at += 1;
                }
                at = after_group(tokens, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    names
}

/// Whether an item may begin here: `impl` also stands in types (`-> impl Iterator`).
fn starts_item(tokens: &[Token], at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tokens[before]) {
        None | Some(Token::Mark('{' | '}' | ';' | ']' | ')')) => true,
        Some(Token::Word(word)) => ["pub", "unsafe"].contains(&&**word),
        Some(_) => false,
    }
}

fn is_type_name(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    #[test]
    fn definitions_are_found_and_associated_types_are_not() {
        let text = "pub struct A; enum B {} pub(crate) unsafe trait C { type D; fn f(); } type E = u8;
            impl Iterator for A { type Item = u8; fn g() -> impl Sized {} } fn h() -> impl Sized { } union F {}";
        assert_eq!(defined(&tokens(text)), ["A", "B", "C", "E", "F"]);
    }
}
