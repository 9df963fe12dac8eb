//! `memtap view` over HTTP: which requests are answered, and its tiles have the figures of the other commands.

use std::net::TcpListener;
use std::process::Command;

use e2e::{TestProgram, TileAnswer, Trace, Viewer, memtap, run};
use serde_json::{Value, json};

/// The sum over all processes of a window's parts.
fn sum_of(viewer: &Viewer, trace: &Value, what: &str, across: u64, down: u64) -> u64 {
    let mut sum = 0;
    for process in trace["processes"].as_array().expect("an array") {
        let number = |key: &str| process[key].as_u64().unwrap_or_else(|| panic!("no {key}"));
        let runs = process["runs"].as_array().expect("an array");
        let start = |run: &Value| {
            let text = run["start"].as_str().expect("text").trim_start_matches("0x");
            u64::from_str_radix(text, 16).expect("an address")
        };
        // Windows end at runs here: what a window ends within, is tested with what is nearer.
        let mut ends: Vec<u64> =
            (0..down).map(|part| start(&runs[part as usize * runs.len() / down as usize])).collect();
        let last = runs.last().expect("a run");
        ends.push(start(last) + last["bytes"].as_u64().expect("a number"));
        ends.dedup();
        let (from, to) = (number("from"), number("to"));
        let cut = |part: u64| from + (to - from) * part / across;
        for part in 0..across {
            if cut(part) == cut(part + 1) {
                continue;
            }
            for pair in ends.windows(2) {
                let (low, high) = (pair[0], pair[1]);
                let tile: TileAnswer = viewer.tile(&format!(
                    "process={}&from={}&to={}&low={low:#x}&high={high:#x}&width=97&height=53&what={what}",
                    number("process"),
                    cut(part),
                    cut(part + 1),
                ));
                assert_eq!(tile.counts.len(), 97 * 53);
                assert_eq!(tile.facts["sum"].as_u64(), Some(tile.sum()));
                assert_eq!(tile.facts["estimated"], 0);
                sum += tile.sum();
            }
        }
    }
    sum
}

fn check_sums(trace: &Trace) {
    let stat = trace.stat();
    let number = |key: &str| stat[key].as_u64().expect("a number");
    let viewer = Viewer::of(&trace.path);
    let facts = viewer.json("trace");
    let loads = number("loads") + number("modifies");
    let stores = number("stores") + number("modifies");
    for (across, down) in [(1, 1), (2, 3), (7, 1), (16, 4)] {
        assert_eq!(sum_of(&viewer, &facts, "all", across, down), number("accesses"), "{across} x {down}");
        assert_eq!(sum_of(&viewer, &facts, "loads", across, down), loads, "{across} x {down}");
        assert_eq!(sum_of(&viewer, &facts, "stores", across, down), stores, "{across} x {down}");
    }
}

#[test]
fn tiles_add_up_to_stat_at_every_zoom_level() {
    check_sums(&TestProgram::named("heap.c").record_by("translate").trace);
    check_sums(&TestProgram::named("threads.c").record_by("protect").trace);
}

#[test]
fn processes_are_seen_apart() {
    check_sums(&TestProgram::named("fork.c").record_by("translate").trace);
}

/// The sums of rows of `report --json`.
fn total(rows: &Value) -> [u64; 4] {
    let rows = rows.as_array().expect("an array");
    ["loads", "stores", "modifies", "bytes"]
        .map(|key| rows.iter().map(|row| row[key].as_u64().expect("a number")).sum())
}

