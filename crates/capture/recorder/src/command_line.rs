//! Command lines, quoted as for a shell.

/// Of a program and its arguments.
pub(crate) fn of_words(name: &str, args: &[String]) -> String {
    let words: Vec<String> =
        std::iter::once(name).chain(args.iter().map(String::as_str)).map(quote).collect();
    words.join(" ")
}

/// Of arguments with a zero after each, as the kernel keeps them.
pub(crate) fn of_arguments(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| quote(&String::from_utf8_lossy(word)))
        .collect();
    words.join(" ")
}

/// A word in quotes where a shell would otherwise split or change it.
fn quote(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quote("a-b/c.d"), "a-b/c.d");
        assert_eq!(quote("two words"), "'two words'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
