//! Numbers of a field have names: a tuple of integers as (or in) a field's type does not say which is which (CONTRIBUTING.md, *Style*).

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::source::{Source, Token, after_group};

/// The types that a tuple of which is counted.
const INTEGERS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
/// Fails where there is one.
pub(super) fn check(sources: &[Source]) -> Result<String> {
    let mut problems = String::new();
    for source in sources {
        let path = source.path.to_str().unwrap_or_default();
        let count = tuples(&source.tokens);
        if count > 0 {
            let _ = write!(problems, "\n  {path}: {count}; give the type a name, and each number one");
        }
    }
    if !problems.is_empty() {
        bail!("fields that are tuples of integers:{problems}");
    }
    Ok("no field is a tuple of integers".to_owned())
}

/// How many there are in the definitions of types.
fn tuples(tokens: &[Token]) -> usize {
    let defines = |word: &str| matches!(word, "struct" | "enum" | "union");
    let mut count = 0;
    let mut at = 0;
    while at < tokens.len() {
        at += 1;
        if !tokens.get(at - 1).and_then(Token::word).is_some_and(defines) {
            continue;
        }
        let body = (at..tokens.len()).find(|&i| matches!(tokens[i], Token::Mark('{' | '(' | ';')));
        let Some(body) = body.filter(|&i| !tokens[i].is(';')) else { continue };
        at = after_group(tokens, body);
        count += (body + 1..at).filter(|&i| is_tuple(tokens, i)).count();
    }
    count
}

/// Whether a tuple of nothing but integers begins there, two at least. A name before it makes it a variant's fields, or the
/// parameters of a function.
fn is_tuple(tokens: &[Token], at: usize) -> bool {
    if !tokens[at].is('(') || tokens[at - 1].word().is_some() {
        return false;
    }
    let inner = &tokens[at + 1..after_group(tokens, at) - 1];
    let mut parts = inner.split(|token| token.is(',')).filter(|part| !part.is_empty());
    let is_integer =
        |part: &[Token]| matches!(part, [Token::Word(word)] if INTEGERS.contains(&word.as_str()));
    parts.clone().count() >= 2 && parts.all(is_integer)
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    #[test]
    fn tuples_of_integers_are_found_in_fields_alone() {
        let check = |text: &str, expect| assert_eq!(tuples(&tokens(text)), expect, "{text}");
        check("struct A { a: (u64, u32), b: Vec<(usize, i8,)>, c: [(u8, u8); 4] }", 3);
        check("struct A(Option<(u64, u64)>); enum B { C(u64, u64), D { e: (u8, u8) } }", 2);
        check(
            "struct A(u64, u64); struct B { f: fn(u64, u64), g: Box<dyn Fn(u64, u64)>, h: (u64, String) }",
            0,
        );
        check("struct A; fn f(a: (u64, u64)) -> (u8, u8) { let b: (u8, u8) = a; }", 0);
    }
}