#[test]
fn tables_are_those_of_report() {
    let trace = TestProgram::named("heap.c").record_by("translate").trace;
    let viewer = Viewer::of(&trace.path);
    let report = |options: &[&str]| -> Value {
        let out = trace.ask("report", &[&["--json"], options].concat());
        serde_json::from_str(&out.out()).unwrap_or_else(|e| panic!("{options:?}: {e}"))
    };
    let facts = viewer.json("trace");
    let run =
        facts["processes"][0]["runs"].as_array().expect("an array").iter().find(|run| run["kind"] == "heap");
    let run = run.expect("the program has a heap");
    let low = run["start"].as_str().expect("text").to_owned();
    let start = u64::from_str_radix(low.trim_start_matches("0x"), 16).expect("an address");
    let high = format!("{:#x}", start + run["bytes"].as_u64().expect("a number"));
    let end = facts["processes"][0]["to"].as_u64().expect("a number");
    let half = end / 2;
    for by in ["variable", "field", "function", "line", "thread", "page", "region"] {
        let parts = [
            (String::new(), vec![]),
            (format!("&from=0&to={half}"), vec!["--cycles".to_owned(), format!("0..{half}")]),
            (format!("&low={low}&high={high}"), vec!["--range".to_owned(), format!("{low}..{high}")]),
            ("&thread=0".to_owned(), vec!["--thread".to_owned(), "0".to_owned()]),
        ];
        for (parameters, options) in parts {
            let table = viewer.json(&format!("table?by={by}{parameters}"));
            let options: Vec<&str> =
                ["--by", by].into_iter().chain(options.iter().map(String::as_str)).collect();
            let rows = report(&options);
            // An access to several fields is in the rows of all of them, and counts once in the sum.
            let once = (by == "field").then(|| report(&[&["--by", "variable"], &options[2..]].concat()));
            let all = total(once.as_ref().unwrap_or(&rows));
            assert_eq!(total(&json!([table["total"]])), all, "{by} {parameters}");
            assert_eq!(total(&table["rows"]), total(&rows), "{by} {parameters}");
            assert_eq!(table["more"], 0);
            assert!(total(&rows)[0] > 0);
            if by == "variable" {
                let locals = report(&[&["--by", "local"], &options[2..]].concat());
                let on_stacks = |rows: &Value| {
                    let rows = rows.as_array().expect("an array").iter();
                    let mut texts: Vec<String> = rows
                        .filter(|row| row["region"] == "stack")
                        .map(|row| format!("{} {:?}", row["name"], total(&json!([row]))))
                        .collect();
                    texts.sort();
                    texts
                };
                assert_eq!(on_stacks(&table["rows"]), on_stacks(&locals), "{parameters}");
            }
            // Blocks of one call and elements are one row here; all else has the same rows.
            if matches!(by, "function" | "line" | "thread" | "page" | "region") {
                // Equals have no order.
                let sorted = |rows: &Value| {
                    let mut rows = rows.as_array().expect("an array").clone();
                    // That of a function is one of those that were met.
                    rows.iter_mut().for_each(|row| row["line"] = Value::Null);
                    // What the page shows of a long name.
                    rows.iter_mut()
                        .filter_map(Value::as_object_mut)
                        .for_each(|row| drop(row.remove("short")));
                    let mut texts: Vec<String> = rows.iter().map(Value::to_string).collect();
                    texts.sort();
                    texts
                };
                let (shown, expected) = (sorted(&table["rows"]), sorted(&rows));
                let more: Vec<&String> = shown.iter().filter(|row| !expected.contains(row)).collect();
                assert!(shown.len() == expected.len() && more.is_empty(), "{by} {parameters}: {more:?}");
            }
        }
    }
    for wrong in ["by=stack", "by=", "by=variable&by=page", "asker=x", "from=2&to=1", "width=3"] {
        let answer = viewer.get(&format!("table?{wrong}"));
        assert_eq!((answer.status, answer.text().lines().count()), (400, 1), "{wrong}: {}", answer.text());
    }
}

/// A program that writes one byte after the other of a page of its own, at the same pace.
const DIAGONAL: &str = "\
static char page[4096] __attribute__((aligned(4096)));
int main(void) {
    for (int i = 0; i < 4096; i++)
        *(volatile char *)&page[i] = 1;
    return 0;
}
";

