//! Use after free: all cases are found in programs that have them, and nothing in programs that do not (tests/programs/stale).

use std::process::{Command, Stdio};

use e2e::{Recording, TestProgram, Trace, is_named, memtap, run, spawn, tool};
use serde_json::Value;

/// What the page of a trace holds.
fn findings(trace: &Trace) -> Value {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let page = dir.path().join("report.html");
    let written = trace.ask("report", &["--html", page.to_str().expect("UTF-8")]);
    assert_eq!(written.status, 0, "{}", written.err());
    let page = std::fs::read_to_string(page).expect("it was just written");
    let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>"));
    serde_json::from_str(data.expect("the page has its data").0).expect("it is JSON")
}

/// One line of a program's head.
#[derive(Debug)]
struct ExpectedUse {
    double: bool,
    block: String,
    function: String,
    loads: Option<u64>,
    stores: Option<u64>,
}

impl ExpectedUse {
    fn read(line: &str) -> Self {
        let (double, line) = line.strip_prefix("double ").map_or((false, line), |rest| (true, rest));
        let (block, rest) = line.split_once(" by ").unwrap_or_else(|| panic!("no BLOCK by FUNCTION: {line}"));
        let mut words = rest.split(' ');
        let function = words.next().unwrap_or_default().to_owned();
        let mut expected = Self { double, block: block.to_owned(), function, loads: None, stores: None };
        for word in words {
            match word.split_once('=') {
                Some(("loads", n)) => expected.loads = n.parse().ok(),
                Some(("stores", n)) => expected.stores = n.parse().ok(),
                _ => panic!("{word}: loads=N or stores=N"),
            }
        }
        expected
    }

    fn is_of(&self, block: &str, code: &str) -> bool {
        let block = match self.block.strip_suffix("@*>") {
            Some(stem) => block.starts_with(stem),
            None => is_named(block, &self.block),
        };
        let function = code.split(['+', '(']).next().unwrap_or(code);
        let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
        block && (self.function == "*" || last(function) == last(&self.function))
    }
}

fn check(file: &str) {
    let program = TestProgram::named(&format!("stale/{file}"));
    let expected: Vec<ExpectedUse> =
        program.header.stale.iter().map(|line| ExpectedUse::read(line)).collect();
    program.check(&program.run());
    for tracer in ["translate", "protect"] {
        let found = &findings(&program.record_by(tracer).trace)["head"];
        let uses = found["stale"].as_array().expect("an array");
        let doubles = found["double_frees"].as_array().expect("an array");
        let text = |value: &Value, key: &str| value[key].as_str().expect(key).to_owned();
        for expected in &expected {
            let (list, code) = if expected.double { (doubles, "call") } else { (uses, "code") };
            let mine: Vec<&Value> =
                list.iter().filter(|f| expected.is_of(&text(f, "block"), &text(f, code))).collect();
            assert!(!mine.is_empty(), "{file} by {tracer}: {expected:?} is not among {found:#}");
            let sum = |i: usize| mine.iter().filter_map(|f| f["count"][i].as_u64()).sum::<u64>();
            for (n, i) in [(expected.loads, 0), (expected.stores, 1)] {
                assert!(n.is_none_or(|n| n == sum(i)), "{file} by {tracer}: {expected:?}, not {mine:#?}");
            }
            assert!(mine.iter().all(|f| f["released"].is_string()), "who released it: {mine:#?}");
        }
        for (list, code) in [(uses, "code"), (doubles, "call")] {
            for one in list {
                let right = |e: &ExpectedUse| e.is_of(&text(one, "block"), &text(one, code));
                assert!(expected.iter().any(right), "{file} by {tracer}: nobody expects {one:#}");
            }
        }
    }
}

macro_rules! programs {
    ($($test:ident $file:literal)*) => { $(#[test] fn $test() { check($file); })* };
}

programs! {
    a_read "read.c"
    a_write "write.c"
    the_old_place_after_realloc "moved.c"
    the_end_of_what_realloc_shrank "shrunk.c"
    the_rest_of_a_block_that_was_split "split.c"
    a_double_free "twice.c"
    a_string "text.c"
    a_comparison "compared.c"
    a_copy "copied.c"
    a_list_that_is_freed_while_it_is_walked "list.c"
    a_block_that_another_thread_freed "thread.c"
    a_block_that_the_kernel_reads "written_out.c"
    aligned_blocks "aligned.c"
    a_stale_iterator "iterator.cpp"
    a_view_of_a_string_that_is_gone "view.cpp"
    an_erased_element "erased.cpp"
    a_deleted_object "deleted.cpp"
    a_dropped_box "boxed.rs"
    a_vector_that_moved "pushed.rs"
    an_element_of_a_block_that_was_freed_by_its_class "owned.cpp"
    what_the_allocator_rounded_up_is_right "right_usable.c"
    string_functions_that_read_whole_vectors_are_right "right_strings.c"
    memory_that_is_used_again_is_right "right_again.c"
    blocks_that_are_handed_over_are_right "right_handed.c"
}

/// Ordinary programs use no memory after its release.
fn is_clean(recording: &Recording) {
    let found = &findings(&recording.trace)["head"];
    assert_eq!((&found["stale"], &found["double_frees"]), (&serde_json::json!([]), &serde_json::json!([])));
}

e2e::each_ordinary_program!(is_clean);

#[test]
fn redis_is_clean() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, socket) = (dir.path().join("t.memtap"), dir.path().join("socket"));
    let mut server = Command::new(memtap());
    server.arg("record").arg("-o").arg(&path).arg("--").arg(tool("redis-server"));
    server.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
    let mut server = spawn(server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let ask =
        |words: &[&str]| run(Command::new(tool("redis-cli")).arg("-s").arg(&socket).args(words), b"").out();
    while ask(&["ping"]) != "PONG\n" {
        assert!(server.try_wait().expect("our own child").is_none(), "the server ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let script = "for i = 1, 50 do redis.call('set', 'k' .. i, string.rep('x', i)) redis.call('rpush', 'l', 'v' .. i) end return redis.call('get', 'k7')";
    assert_eq!(ask(&["eval", script, "0"]), "xxxxxxx\n");
    for words in
        [&["append", "k1", "more text than there was"][..], &["lrange", "l", "0", "3"], &["del", "l", "k2"]]
    {
        ask(words);
    }
    ask(&["shutdown", "nosave"]);
    assert!(server.wait().expect("our own child").success());
    let found = &findings(&Trace::at(path))["head"];
    assert_eq!((&found["stale"], &found["double_frees"]), (&serde_json::json!([]), &serde_json::json!([])));
}
