//! Shortens names so that they remain recognisable: arguments of templates and
//! functions are dropped first, then the middle of a path, then the middle of the name.

/// Where something was left away.
const ELLIPSIS: char = '…';

/// A name in at most `columns` characters. Arguments of templates and functions are left away first, then the middle of a path,
/// then the middle.
pub fn shorten(name: &str, columns: usize) -> String {
    let fits = |text: &str| text.chars().count() <= columns;
    if fits(name) {
        return name.to_owned();
    }
    let mut short = name.to_owned();
    // A name of a block begins with a bracket, and its place is inside.
    let (prefix, rest) = match name.strip_prefix('<').and_then(|rest| rest.split_once('@')) {
        Some((kind, place)) => (format!("<{kind}@"), place.to_owned()),
        None => (String::new(), name.to_owned()),
    };
    // Rust's `<Type<Argument> as Trait>::function`.
    if let Some(qualified) = name.strip_prefix('<').filter(|_| prefix.is_empty()) {
        let qualified = format!("<{}", without_inside(qualified, '<', '>'));
        if fits(&qualified) {
            return qualified;
        }
    }
    for (open, close) in [('<', '>'), ('(', ')')] {
        let body = short.strip_prefix(&prefix).unwrap_or(&rest).to_owned();
        short = format!("{prefix}{}", without_inside(&body, open, close));
        if fits(&short) {
            return short;
        }
    }
    if let Some(path) = shorter_path(&short, columns) {
        return path;
    }
    let count = short.chars().count();
    let left = columns.saturating_sub(1);
    let head = left.div_ceil(2);
    let start: String = short.chars().take(head).collect();
    let end: String = short.chars().skip(count - (left - head)).collect();
    if columns == 0 { String::new() } else { format!("{start}{ELLIPSIS}{end}") }
}

/// Leaves away what is between the outermost pairs of two brackets.
fn without_inside(text: &str, open: char, close: char) -> String {
    let mut out = String::new();
    let mut depth = 0_usize;
    let balanced = text.matches(open).count() <= text.matches(close).count();
    if !balanced || text.contains("operator") {
        return text.to_owned();
    }
    for (index, c) in text.char_indices() {
        let rest = &text[index + c.len_utf8()..];
        if c == open && (depth > 0 || rest.contains(close)) {
            if depth == 0 {
                out.push(c);
                if !rest.starts_with(close) {
                    out.push(ELLIPSIS);
                }
            }
            depth += 1;
        } else if c == close && depth > 0 {
            depth -= 1;
            if depth == 0 {
                out.push(c);
            }
        } else if depth == 0 {
            out.push(c);
        }
    }
    out
}

/// The last parts of a path, as many as fit.
fn shorter_path(text: &str, columns: usize) -> Option<String> {
    let starts = text.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    starts.map(|at| format!("{ELLIPSIS}{}", &text[at..])).find(|short| short.chars().count() <= columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, columns: usize, expect: &str) {
        let short = shorten(name, columns);
        assert_eq!(short, expect, "{name} in {columns}");
        assert!(short.chars().count() <= columns);
    }

    #[test]
    fn names_lose_their_middle() {
        check("counter", 7, "counter");
        check("a_very_long_name", 9, "a_ve…name");
        check(
            "std::vector<int, std::allocator<int>>::push_back(int const&)",
            40,
            "std::vector<…>::push_back(int const&)",
        );
        check(
            "std::vector<int, std::allocator<int>>::push_back(int const&)",
            30,
            "std::vector<…>::push_back(…)",
        );
        check("<alloc::sync::Arc<T, A> as Drop>::drop", 36, "<alloc::sync::Arc<…> as Drop>::drop");
        check("<alloc::sync::Arc<T, A> as Drop>::drop", 30, "<…>::drop");
        check("f()", 2, "f…");
        check("/usr/src/project/lib/table.c:33", 20, "…/lib/table.c:33");
        check("<malloc@Map<int, int>::grow(int)+36>", 30, "<malloc@Map<…>::grow(int)+36>");
        check("<malloc@a_function_of_a_long_name+36>", 20, "<malloc@a_…_name+36>");
        check("operator<<(int)", 10, "opera…int)");
        check("abc", 0, "");
    }
}