#[test]
fn single_accesses_are_where_and_when_they_were() {
    let program = TestProgram::from_source("diagonal.c", DIAGONAL, &[]);
    let trace = program.record_by("translate").trace;
    let events = trace.events();
    let stores: Vec<(u64, u64)> = events
        .iter()
        .filter(|event| event["type"] == "store" && event["variable"].as_str() == Some("page"))
        .map(|event| {
            let text = event["addr"].as_str().expect("an address").trim_start_matches("0x").to_owned();
            (event["cycle"].as_u64().expect("a cycle"), u64::from_str_radix(&text, 16).expect("hexadecimal"))
        })
        .collect();
    assert_eq!(stores.len(), 4096);
    let viewer = Viewer::of(&trace.path);
    let (first, last) = (stores[1000], stores[1063]);
    let (from, to) = (first.0, last.0 + 1);
    let parameters =
        format!("from={from}&to={to}&low={:#x}&high={:#x}&width=64&height=64", first.1, last.1 + 1);
    let tile = viewer.tile(&parameters);
    assert_eq!(tile.sum(), 64);
    for (row, store) in stores[1000..1064].iter().enumerate() {
        let column = ((store.0 - from) * 64 / (to - from)) as usize;
        assert_eq!(tile.counts[row * 64 + column], 1, "row {row}");
    }
    // One byte and one cycle.
    let (cycle, address) = stores[7];
    let one = format!(
        "from={cycle}&to={}&low={address}&high={}&width=1&height=1&what=stores",
        cycle + 1,
        address + 1
    );
    assert_eq!(viewer.tile(&one).counts, [1]);
    assert_eq!(viewer.tile(&one.replace("stores", "loads")).counts, [0]);
}

#[test]
fn single_accesses_are_listed_where_they_are_few() {
    let trace = TestProgram::named("heap.c").record_by("translate").trace;
    let viewer = Viewer::of(&trace.path);
    let kinds = ["load", "store", "modify"];
    let of = |wanted: &dyn Fn(u64) -> bool| {
        let events = trace.events();
        let rows = events.iter().filter_map(|event| {
            let kind = kinds.iter().position(|kind| event["type"] == *kind)?;
            let cycle = event["cycle"].as_u64()?;
            wanted(cycle)
                .then(|| json!([cycle, event["addr"], event["size"], kind, event["thread"]]).to_string())
        });
        let mut rows: Vec<String> = rows.collect();
        rows.sort();
        rows
    };
    let listed = |parameters: &str| {
        let answer = viewer.json(&format!("singles?{parameters}"));
        let mut rows: Vec<String> =
            answer["accesses"].as_array().expect("an array").iter().map(Value::to_string).collect();
        rows.sort();
        (rows, answer["too_many"] == true)
    };
    let process = &viewer.json("trace")["processes"][0];
    let [from, to] = ["from", "to"].map(|key| process[key].as_u64().expect("a number"));
    let part = from..from + (to - from) / 50;
    let few = of(&|cycle| part.contains(&cycle));
    assert!(!few.is_empty() && few.len() < 4000, "{}", few.len());
    assert_eq!(listed(&format!("from={}&to={}", part.start, part.end)), (few, false));
    let all = of(&|_| true);
    let expect = if all.len() > 4000 { (Vec::new(), true) } else { (all, false) };
    assert_eq!(listed(""), expect);
}

