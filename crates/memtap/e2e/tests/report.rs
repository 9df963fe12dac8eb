//! The output of `memtap report` for people and programs has the same
//! figures: complete for programs, and for people those they look for first.

use std::path::PathBuf;
use std::process::Command;

use e2e::{Recording, TestProgram, memtap, record, repository, run, tool};
use serde_json::Value;

/// The program of `cargo xtask demo`, whose head says what is to be found in it.
fn inventory() -> Recording {
    let text = std::fs::read_to_string(repository().join("examples/inventory.c")).expect("it is there");
    let program = TestProgram::from_source("inventory.c", &text, &["-O0"]);
    let recording = record(&[], &program.command_line(), b"");
    assert_eq!((recording.outcome.out().as_str(), recording.outcome.status), ("income: 129917\n", 0));
    recording
}

fn rows(recording: &Recording, options: &[&str]) -> Vec<Value> {
    let outcome = recording.trace.ask("report", &[options, &["--json"]].concat());
    assert_eq!(outcome.status, 0, "{options:?}: {}", outcome.err());
    serde_json::from_str(&outcome.out()).expect("a JSON array")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| number(row, key)).sum()
}

fn text(recording: &Recording, options: &[&str]) -> String {
    let outcome = recording.trace.ask("report", options);
    assert_eq!(outcome.status, 0, "{options:?}: {}", outcome.err());
    outcome.out()
}

#[test]
fn what_can_t_be_a_table_is_refused() {
    let recording = inventory();
    for (by, status, words) in [
        ("initcall", 1, "are for the trace of a machine"),
        ("process", 1, "are for the trace of a machine"),
        ("process,function", 1, "are for the trace of a machine"),
        ("function,process", 2, "--by process is the first kind of rows"),
        ("initcall,function", 2, "--by initcall is a table of its own"),
        ("stack,function", 2, "--by stack is a table of its own"),
        ("line,line", 2, "both kinds of rows are the same"),
    ] {
        let outcome = recording.trace.ask("report", &["--by", by]);
        assert_eq!(outcome.status, status, "{by}: {}", outcome.err());
        assert!(outcome.err().contains(words), "{by}: {}", outcome.err());
    }
    let flame = recording.trace.ask("flame", &["--of", "instructions", "-o", "-"]);
    assert_eq!(flame.status, 1);
    assert!(flame.err().contains("instructions are counted of machines only"), "{}", flame.err());
}

/// Tables of a whole trace are counted by executions of blocks, those of a part by accesses. A part may be all of it.
#[test]
fn counted_by_executions_and_by_accesses_is_the_same() {
    let programs = [
        TestProgram::built("report/particles.c", &["-pthread"]),
        TestProgram::named("contexts.cpp"),
        TestProgram::named("containers.cpp"),
        TestProgram::named("coroutine.c"),
        TestProgram::named("exceptions.cpp"),
        TestProgram::named("fork.c"),
        TestProgram::named("signals.c"),
        TestProgram::named("strings.c"),
        TestProgram::built("layout/cells.c", &["-O2"]),
        TestProgram::built("boxes.rs", &["-Copt-level=2", "-g"]),
    ];
    for program in programs {
        let recording = program.record_by("translate");
        for by in ["variable", "allocation", "local", "field", "type"] {
            let whole = rows(&recording, &["--by", by]);
            let all_cycles = rows(&recording, &["--by", by, "--cycles", "0..18446744073709551615"]);
            assert!(!whole.is_empty() && whole == all_cycles, "{by}: {whole:#?} {all_cycles:#?}");
        }
    }
}

