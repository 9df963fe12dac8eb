//! Findings as SARIF 2.1.0, which editors and code review services show at the lines concerned.
//!
//! The file has one run of one tool. A finding is a *result*: its *rule* is the kind of finding, its location
//! is where it happened. Related locations are the other side of a race, or where a block was allocated and
//! released, each with its stack. Files below the working directory are named relative to it, as those of a
//! repository have to be. The fingerprint of a result contains no line numbers, so it stays the same when
//! lines move. The terms are those of the OASIS standard; `docs/guide.md` describes what services do with it.

mod errors;
mod races;

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

pub use errors::errors;
pub use races::races;

/// A kind of finding.
struct SarifRule {
    id: &'static str,
    text: &'static str,
    level: &'static str,
}

/// A function that was running, and where.
struct SarifFrame {
    function: String,
    file: Option<String>,
    line: Option<u32>,
}

/// A place that a finding is about, in words, with the functions that were running, the innermost first.
struct SarifPlace {
    words: String,
    stack: Vec<SarifFrame>,
}

/// What was found.
struct SarifFinding {
    rule: usize,
    message: String,
    /// What tells it from others, without numbers of lines.
    fingerprint: String,
    /// Where it is shown first, then what belongs to it.
    places: Vec<SarifPlace>,
    times: u64,
    uncertain: bool,
}

/// Writes a document with one run.
fn write(rules: &[SarifRule], found: &[SarifFinding], root: &Path, out: &mut dyn Write) -> io::Result<()> {
    let results: Vec<Value> = found.iter().map(|finding| result(rules, finding, root)).collect();
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id, "shortDescription": { "text": rule.text },
                "defaultConfiguration": { "level": rule.level },
            })
        })
        .collect();
    let driver = json!({
        "name": "memtap", "version": env!("CARGO_PKG_VERSION"), "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": rules,
    });
    let document = json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver },
            "originalUriBaseIds": { "SRCROOT": { "uri": uri(root, true) } },
            "results": results,
        }],
    });
    writeln!(out, "{document:#}")
}

fn result(rules: &[SarifRule], finding: &SarifFinding, root: &Path) -> Value {
    let rule = &rules[finding.rule];
    let [first, others @ ..] = &finding.places[..] else { unreachable!("a finding is about a place") };
    let related: Vec<Value> = (1..)
        .zip(others)
        .map(|(id, place)| {
            let mut location = location(place.stack.first(), root);
            location["id"] = json!(id);
            location["message"] = json!({ "text": place.words });
            location
        })
        .collect();
    let stacks: Vec<Value> = finding
        .places
        .iter()
        .map(|place| {
            let frames = place.stack.iter().map(|frame| json!({ "location": location(Some(frame), root) }));
            json!({ "message": { "text": place.words }, "frames": frames.collect::<Vec<_>>() })
        })
        .collect();
    let level = if finding.uncertain && rule.level == "error" { "warning" } else { rule.level };
    let mut result = json!({
        "ruleId": rule.id, "ruleIndex": finding.rule, "level": level, "message": { "text": finding.message },
        "locations": [location(first.stack.first(), root)],
        "relatedLocations": related,
        "stacks": stacks,
        "occurrenceCount": finding.times,
        "partialFingerprints": { "memtap/v1": format!("{}|{}", rule.id, finding.fingerprint) },
    });
    if finding.uncertain {
        result["properties"] = json!({ "uncertain": true });
    }
    result
}

/// Where a function was.
fn location(frame: Option<&SarifFrame>, root: &Path) -> Value {
    let Some(frame) = frame else { return json!({}) };
    let mut location =
        json!({ "logicalLocations": [{ "fullyQualifiedName": frame.function, "kind": "function" }] });
    if let Some(file) = &frame.file {
        let path = Path::new(file);
        let artifact = match path.strip_prefix(root) {
            Ok(below) => json!({ "uri": uri(below, false), "uriBaseId": "SRCROOT" }),
            Err(_) => json!({ "uri": uri(path, false) }),
        };
        location["physicalLocation"] = json!({ "artifactLocation": artifact });
        // Line 0 is what debug information says of code without a line.
        if let Some(line) = frame.line.filter(|line| *line > 0) {
            location["physicalLocation"]["region"] = json!({ "startLine": line });
        }
    }
    location
}

/// A path as a URI: `file:` where it is absolute. That of a folder ends with a slash.
fn uri(path: &Path, is_folder: bool) -> String {
    let mut text = if path.is_absolute() { "file://".to_owned() } else { String::new() };
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'+' => {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    if is_folder && !text.ends_with('/') {
        text.push('/');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_uris() {
        for (path, is_folder, expect) in [
            ("src/main.c", false, "src/main.c"),
            ("/usr/include/c++/12/new", false, "file:///usr/include/c++/12/new"),
            ("a folder/50%.c", false, "a%20folder/50%25.c"),
            ("/work", true, "file:///work/"),
            ("/", true, "file:///"),
        ] {
            assert_eq!(uri(Path::new(path), is_folder), expect);
        }
    }

    fn finding(uncertain: bool) -> SarifFinding {
        let frame = |function: &str, file: Option<&str>, line| SarifFrame {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line,
        };
        SarifFinding {
            rule: 0,
            message: "what happened".to_owned(),
            fingerprint: "main|counter".to_owned(),
            places: vec![
                SarifPlace {
                    words: "read".to_owned(),
                    stack: vec![frame("f", Some("/src/a.c"), Some(3)), frame("main", None, None)],
                },
                SarifPlace {
                    words: "allocated".to_owned(),
                    stack: vec![frame("g", Some("/x/b.c"), Some(0))],
                },
            ],
            times: 2,
            uncertain,
        }
    }

    #[test]
    fn a_finding_with_its_places() {
        let rules = [SarifRule { id: "race", text: "A race", level: "error" }];
        let mut out = Vec::new();
        write(&rules, &[finding(false)], Path::new("/src"), &mut out).expect("memory takes it");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let result = &document["runs"][0]["results"][0];
        let physical = &result["locations"][0]["physicalLocation"];
        assert_eq!(physical["artifactLocation"], json!({ "uri": "a.c", "uriBaseId": "SRCROOT" }));
        assert_eq!(physical["region"]["startLine"], 3);
        let related = &result["relatedLocations"][0];
        assert_eq!(related["physicalLocation"], json!({ "artifactLocation": { "uri": "file:///x/b.c" } }));
        assert_eq!(related["message"]["text"], "allocated");
        assert_eq!(result["stacks"][0]["frames"].as_array().map(Vec::len), Some(2));
        assert_eq!(result["partialFingerprints"]["memtap/v1"], "race|main|counter");
        assert_eq!((&result["level"], &result["occurrenceCount"]), (&json!("error"), &json!(2)));
    }

    #[test]
    fn what_is_uncertain_is_a_warning() {
        let rules = [SarifRule { id: "race", text: "A race", level: "error" }];
        let result = result(&rules, &finding(true), Path::new("/"));
        assert_eq!((&result["level"], &result["properties"]["uncertain"]), (&json!("warning"), &json!(true)));
    }
}