#[test]
fn only_who_knows_the_token_and_is_this_page_is_answered() {
    let trace = TestProgram::named("statics.c").record().trace;
    let viewer = Viewer::of(&trace.path);
    let host = format!("Host: {}\r\n", viewer.address());
    let page = viewer.token_path().to_owned();
    let answer = viewer.get("");
    assert_eq!(answer.status, 200);
    for header in [
        "Content-Security-Policy: default-src 'self'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Content-Type: text/html",
    ] {
        assert!(answer.head.contains(header), "no {header}: {}", answer.head);
    }
    let name = trace.path.file_name().and_then(|name| name.to_str()).expect("a name");
    let refused = |status: u16, method: &str, path: &str, head: &str| {
        let answer = viewer.ask(method, path, head);
        assert_eq!(answer.status, status, "{method} {path} {head}: {}", answer.text());
        let text = answer.text();
        // One line, and nothing of the trace or the token.
        assert!(method == "HEAD" || text.trim_end().lines().count() == 1, "{text}");
        let all = format!("{}{text}", answer.head);
        assert!(!all.contains(name) && !all.contains(page.trim_matches('/')), "{all}");
        assert!(answer.head.contains("Content-Security-Policy: default-src 'self'"));
    };
    let wrong = page.replace(|c: char| c.is_ascii_hexdigit(), "0");
    for path in ["/", "/trace", "/tile", wrong.as_str(), &page[..page.len() - 3], "//", "/../", "*"] {
        refused(401, "GET", path, &host);
    }
    refused(401, "POST", "/", &host);
    let good = format!("{page}trace");
    refused(403, "GET", &good, "Host: evil.example\r\n");
    refused(403, "GET", &good, "");
    refused(403, "GET", &good, &format!("{host}Origin: http://evil.example\r\n"));
    refused(403, "GET", &good, &format!("{host}Origin: null\r\n"));
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        refused(405, method, &good, &host);
    }
    let own = viewer.ask("GET", &good, &format!("{host}Origin: http://{}\r\n", viewer.address()));
    assert_eq!(own.status, 200);
    let tunnel = viewer.ask("GET", &good, "Host: localhost:9\r\n");
    assert_eq!(tunnel.status, 200, "a port is forwarded");
    assert_eq!(viewer.get("nothing").status, 404);
    assert_eq!(viewer.interrupt().status, 0);
}

#[test]
fn absurd_requests_are_refused_with_a_line() {
    let trace = TestProgram::named("statics.c").record().trace;
    let viewer = Viewer::of(&trace.path);
    for parameters in [
        "from=5&to=5",
        "from=9&to=2",
        "from=-1",
        "from=NaN",
        "to=18446744073709551616",
        "from=1e9",
        "low=0x10&high=0x10",
        "low=0xg",
        "low=%30",
        "width=0",
        "width=1000000000",
        "height=0",
        "width=4096&height=4096",
        "what=everything",
        "what=",
        "process=99",
        "process=4294967296",
        "thread=99",
        "thread=18446744073709551615",
        "low=0&high=1",
        "from",
        "from=1&from=2",
        "unknown=1",
        "=",
    ] {
        let answer = viewer.get(&format!("tile?{parameters}"));
        assert_eq!(answer.status, 400, "{parameters}: {}", answer.text());
        assert!(answer.text().ends_with('\n') && answer.text().lines().count() == 1, "{}", answer.text());
    }
    assert_eq!(viewer.json("opening")["opened"], true);
    assert_eq!(viewer.get("opening?x=1").status, 400);
    // Large but possible: nothing happened there.
    assert_eq!(viewer.tile(&format!("from={}&to={}", u64::MAX - 1, u64::MAX)).sum(), 0);
    assert!(viewer.tile(&format!("from=0&to={}&low=0&high={}", u64::MAX, u64::MAX)).sum() > 0);
    // It goes on answering.
    assert_eq!(viewer.get("trace").status, 200);
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let trace = TestProgram::named("statics.c").record().trace;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let refused = trace.ask("view", &["--no-open", "--listen", &address]);
    assert_eq!((refused.status, refused.out().as_str()), (1, ""));
    assert!(
        refused.err().contains("can't listen") && refused.err().lines().count() == 1,
        "{}",
        refused.err()
    );
    let foreign = trace.path.with_extension("txt");
    std::fs::write(&foreign, "no trace").expect("the directory is ours");
    let refused = run(Command::new(memtap()).args(["view", "--no-open"]).arg(&foreign), b"");
    assert_eq!(refused.status, 1);
    assert_eq!(refused.err().lines().count(), 1, "{}", refused.err());
    assert_eq!(trace.ask("view", &["--listen", "everywhere"]).status, 2);
}