#[test]
fn the_same_figures_are_in_every_table() {
    let recording = inventory();
    let stat = recording.trace.stat();
    for by in ["variable", "local", "function", "line", "page", "region", "thread"] {
        let rows = rows(&recording, &["--by", by]);
        for key in ["loads", "stores", "modifies"] {
            assert_eq!(Some(sum(&rows, key)), stat[key].as_u64(), "{key} by {by}");
        }
    }
    // An access of several fields counts to each.
    let fields = rows(&recording, &["--by", "field"]);
    for key in ["loads", "stores", "modifies"] {
        assert!(Some(sum(&fields, key)) >= stat[key].as_u64(), "{key} by field");
    }
    for by in ["variable,function", "function,variable", "local,line", "thread,region", "page,thread"] {
        let rows = rows(&recording, &["--by", by]);
        for key in ["loads", "stores", "modifies"] {
            assert_eq!(Some(sum(&rows, key)), stat[key].as_u64(), "{key} by {by}");
        }
    }
    // The halves of a run are the run, and so are its threads.
    let all = rows(&recording, &["--by", "local"]);
    let halves =
        ["..200000", "200000.."].map(|cycles| rows(&recording, &["--by", "local", "--cycles", cycles]));
    let of = |rows: &[Value]| sum(rows, "loads");
    assert_eq!(of(&halves[0]) + of(&halves[1]), of(&all));
    let find = |rows: &[Value]| {
        let row = rows.iter().find(|row| row["name"] == "find::i");
        row.map_or(0, |row| number(row, "loads"))
    };
    assert!(find(&halves[0]) > 0);
    assert_eq!(
        find(&halves[0]) + find(&halves[1]),
        find(&all),
        "frames are known in the middle of a run, too"
    );
    assert_eq!(of(&rows(&recording, &["--by", "local", "--thread", "0"])), of(&all));
}

#[test]
fn what_is_hot_never_read_and_never_freed_is_found() {
    let recording = inventory();
    // find() looks at (45 k mod 64) + 1 items for the key k.
    let keys: u64 = (0..2000_u64).map(|number| (number % 64) * 45 % 64 + 1).sum();
    let fields = rows(&recording, &["--by", "field", "--name", "shelf[].key"]);
    assert_eq!((fields.len(), sum(&fields, "loads"), sum(&fields, "stores")), (64, keys, 64));
    let who = rows(&recording, &["--by", "field,function", "--name", "shelf[].key"]);
    let find: Vec<Value> = who.into_iter().filter(|row| row["function"] == "find").collect();
    assert_eq!(sum(&find, "loads"), keys);
    let unused = rows(&recording, &["--unused"]);
    let receipts = unused
        .iter()
        .find(|row| row["name"].as_str().is_some_and(|name| name.starts_with("malloc at write_receipt+")));
    let receipts = receipts.expect("nobody reads a receipt");
    assert_eq!((number(receipts, "blocks"), number(receipts, "bytes")), (2000, 512_000));
    assert_eq!(number(&receipts["never_read"], "blocks"), 2000);
    assert_eq!(number(&receipts["never_written"], "blocks"), 0);
    // 0, 7, 14, ... 1995.
    assert_eq!(number(&receipts["never_freed"], "blocks"), 286);
    let orders = unused.iter().any(|row| row["name"].as_str().is_some_and(|name| name.contains("serve+")));
    assert!(!orders, "orders are read");
}

#[test]
fn the_stack_is_split_by_function_and_variable() {
    let program = TestProgram::from_source(
        "locals.c",
        "__attribute__((noinline)) void touch(volatile long *cells, int n)
         { for (int i = 0; i < n; i++) cells[i] = i; }
         __attribute__((noinline)) long fill(void)
         { volatile long cells[10]; volatile char flag = 1; long sum = 0;
           touch(cells, 10); touch(cells, 5);
           for (int i = 0; i < 10; i++) sum += cells[i];
           return sum + flag; }
         int main(void) { return fill() != 46; }",
        &["-O1"],
    );
    let recording = record(&[], &program.command_line(), b"");
    assert_eq!(recording.outcome.status, 0);
    let locals = rows(&recording, &["--by", "local"]);
    let of = |name: &str| {
        let row = locals.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        (number(row, "loads"), number(row, "stores"), number(row, "size"))
    };
    // What another function does with a pointer to it is done to it.
    assert_eq!(of("fill::cells"), (10, 15, 80));
    assert_eq!(of("fill::flag"), (1, 1, 1));
}

