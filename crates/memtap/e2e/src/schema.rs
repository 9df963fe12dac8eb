//! The schemas of docs/schema, which describe what `--json` writes.
//!
//! They leave room for keys to come, as users must. Tests don't: a key that the schema does not name is one that nobody
//! documented. So each object that lists its properties is closed before it is used.

use serde_json::{Value, json};

use crate::repository;

/// Asserts that JSON is as docs/schema/NAME.json says, with no key that it does not name. Returns it.
///
/// # Panics
/// Where it is not, with each place that differs.
pub fn fits_schema(name: &str, text: &str) -> Value {
    let path = repository().join("docs/schema").join(name).with_extension("json");
    let schema = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut schema: Value = serde_json::from_str(&schema).expect("a schema is JSON");
    jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
    close(&mut schema);
    let validator =
        jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
    let wrong: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .take(10)
        .collect();
    assert!(wrong.is_empty(), "not as docs/schema/{name}.json says:\n{}", wrong.join("\n"));
    value
}

/// Forbids keys that an object's schema does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(close);
        }
        Value::Array(array) => array.iter_mut().for_each(close),
        _ => {}
    }
}