#[test]
fn a_trace_that_is_replaced_meanwhile_is_noticed() {
    let trace = TestProgram::named("statics.c").record().trace;
    let viewer = Viewer::of(&trace.path);
    assert_eq!(viewer.json("state")["changed"], false);
    let copy = trace.path.with_extension("copy");
    std::fs::copy(&trace.path, &copy).expect("the directory is ours");
    std::fs::rename(&copy, &trace.path).expect("the directory is ours");
    assert_eq!(viewer.json("state")["changed"], true);
    let sum = viewer.tile("").sum();
    assert!(sum > 0, "what was opened is still there");
    assert_eq!(viewer.get("reopen").status, 200);
    assert_eq!(viewer.json("state"), json!({"changed": false, "generation": 2}));
    assert_eq!(viewer.tile("").sum(), sum);
    // What can't be opened any more stays as it was.
    std::fs::remove_file(&trace.path).expect("the directory is ours");
    let refused = viewer.get("reopen");
    assert_eq!((refused.status, refused.text().lines().count()), (500, 1), "{}", refused.text());
    assert_eq!(viewer.json("state"), json!({"changed": true, "generation": 2}));
    assert_eq!(viewer.tile("").sum(), sum);
}

/// A program that writes two variables in turn.
const IN_TURN: &str = "\
struct pair { int first, second; } pairs[4];
int counter;
int main(void) {
    for (int i = 0; i < 3; i++) {
        *(volatile int *)&pairs[i].second = i;
        *(volatile int *)&counter = i;
    }
    return *(volatile int *)&counter - 2;
}
";

#[test]
fn names_have_places() {
    let trace = TestProgram::from_source("in_turn.c", IN_TURN, &["-g"]).record_by("translate").trace;
    let viewer = Viewer::of(&trace.path);
    let events = trace.events();
    let written = |variable: &str| {
        let event = events.iter().find(|event| event["type"] == "store" && event["variable"] == variable);
        event.unwrap_or_else(|| panic!("no store to {variable}"))["addr"].clone()
    };
    let place = |name: &str| viewer.json(&format!("place?name={name}"));
    let counter = place("counter");
    assert_eq!(counter["found"], json!([{"name": "counter", "start": written("counter"), "bytes": 4}]));
    let second = place("pairs%5B0%5D.second");
    assert_eq!((&second["found"][0]["start"], &second["found"][0]["bytes"]), (&written("pairs"), &json!(4)));
    let part = place("OUNTE");
    assert!(part["found"].as_array().expect("an array").iter().any(|found| found["name"] == "counter"));
    assert_eq!(place("main"), json!({"found": [], "more": 0, "function": "main"}));
    let address = written("counter");
    assert_eq!(place(address.as_str().expect("text"))["found"][0]["start"], address);
    for (status, name) in [
        (400, ""),
        (400, "%"),
        (400, "%ff"),
        (400, "0xg"),
        (404, "no_such_thing"),
        (404, "pairs%5B0%5D.third"),
        (404, "0x10"),
    ] {
        let answer = viewer.get(&format!("place?name={name}"));
        assert_eq!((answer.status, answer.text().lines().count()), (status, 1), "{name}: {}", answer.text());
    }
}