#[test]
fn variables_of_optimised_code_are_found_by_the_stack_pointer() {
    let recording = TestProgram::built("report/optimised.rs", &["-Copt-level=2"]).record_by("translate");
    assert_eq!(recording.outcome.status, 0);
    let locals = rows(&recording, &["--by", "local"]);
    let row = locals.iter().find(|row| row["name"] == "optimised::fill::row").expect("its row");
    // It is zeroed and summed up by whatever instructions the compiler takes; those that it moved out of the variable's block count to
    // the function's frame.
    let bytes = number(row, "bytes");
    assert_eq!(number(row, "size"), 200);
    assert!((100 * 200 + 200..=200 + 100 * 200 + 200).contains(&bytes), "{bytes}");
    assert!(number(row, "stores") > 2500);
}

#[test]
fn structures_on_stacks_are_of_their_type_and_have_fields() {
    let recording = TestProgram::built("report/particles.c", &["-pthread"]).record_by("translate");
    assert_eq!(recording.outcome.status, 0);
    let all = rows(&recording, &["--by", "type"]);
    let named = |rows: &[Value], name: &str| -> Value {
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let particle = &named(&all, "particle");
    // The static array, two on stacks and a block.
    assert_eq!((number(particle, "things"), number(particle, "size")), (4, 16 * (50 + 20 + 10 + 30)));
    assert_eq!((number(particle, "loads"), number(particle, "stores")), (110, 110 + 10 + 10 + 20));
    let fields = rows(&recording, &["--by", "field"]);
    let of = |name: &str| {
        let row = &named(&fields, name);
        (number(row, "loads"), number(row, "stores"), row["region"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(of("main::local[3].place"), (0, 1, "stack".to_owned()));
    assert_eq!(of("main::local[3].alive"), (1, 1, "stack".to_owned()));
    assert_eq!(of("work::own[9].id"), (0, 1, "stack".to_owned()));
    assert!(!fields.iter().any(|row| row["name"] == "main::local[3].id"), "nobody touched it");
    // With whom it is accessed, the same counts.
    let pairs = rows(&recording, &["--by", "type,function"]);
    let by_step =
        pairs.iter().find(|row| row["type"] == "particle" && row["function"] == "step").expect("it");
    assert_eq!((number(by_step, "loads"), number(by_step, "stores")), (110, 110 + 10));
}

#[test]
fn people_see_the_programs_own_first_and_sums_after_it() {
    let recording = inventory();
    let table = text(&recording, &[]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "recorded by translate: accesses to all memory of the program");
    assert!(lines[1].trim_start().starts_with("share "), "{table}");
    assert!(lines.len() <= 2 + 20 + 6, "20 rows, and their sums: {table}");
    assert!(
        lines.last().is_some_and(|last| last.starts_with("100.0 %") && last.ends_with("total")),
        "{table}"
    );
    for words in [
        "malloc at ",
        " order at ",
        "-inventory.c:54\n",
        "[the dynamic linker's: ",
        "[the C library's: ",
        "find::i",
    ] {
        assert!(table.contains(words), "no {words}: {table}");
    }
    assert!(!table.contains("libc.so.6:"), "the C library's are folded: {table}");
    assert!(text(&recording, &["--all"]).lines().count() > 2000, "each block");
    assert_eq!(text(&recording, &["--top", "1"]).lines().filter(|line| line.contains("shelf")).count(), 0);
    let by_line = text(&recording, &["--by", "line", "--top", "3"]);
    assert!(by_line.contains("if (shelf[i].key == key)"), "the source beside it: {by_line}");
    let who = text(&recording, &["--by", "variable,function", "--name", "shelf"]);
    assert!(who.contains("    find"), "who accesses it: {who}");
    let threads = text(&recording, &["--by", "thread"]);
    assert!(threads.contains("thread 0 main ("), "{threads}");
}

/// A vector, a map, objects of a class and of a structure, a buffer, and two threads.
const PLACES: &str = r#"
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>
struct Particle { float x[9]; };
struct Session { long hits; Session() : hits(1) {} };
static int step(std::vector<Particle> &all) { int sum = 0; for (auto &one : all) sum += int(++one.x[1]); return sum; }
static int depth(int n) { volatile int here[20]; here[n] = n; return n ? depth(n - 1) + here[n] : 0; }
int main() {
    std::vector<Particle> particles(200); // line 12
    std::map<std::string, int> names;
    names["a name that is longer than a string keeps by itself"] = 1;
    Session *session = new Session; // line 15
    volatile char *buffer = (char *)malloc(500); // line 16
    for (int i = 0; i < 500; i++) buffer[i] = char(session->hits);
    int sums[2];
    std::thread one([&] { sums[0] = depth(9); }), other([&] { sums[1] = depth(9); });
    one.join(), other.join();
    int sum = step(particles) + sums[0] + sums[1] + int(names.size()) + buffer[499];
    delete session;
    free((void *)buffer);
    return sum == 0;
}
"#;

#[test]
fn blocks_are_called_by_type_and_line_and_stacks_by_thread() {
    let program = TestProgram::from_source("places.cpp", PLACES, &["-O1"]);
    let recording = record(&[], &program.command_line(), b"");
    assert_eq!(recording.outcome.status, 0, "{}", recording.outcome.err());
    let table = text(&recording, &["--top", "1000"]);
    for words in [" Particle[200] at ", "-places.cpp:12\n", " Session at ", " malloc at "] {
        assert!(table.contains(words), "no {words:?}: {table}");
    }
    let widest = |table: &str| table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest(&table) <= 120, "names are cut in a pipe: {table}");
    assert!(widest(&text(&recording, &["--top", "1000", "--wide"])) > 120);
    // Both names choose the row.
    for name in ["Particle*", "<malloc@main+*"] {
        assert!(text(&recording, &["--name", name]).contains(" Particle[200] at "), "{name}");
    }
    let all = text(&recording, &["--all", "--name", "Particle*"]);
    assert!(all.contains("<malloc0") && all.contains("(Particle[200] at "), "{all}");
    let rows = rows(&recording, &["--by", "local"]);
    let particles = rows.iter().find(|row| row["type"] == "Particle[200]").expect("its row");
    assert!(particles["line"].as_str().is_some_and(|line| line.ends_with("-places.cpp:12")), "{particles}");
    assert!(!rows.iter().any(|row| row["type"].is_string() && row["region"] != "heap"));
    let mut threads: Vec<u64> =
        rows.iter().filter_map(|row| row["threads"].as_array()).flatten().filter_map(Value::as_u64).collect();
    threads.sort_unstable();
    assert_eq!(threads, [0, 1, 2], "each thread has a stack of its own");
}

#[test]
fn rows_are_sorted_as_asked() {
    let recording = inventory();
    for (sort, key) in [("loads", "loads"), ("stores", "stores"), ("bytes", "bytes"), ("size", "size")] {
        let rows = rows(&recording, &["--sort", sort]);
        let keys: Vec<u64> = rows.iter().map(|row| number(row, key)).collect();
        assert!(keys.is_sorted_by(|a, b| a >= b), "{sort}");
    }
    let by_name = rows(&recording, &["--sort", "name"]);
    assert!(by_name.is_sorted_by_key(|row| row["name"].as_str().expect("a name").to_owned()));
}

#[test]
fn a_filter_that_matches_nothing_suggests_names() {
    let recording = inventory();
    for (options, words) in [
        (&["--name", "self"][..], "near is shelf"),
        (&["--by", "function", "--name", "Serve"], "near is serve"),
        (&["--module", "libc"], "near is libc.so.6"),
        (&["--by", "stack", "--name", "fnid"], "near is find"),
        (&["--by", "variable,function", "--name", "incom"], "near is income"),
    ] {
        let outcome = recording.trace.ask("report", options);
        assert_eq!((outcome.status, outcome.out().as_str()), (1, ""), "{options:?}");
        assert!(outcome.err().contains(words), "{options:?}: {}", outcome.err());
        let outcome = recording.trace.ask("report", &[options, &["--json"]].concat());
        assert_eq!((outcome.status, outcome.out().as_str()), (1, "[]\n"), "{options:?}");
    }
}

#[test]
fn what_can_not_be_asked_is_told() {
    let recording = TestProgram::named("heap.c").record_by("protect");
    for (options, status, words) in [
        (&["--by", "local"][..], 1, "--tracer translate"),
        (&["--by", "local,function"], 1, "--tracer translate"),
        (&["--by", "variable,variable"], 2, "are the same"),
        (&["--by", "variable,stack"], 2, "a table of its own"),
        (&["--by", "variable,function,thread"], 2, "at most two"),
        (&["--unused", "--cycles", "1..5"], 2, "leave --thread, --cycles and --range out"),
    ] {
        let outcome = recording.trace.ask("report", options);
        assert_eq!(outcome.status, status, "{options:?}: {}", outcome.err());
        assert!(outcome.err().contains(words), "{options:?}: {}", outcome.err());
    }
}

/// What a command prints on a terminal of so many columns.
fn on_a_terminal(columns: usize, environment: &str, recording: &Recording, options: &str) -> String {
    let line = format!(
        "stty cols {columns}; {environment} {} report {} {options}",
        memtap().display(),
        recording.trace.path.display()
    );
    let mut command = Command::new(tool("script"));
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("COLUMNS");
    command.env_remove("NO_COLOR");
    run(&mut command, b"").out()
}

fn without_colours(text: &str) -> String {
    text.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
}

#[test]
fn tables_fit_the_terminal() {
    let recording = inventory();
    for (columns, options) in
        [(80, ""), (60, ""), (200, ""), (80, "--by variable,function"), (80, "--by line"), (80, "--unused")]
    {
        let shown = on_a_terminal(columns, "", &recording, options);
        assert!(shown.contains("\x1b[1m"), "colours: {shown:?}");
        for line in without_colours(&shown).lines().skip(1) {
            assert!(line.chars().count() <= columns, "{columns} {options}: {line:?}");
        }
    }
    let plain = on_a_terminal(80, "NO_COLOR=1", &recording, "");
    // A reading that takes longer than a second tells how far it is, and takes that back.
    let table = plain.rsplit("\x1b[K").next().expect("a part");
    assert!(table.contains("total") && !table.contains('\x1b'), "{plain:?}");
    let wide = on_a_terminal(60, "", &recording, "--wide --by line");
    assert!(without_colours(&wide).lines().any(|line| line.chars().count() > 60));
}

#[test]
fn record_says_what_it_wrote_and_what_to_ask_next() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = TestProgram::named("statics.c");
    let record = |options: &[&str]| {
        let mut command = Command::new(memtap());
        command.arg("record").args(options).arg(&program.path).current_dir(&dir);
        run(&mut command, b"")
    };
    // Without --, and with options of the program's own after it.
    let mut with_own = Command::new(memtap());
    with_own.args(["record", "-o", "echo.memtap", "echo", "-n", "--quiet"]).current_dir(&dir);
    assert_eq!(run(&mut with_own, b"").out(), "--quiet");
    let outcome = record(&["-o", "t.memtap"]);
    let err = outcome.err();
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].starts_with("memtap: wrote t.memtap: "), "{err}");
    for words in [" accesses, ", "iB in ", " s; nothing is missing"] {
        assert!(lines[0].contains(words), "no {words:?}: {err}");
    }
    // The commands that it names do what it says.
    let words = lines[1].strip_prefix("memtap: next: ").expect("what is next");
    let commands: Vec<&str> = words.split("; ").filter_map(|part| part.split(" (").next()).collect();
    assert_eq!(commands.len(), 2, "{words}");
    for command in commands {
        let mut words = command.split(' ').skip(1);
        let mut ask = Command::new(memtap());
        ask.args(words.by_ref()).current_dir(&dir);
        let outcome = run(&mut ask, b"");
        assert_eq!(outcome.status, 0, "{command}: {}", outcome.err());
        assert!(outcome.out().contains("total"), "{command}");
    }
    assert_eq!(record(&["-q", "--force", "-o", "t.memtap"]).err(), "");
}

#[test]
fn an_interrupted_report_leaves_no_partial_page() {
    let recording = inventory();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let page: PathBuf = dir.path().join("page.html");
    let outcome =
        run(Command::new(memtap()).arg("report").arg(&recording.trace.path).arg("--html").arg(&page), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let whole = std::fs::read(&page).expect("the page");
    // The old page is there until the new one is.
    for delay in ["0.02", "0.1", "0.3"] {
        let line = format!(
            "timeout -s INT {delay} {} report {} --force --html {}",
            memtap().display(),
            recording.trace.path.display(),
            page.display()
        );
        run(Command::new(tool("sh")).args(["-c", &line]), b"");
        assert_eq!(std::fs::read(&page).expect("the page"), whole);
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1, "nothing beside it");
    }
}
