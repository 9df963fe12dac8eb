//! A limit for the figures of types, for use in continuous integration: `bytes>64`, `Cell.unread>0`.

use std::fmt;
use std::str::FromStr;

use analysis::layout::TypeUse;

/// A figure of a type.
const FIGURES: [&str; 7] = ["bytes", "holes", "unread", "blocks", "objects", "accesses", "confidence"];

/// What must not be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    /// Of this type, else of any.
    type_: Option<String>,
    figure: &'static str,
    is_above: bool,
    number: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("[TYPE.]FIGURE>NUMBER or <NUMBER is wanted, with a figure of {}", FIGURES.join(", "));
        let place = text.rfind(['<', '>']).ok_or_else(form)?;
        let (left, right) = text.split_at(place);
        let (type_, figure) = match left.trim().rsplit_once('.') {
            Some((type_, figure)) => (Some(type_.trim().to_owned()), figure),
            None => (None, left.trim()),
        };
        let figure = FIGURES.into_iter().find(|known| *known == figure).ok_or_else(form)?;
        let number = right[1..].trim().parse().map_err(|_| form())?;
        Ok(Self { type_, figure, is_above: right.starts_with('>'), number })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(type_) = &self.type_ {
            write!(f, "{type_}.")?;
        }
        write!(f, "{}{}{}", self.figure, if self.is_above { '>' } else { '<' }, self.number)
    }
}

impl Limit {
    /// What it limits.
    pub(crate) fn figure(&self) -> &'static str {
        self.figure
    }

    /// The figure, where the type passes the limit.
    pub(crate) fn passed_by(&self, one: &TypeUse) -> Option<f64> {
        if self.type_.as_ref().is_some_and(|type_| *type_ != one.name) {
            return None;
        }
        let unread = one.fields.iter().filter(|field| field.count.loads + field.count.modifies == 0);
        let value = match self.figure {
            "bytes" => one.bytes as f64,
            "holes" => one.holes.iter().map(|hole| hole.size).sum::<u64>() as f64,
            "unread" => unread.map(|field| field.size).sum::<u64>() as f64,
            "blocks" => one.blocks as f64,
            "objects" => one.objects as f64,
            "accesses" => one.count.accesses() as f64,
            _ => one.confidence,
        };
        let passes = if self.is_above { value > self.number } else { value < self.number };
        passes.then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let check = |text: &str, expect: Option<(Option<&str>, &str, bool, f64)>| {
            let limit = text.parse::<Limit>().ok();
            let expect = expect.map(|(type_, figure, is_above, number)| Limit {
                type_: type_.map(str::to_owned),
                figure: FIGURES.into_iter().find(|known| *known == figure).unwrap(),
                is_above,
                number,
            });
            assert_eq!(limit, expect, "{text}");
        };
        check("bytes>64", Some((None, "bytes", true, 64.0)));
        check("std::pair<int, int>.unread > 0", Some((Some("std::pair<int, int>"), "unread", true, 0.0)));
        check("confidence<0.9", Some((None, "confidence", false, 0.9)));
        check("weight>3", None);
        check("bytes", None);
        check("bytes>x", None);
    }
}