#[test]
fn accesses_to_the_same_bytes_follow_each_other() {
    let trace = TestProgram::from_source("in_turn.c", IN_TURN, &["-g"]).record_by("translate").trace;
    let viewer = Viewer::of(&trace.path);
    let events = trace.events();
    let accesses: Vec<&Value> = events
        .iter()
        .filter(|event| {
            event["variable"] == "counter" && (event["type"] == "store" || event["type"] == "load")
        })
        .collect();
    assert_eq!(accesses.len(), 4);
    let cycle_of = |event: &Value| event["cycle"].as_u64().expect("a cycle");
    let start = accesses[0]["addr"].as_str().expect("text").to_owned();
    let high = u64::from_str_radix(start.trim_start_matches("0x"), 16).expect("hexadecimal") + 4;
    let mut at = String::new();
    for (number, access) in accesses.iter().enumerate() {
        let answer = viewer.json(&format!("access?low={start}&high={high}{at}"));
        let found = &answer["found"];
        assert_eq!((cycle_of(found), &found["kind"]), (cycle_of(access), &access["type"]));
        assert!(found["line"].as_str().is_some_and(|line| line.contains("in_turn.c:")), "{found}");
        match number {
            0 => assert_eq!(answer["writer"], Value::Null),
            _ => assert_eq!(cycle_of(&answer["writer"]), cycle_of(accesses[number - 1])),
        }
        at = format!("&at={}&of={}&entry={}", found["at"], found["thread"], found["entry"]);
    }
    assert_eq!(viewer.json(&format!("access?low={start}&high={high}{at}"))["found"], Value::Null);
    for access in accesses.iter().rev().skip(1) {
        let answer = viewer.json(&format!("access?low={start}&high={high}&way=previous{at}"));
        let found = &answer["found"];
        assert_eq!(cycle_of(found), cycle_of(access));
        at = format!("&at={}&of={}&entry={}", found["at"], found["thread"], found["entry"]);
    }
    for wrong in ["way=back", "at=x", "of=1", "entry=1", "of=4294967296&entry=0", "low=5&high=5", "width=1"] {
        let answer = viewer.get(&format!("access?{wrong}"));
        assert_eq!((answer.status, answer.text().lines().count()), (400, 1), "{wrong}: {}", answer.text());
    }
}

#[test]
fn flame_graphs_are_those_of_flame() {
    let trace = TestProgram::named("fork.c").record_by("translate").trace;
    let viewer = Viewer::of(&trace.path);
    let facts = viewer.json("trace");
    let mut sum = 0;
    for process in facts["processes"].as_array().expect("an array") {
        let flame = viewer.json(&format!("flame?process={}", process["process"]));
        let count = |key: &str| process[key].as_u64().expect("a number");
        assert_eq!(flame["total"].as_u64(), Some(count("loads") + count("stores") + count("modifies")));
        let frames = flame["frames"].as_array().expect("an array");
        assert!(frames.iter().any(|frame| frame["name"] == "main"), "{frames:?}");
        sum += flame["total"].as_u64().expect("a number");
    }
    assert_eq!(sum, trace.number("accesses"));
    let first = &facts["processes"][0];
    let half = first["to"].as_u64().expect("a number") / 2;
    let part = format!("process={}&from=0&to={half}", first["process"]);
    let flame = viewer.json(&format!("flame?{part}"));
    let table = viewer.json(&format!("table?by=function&{part}"));
    assert_eq!(flame["total"].as_u64(), Some(total(&json!([table["total"]]))[..3].iter().sum()));
    for wrong in ["process=99", "by=line", "from=2&to=1", "asker=-1"] {
        assert_eq!(viewer.get(&format!("flame?{wrong}")).status, 400, "{wrong}");
    }
    let protected = TestProgram::named("statics.c").record_by("protect").trace;
    let answer = Viewer::of(&protected.path).get("flame");
    assert_eq!((answer.status, answer.text().lines().count()), (404, 1), "{}", answer.text());
}

#[test]
fn only_files_of_the_trace_are_shown() {
    let program = TestProgram::from_source("in_turn.c", IN_TURN, &["-g"]);
    let viewer = Viewer::of(&program.record_by("translate").trace.path);
    let refused = |file: &str, status: u16| {
        let answer = viewer.get(&format!("source?file={file}"));
        assert_eq!((answer.status, answer.text().lines().count()), (status, 1), "{file}: {}", answer.text());
    };
    refused("/etc/passwd", 404);
    refused("", 400);
    let rows = viewer.json("table?by=line");
    let names = rows["rows"].as_array().expect("an array").iter().filter_map(|row| row["name"].as_str());
    let file = names.filter_map(|name| name.rsplit_once(':')).map(|(file, _)| file.to_owned());
    let file = file.into_iter().find(|file| file.ends_with("in_turn.c")).expect("its own line");
    let lines = viewer.json(&format!("source?file={file}"))["lines"].clone();
    assert_eq!(lines, json!(IN_TURN.lines().collect::<Vec<_>>()));
    refused("/etc/passwd", 404);
    refused(&format!("{file}/../{}", file.rsplit('/').next().unwrap_or_default()), 404);
}

