//! Answers that fit: so many rows, and so many bytes. What is cut is counted.

use serde_json::{Map, Value, json};

/// Rows of an answer if the question does not say.
pub(crate) const ROWS: usize = 20;
/// The most rows that a question gets.
pub(crate) const MOST_ROWS: usize = 1000;
/// Elements of a list within a row, and how few of them are kept before there are fewer rows.
const NESTED: usize = 64;
const FEWEST_NESTED: usize = 8;
/// The most bytes of an answer, as JSON. Some 8,000 tokens.
pub(crate) const MOST_BYTES: usize = 32 << 10;

/// Rows that a question asks for, within what is possible.
pub(crate) fn rows(asked: Option<usize>) -> usize {
    asked.unwrap_or(ROWS).clamp(1, MOST_ROWS)
}

/// A list of at most `most` elements, whose own lists are cut likewise; `cut` counts elements that were left out of those.
fn shorten(value: &mut Value, most: usize, cut: &mut usize) {
    match value {
        Value::Array(elements) => {
            *cut += elements.len().saturating_sub(most);
            elements.truncate(most);
            elements.iter_mut().for_each(|element| shorten(element, most, cut));
        }
        Value::Object(members) => members.values_mut().for_each(|member| shorten(member, most, cut)),
        _ => {}
    }
}

/// The rows of a list, or the members of an object, its lists cut to `most` and lists within these to `nested`.
fn bounded_to(whole: &Value, most: usize, nested: usize) -> Map<String, Value> {
    let mut members = match whole {
        Value::Object(members) => members.clone(),
        rows => Map::from_iter([("rows".to_owned(), rows.clone())]),
    };
    let mut left_out = Map::new();
    let mut within = 0;
    for (key, member) in &mut members {
        if let Value::Array(rows) = member
            && rows.len() > most
        {
            left_out.insert(key.clone(), json!(rows.len() - most));
            rows.truncate(most);
        }
        match member {
            Value::Array(rows) => rows.iter_mut().for_each(|row| shorten(row, nested, &mut within)),
            other => shorten(other, nested, &mut within),
        }
    }
    if within > 0 {
        left_out.insert("within rows".to_owned(), json!(within));
    }
    if !left_out.is_empty() {
        members.insert("left_out".to_owned(), Value::Object(left_out));
    }
    members
}

/// An answer of at most `most` rows that fits into [`MOST_BYTES`]: the rows of a list become the member `rows`, lists of an object
/// are cut, and `left_out` says how many elements of each are missing.
pub(crate) fn bounded(whole: &Value, most: usize) -> Option<Map<String, Value>> {
    let (mut most, mut nested) = (most, NESTED);
    loop {
        let members = bounded_to(whole, most, nested);
        if serde_json::to_vec(&members).is_ok_and(|bytes| bytes.len() <= MOST_BYTES) {
            return Some(members);
        }
        match (nested > FEWEST_NESTED, most > 1) {
            (true, _) => nested /= 2,
            (false, true) => most /= 2,
            (false, false) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_whole() {
        assert_eq!(Value::Object(bounded(&json!([1, 2]), 2).unwrap()), json!({"rows": [1, 2]}));
        assert_eq!(Value::Object(bounded(&json!({"a": 1, "b": [1]}), 2).unwrap()), json!({"a": 1, "b": [1]}));
    }

    #[test]
    fn what_is_left_out_is_counted() {
        assert_eq!(
            Value::Object(bounded(&json!([1, 2, 3]), 2).unwrap()),
            json!({"rows": [1, 2], "left_out": {"rows": 1}})
        );
        let stacks = json!({"errors": [{"stack": vec![1; NESTED + 3]}, {"stack": [1]}, 5], "all": 3});
        assert_eq!(
            Value::Object(bounded(&stacks, 2).unwrap()),
            json!({
                "errors": [{"stack": vec![1; NESTED]}, {"stack": [1]}],
                "all": 3,
                "left_out": {"errors": 1, "within rows": 3},
            })
        );
    }

    #[test]
    fn long_rows_make_fewer_of_them() {
        let whole = json!(vec!["x".repeat(1000); 100]);
        let members = bounded(&whole, 100).unwrap();
        let kept = members["rows"].as_array().unwrap().len();
        assert!(kept >= 16, "{kept} rows of 1,000 bytes");
        assert_eq!(members["left_out"]["rows"], 100 - kept);
        assert!(bounded(&json!(["x".repeat(MOST_BYTES)]), 10).is_none());
    }
}
