//! `--sarif` of races and errors: SARIF 2.1.0 that is valid by the standard's schema, with the same findings as `--json`.

use e2e::{TestProgram, Trace, fits_sarif};
use serde_json::{Value, json};

/// The results of a document, after everything about it was looked at that services rely on.
fn results(trace: &Trace, command: &str) -> Vec<Value> {
    let outcome = trace.ask(command, &["--sarif"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let document = fits_sarif(&outcome.out());
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(1));
    let run = &document["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "memtap");
    let root = run["originalUriBaseIds"]["SRCROOT"]["uri"].as_str().expect("a folder");
    assert!(root.starts_with("file:///") && root.ends_with('/'), "{root}");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results").clone();
    for result in &results {
        let rule =
            &rules[usize::try_from(result["ruleIndex"].as_u64().expect("a number")).expect("an index")];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(rule["shortDescription"]["text"].is_string());
        let level = result["level"].as_str().expect("a level");
        assert!(["error", "warning", "note"].contains(&level), "{level}");
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(result["occurrenceCount"].as_u64().is_some_and(|times| times > 0));
        assert!(result["partialFingerprints"]["memtap/v1"].is_string());
        let frames = result["stacks"].as_array().expect("stacks").iter().flat_map(|stack| {
            stack["frames"].as_array().expect("frames").iter().map(|frame| &frame["location"])
        });
        let places = ["locations", "relatedLocations"].map(|key| result[key].as_array().expect("places"));
        for place in places.into_iter().flatten().chain(frames) {
            let physical = &place["physicalLocation"];
            if !physical.is_null() {
                let uri = physical["artifactLocation"]["uri"].as_str().expect("a file");
                assert!(!uri.contains(' ') && !uri.starts_with('/'), "{uri}");
                let line = &physical["region"]["startLine"];
                assert!(line.is_null() || line.as_u64().is_some_and(|line| line > 0), "{place}");
            }
            assert!(place["logicalLocations"][0]["fullyQualifiedName"].is_string() || place == &json!({}));
        }
    }
    results
}

fn findings(trace: &Trace, command: &str) -> Vec<Value> {
    let outcome = trace.ask(command, &["--json"]);
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

#[test]
fn a_race_is_shown_at_its_lines() {
    let recording = TestProgram::named("race/racy_counter.c").record_by("translate");
    let (found, results) = (findings(&recording.trace, "race"), results(&recording.trace, "race"));
    assert_eq!(found.len(), results.len());
    assert!(!results.is_empty());
    for (race, result) in found.iter().zip(&results) {
        assert_eq!((&result["ruleId"], &result["level"]), (&json!("race"), &json!("error")));
        for (side, place) in [("second", &result["locations"][0]), ("first", &result["relatedLocations"][0])]
        {
            assert_eq!(place["physicalLocation"]["region"]["startLine"], race[side]["line"]);
            assert_eq!(place["logicalLocations"][0]["fullyQualifiedName"], race[side]["function"]);
        }
        let variable = race["variable"].as_str().expect("a name");
        assert!(result["message"]["text"].as_str().is_some_and(|text| text.contains(variable)), "{result}");
    }
    let both = recording.trace.ask("race", &["--sarif", "--json"]);
    assert_eq!(both.status, 2, "{}", both.err());
    let failed = recording.trace.ask("race", &["--sarif", "--fail-on-race"]);
    assert_eq!(failed.status, 3, "{}", failed.err());
}

#[test]
fn errors_have_their_kinds_and_places() {
    let recording = TestProgram::named("errors/kinds.cpp").record_by("translate");
    let (found, results) = (findings(&recording.trace, "errors"), results(&recording.trace, "errors"));
    assert_eq!(found.len(), results.len());
    for (error, result) in found.iter().zip(&results) {
        assert_eq!(result["ruleId"], error["kind"]);
        assert_eq!(result["occurrenceCount"], error["times"]);
        let is_note = ["leak", "unused", "temporary"].iter().any(|kind| error["kind"] == *kind);
        assert_eq!(result["level"], if is_note { "note" } else { "error" });
        let place = if error["access"].is_null() { &error["allocated"] } else { &error["access"] };
        let shown = &result["locations"][0];
        assert_eq!(shown["physicalLocation"]["region"]["startLine"], place["line"]);
        let frames = result["stacks"][0]["frames"].as_array().map(Vec::len);
        assert_eq!(frames, place["stack"].as_array().map(|stack| stack.len().max(1)), "{result:#}");
    }
    let kinds: Vec<&Value> = results.iter().map(|result| &result["ruleId"]).collect();
    for kind in ["out_of_bounds", "mismatched_free", "uninitialised", "leak"] {
        assert!(kinds.contains(&&json!(kind)), "{kinds:?}");
    }
}

#[test]
fn a_program_without_races_has_no_results() {
    let recording = TestProgram::named("race/clean_mutex.c").record_by("translate");
    assert_eq!(results(&recording.trace, "race"), Vec::<Value>::new());
}
