//! `report --by stack`: calling contexts, from the accesses alone.

use std::collections::BTreeMap;

use e2e::{TestProgram, Trace, record};
use serde_json::Value;

fn rows(trace: &Trace) -> Vec<Value> {
    let outcome = trace.ask("report", &["--by", "stack", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    outcome.out().parse::<Value>().expect("it is JSON").as_array().expect("an array").clone()
}

fn stack(row: &Value) -> String {
    let names = row["stack"].as_array().expect("a stack is an array").iter();
    names.map(|name| name.as_str().expect("a name")).collect::<Vec<_>>().join(" ")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().expect("a number")
}

/// How often `leaf` was called in each stack of the program's own functions; what the C library has around them is left out.
fn calls_of_leaf(rows: &[Value]) -> BTreeMap<String, u64> {
    let own = |stack: &str| stack.split_once(" leaf").is_some() || stack == "leaf";
    let leaves = rows.iter().filter(|row| number(row, "modifies") > 0);
    leaves.map(|row| (stack(row), number(row, "modifies"))).filter(|(stack, _)| own(stack)).collect()
}

#[test]
fn every_way_into_a_function_and_out_of_it_has_its_stack() {
    let recording = TestProgram::named("contexts.cpp").record_by("translate");
    let rows = rows(&recording.trace);
    let calls = calls_of_leaf(&rows);
    let check = |stack: &str, expected: u64| {
        assert_eq!(calls.get(stack).copied().unwrap_or_default(), expected, "{stack}\n{calls:#?}");
    };
    check("main recurse leaf", 2);
    check("main recurse recurse leaf", 2);
    check("main recurse recurse recurse leaf", 2);
    // A tail call looks like the caller's.
    check("main calls_tail leaf", 2);
    check("main lands leaf", 2);
    check("main catches leaf", 2);
    check("[signal 10] handler leaf", 2);
    check("main raises leaf", 2);
    check("[another stack] coroutine step leaf", 3);
    check("main resumes leaf", 3);
    check("main allocates wrapper leaf", 2);
    check("main allocates leaf", 2);
    check("main starts leaf", 1);
    check("main forks leaf", 1);
    let ending =
        |end: &str| -> u64 { calls.iter().filter(|(stack, _)| stack.ends_with(end)).map(|(_, n)| n).sum() };
    assert_eq!(ending("thread works leaf"), 1, "{calls:#?}");
    // A forked child goes on in its parent's calls.
    check("main forks in_child leaf", 1);
    let tree: u64 = calls.iter().filter(|(stack, _)| stack.contains(" tree ")).map(|(_, calls)| calls).sum();
    assert_eq!(tree, 1 << 10, "{calls:#?}");
    // jumps and throws are left before they call it.
    assert!(!calls.keys().any(|stack| stack.contains("jumps") || stack.contains("throws")), "{calls:#?}");
}

#[test]
fn allocations_have_the_stack_of_their_call() {
    let recording = TestProgram::named("contexts.cpp").record_by("translate");
    let rows = rows(&recording.trace);
    let row = rows.iter().find(|row| stack(row) == "main allocates wrapper").expect("the wrapper allocates");
    assert_eq!((number(row, "allocations"), number(row, "allocated_bytes")), (2, 300));
}

#[test]
fn stacks_sum_to_all_accesses() {
    for (name, options) in
        [("contexts.cpp", &[][..]), ("threads.c", &[]), ("contexts.cpp", &["--flow", "full"])]
    {
        let recording = TestProgram::named(name).record_with("translate", options);
        let rows = rows(&recording.trace);
        let sum = |key: &str| -> u64 { rows.iter().map(|row| number(row, key)).sum() };
        for key in ["loads", "stores", "modifies"] {
            assert_eq!(sum(key), recording.trace.number(key), "{name}: {key}");
        }
    }
}

#[test]
fn a_program_without_symbols_has_stacks_of_places_in_its_file() {
    let program = TestProgram::built("contexts.cpp", &["-s"]);
    let recording = program.record_by("translate");
    let name = program.path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let rows = rows(&recording.trace);
    let own =
        |row: &Value| stack(row).split(' ').filter(|frame| frame.starts_with(&format!("{name}+0x"))).count();
    assert!(rows.iter().any(|row| own(row) >= 3), "{:#?}", rows.iter().map(stack).collect::<Vec<_>>());
}

#[test]
fn a_trace_without_calls_says_which_recording_has_them() {
    let recording = TestProgram::named("heap.c").record_by("protect");
    let outcome = recording.trace.ask("report", &["--by", "stack"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err().contains("--tracer translate"), "{}", outcome.err());
}

#[test]
fn functions_that_were_inlined_are_functions() {
    let text = "
        int table[64];
        static inline __attribute__((always_inline)) int inner(int i) { return table[i] += i; }
        __attribute__((noinline)) int outer(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += inner(i & 63); return sum; }
        __attribute__((noinline)) int other(int n) { int sum = 0; for (int i = 0; i < n; i++) sum ^= inner(i * 3 & 63); return sum; }
        int main(int argc, char **argv) { return outer(argc + 100) + other(argc + 6) == 0; }";
    let program = TestProgram::from_source("inlined.c", text, &["-O2", "-g"]);
    let recording = record(&[], &program.command_line(), b"");
    let rows = rows(&recording.trace);
    assert!(
        rows.iter().any(|row| stack(row).ends_with("main outer inner")),
        "{:#?}",
        rows.iter().map(stack).collect::<Vec<_>>()
    );
    let modifies = |arguments: &[&str], name: &str| -> Vec<u64> {
        let outcome = recording.trace.ask("report", arguments);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let rows = outcome.out().parse::<Value>().expect("it is JSON");
        let rows = rows.as_array().expect("an array").iter();
        let named = |row: &&Value| ["name", "function"].iter().any(|key| row[*key] == name);
        rows.filter(named).map(|row| number(row, "modifies") + number(row, "stores")).collect()
    };
    // One row for both copies of `inner`, which writes a word each time.
    assert_eq!(modifies(&["--by", "function", "--json"], "inner"), [101 + 7]);
    assert_eq!(modifies(&["--by", "variable,function", "--name", "table", "--json"], "inner"), [101 + 7]);
}

#[test]
fn the_thread_of_a_forked_child_has_the_calls_of_its_parent() {
    let trace = TestProgram::named("contexts.cpp").record_by("translate").trace;
    let asked = |thread: u64| -> Vec<Value> {
        let outcome = trace.ask("report", &["--by", "stack", "--json", "--thread", &thread.to_string()]);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        serde_json::from_str(&outcome.out()).expect("it is JSON")
    };
    let leaves: Vec<_> = (0..trace.number("threads")).map(|thread| calls_of_leaf(&asked(thread))).collect();
    let of_child: Vec<_> =
        leaves.iter().filter(|calls| calls.keys().any(|stack| stack.contains("in_child"))).collect();
    assert_eq!(of_child.len(), 1, "{leaves:#?}");
    assert_eq!(of_child[0].get("main forks in_child leaf"), Some(&1), "{of_child:#?}");
    // What the parent did is not counted.
    assert!(!of_child[0].keys().any(|stack| stack.contains("recurse")), "{of_child:#?}");
}

/// Accesses by many instructions, in a function that is called from two places.
const NAMELESS: &str = "
volatile long cells[4];
__attribute__((noinline)) static void all(void) { cells[0] = 1; cells[1] = 2; cells[2] += cells[3]; }
int main(void) { cells[3] = 4; all(); cells[1] = 5; all(); return 0; }
";

/// Instructions of one function are one function also where its name is not known.
#[test]
fn a_function_without_a_symbol_is_one_in_stacks() {
    let program = TestProgram::from_source("nameless.c", NAMELESS, &["-O1", "-s"]);
    let trace = program.record_by("translate").trace;
    let name = program.path.file_name().expect("it has one").to_str().expect("UTF-8");
    let own =
        |row: &&Value| stack(row).split(' ').all(|function| function.starts_with(&format!("{name}+0x")));
    let rows: Vec<Value> = rows(&trace).iter().filter(own).cloned().collect();
    let of_depth = |depth: usize| -> Vec<[u64; 3]> {
        let rows =
            rows.iter().filter(|row| row["stack"].as_array().is_some_and(|stack| stack.len() == depth));
        rows.map(|row| ["loads", "stores", "modifies"].map(|key| number(row, key))).collect()
    };
    // `main` stores twice and calls twice; each call of `all` loads and stores, and returns.
    let [main, all] = [1, 2].map(of_depth);
    assert_eq!((main.len(), all.len()), (1, 1), "{rows:#?}");
    assert_eq!((main[0][1], all[0][1] + all[0][2]), (2 + 2, 2 * 3), "{rows:#?}");
}

#[test]
fn a_part_of_a_trace_has_the_stacks_of_the_whole() {
    let recording = TestProgram::named("contexts.cpp").record_by("translate");
    let all = rows(&recording.trace);
    let asked = |options: &[&str]| -> Vec<Value> {
        let arguments = [&["--by", "stack", "--json"], options].concat();
        let outcome = recording.trace.ask("report", &arguments);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        outcome.out().parse::<Value>().expect("it is JSON").as_array().expect("an array").clone()
    };
    let sum = |rows: &[Value]| -> u64 {
        rows.iter().flat_map(|row| ["loads", "stores", "modifies"].map(|key| number(row, key))).sum()
    };
    // The two halves of the thread's time are all of it, and stacks in the second begin where those of the first do.
    let [first, second] = ["0..20000", "20000..18446744073709551615"].map(|part| asked(&["--cycles", part]));
    assert_eq!(sum(&first) + sum(&second), sum(&all));
    assert!(sum(&first) > 0 && sum(&second) > 0);
    assert!(second.iter().all(|row| all.iter().any(|whole| stack(whole) == stack(row))));
    let first_accesses = asked(&["--thread", "0", "--range", "0..1000"]);
    assert_eq!(sum(&first_accesses), 1000);
    let libraries = asked(&["--module", "libc.so*"]);
    assert!(sum(&libraries) > 0 && sum(&libraries) < sum(&all));
}

/// Two functions that call each other, forty deep, a function that is called often, and two that are called once.
const RECURSION: &str = "
static int counter;
#define MODIFY __asm__ volatile(\"addl $1, %0\" : \"+m\"(counter))
#define FUNCTION __attribute__((noinline, noclone))
FUNCTION void odd(int depth);
FUNCTION void even(int depth) { MODIFY; if (depth) odd(depth - 1); __asm__ volatile(\"\"); }
FUNCTION void odd(int depth) { MODIFY; if (depth) even(depth - 1); __asm__ volatile(\"\"); }
FUNCTION void often(void) { MODIFY; MODIFY; }
FUNCTION void once(void) { MODIFY; }
FUNCTION void another(void) { MODIFY; }
int main(void) { even(40); for (int i = 0; i < 100000; i++) often(); once(); another(); return 0; }
";

fn recursion() -> Trace {
    TestProgram::from_source("recursion.c", RECURSION, &["-O1"]).record_by("translate").trace
}

fn shown(trace: &Trace, options: &[&str]) -> Vec<Value> {
    let outcome = trace.ask("report", &[&["--by", "stack", "--json"], options].concat());
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    outcome.out().parse::<Value>().expect("it is JSON").as_array().expect("an array").clone()
}

#[test]
fn a_stack_that_deeper_recursion_is_folded_into_says_so() {
    let rows = shown(&recursion(), &["--min-share", "0"]);
    // A call stands eight times in a stack: even and odd by turns, the ninth turn in the eighth.
    let mut stack_of = "main".to_owned();
    for turn in 1..=17u64 {
        stack_of += if turn % 2 == 1 { " even" } else { " odd" };
        let end = format!(" {stack_of}");
        let is_it = |row: &&Value| stack(row) == stack_of || stack(row).ends_with(&end);
        let row = rows.iter().find(is_it).expect("the stack has a row");
        let (modifies, folded) = match turn {
            16 => (20 - 7, true),
            17 => (21 - 8, true),
            _ => (1, false),
        };
        assert_eq!((number(row, "modifies"), &row["folded"]), (modifies, &Value::Bool(folded)), "{stack_of}");
    }
    assert!(rows.iter().all(|row| row["stacks"] == 1), "nothing is summed");
}

#[test]
fn rare_stacks_are_one_row_that_says_how_many_they_are() {
    let trace = recursion();
    let all = shown(&trace, &["--min-share", "0"]);
    let some = shown(&trace, &["--min-share", "1%"]);
    let accesses =
        |row: &Value| -> u64 { ["loads", "stores", "modifies"].map(|key| number(row, key)).iter().sum() };
    let least = trace.number("accesses").div_ceil(100);
    let (frequent, rare): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|row| accesses(row) >= least);
    let (summed, rows) = some.split_last().expect("there is a sum");
    // The rows that remain are the same, to the digit.
    assert_eq!(rows.iter().collect::<Vec<_>>(), frequent);
    assert!(rows.iter().any(|row| stack(row).ends_with("main often") && number(row, "modifies") == 200_000));
    assert_eq!(stack(summed), "[rare stacks]");
    assert_eq!((number(summed, "stacks"), number(summed, "below_accesses")), (rare.len() as u64, least));
    assert_eq!(summed["stacks_estimated"], false);
    for key in ["loads", "stores", "modifies", "bytes", "allocations", "allocated_bytes"] {
        let sum: u64 = rare.iter().map(|row| number(row, key)).sum();
        assert_eq!(number(summed, key), sum, "{key}");
    }
    let text = trace.ask("report", &["--by", "stack", "--min-share", "1%"]).out();
    assert!(text.contains("stacks with less than"), "{text}");
    // Of a filter by name, the sum is that of the stacks that match.
    let named = shown(&trace, &["--min-share", "1%", "--name", "once,another,often"]);
    let sum: u64 = named.iter().map(|row| number(row, "modifies")).sum();
    assert_eq!((sum, number(named.last().expect("a sum"), "modifies")), (200_002, 2), "{named:#?}");
    assert_eq!(trace.ask("report", &["--by", "line", "--min-share", "1%"]).status, 2);
}

/// Asking for all cycles has each access looked at; asking for nothing counts executions of blocks.
fn counts_are_those_of_single_accesses(trace: &Trace) {
    for by in ["variable", "region", "stack", "allocation", "field"] {
        let rows = |part: &[&str]| {
            let outcome = trace.ask("report", &[&["--by", by, "--json"], part].concat());
            assert_eq!(outcome.status, 0, "{}", outcome.err());
            let rows: Value = outcome.out().parse().expect("it is JSON");
            // Rows with the same counts have no order.
            let mut rows: Vec<String> = rows.as_array().expect("rows").iter().map(Value::to_string).collect();
            rows.sort();
            rows
        };
        let (counted, looked_at) = (rows(&[]), rows(&["--cycles", "0..18446744073709551615"]));
        assert!(!counted.is_empty());
        assert_eq!(counted, looked_at, "--by {by}");
    }
}

#[test]
fn counts_by_execution_are_those_by_access() {
    for name in
        ["contexts.cpp", "containers.cpp", "threads.c", "heap.c", "strings.c", "fork.c", "signals.c", "avx.c"]
    {
        counts_are_those_of_single_accesses(&TestProgram::named(name).record_by("translate").trace);
    }
}

e2e::each_ordinary_program! {
    counts_are_those_of_single_accesses_in: counts_of_python_by_execution "python3", counts_of_sqlite_by_execution "sqlite3",
    counts_of_git_by_execution "git"
}

fn counts_are_those_of_single_accesses_in(recording: &e2e::Recording) {
    counts_are_those_of_single_accesses(&recording.trace);
}
