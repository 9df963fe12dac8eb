//! The profile as JSON: an array of functions with stable keys.

use probes::joined::Profile;
use serde_json::{Map, Value, json};

/// An array of `{function, file, line, calls, calls_error, sampled, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, self_ns,
/// total_ns, self_error_ns, total_error_ns}`, the largest total first. Errors are half the widths of the intervals that hold the truth 95
/// times of 100; 0: exact.
#[must_use]
pub fn functions(profile: &Profile) -> Value {
    let rounded = |ns: f64| json!((ns * 10.0).round() / 10.0);
    profile
        .rows
        .iter()
        .map(|row| {
            let [p50, p90, p99, p999] = row.percentiles_ns;
            let mut object = Map::new();
            object.insert("function".to_owned(), json!(row.function));
            object.insert("file".to_owned(), json!(row.file));
            object.insert("line".to_owned(), json!(row.line));
            object.insert("calls".to_owned(), json!(row.calls));
            object.insert("calls_error".to_owned(), rounded(row.calls_error));
            object.insert("sampled".to_owned(), json!(row.sampled));
            for (key, ns) in [
                ("mean_ns", row.mean_ns),
                ("p50_ns", p50),
                ("p90_ns", p90),
                ("p99_ns", p99),
                ("p999_ns", p999),
                ("max_ns", row.max_ns),
                ("self_ns", row.self_ns),
                ("total_ns", row.total_ns),
                ("self_error_ns", row.self_error_ns),
                ("total_error_ns", row.total_error_ns),
            ] {
                object.insert(key.to_owned(), rounded(ns));
            }
            Value::Object(object)
        })
        .collect()
}
