//! `memtap probe` from outside: exact counts of a C++ program, all outputs, a running process, bad input.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::{Finished, fits_schema, memtap, repository, run, spawn};
use serde_json::Value;

fn build(dir: &Path) -> PathBuf {
    let program = dir.join("application");
    let source = repository().join("crates/probes/probes/tests/programs/application.cc");
    let flags = ["-O1", "-g", "-pthread", "-o"];
    let built = run(Command::new("g++").args(flags).arg(&program).arg(source), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    program
}

fn probe(options: &[&str], line: &[&str]) -> Finished {
    let mut command = Command::new(memtap());
    command.arg("probe").args(options);
    if !line.is_empty() {
        command.arg("--").args(line);
    }
    run(&mut command, b"")
}

/// What callgrind counts.
const CALLS: [(&str, u64); 11] = [
    ("main", 1),
    ("app::worker()", 6),
    ("app::tries(int)", 7),
    ("app::waits(int)", 100),
    ("int app::maybe<int>(int)", 1830),
    ("app::Guard::~Guard()", 1830),
    ("app::depth(app::Node*)", 2001),
    ("app::ackermann(int, int)", 5355),
    ("app::insert(app::Node*&, int)", 14_860),
    ("app::Derived::work(int)", 30_000),
    ("app::add(long)", 30_000),
];

const PRINTED: &str = "26 103 149970000 10\n";

fn row<'v>(functions: &'v Value, name: &str) -> &'v Value {
    let rows = functions.as_array().expect("an array");
    rows.iter().find(|row| row["function"] == name).unwrap_or_else(|| panic!("no {name} in {functions}"))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {row}"))
}

/// One call in ten sleeps for 20 ms, the others for one; a bucket is within 3.2 %.
fn check_waits(row: &Value) {
    assert!(number(row, "p50_ns") > 0.96e6 && number(row, "p99_ns") > 19e6, "{row}");
    assert!(number(row, "max_ns") >= 20e6 && number(row, "p50_ns") < number(row, "p99_ns"), "{row}");
}

/// Of each row the names of its figures.
fn keys(functions: &Value) -> Vec<Vec<&String>> {
    let rows = functions.as_array().expect("an array");
    rows.iter().map(|row| row.as_object().expect("an object").keys().collect()).collect()
}

#[test]
fn rows_have_the_same_figures_however_calls_are_sampled() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = build(dir.path());
    let program = program.to_str().expect("UTF-8");
    let by = |options: &[&str]| {
        let outcome = probe(&[&["--json"], options].concat(), &[program]);
        serde_json::from_str::<Value>(&outcome.out()).expect("JSON")
    };
    let (sampled, all, kept_down) = (by(&[]), by(&["--sample", "all"]), by(&["--budget", "3%"]));
    let expect = keys(&sampled)[0].clone();
    for functions in [&sampled, &all, &kept_down] {
        assert!(keys(functions).iter().all(|keys| *keys == expect), "{functions}");
    }
}

#[test]
fn every_call_of_a_cplusplus_program_is_counted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = build(dir.path());
    let program = program.to_str().expect("UTF-8");
    let outcome = probe(&["--sample", "all", "--json"], &[program]);
    assert_eq!(outcome.status, 7, "the program's own status: {}", outcome.err());
    // Standard output is JSON alone.
    assert!(outcome.err().starts_with(PRINTED), "{}", outcome.err());
    let functions = fits_schema("probe", &outcome.out());
    for (name, calls) in CALLS {
        let row = row(&functions, name);
        assert_eq!(row["calls"], calls, "{row}");
        assert_eq!(number(row, "calls_error"), 0.0, "nothing is estimated: {row}");
    }
    for name in ["app::depth(app::Node*)", "app::waits(int)", "app::worker()"] {
        let row = row(&functions, name);
        assert_eq!(row["sampled"], row["calls"], "{row}");
        assert!(row["file"].as_str().is_some_and(|file| file.ends_with("application.cc")), "{row}");
        assert!(row["line"].is_u64(), "{row}");
    }
    // A third of them is left by an exception: measured until the exception is caught.
    let maybe = row(&functions, "int app::maybe<int>(int)");
    assert_eq!(maybe["sampled"], 1830, "{maybe}");
    check_waits(row(&functions, "app::waits(int)"));
}

#[test]
fn sampling_measures_some_calls_and_all_outputs_are_written() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = build(dir.path());
    let program = program.to_str().expect("UTF-8");
    for (file, words) in [
        ("a.json", "\"app::waits(int)\""),
        ("a.folded", "main;app::waits(int) "),
        ("a.html", "app::waits(int)"),
        ("a.trace.json", "traceEvents"),
        ("a.txt", "app::waits(int)"),
    ] {
        let path = dir.path().join(file);
        let outcome = probe(&["--sample", "200", "-o", path.to_str().expect("UTF-8")], &[program]);
        assert_eq!((outcome.status, outcome.out().as_str()), (7, PRINTED), "{}", outcome.err());
        let text = std::fs::read_to_string(&path).expect("the report");
        assert!(text.contains(words), "{file}: {text}");
        if file == "a.json" {
            let functions = fits_schema("probe", &text);
            // Never as many, so exact.
            let waits = row(&functions, "app::waits(int)");
            assert_eq!((waits["calls"].as_u64(), number(waits, "calls_error")), (Some(100), 0.0), "{waits}");
            check_waits(waits);
            let add = row(&functions, "app::add(long)");
            assert!(number(add, "sampled") < 30_000.0 && number(add, "total_error_ns") > 0.0, "{add}");
            // Counted where they are not measured.
            for (name, calls) in CALLS {
                let row = row(&functions, name);
                assert_eq!((row["calls"].as_u64(), number(row, "calls_error")), (Some(calls), 0.0), "{row}");
            }
        }
    }
    let table = probe(&["--functions", "app::wa*"], &[program]);
    assert!(table.out().starts_with(PRINTED) && table.out().contains("app::waits(int)"), "{}", table.out());
    assert!(!table.out().contains("app::add"), "{}", table.out());
    // The name without its return type, with and without its parameters.
    for name in ["app::maybe<int>(int)", "app::maybe<int>"] {
        let table = probe(&["--functions", name], &[program]);
        assert!(table.out().contains("int app::maybe<int>(int)"), "{name}: {}", table.out());
    }
}

