//! The schemas of docs/schema, which describe the output of `--json`, and SARIF's own.
//!
//! The schemas of docs/schema allow additional keys, as users must. The tests do not: a key that is not in the
//! schema is undocumented. Therefore each object that lists its properties is closed before the schema is used.

use serde_json::{Value, json};

use crate::repository;

/// Asserts that JSON is as docs/schema/NAME.json says, with no key that it does not name. Returns it.
///
/// # Panics
/// Where it is not, with each place that differs.
pub fn fits_schema(name: &str, text: &str) -> Value {
    let name = format!("docs/schema/{name}.json");
    let mut schema = read(&name);
    close(&mut schema);
    fits(&name, &schema, text)
}

/// Asserts that a document is SARIF 2.1.0, as the standard's own schema says. Returns it.
///
/// # Panics
/// Where it is not, with each place that differs.
pub fn fits_sarif(text: &str) -> Value {
    let name = "tests/standards/sarif/schema.json";
    let mut schema = read(name);
    // The standard's pattern of languages has a bracket too many, which not every kind of expression takes for itself.
    repair(&mut schema, "^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$", "^[a-zA-Z]{2}(-[a-zA-Z]{2})?$");
    fits(name, &schema, text)
}

/// A schema of this repository.
fn read(name: &str) -> Value {
    let text =
        std::fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn fits(name: &str, schema: &Value, text: &str) -> Value {
    jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
    // Forms of text, such as those of URIs, are a part of what is said.
    let validator = jsonschema::options().should_validate_formats(true).build(schema);
    let validator = validator.unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
    let value: Value = text.parse().unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
    let wrong: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .take(10)
        .collect();
    assert!(wrong.is_empty(), "not as {name} says:\n{}", wrong.join("\n"));
    value
}

/// Replaces a pattern.
fn repair(schema: &mut Value, wrong: &str, right: &str) {
    match schema {
        Value::Object(object) => object.values_mut().for_each(|value| repair(value, wrong, right)),
        Value::Array(array) => array.iter_mut().for_each(|value| repair(value, wrong, right)),
        Value::String(text) if text == wrong => right.clone_into(text),
        _ => {}
    }
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
