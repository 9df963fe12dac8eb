//! `memtap rtvm` on its own workload and on traces of real programs, and the preloaded malloc.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Finished, bin_dir, fits_schema, memtap, record, repository, run, tool};
use serde_json::Value;

fn rtvm(args: &[&str]) -> Finished {
    run(Command::new(memtap()).arg("rtvm").args(args), b"")
}

fn table(args: &[&str]) -> Value {
    let outcome = rtvm(args);
    assert_eq!(outcome.status, 0, "rtvm {args:?}: {}", outcome.err());
    fits_schema("rtvm", &outcome.out())
}

fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().expect("rows")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} is no number in {row}"))
}

/// What must hold of any table: both systems did the same, and the RTMMU never had more pages.
fn check(table: &Value) {
    for pair in rows(table).chunks(2) {
        let [a, b] = pair else { panic!("rows come in pairs: {table}") };
        assert_eq!((a["system"].as_str(), b["system"].as_str()), (Some("rtmmu"), Some("conventional")));
        for key in ["workload", "seed", "allocations", "frees", "accesses"] {
            assert_eq!(a[key], b[key], "{key}");
        }
        assert!(number(a, "peak_pages") <= number(b, "peak_pages"), "{a} {b}");
        let [mean_a, mean_b] = [a, b].map(|row| row["mean_pages"].as_f64().expect("a number"));
        assert!(mean_a <= mean_b && mean_b <= number(b, "peak_pages") as f64, "{a} {b}");
        // The heap of gzip has no block.
        assert_eq!(mean_a > 0.0, number(a, "allocations") + number(a, "accesses") > 0, "{a}");
        assert!(number(a, "max_free_touches") <= 400, "a constant: {a}");
    }
    assert_eq!(table["points_above_conventional"], 0);
    for failures in table["failures"].as_array().expect("failures") {
        for system in ["rtmmu", "conventional"] {
            let failed = failures[system].as_object().expect("an object");
            assert!(failed.values().all(|count| count == 0), "{failed:?}");
        }
    }
}

#[test]
fn the_synthetic_workload_gives_the_papers_table() {
    let args = ["--synthetic", "--json", "--seeds", "2", "--seed", "7"];
    let table_ = table(&args);
    check(&table_);
    assert_eq!(rows(&table_).len(), 4);
    for (index, pair) in rows(&table_).chunks(2).enumerate() {
        assert_eq!(number(&pair[0], "seed"), 7 + index as u64);
        let [allocations, frees, accesses] =
            ["allocations", "frees", "accesses"].map(|key| number(&pair[0], key));
        assert_eq!(allocations + frees + accesses, 1_000_000);
        assert!(allocations.abs_diff(100_000) < 3000 && frees.abs_diff(100_000) < 3000);
        // The point of the paper: other orders of magnitude.
        assert!(number(&pair[1], "max_free_touches") > 100 * number(&pair[0], "max_free_touches"));
        assert!(number(&pair[1], "peak_pages") > 10 * number(&pair[0], "peak_pages"));
    }
    assert_eq!(table_, table(&args), "touches and modelled times are the same in every run");
}

#[test]
fn figures_and_a_page_are_written() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("new");
    let table_ =
        table(&["--synthetic", "--actions", "50000", "--json", "--out", out.to_str().expect("UTF-8")]);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let written: Value = serde_json::from_str(&read("table.json")).expect("JSON");
    assert_eq!(written, table_, "the same figures in every output");
    let page = read("index.html");
    for figure in ["figure5.svg", "figure6.svg", "figure7.svg"] {
        let svg = read(figure);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{figure}");
        assert!(page.contains(&svg), "{figure} is on the page");
    }
    assert!(!page.contains("src=") && !page.contains("href="), "nothing is loaded");
    let peak = number(&rows(&table_)[1], "peak_pages").to_string();
    assert!(page.contains(&format!("<td class=\"n\">{peak}</td>")));
    let figures: Value = serde_json::from_str(&read("figures.json")).expect("JSON");
    let calls: u64 =
        figures["figure6"]["rtmmu"].as_array().expect("cells").iter().map(|cell| number(cell, "calls")).sum();
    assert_eq!(calls, number(&rows(&table_)[0], "frees"), "every release is in the figure");
}