/// Python blocks all signals in a child that shares its memory until it executes a program.
const STARTS_PROGRAMS: &str = "
import select, subprocess, sys
def start_programs():
    for options in {}, {'close_fds': False}, {'start_new_session': True}, {'cwd': '/'}, {'preexec_fn': lambda: None}:
        done = subprocess.run(['/bin/echo', 'here'], capture_output=True, **options)
        assert (done.returncode, done.stdout) == (0, b'here\\n'), (options, done)
    try:
        subprocess.run(['/no/such/program'])
    except FileNotFoundError:
        pass
    else:
        raise AssertionError('it was not told that there is no such program')
";

#[test]
fn children_of_python_that_block_all_signals_live() {
    let program = format!("{STARTS_PROGRAMS}\nfor _ in range(3): start_programs()\nprint('done')");
    for options in [&["--sample", "all", "--json"][..], &["--sample", "1", "--json"]] {
        let outcome = probe(options, &["/usr/bin/python3", "-c", &program]);
        assert_eq!((outcome.status, outcome.err().as_str()), (0, "done\n"), "{options:?}");
        let functions = fits_schema("probe", &outcome.out());
        assert_eq!(row(&functions, "Py_FinalizeEx")["calls"], 1);
    }
}

#[test]
fn children_of_python_live_while_it_is_attached_to() {
    let source = "print('up', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]: start_programs()
print('down')";
    let mut child = spawn(
        Command::new("/usr/bin/python3")
            .args(["-c", &format!("{STARTS_PROGRAMS}\n{source}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).expect("a line");
    let outcome = probe(&["--pid", &child.id().to_string(), "--seconds", "3", "--json"], &[]);
    drop(child.stdin.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).expect("text");
    let status = child.wait().expect("our child");
    assert!(status.success() && rest == "down\n", "{status} {rest:?}");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert!(fits_schema("probe", &outcome.out()).as_array().is_some_and(|rows| rows.len() > 3));
}

#[test]
fn a_running_process_is_profiled_and_runs_on() {
    let source = "print('up', flush=True)\nwhile not input_ready():\n    sum(range(1000))\nprint('down')\n";
    let ready = "import select, sys\ninput_ready = lambda: select.select([sys.stdin], [], [], 0)[0]\n";
    let mut child = spawn(
        Command::new("/usr/bin/python3")
            .args(["-c", &format!("{ready}{source}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("a line");
    let pid = child.id().to_string();
    let outcome = probe(&["--pid", &pid, "--seconds", "1", "--json"], &[]);
    drop(child.stdin.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).expect("text");
    let status = child.wait().expect("our child");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let functions = fits_schema("probe", &outcome.out());
    assert!(functions.as_array().is_some_and(|rows| rows.len() > 3), "{functions}");
    assert!(status.success() && rest == "down\n", "{status} {rest:?}");
}

#[test]
fn wrong_uses_are_refused_with_one_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (options, line, words) in [
        (vec!["--pid", "4194304"], vec![], "4194304"),
        (vec![], vec!["/no/such/program"], "/no/such/program"),
        (vec!["-o", "/no/such/directory/a.html"], vec!["/bin/true"], "/no/such/directory/a.html"),
    ] {
        let outcome = probe(&options, &line);
        assert_eq!(outcome.status, 1, "{options:?}: {}", outcome.err());
        assert_eq!(outcome.err().lines().count(), 1, "{options:?}: {}", outcome.err());
        assert!(outcome.err().contains(words), "{options:?}: {}", outcome.err());
    }
    for options in
        [vec!["--sample", "0"], vec!["--budget", "0%"], vec!["--epoch", "0"], vec!["--seconds", "1"], vec![]]
    {
        let line = if options.is_empty() { vec![] } else { vec!["/bin/true"] };
        assert_eq!(probe(&options, &line).status, 2, "{options:?}");
    }
    let none = probe(&["--functions", "nothing_*"], &["/bin/true"]);
    assert_eq!(none.status, 0, "{}", none.err());
    assert!(none.err().contains("nothing_*"), "{}", none.err());
    let program = dir.path().join("short");
    let source = dir.path().join("short.c");
    let text = "__attribute__((noipa, patchable_function_entry(2))) int tiny(int n) { return n + 1; }\n\
        int main(void) { return tiny(1) - 2; }\n";
    std::fs::write(&source, text).expect("a temporary directory can be written");
    let built = run(Command::new("gcc").arg("-o").args([&program, &source]), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    let outcome = probe(&["--functions", "tiny"], &[program.to_str().expect("UTF-8")]);
    assert_eq!((outcome.status, outcome.err().lines().count()), (0, 1), "{}", outcome.err());
    for words in ["tiny in ", "/short is not probed: ", "shorter than five bytes"] {
        assert!(outcome.err().contains(words), "{words}: {}", outcome.err());
    }
    let program = dir.path().join("static");
    let source = dir.path().join("static.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a temporary directory can be written");
    let built = run(Command::new("gcc").args(["-static", "-o"]).args([&program, &source]), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    let outcome = probe(&[], &[program.to_str().expect("UTF-8")]);
    assert!(outcome.status == 1 && outcome.err().contains("statically linked"), "{}", outcome.err());
}
