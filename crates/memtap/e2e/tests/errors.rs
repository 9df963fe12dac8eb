//! `memtap errors`: each kind of error is found with its stacks, and none is found in ordinary programs.

use std::collections::BTreeSet;

use e2e::{Recording, TestProgram};
use serde_json::Value;

fn errors(recording: &Recording) -> Vec<Value> {
    let outcome = recording.trace.ask("errors", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("errors --json is an array")
}

/// What is no error by itself.
const NOTES: [&str; 3] = ["leak", "unused", "temporary"];

/// Those that are wrong whatever the program is for.
fn wrong(all: &[Value]) -> Vec<&Value> {
    all.iter().filter(|one| !NOTES.iter().any(|note| one["kind"] == *note)).collect()
}

/// Kind, the function that did it, and how often.
fn told(one: &Value) -> (String, String, u64) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&one["kind"]), text(&one["access"]["function"]), one["times"].as_u64().expect("a number"))
}

/// Takes elements of a static array, and runs itself once more, at other addresses.
const TWICE: &str = "
#include <stdio.h>
#include <stdlib.h>
volatile int index_, sum;
static int table[8] = {1, 2, 3};
int main(int argc, char **argv)
{
    for (index_ = 0; index_ < 8; index_++)
        sum += table[index_];
    if (argc > 1)
        return 0;
    char line[4200];
    snprintf(line, sizeof line, \"'%s' again\", argv[0]);
    return system(line);
}
";

#[test]
fn an_array_lies_elsewhere_in_another_process() {
    let program = TestProgram::from_source("twice.c", TWICE, &["-O1", "-g", "-fPIE", "-pie"]);
    let all = errors(&program.record_by("translate"));
    assert_eq!(wrong(&all), [&Value::Null; 0], "{all:#?}");
}

/// A string whose memory the program allocates and the C++ library releases, by an operator that jumps to free.
const STRINGS: &str = "
#include <string>
int main(int argc, char **)
{
    std::string s(argc + 30, 'x');
    s += s;
    std::string t = s + s;
    t.append(s).insert(3, s);
    return t.size() != 248;
}
";

#[test]
fn strings_that_the_library_releases_are_released_rightly() {
    for flags in [&["-O1", "-g"][..], &["-O2"], &["-O2", "-std=c++20"]] {
        let program = TestProgram::from_source("strings.cpp", STRINGS, flags);
        let all = errors(&program.record_by("translate"));
        assert_eq!(wrong(&all), [&Value::Null; 0], "{flags:?}: {all:#?}");
    }
}

/// A destructor that jumps to operator delete, called through a pointer; and blocks of operator new that free is given.
const CALLS: &str = "
#include <cstdlib>
struct base { virtual ~base() = default; };
struct derived : base { long value = 3; ~derived() override { value = 4; } };
__attribute__((noinline)) static void by_table(base *one) { delete one; asm volatile(\"\"); }
__attribute__((noinline)) static void by_pointer(void (*release)(long *), long *one) { release(one); asm volatile(\"\"); }
__attribute__((noinline)) static void deletes(long *one) { delete one; }
__attribute__((noinline)) static void jumps(long *one) { free(one); }
__attribute__((noinline)) static void calls(long *one) { free(one); asm volatile(\"\"); }
int main()
{
    void (*volatile release)(long *) = deletes;
    by_table(new derived);
    by_pointer(release, new long(3));
    deletes(new long(3));
    jumps(new long(3));
    calls(new long(3));
    return 0;
}
";

#[test]
fn a_release_is_wrong_where_the_call_says_what_it_calls() {
    for flags in [&["-O2", "-g"][..], &["-O2", "-fno-plt"], &["-O2", "-no-pie", "-Wl,-z,lazy"]] {
        let program = TestProgram::from_source("calls.cpp", CALLS, flags);
        for tracer in ["translate", "protect"] {
            let all = errors(&program.record_by(tracer));
            let mut found: Vec<_> = wrong(&all).into_iter().map(told).collect();
            found.sort();
            let expect = ["calls(long*)", "main"]
                .map(|function| ("mismatched_free".to_owned(), function.to_owned(), 1));
            assert_eq!(found, expect, "{flags:?} {tracer}: {all:#?}");
        }
    }
}

/// Children read blocks that their parent releases as soon as it has made them.
const RELEASED_AFTER_FORK: &str = "
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    for (int i = 0; i < 30; i++) {
        char *block = malloc(100);
        memset(block, i, 100);
        pid_t child = fork();
        if (child == 0) {
            volatile int sum = 0;
            for (int j = 0; j < 100; j++)
                sum += block[j];
            free(block);
            _exit(sum != 100 * i);
        }
        free(block);
        free(malloc(100));
        int status;
        if (waitpid(child, &status, 0) != child || status)
            return 1;
    }
    return 0;
}
";

#[test]
fn a_forked_child_has_the_blocks_that_its_parent_had_then() {
    let program = TestProgram::from_source("released_after_fork.c", RELEASED_AFTER_FORK, &["-O1", "-g"]);
    for tracer in ["translate", "protect"] {
        let all = errors(&program.record_by(tracer));
        assert_eq!(wrong(&all), [&Value::Null; 0], "{tracer}: {all:#?}");
    }
}

/// Writes and reads over the end of a block, from inside of it.
const OVER_THE_END: &str = "
#include <stdlib.h>
#include <string.h>
char source[64];
volatile long sink;
__attribute__((noinline)) static void stores(char *p) { *(volatile long *)(p + 20) = 1; }
__attribute__((noinline)) static void loads(char *p) { sink = *(volatile long *)(p + 20); }
__attribute__((noinline)) static void within(char *p) { *(volatile long *)(p + 16) = 1; sink = *(volatile long *)(p + 16); }
int main(int argc, char **argv)
{
    char *p = malloc(24);
    volatile size_t len = 25;
    within(p);
    stores(p);
    loads(p);
    memcpy(p, source, len - 1);
    if (argc > 1)
        memcpy(p, source, len);
    sink = strlen(strcpy(malloc(9), \"12345678\"));
    return argv == 0;
}
";

#[test]
fn an_access_that_ends_after_a_block_is_out_of_bounds() {
    let program = TestProgram::from_source("over_the_end.c", OVER_THE_END, &["-O1", "-g", "-fno-builtin"]);
    let found = |arguments: &[&str]| -> Vec<(String, String, u64)> {
        let line =
            [program.command_line(), arguments.iter().map(|word| (*word).to_owned()).collect()].concat();
        let all = errors(&e2e::record(&["--tracer=translate".to_owned()], &line, b""));
        let mut found: Vec<_> = wrong(&all).into_iter().map(told).collect();
        found.sort();
        found
    };
    let told = |function: &str| ("out_of_bounds".to_owned(), function.to_owned(), 1);
    assert_eq!(found(&[]), ["loads", "stores"].map(told));
    assert_eq!(found(&["over"]).len(), 3);
}

#[test]
fn each_kind_has_its_stacks() {
    let recording = TestProgram::named("errors/kinds.cpp").record_by("translate");
    let all = errors(&recording);
    let mut found: Vec<(String, String, u64)> = wrong(&all).into_iter().map(told).collect();
    found.sort();
    let expect = [
        ("mismatched_free", "released_wrongly", 1),
        ("out_of_bounds", "before_the_beginning", 1),
        ("out_of_bounds", "past_the_end", 3),
        ("uninitialised", "compares", 1),
    ];
    let expect: Vec<_> =
        expect.map(|(kind, function, times)| (kind.to_owned(), function.to_owned(), times)).into();
    assert_eq!(found, expect, "{all:#?}");
    for one in wrong(&all) {
        for side in ["access", "allocated"] {
            let stack = one[side]["stack"].as_array().expect("a stack");
            assert_eq!(stack[0], "main", "{one:#}");
            assert!(
                one[side]["line"].is_u64()
                    && one[side]["file"].as_str().is_some_and(|f| f.ends_with("kinds.cpp"))
                    || side == "allocated",
                "{one:#}"
            );
        }
    }
    let of = |kind: &str, bytes: u64| {
        all.iter().any(|one| one["kind"] == kind && one["bytes"] == bytes && one["times"] == 1)
    };
    assert!(of("leak", 1000) && of("unused", 500), "{all:#?}");
    let failed = recording.trace.ask("errors", &["--fail-on-error"]);
    assert!(
        failed.status == 3
            && failed.out().contains("out of bounds: load of 1 byte, 0 after a block of 24, 3 times"),
        "{}",
        failed.out()
    );
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("suppressions");
    std::fs::write(&file, "# known\nout_of_bounds:*the*\ncompares\nmismatched_free:main\n")
        .expect("it can be written");
    let path = file.display().to_string();
    let quiet = recording.trace.ask("errors", &["--fail-on-error", "--suppressions", &path]);
    assert!(quiet.status == 0 && quiet.err().contains("4 findings are suppressed"), "{}", quiet.err());
}

#[test]
fn uses_after_release_have_three_stacks() {
    let recording = TestProgram::named("stale/read.c").record_by("translate");
    let all = errors(&recording);
    let found = wrong(&all);
    assert!(!found.is_empty() && found.iter().all(|one| one["kind"] == "use_after_free"), "{all:#?}");
    for one in found {
        for side in ["access", "allocated", "freed"] {
            assert!(one[side]["stack"].as_array().is_some_and(|stack| !stack.is_empty()), "{side}: {one:#}");
        }
    }
    let twice = TestProgram::named("stale/twice.c").record_by("translate");
    let all = errors(&twice);
    assert!(all.iter().any(|one| one["kind"] == "invalid_free" && one["freed"].is_object()), "{all:#?}");
}

/// Runs each case of a program wrong and right: the error that it names is told, in its function, and of the right run nothing is.
fn check_cases(program: &TestProgram) {
    let list = program.run().out();
    assert!(list.lines().count() >= 15, "{list}");
    let mut misses = Vec::new();
    for (line, is_right) in list.lines().flat_map(|line| [(line, false), (line, true)]) {
        let (name, kind) = line.split_once(' ').expect("a name and a kind");
        let mut line = program.command_line();
        line.push(name.to_owned());
        line.extend(is_right.then(|| "right".to_owned()));
        let in_case = |one: &Value| {
            let stacks = ["access", "allocated"].into_iter().filter_map(|side| one[side]["stack"].as_array());
            stacks.flatten().any(|function| function.as_str().is_some_and(|text| text.contains(name)))
        };
        let is_note = |one: &Value| NOTES.iter().any(|note| one["kind"] == *note);
        // The C library and Rust's keep blocks of their own; and where a release goes wrong the C library ends the program.
        let is_meant = |one: &Value| !is_note(one) || in_case(one) && kind != "invalid_free";
        // Most right runs release a block right after its use.
        let is_asked = |one: &Value| one["kind"] != "temporary" || kind == "temporary";
        let all = errors(&e2e::record(&[], &line, b""));
        let told: BTreeSet<&str> = all
            .iter()
            .filter(|one| is_meant(one) && is_asked(one))
            .map(|one| if in_case(one) { one["kind"].as_str().expect("a name") } else { "elsewhere" })
            .collect();
        let expect: BTreeSet<&str> = if is_right { BTreeSet::new() } else { BTreeSet::from([kind]) };
        if told != expect {
            misses.push(format!("{name}, right: {is_right}: {told:?} instead of {expect:?}"));
        }
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn cases_of_c() {
    check_cases(&TestProgram::named("errors/cases.c"));
}

#[test]
fn cases_of_cpp() {
    check_cases(&TestProgram::named("errors/cases.cpp"));
}

#[test]
fn cases_of_rust() {
    check_cases(&TestProgram::named("errors/cases.rs"));
}

/// The functions of the program in which a kind was told, of all that it does.
fn told_in(recording: &Recording, kind: &str) -> BTreeSet<String> {
    let all = errors(recording);
    let of_kind = all.iter().filter(|one| one["kind"] == kind);
    // Under main comes the case.
    of_kind.map(|one| one["access"]["stack"][1].as_str().unwrap_or("nowhere").to_owned()).collect()
}

/// Runs all cases of a program at once, wrong and right: told are those of that kind, in their functions.
fn check_at_once(file: &str, options: &[&str], kind: &str) {
    let program = TestProgram::named(file);
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    let list = program.run().out();
    let cases = list.lines().filter_map(|line| line.strip_suffix(kind)?.strip_suffix(' '));
    let cases: BTreeSet<String> = cases.map(str::to_owned).collect();
    assert!(cases.len() >= 8, "{list}");
    for (how, expect) in [("wrong", cases), ("right", BTreeSet::new())] {
        let mut line = program.command_line();
        line.push(how.to_owned());
        let recording = e2e::record(&options, &line, b"");
        assert_eq!(told_in(&recording, kind), expect, "{how}");
    }
}

/// Runs all cases of a program at once, wrong and right: each has its kind, and of right ones nothing is told. Of blocks alone it is told
/// where they were made.
fn check_grid(file: &str) {
    let program = TestProgram::named(file);
    let list = program.run().out();
    let cases: BTreeSet<(String, String)> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    assert!(cases.len() >= 30, "{list}");
    for (how, expect) in [("wrong", &cases), ("right", &BTreeSet::new())] {
        let mut line = program.command_line();
        line.push(how.to_owned());
        let all = errors(&e2e::record(&[], &line, b""));
        let told = all.iter().filter(|one| one["kind"] != "temporary").filter_map(|one| {
            let stacks = ["access", "allocated"].into_iter().filter_map(|side| one[side]["stack"].as_array());
            let functions = stacks.flatten().filter_map(Value::as_str);
            // Names of C++ have parameters, those of Rust modules.
            let named = |function: &str| {
                let name = function.split('(').next().unwrap_or_default();
                cases.iter().find(|(case, _)| name == case || name.ends_with(&format!("::{case}")))
            };
            let kind = one["kind"].as_str()?.to_owned();
            let case = functions.filter_map(named).next().map(|(case, _)| case.clone());
            // The C library and Rust's keep blocks of their own.
            let is_note = NOTES.contains(&&kind[..]);
            case.or((!is_note).then(|| format!("{one:#}"))).map(|case| (case, kind))
        });
        let told: BTreeSet<(String, String)> = told.collect();
        let missing: Vec<_> = expect.difference(&told).collect();
        let wrong: Vec<_> = told.difference(expect).collect();
        assert!(missing.is_empty() && wrong.is_empty(), "{how}: missing {missing:#?}, wrong {wrong:#?}");
    }
}

#[test]
fn grid_of_c() {
    check_grid("errors/grid.c");
}

#[test]
fn grid_of_cpp() {
    check_grid("errors/grid.cpp");
}

#[test]
fn grid_of_rust() {
    check_grid("errors/grid.rs");
}

#[test]
fn unwritten_bytes_are_followed_where_control_flow_is_known() {
    check_at_once("errors/unwritten.c", &["--flow", "full"], "uninitialised");
}

#[test]
fn arrays_on_the_stack_and_in_structures_have_bounds() {
    check_at_once("errors/bounds.c", &[], "out_of_bounds");
}

#[test]
fn leaks_tell_their_last_access() {
    let mut line = TestProgram::named("errors/cases.c").command_line();
    line.push("never_released".to_owned());
    let all = errors(&e2e::record(&[], &line, b""));
    let leak = all.iter().find(|one| one["kind"] == "leak" && one["bytes"] == 100).expect("a leak");
    assert_eq!(leak["last_access"]["function"], "never_released", "{leak:#}");
}

#[test]
fn leaks_tell_whether_a_pointer_was_left() {
    let line = TestProgram::named("errors/leaks.c").command_line();
    let kinds = |options: &[String]| -> BTreeSet<(u64, String)> {
        let all = errors(&e2e::record(options, &line, b""));
        let leaks = all.iter().filter(|one| one["kind"] == "leak");
        let of_blocks = leaks.map(|one| (&one["bytes"], &one["times"], &one["leak_kind"]));
        of_blocks
            .map(|(bytes, times, kind)| {
                let each = bytes.as_u64().expect("a number") / times.as_u64().expect("a number");
                (each, kind.as_str().unwrap_or("not known").to_owned())
            })
            .filter(|(each, _)| (1001..1100).contains(each))
            .collect()
    };
    let expect = [
        (1001, "definite"),
        (1002, "definite"),
        (1003, "reachable"),
        (1011, "definite"),
        (1011, "indirect"),
        (1021, "definite"),
        (1021, "indirect"),
        (1031, "reachable"),
        (1041, "possible"),
        (1051, "reachable"),
        (1061, "reachable"),
        (1071, "reachable"),
    ];
    assert_eq!(kinds(&["--data".to_owned()]), expect.map(|(bytes, kind)| (bytes, kind.to_owned())).into());
    let without = kinds(&[]);
    assert!(
        without.len() > 5 && without.iter().all(|(_, kind)| kind == "not known"),
        "without values nothing is told: {without:?}"
    );
}

/// Ordinary programs do nothing that is told as an error.
fn is_clean(recording: &Recording) {
    let all = errors(recording);
    assert_eq!(wrong(&all), Vec::<&Value>::new());
}

e2e::each_ordinary_program!(is_clean);
