//! Which tracer is the default; and each output states what that tracer covers.

use std::process::Command;

use e2e::{Recording, TestProgram, memtap, record, run};

fn recorded(options: &[&str], program: &TestProgram) -> Recording {
    let options: Vec<String> = options.iter().map(|option| option.to_string()).collect();
    let recording = record(&options, &program.command_line(), program.header.stdin.as_bytes());
    program.check(&recording.outcome);
    assert_eq!(recording.trace.number("gaps"), 0, "{options:?}");
    recording
}

/// The tracer of a recording with these options.
fn tracer(options: &[&str], program: &TestProgram) -> String {
    let stat = recorded(options, program).trace.stat();
    stat["tracer"].as_str().expect("stat has it").to_owned()
}

#[test]
fn code_is_translated_unless_data_is_selected() {
    let program = TestProgram::named("statics.c");
    for options in [&[][..], &["--regions", "stack"], &["--regions", "data,stack"], &["--start", "main"]] {
        assert_eq!(tracer(options, &program), "translate", "{options:?}");
    }
    for options in [
        &["--regions", "data"][..],
        &["--regions", "data,bss,heap,anon"],
        &["--mechanism", "single"],
        &["--mechanism", "bursts"],
        &["--tracer", "protect"],
    ] {
        assert_eq!(tracer(options, &program), "protect", "{options:?}");
    }
    assert_eq!(tracer(&["--tracer", "translate", "--regions", "data"], &program), "translate");
}

/// What page protection can't do is done without being told how, also for selected data.
#[test]
fn what_only_translated_code_can_needs_no_tracer() {
    let program = TestProgram::named("statics.c");
    for more in [&[][..], &["--regions", "data"]] {
        let with_data = recorded(&[&["--data"], more].concat(), &program).trace;
        assert_eq!(with_data.stat()["tracer"], "translate");
        let events = with_data.events();
        assert!(events.iter().any(|event| event["data"].is_string()), "no values with {more:?}");
        let verified = recorded(&[&["--verify"], more].concat(), &program).trace.stat();
        assert_eq!(verified["tracer"], "translate");
        assert!(verified["verified"]["windows"].as_u64() > Some(0), "{more:?}: {verified}");
    }
}

#[test]
fn static_executables_need_no_tracer() {
    let program = TestProgram::built("statics.c", &["-static"]);
    for options in [&[][..], &["--regions", "data,bss"]] {
        let recording = recorded(options, &program);
        assert_eq!(recording.trace.stat()["tracer"], "translate", "{options:?}");
        let rows = recording.trace.variables();
        for expectation in &program.header.expect {
            let total = e2e::total_of(&rows, &expectation.name);
            assert_eq!(total, expectation.tally.total(), "{options:?} {}", expectation.name);
        }
    }
}

/// Also as a child: nothing is missing, so that the program's own status comes back.
#[test]
fn static_children_are_recorded() {
    let child = TestProgram::built("status.c", &["-static"]);
    let script = format!("{} one two < /dev/null; exit 3", child.path.display());
    let line = ["sh", "-c", &script].map(str::to_owned);
    let recording = record(&[], &line, b"");
    assert_eq!(recording.outcome.status, 3, "{}", recording.outcome.err());
    assert_eq!((recording.trace.number("gaps"), recording.trace.number("processes")), (0, 2));
}

#[test]
fn the_help_says_which_tracer_is_the_default() {
    let help = run(Command::new(memtap()).args(["record", "--help"]), b"").out();
    let words: Vec<&str> = help.split_whitespace().collect();
    let expected = "[default: translate; protect if --regions selects data, that is, without stack]";
    assert!(words.join(" ").contains(expected), "{help}");
}

/// The first line of a report, of the page, and of the heat map.
#[test]
fn every_output_says_what_is_covered() {
    let program = TestProgram::named("statics.c");
    for (options, words) in [
        (&[][..], "recorded by translate: accesses to all memory of the program"),
        (&["--regions", "stack"], "recorded by translate: accesses to stack memory, and to no other"),
        (&["--regions", "data,bss"], "recorded by protect: accesses to data and bss memory, and to no other"),
        (
            &["--tracer", "protect"],
            "recorded by protect: accesses to data, bss, heap and anon memory, and to no other",
        ),
    ] {
        let trace = recorded(options, &program).trace;
        assert_eq!(trace.ask("report", &[]).out().lines().next(), Some(words), "{options:?}");
        for (command, option, name) in [("heatmap", "-o", "map.svg"), ("report", "--html", "page.html")] {
            let path = trace.path.with_file_name(name);
            let asked = trace.ask(command, &[option, path.to_str().expect("UTF-8")]);
            assert_eq!(asked.status, 0, "{}", asked.err());
            let text = std::fs::read_to_string(&path).expect("it was just written");
            assert!(text.contains(words), "{options:?}: {name}");
        }
    }
}

/// All that the report counts is in the heat map as well, and only what was selected is said to be traced.
#[test]
fn the_heat_map_and_the_report_agree() {
    let program = TestProgram::named("statics.c");
    for options in [&[][..], &["--regions", "stack"], &["--tracer", "protect"]] {
        let trace = recorded(options, &program).trace;
        let path = trace.path.with_file_name("map.svg");
        assert_eq!(trace.ask("heatmap", &["-o", path.to_str().expect("UTF-8")]).status, 0);
        let map = std::fs::read_to_string(&path).expect("it was just drawn");
        // A cell of its own, or one of several neighbours of one colour, which have no number.
        let drawn: u64 = map
            .lines()
            .filter_map(|line| line.split_once("<title>")?.1.split_once('<')?.0.parse::<u64>().ok())
            .sum();
        let pages = trace.ask("report", &["--by", "page", "--json"]).out();
        let pages: Vec<serde_json::Value> = serde_json::from_str(&pages).expect("JSON");
        let counts = |row: &serde_json::Value| {
            ["loads", "stores", "modifies"]
                .iter()
                .map(|key| row[key].as_u64().expect("a number"))
                .sum::<u64>()
        };
        let all: u64 = pages.iter().map(counts).sum();
        assert!(drawn <= all, "{drawn} of {all}");
        for row in &pages {
            let alone = format!("<title>{}</title>", counts(row));
            let neighbours = pages.iter().filter(|other| counts(other) == counts(row)).count() > 1;
            assert!(neighbours || map.contains(&alone), "{options:?}: {row} is not in the picture");
        }
        if options.contains(&"stack") {
            assert!(!map.contains("without an access"), "what was not selected is not traced");
        }
    }
}

#[test]
fn what_a_library_mapped_before_recording_is_its_memory() {
    let recording = TestProgram::named("early_memory.c").record_by("translate");
    let outcome = recording.trace.ask("report", &["--by", "region", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let rows: serde_json::Value = serde_json::from_str(&outcome.out()).expect("it is JSON");
    let of = |kind: &str| -> u64 {
        let rows = rows.as_array().expect("an array").iter().filter(|row| row["region"] == kind);
        rows.map(|row| row["stores"].as_u64().expect("a number")).sum()
    };
    assert!(of("anon") >= 100, "{rows:#}");
}
