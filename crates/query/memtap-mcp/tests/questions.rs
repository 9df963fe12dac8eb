//! `memtap mcp` as an agent has it: a client starts it, lists its tools and asks. Its figures are those of the commands.

use std::path::Path;
use std::process::Command;

use e2e::{Recording, TestProgram, memtap, run};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

/// An agent that has started `memtap mcp` for a trace.
struct Agent {
    runtime: tokio::runtime::Runtime,
    client: RunningService<RoleClient, ()>,
}

impl Agent {
    fn with(trace: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            let mut command = tokio::process::Command::new(memtap());
            command.arg("mcp").arg(trace);
            ().serve(TokioChildProcess::new(command).expect("it starts")).await.expect("a server")
        });
        Self { runtime, client }
    }

    /// What a tool says, and whether that is an error.
    fn said(&self, tool: &'static str, arguments: &Value) -> (String, bool) {
        let arguments = arguments.as_object().expect("an object").clone();
        let asked = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.runtime.block_on(self.client.call_tool(asked)).expect("an answer");
        let words = result.content.iter().filter_map(|part| Some(part.as_text()?.text.clone())).collect();
        (words, result.is_error == Some(true))
    }

    fn ask(&self, tool: &'static str, arguments: &Value) -> Value {
        let (words, is_error) = self.said(tool, arguments);
        assert!(!is_error, "{tool}: {words}");
        serde_json::from_str(&words).expect("JSON")
    }

    fn refusal(&self, tool: &'static str, arguments: &Value) -> String {
        let (words, is_error) = self.said(tool, arguments);
        assert!(is_error, "{tool}: {words}");
        words
    }
}

/// What a command prints as JSON.
fn printed(recording: &Recording, command: &str, options: &[&str]) -> Value {
    let outcome = recording.trace.ask(command, &[&["--json"], options].concat());
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|_| panic!("{command}: {}", outcome.err()))
}

#[test]
fn answers_are_those_of_the_commands() {
    let recording = TestProgram::named("threads.c").record_by("translate");
    let agent = Agent::with(&recording.trace.path);
    let tools = agent.runtime.block_on(agent.client.list_all_tools()).expect("tools");
    for tool in &tools {
        assert!(tool.description.as_ref().is_some_and(|words| words.len() > 20), "{}", tool.name);
    }

    let summary = agent.ask("summary", &json!({}));
    assert_eq!(summary["loads"], recording.trace.stat()["loads"]);

    let all = printed(&recording, "report", &["--by", "variable"]);
    let all = all.as_array().expect("rows");
    let some = agent.ask("report", &json!({"by": "variable", "rows": 2}));
    assert_eq!(some["rows"].as_array().expect("rows")[..], all[..2]);
    assert_eq!(some["left_out"]["rows"], all.len() - 2);

    // The command that shows more is what a shell takes.
    let more = some["more"].as_str().expect("a command").strip_prefix("memtap").expect("memtap").to_owned();
    let by_shell = run(Command::new("sh").arg("-c").arg(format!("{}{more}", memtap().display())), b"");
    assert_eq!(serde_json::from_slice::<Value>(&by_shell.stdout).expect("JSON").as_array(), Some(all));

    let pairs = agent.ask("report", &json!({"by": "variable", "then_by": "function", "rows": 1000}));
    let expect = printed(&recording, "report", &["--by", "variable,function"]);
    let kept = pairs["rows"].as_array().expect("rows");
    assert_eq!(kept[..], expect.as_array().expect("rows")[..kept.len()]);

    let layout = agent.ask("layout", &json!({}));
    assert!(layout["rows"].is_array(), "{layout}");
    let races = agent.ask("races", &json!({"rows": 1}));
    assert!(races["more"].as_str().is_some_and(|more| more.starts_with("memtap race --json")), "{races}");
    for tool in ["errors", "shared_lines", "cache_misses"] {
        let answer = agent.ask(tool, &json!({"rows": 3}));
        assert!(answer["more"].is_string(), "{answer}");
    }
}

