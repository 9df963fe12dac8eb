//! `memtap index`: answers with the index are the same as without it, and an index that does not match the trace is not used.

use e2e::{TestProgram, Trace};

/// The answers that may come from the index.
fn answers(trace: &Trace, page: &str) -> Vec<String> {
    let picture = trace.path.with_extension("svg");
    let picture = picture.to_str().expect("a path of text");
    let start = u64::from_str_radix(page.trim_start_matches("0x"), 16).expect("the address of a page");
    let range = format!("{start:#x}..{:#x}", start + 64);
    let ask = |command: &str, options: &[&str]| {
        let out = trace.ask(command, options);
        assert_eq!(out.status, 0, "{command}: {}", out.err());
        out.out()
    };
    let by_page = ask("report", &["--by", "page", "--json"]);
    ask("heatmap", &["--force", "-o", picture]);
    let drawn = std::fs::read_to_string(picture).expect("heatmap wrote it");
    vec![by_page, drawn, ask("dump", &["--range", &range, "--format", "jsonl"])]
}

#[test]
fn answers_with_an_index_are_those_without_it() {
    let trace = TestProgram::named("disparity.c").record().trace;
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&trace.ask("report", &["--by", "page", "--json"]).out()).expect("an array");
    let page = rows[0]["name"].as_str().expect("a row has a name").to_owned();
    let read = answers(&trace, &page);
    assert!(read.iter().all(|answer| answer.len() > 100));
    let index = trace.ask("index", &["--json"]);
    assert_eq!(index.status, 0, "{}", index.err());
    let said: serde_json::Value = serde_json::from_str(&index.out()).expect("an object");
    assert_eq!((&said["built"], &said["unreadable_frames"]), (&true.into(), &0.into()), "{said}");
    assert_eq!(said["accesses"].as_u64(), Some(trace.number("accesses")));
    assert_eq!(answers(&trace, &page), read);
    assert!(trace.ask("index", &[]).out().contains("up to date"));

    // A byte of it is changed: it is not believed, and built anew.
    let file = format!("{}.mtx", trace.path.display());
    let sound = std::fs::read(&file).expect("index wrote it");
    let mut bytes = sound.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("it can be written");
    assert_eq!(answers(&trace, &page), read);
    let again = trace.ask("index", &["--force"]);
    assert_eq!(again.status, 0, "{}", again.err());
    assert!(std::fs::read(&file).expect("index wrote it") == sound, "the same trace has the same index");
}

/// Functions and threads are counted without a replay: figures are those of the events.
#[test]
fn functions_and_threads_have_the_sums_of_the_events() {
    let trace = TestProgram::named("statics.c").record().trace;
    let events = trace.events();
    for (key, kind) in [("loads", "load"), ("stores", "store"), ("modifies", "modify")] {
        let counted = events.iter().filter(|event| event["type"] == kind).count() as u64;
        for by in ["function", "thread"] {
            let out = trace.ask("report", &["--by", by, "--json"]).out();
            let rows: Vec<serde_json::Value> = serde_json::from_str(&out).expect("an array");
            let sum: u64 = rows.iter().filter_map(|row| row[key].as_u64()).sum();
            assert_eq!(sum, counted, "{key} by {by}");
        }
    }
}