/// Writing the page of a run measured munmap on the machine of whoever wrote the page, and drew it as if it were the run's.
#[test]
fn a_page_measures_only_what_it_is_asked_to() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let written = |options: &[&str], name: &str| {
        let out = dir.path().join(name);
        let common = ["--synthetic", "--actions", "5000", "--json", "--out", out.to_str().expect("UTF-8")];
        table(&[&common[..], options].concat());
        let read = |file: &str| std::fs::read_to_string(out.join(file)).expect("it was written");
        let figures: Value = serde_json::from_str(&read("figures.json")).expect("JSON");
        (figures, read("index.html"))
    };
    let (figures, page) = written(&[], "plain");
    assert_eq!((&figures["munmap"], &figures["munmap_measured_on"]), (&Value::Array(vec![]), &Value::Null));
    assert!(!page.contains("munmap"), "nothing was measured");
    let (figures, page) = written(&["--munmap"], "measured");
    assert!(figures["munmap"].as_array().is_some_and(|curve| curve.len() > 5));
    let machine = figures["munmap_measured_on"].as_str().expect("the machine has a name");
    assert!(machine.contains("Linux") && page.contains("measured when this page was written"), "{machine}");
    assert!(page.contains(machine), "{machine} is named on the page");
}

/// Builds a program of `benches/workloads`.
fn workload(dir: &Path, name: &str) -> String {
    let program = dir.join(name);
    let source = repository().join("benches/workloads").join(format!("{name}.c"));
    let built = run(Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(source).arg("-lm"), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    program.display().to_string()
}

/// Records a program and replays it: the calls are those that `stat` counts.
fn check_program(line: &[&str], stdin: &[u8]) {
    let mut line: Vec<String> = line.iter().map(|s| s.to_string()).collect();
    if !line[0].contains('/') {
        line[0] = tool(&line[0]).display().to_string();
    }
    let recording = record(&[], &line, stdin);
    assert_eq!(recording.outcome.status, 0, "{line:?}: {}", recording.outcome.err());
    let path = recording.trace.path.to_str().expect("UTF-8");
    let table_ = table(&[path, "--json"]);
    check(&table_);
    let row = &rows(&table_)[0];
    let stat = recording.trace.stat();
    let calls = &stat["allocations"];
    let heap: u64 = ["malloc", "calloc", "realloc"].iter().map(|key| number(calls, key)).sum();
    let mappings: u64 = ["mmap", "mremap"].iter().map(|key| number(calls, key)).sum();
    let allocations = number(row, "allocations");
    assert!(heap <= allocations && allocations <= heap + mappings, "{row} {calls}");
    assert!(number(row, "frees") <= number(&stat, "frees") + number(&stat, "unmaps") + mappings, "{row}");
    assert!(number(row, "accesses") >= number(&stat, "accesses"), "block operations are accesses too: {row}");
    assert!(number(row, "peak_pages") > 0);
    // The heap alone, as the paper did.
    let alone = table(&[path, "--json", "--heap-only"]);
    check(&alone);
    assert_eq!(number(&rows(&alone)[0], "allocations"), heap);
    assert!(number(&rows(&alone)[0], "accesses") <= number(row, "accesses"));
}

#[test]
fn gzip_and_bzip2() {
    let readme = repository().join("README.md").display().to_string();
    check_program(&["gzip", "-c", &readme], b"");
    check_program(&["bzip2", "-c", &readme], b"");
}

#[test]
fn sort() {
    let lines: String =
        (0..2000_u64).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761) % 10_007)).collect();
    check_program(&["sort", "--parallel=1"], lines.as_bytes());
}