#[test]
fn blocks_are_where_and_when_they_were_allocated() {
    let trace = TestProgram::named("heap.c").record_by("translate").trace;
    let viewer = Viewer::of(&trace.path);
    let answer = viewer.json("blocks");
    assert_eq!(answer["more"], 0);
    let mut shown: Vec<String> = answer["blocks"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|block| format!("{} {} {}", block["start"], block["bytes"], block["from"]))
        .collect();
    let events = trace.events();
    let makes = ["malloc", "calloc", "realloc"];
    let mut allocated: Vec<String> = events
        .iter()
        .filter(|event| makes.iter().any(|kind| event["type"] == *kind) && event["size"] != 0)
        .map(|event| format!("{} {} {}", event["addr"], event["size"], event["cycle"]))
        .collect();
    shown.sort();
    allocated.sort();
    assert_eq!(shown, allocated);
    // One that is freed ends there.
    let malloc = events.iter().find(|event| event["type"] == "malloc" && event["size"] == 80);
    let malloc = malloc.expect("by_malloc allocates it");
    let free = events
        .iter()
        .skip_while(|event| *event != malloc)
        .find(|event| event["type"] == "free" && event["addr"] == malloc["addr"]);
    let block =
        answer["blocks"].as_array().into_iter().flatten().find(|block| block["from"] == malloc["cycle"]);
    assert_eq!(block.expect("it is shown")["to"], free.expect("by_malloc frees it")["cycle"]);
    let large = viewer.json("blocks?least=200");
    assert!(
        large["blocks"]
            .as_array()
            .expect("an array")
            .iter()
            .all(|block| block["bytes"].as_u64() >= Some(200))
    );
    for wrong in ["least=-1", "width=3", "low=2&high=1"] {
        assert_eq!(viewer.get(&format!("blocks?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn whatever_is_asked_is_answered() {
    let trace = TestProgram::named("statics.c").record().trace;
    let viewer = Viewer::of(&trace.path);
    // A generator that makes the same requests each time (xorshift).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let names =
        ["trace", "state", "tile", "table", "place", "access", "flame", "source", "blocks", "app.js", "x"];
    let keys = [
        "process", "thread", "from", "to", "low", "high", "width", "height", "what", "by", "asker", "name",
        "file", "way", "at", "axis", "colors", "of", "entry", "least", "none",
    ];
    let values = [
        "0",
        "1",
        "5",
        "64",
        "4096",
        "100000",
        "0x400000",
        "0x7fffffffffff",
        "18446744073709551615",
        "0xffffffffffffffff",
        "-1",
        "",
        "%",
        "%00",
        "%ff",
        "a+b",
        "..",
        "loads",
        "all",
        "line",
        "variable",
        "next",
        "previous",
        "NaN",
        "1e9",
        "\u{e9}",
    ];
    let mut answered = 0;
    for _ in 0..400 {
        let name = names[draw(names.len())];
        let parameters: Vec<String> = (0..draw(6))
            .map(|_| format!("{}={}", keys[draw(keys.len())], values[draw(values.len())]))
            .collect();
        let asked = format!("{name}?{}", parameters.join("&"));
        let answer = viewer.get(&asked);
        answered += u32::from(answer.status == 200);
        let is_line = || answer.text().trim_end().lines().count() == 1 || answer.body.is_empty();
        assert!(
            answer.status == 200 || ([400, 404].contains(&answer.status) && is_line()),
            "{asked}: {} {}",
            answer.status,
            answer.text()
        );
    }
    assert!(answered > 20, "{answered} requests made sense");
    assert_eq!(viewer.get("trace").status, 200);
}