#[test]
fn a_line_is_found_that_wrote_a_byte() {
    let program = TestProgram::from_source(
        "writer.c",
        "int limit;\n\
         static void set(int n) {\n\
             limit = n;\n\
         }\n\
         int main(void) {\n\
             set(1);\n\
             set(2);\n\
             return limit - 2;\n\
         }\n",
        &["-g", "-O0"],
    );
    let recording = program.record_by("translate");
    let agent = Agent::with(&recording.trace.path);

    let who = agent.ask("who_accesses", &json!({"name": "limit"}));
    let rows = who["rows"].as_array().expect("rows");
    let row_of = |line: &str| {
        let is_of = |row: &&Value| row["line"].as_str().is_some_and(|name| name.ends_with(line));
        rows.iter().find(is_of).unwrap_or_else(|| panic!("no {line} in {who}"))
    };
    assert_eq!((&row_of("writer.c:3")["stores"], &row_of("writer.c:8")["loads"]), (&json!(2), &json!(1)));

    let place = row_of("writer.c:3")["line"].as_str().expect("text");
    let file = Path::new(place.trim_end_matches(":3")).file_name().expect("a file");
    let lines = agent.ask("source_lines", &json!({"file": file.to_str()}));
    let texts: Vec<_> =
        lines["rows"].as_array().expect("rows").iter().filter_map(|row| row["text"].as_str()).collect();
    assert!(texts.contains(&"limit = n;"), "{lines}");

    // From the last access back to the write before it.
    let dumped = recording.trace.ask("dump", &["--format", "jsonl", "--stream", "accesses"]);
    let of_limit: Vec<Value> = dumped
        .out()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|access| access["variable"] == "limit")
        .collect();
    assert_eq!(of_limit.len(), 3);
    let (address, cycle) = (&of_limit[2]["addr"], &of_limit[2]["cycle"]);
    let before = agent.ask(
        "accesses",
        &json!({"address": address, "bytes": 4, "to_cycle": cycle, "last": true, "rows": 1}),
    );
    assert_eq!(before["accesses"], json!([of_limit[1]]));
    assert_eq!(before["has_more"], true);
    let first = agent.ask("accesses", &json!({"address": address, "bytes": 4, "rows": 2}));
    assert_eq!((&first["accesses"], &first["has_more"]), (&json!(of_limit[..2]), &json!(true)));
    let whole = agent.ask("accesses", &json!({"address": address, "bytes": 4}));
    assert_eq!((&whole["accesses"], &whole["has_more"]), (&json!(of_limit), &json!(false)));
}

#[test]
fn sql_has_the_words_of_memtap_sql() {
    let recording = TestProgram::named("heap.c").record_by("translate");
    let agent = Agent::with(&recording.trace.path);
    let counted =
        agent.ask("sql", &json!({"query": "SELECT count(*) AS n FROM accesses WHERE kind = 'load'"}));
    assert_eq!(counted["rows"][0]["n"], recording.trace.stat()["loads"]);
    let words = agent.refusal("sql", &json!({"query": "SELECT nonsuch FROM accesses"}));
    assert!(words.contains("nonsuch"), "{words}");
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let recording = TestProgram::named("heap.c").record_by("translate");
    let agent = Agent::with(&recording.trace.path);
    for (tool, arguments, expect) in [
        ("report", json!({"by": "colour"}), "colour"),
        ("report", json!({"by": "line", "cycles": "a..b"}), "a..b"),
        ("who_accesses", json!({}), "give either a name or an address"),
        ("who_accesses", json!({"address": "main"}), "main is no address"),
        ("source_lines", json!({"file": "nonsuch.c"}), "no line of a file nonsuch.c"),
    ] {
        let words = agent.refusal(tool, &arguments);
        assert!(words.contains(expect), "{tool} {arguments}: {words}");
    }
    // Nothing matches: no rows, and why.
    let none = agent.ask("report", &json!({"by": "function", "name": "nonsuch"}));
    assert_eq!(none["rows"], json!([]));
    assert!(none["notes"][0].as_str().is_some_and(|note| note.contains("nonsuch")), "{none}");
    // Nothing that looks like an option is one.
    let none = agent.ask("report", &json!({"by": "function", "name": "--all"}));
    assert_eq!(none["rows"], json!([]));

    let outcome = run(Command::new(memtap()).args(["mcp", "nonsuch.memtap"]), b"");
    assert_eq!(outcome.status, 1);
    assert_eq!(outcome.err().lines().count(), 1, "{}", outcome.err());
    assert!(outcome.err().contains("nonsuch.memtap"), "{}", outcome.err());
}