#[test]
fn sqlite3() {
    let sql = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<300) \
               insert into t select x, x*x from c; select sum(b) from t;";
    check_program(&["sqlite3", ":memory:", sql], b"");
}

#[test]
fn python3() {
    check_program(&["python3", "-S", "-c", "print(sum(i * i for i in range(1000)))"], b"");
}

#[test]
fn an_fft_and_streams() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    check_program(&[&workload(dir.path(), "fft"), "9"], b"");
    check_program(&[&workload(dir.path(), "streams"), "4", "3000"], b"");
}

#[test]
fn wrong_uses_are_refused_with_one_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = dir.path().join("text");
    std::fs::write(&text, "no trace").expect("a temporary directory can be written");
    let text = text.to_str().expect("UTF-8");
    for (args, words) in [
        (vec!["/no/such/file"], "/no/such/file"),
        (vec![text], text),
        (vec!["--synthetic", "--page", "3000"], "--page"),
        (vec!["--synthetic", "--page", "4m"], "--page"),
        (vec!["--synthetic", "--space", "8k"], "--space"),
        (vec!["--synthetic", "--space", "1000g", "--page", "4k"], "--space"),
        (vec!["--synthetic", "--memory", "1"], "--memory"),
        (vec!["--synthetic", "--actions", "10", "--out", &format!("{text}/x")], text),
    ] {
        let outcome = rtvm(&args);
        assert_eq!(outcome.status, 1, "{args:?}: {}", outcome.err());
        assert_eq!(outcome.err().lines().count(), 1, "{args:?}: {}", outcome.err());
        assert!(outcome.err().contains(words), "{args:?}: {}", outcome.err());
    }
    for args in [
        vec![],
        vec![text, "--synthetic"],
        vec!["--synthetic", "--sizes", "normal:3"],
        vec!["--synthetic", "--seeds", "0"],
        vec!["--synthetic", "--space", "x"],
    ] {
        assert_eq!(rtvm(&args).status, 2, "{args:?}");
    }
}

#[test]
fn too_little_memory_is_counted_and_no_failure() {
    let table_ = table(&["--synthetic", "--json", "--actions", "20000", "--memory", "1m"]);
    for system in ["rtmmu", "conventional"] {
        assert!(number(&table_["failures"][0][system], "out_of_frames") > 0);
    }
    assert!(rows(&table_).iter().all(|row| number(row, "peak_pages") <= 256));
    let small = table(&["--synthetic", "--json", "--actions", "20000", "--space", "16m"]);
    assert!(number(&small["failures"][0]["rtmmu"], "out_of_address_space") > 0);
    assert_eq!(rtvm(&["--synthetic", "--actions", "0"]).status, 0);
}

fn malloc_library() -> PathBuf {
    let path = bin_dir().join("libmemtap_rtmalloc.so");
    assert!(path.exists(), "{} does not exist: run `cargo build --bins --lib` first", path.display());
    path
}

/// Runs a program natively and with the preloaded malloc, and compares.
fn check_preloaded(line: &[&str], stdin: &[u8]) {
    let program = if line[0].contains('/') { PathBuf::from(line[0]) } else { tool(line[0]) };
    let command = || {
        let mut command = Command::new(&program);
        command.args(&line[1..]);
        command
    };
    let native = run(&mut command(), stdin);
    for prefault in ["0", "1"] {
        let mut preloaded = command();
        preloaded.env("LD_PRELOAD", malloc_library()).env("MEMTAP_RTMALLOC_PREFAULT", prefault);
        if prefault == "1" {
            preloaded.env("MEMTAP_RTMALLOC_BYTES", (64 << 20).to_string());
        }
        assert_eq!(run(&mut preloaded, stdin), native, "{line:?}, prefault {prefault}");
    }
}

