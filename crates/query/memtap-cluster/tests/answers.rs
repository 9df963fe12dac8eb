//! A cluster of two executors answers as `memtap sql` does, and its figures are those of other commands.

mod common;

use std::path::Path;
use std::process::Command;

use e2e::{Recording, TestProgram, memtap, run};
use serde_json::Value;

use common::Cluster;

/// Rows in an order that depends on them alone.
fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(ToString::to_string);
    rows
}

/// What one process answers.
fn alone(files: &[&Path], query: &str) -> Vec<Value> {
    let outcome = run(Command::new(memtap()).arg("sql").args(files).args([query, "--format", "json"]), b"");
    assert_eq!(outcome.status, 0, "{query}: {}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

fn json(recording: &Recording, command: &str, options: &[&str]) -> Vec<Value> {
    let outcome = recording.trace.ask(command, &[options, &["--json"]].concat());
    // 3 is what findings end with.
    assert!([0, 3].contains(&outcome.status), "{command}: {}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {row}"))
}

/// Some numbers of each row, with a name.
fn figures(rows: &[Value], name: &str, keys: &[&str]) -> Vec<(String, Vec<u64>)> {
    let one = |row: &Value| {
        let name = row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
        (name, keys.iter().map(|key| number(row, key)).collect())
    };
    let mut all: Vec<_> = rows.iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn a_cluster_answers_as_one_process() {
    let cluster = Cluster::of(2);
    let recordings =
        ["contexts.cpp", "threads.c"].map(|name| TestProgram::named(name).record_by("translate"));
    let files = recordings.each_ref().map(|recording| recording.trace.path.as_path());
    for query in [
        "SELECT count(*) AS n FROM accesses",
        "SELECT kind, count(*) AS n, sum(size) AS bytes FROM accesses GROUP BY kind",
        "SELECT variable, function, count(*) AS n FROM accesses GROUP BY variable, function",
        "SELECT page(addr) AS page, count(*) AS n FROM accesses GROUP BY page(addr)",
        "SELECT addr, cycle, kind FROM accesses WHERE cycle BETWEEN 500 AND 900 ORDER BY cycle, addr LIMIT 50",
        "SELECT count(*) AS n FROM accesses WHERE kind IN ('store', 'modify') AND thread = 0",
        "SELECT line(ip) AS line, count(*) AS n FROM accesses WHERE kind = 'store' GROUP BY line(ip)",
        "SELECT variable(addr, cycle, thread) AS name, count(*) AS n FROM accesses WHERE cycle < 2000 GROUP BY 1",
        "SELECT type(variable) AS type, count(*) AS n FROM accesses GROUP BY type(variable)",
        "SELECT array_to_string(stack(context), ';') AS stack, loads FROM contexts",
        "SELECT context, count(*) AS n FROM accesses GROUP BY context",
        "SELECT * FROM threads",
        "SELECT f.name, f.loads, v.name AS variable FROM functions f JOIN variables v ON f.loads = v.loads",
        "SELECT thread, cycle, rank() OVER (PARTITION BY thread ORDER BY cycle DESC) AS place FROM syncs",
        "SELECT name, loads FROM fields WHERE loads > (SELECT avg(loads) FROM fields)",
        "SELECT addr FROM accesses WHERE addr = 1",
    ] {
        for file in files {
            let outcome = cluster.ask(&[file], &[query, "--format", "json"]);
            assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{query}");
            let rows: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
            assert_eq!(sorted(rows), sorted(alone(&[file], query)), "{query}");
        }
    }
    let several = "SELECT trace, kind, count(*) AS n FROM accesses GROUP BY trace, kind";
    let outcome = cluster.ask(&files, &[several, "--format", "json"]);
    let rows: Vec<Value> =
        serde_json::from_slice(&outcome.stdout).unwrap_or_else(|_| panic!("{}", outcome.err()));
    assert_eq!(sorted(rows), sorted(alone(&files, several)));
}

#[test]
fn five_queries_have_the_figures_of_five_commands() {
    let cluster = Cluster::of(2);
    for program in [
        "algorithms.c",
        "containers.cpp",
        "contexts.cpp",
        "heap.c",
        "threads.c",
        "layout/cells.c",
        "race/racy_counter.c",
    ] {
        let recording = TestProgram::named(program).record_by("translate");
        let rows = |query: &str| {
            let rows = cluster.rows(&recording, query);
            assert_eq!(
                sorted(rows.clone()),
                sorted(alone(&[&recording.trace.path], query)),
                "{program}: {query}"
            );
            rows
        };
        let counts = "sum(CASE kind WHEN 'load' THEN 1 ELSE 0 END) AS loads, \
             sum(CASE kind WHEN 'store' THEN 1 ELSE 0 END) AS stores, \
             sum(CASE kind WHEN 'modify' THEN 1 ELSE 0 END) AS modifies";
        let keys = ["loads", "stores", "modifies"];
        let all = rows(&format!("SELECT {counts} FROM accesses"));
        assert_eq!(
            keys.map(|key| number(&all[0], key)),
            keys.map(|key| recording.trace.number(key)),
            "{program}"
        );
        let reported = figures(&json(&recording, "report", &["--by", "variable"]), "name", &keys);
        let variables = rows("SELECT name, loads, stores, modifies FROM variables");
        assert_eq!(figures(&variables, "name", &keys), reported, "{program}");
        let pages = rows("SELECT count(*) AS pages, sum(loads) AS loads, sum(stores) AS stores FROM pages");
        assert_eq!(number(&pages[0], "pages"), json(&recording, "report", &["--by", "page"]).len() as u64);
        // The lines of a race made accesses to what it is about.
        for race in json(&recording, "race", &[]) {
            for side in [&race["first"], &race["second"]] {
                let (Some(line), Some(thread)) = (side["line"].as_u64(), side["thread"].as_u64()) else {
                    continue;
                };
                let made = rows(&format!(
                    "SELECT count(*) AS n FROM accesses WHERE line = {line} AND thread = {thread} AND variable = '{}'",
                    race["variable"].as_str().expect("a name")
                ));
                assert!(number(&made[0], "n") > 0, "{program}: {race}");
            }
        }
        // The fields of a type that is laid out were accessed as the table of fields says.
        let fields = figures(&rows("SELECT name, loads, stores, modifies FROM fields"), "name", &keys);
        for of_type in json(&recording, "layout", &[]) {
            for field in of_type["fields"].as_array().expect("fields") {
                let name = format!(
                    "{}.{}",
                    of_type["type"].as_str().expect("a type"),
                    field["name"].as_str().expect("a name")
                );
                let found = fields.iter().find(|(of, _)| *of == name);
                let Some((_, numbers)) = found else { continue };
                assert_eq!(*numbers, keys.map(|key| number(field, key)), "{program}: {name}");
            }
        }
    }
}