#[test]
fn programs_run_with_the_preloaded_malloc() {
    let lines: String =
        (0..20_000_u64).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761) % 10_007)).collect();
    check_preloaded(&["sort"], lines.as_bytes());
    check_preloaded(
        &["sqlite3", ":memory:", "select group_concat(value) from generate_series(1, 3000);"],
        b"",
    );
    check_preloaded(
        &["python3", "-c", "import json, threading; print(len(json.dumps(list(range(50000)))))"],
        b"",
    );
    check_preloaded(
        &["perl", "-e", "my %h; $h{$_ % 977} .= $_ for 1..50000; print length join '', values %h"],
        b"",
    );
}

#[test]
fn a_program_that_forks_and_threads_has_a_whole_heap() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("malloc_uses");
    let source = repository().join("crates/rtvm/rtvm-preload/tests/malloc_uses.c");
    let built = run(
        Command::new("gcc")
            .args(["-O0", "-fno-builtin", "-pthread", "-w", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-ldl"),
        b"",
    );
    assert_eq!(built.status, 0, "{}", built.err());
    let go = |what: &str| run(Command::new(&program).arg(what).env("LD_PRELOAD", malloc_library()), b"");
    for what in ["all", "threads"] {
        let outcome = go(what);
        assert_eq!((outcome.out().as_str(), outcome.status), ("ok\n", 0), "{what}: {}", outcome.err());
    }
    for (what, words) in
        [("twice", "released before"), ("wrong", "no block begins"), ("over", "memtap rtmalloc: free")]
    {
        let outcome = go(what);
        assert_eq!(outcome.status, 128 + 6, "{what}: {}", outcome.err());
        assert!(outcome.err().contains(words), "{what}: {}", outcome.err());
        assert_eq!(outcome.err().lines().count(), 1, "{}", outcome.err());
    }
}

/// The helper that gives memory back touched a page of each mebibyte of the arena that had never been used: 10 MB became
/// 268 while the program slept.
#[test]
fn an_idle_program_does_not_grow() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("idle_memory");
    let source = repository().join("crates/rtvm/rtvm-preload/tests/idle_memory.c");
    let built = run(Command::new("gcc").args(["-O1", "-fno-builtin", "-o"]).arg(&program).arg(source), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    let outcome = run(Command::new(&program).env("LD_PRELOAD", malloc_library()), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let text = outcome.out();
    let resident_kib = |step: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(step));
        line.and_then(|kib| kib.trim().parse().ok()).unwrap_or_else(|| panic!("no {step} in {text}"))
    };
    // 2.5 MB live in small blocks, 1.2 MB in the queue, 62 MB in the cache; the program itself has 2 to 4.
    for (step, most) in
        [("churn", 16_000), ("queue", 20_000), ("idle", 20_000), ("freed", 12_000), ("flushed", 14_000)]
    {
        assert!(resident_kib(step) < most, "{step}: {text}");
    }
    assert!(resident_kib("idle") <= resident_kib("queue") + 200, "it grew while it slept: {text}");
    assert!(resident_kib("cache") > 62_000, "{text}");
}

/// Threads hand blocks to each other and end with full caches; freeing twice is an error where a cache has the block, too.
#[test]
fn blocks_that_other_threads_free_come_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("thread_uses");
    let source = repository().join("crates/rtvm/rtvm-preload/tests/thread_uses.c");
    let flags = ["-O1", "-fno-builtin", "-pthread", "-w", "-o"];
    let built = run(Command::new("gcc").args(flags).arg(&program).arg(source), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    let go = |what: &str, cache: &str| {
        let mut command = Command::new(&program);
        command.arg(what).env("LD_PRELOAD", malloc_library()).env("MEMTAP_RTMALLOC_CACHE", cache);
        run(&mut command, b"")
    };
    for cache in ["1", "0"] {
        let outcome = go("all", cache);
        assert_eq!((outcome.out().as_str(), outcome.status), ("ok\n", 0), "{cache}: {}", outcome.err());
        for what in ["twice", "cached"] {
            let outcome = go(what, cache);
            assert_eq!(outcome.status, 128 + 6, "{what}, cache {cache}: {}", outcome.err());
            assert!(outcome.err().contains("memtap rtmalloc: free"), "{}", outcome.err());
        }
    }
}
