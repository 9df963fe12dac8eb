//! Programs whose calls are counted by hand, run with the library: counts are exact when every call
//! is measured, percentiles are plausible with sampling, and programs keep behaving as they did.

use probes::{
    joined::{FunctionFigures, Profile},
    profile::settings::Settings,
};
use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    [deps.join("libmemtap_probes.so"), deps.with_file_name("libmemtap_probes.so")]
        .into_iter()
        .find(|path| path.exists())
        .expect("cargo builds the library before its tests")
}

fn build(dir: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/tests/programs");
    let program = dir.join("program");
    let compiler = if source.ends_with(".c") || source.ends_with(".S") { "gcc" } else { "g++" };
    let status = Command::new(compiler)
        .args(["-O1", "-g", "-pthread", "-fno-inline", "-o"])
        .arg(&program)
        .arg(programs.join(source))
        .args(flags)
        .arg("-ldl")
        .status()
        .unwrap();
    assert!(status.success(), "{source} does not compile");
    program
}

struct Run {
    output: Output,
    profile: Profile,
}

fn run(source: &str, flags: &[&str], change: impl FnOnce(&mut Settings)) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), source, flags);
    run_program(&program, change)
}

fn settings(out: &Path) -> Settings {
    Settings {
        out_dir: out.display().to_string(),
        sample: None,
        epoch_ms: 5,
        functions: String::new(),
        libraries: false,
        budget_percent: None,
        timeline: false,
        controller: 0,
    }
}

fn run_program(program: &Path, change: impl FnOnce(&mut Settings)) -> Run {
    let out = tempfile::tempdir().unwrap();
    let mut settings = settings(out.path());
    change(&mut settings);
    let output = Command::new(program).envs(settings.to_env()).env("LD_PRELOAD", library()).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", program.display());
    Run { output, profile: Profile::read(out.path()).unwrap() }
}

impl Run {
    fn row(&self, function: &str) -> &FunctionFigures {
        let rows = &self.profile.rows;
        rows.iter()
            .find(|row| row.function == function)
            .unwrap_or_else(|| panic!("no {function} in {rows:#?}"))
    }

    fn check_calls(&self, expect: &[(&str, u64)]) {
        for (function, calls) in expect {
            assert_eq!(self.row(function).calls, *calls, "{function}");
        }
    }
}

const SHAPES: &[(&str, u64)] = &[
    ("main", 1),
    ("fib", 465),
    ("catcher", 4100),
    ("thrower", 16400),
    ("leaf", 24550),
    ("jump_catcher", 50),
    ("jumper", 250),
    ("slow", 20),
    ("worker", 4),
];

fn check_shapes(flags: &[&str], provider: &str) {
    let run = run("shapes.cc", flags, |_| {});
    assert_eq!(run.output.stdout, b"done\n");
    run.check_calls(SHAPES);
    for function in ["fib", "catcher", "leaf", "slow", "worker", "main"] {
        let row = run.row(function);
        assert_eq!((row.sampled, row.calls_error), (row.calls, 0.0), "{function}");
        assert_eq!(row.provider, provider, "{function}");
        let [p50, p90, p99, p999] = row.percentiles_ns;
        assert!(p50 <= p90 && p90 <= p99 && p99 <= p999 && p999 <= row.max_ns, "{row:?}");
        assert!(row.self_ns <= row.total_ns * 1.001 || function == "fib", "{row:?}");
        assert!(row.file.as_ref().is_some_and(|f| f.ends_with("shapes.cc")) && row.line.is_some(), "{row:?}");
    }
    assert!(run.row("slow").percentiles_ns[0] > run.row("leaf").percentiles_ns[0]);
    // main contains all that its thread did.
    assert!(run.row("main").total_ns >= run.row("slow").total_ns);
}

#[test]
fn functions_with_traps_run_with_all_signals_blocked() {
    let run = run("masked.c", &[], |_| {});
    assert_eq!(run.output.stdout, b"done\n");
    run.check_calls(&[("one_round", 3), ("tiny", 3 * 203), ("handle", 9)]);
}

#[test]
fn programs_that_set_what_sigtrap_does_run_into_traps_unharmed() {
    let run = run("own_traps.c", &[], |_| {});
    assert_eq!(run.output.stdout, b"done\n");
    assert_eq!(run.row("one_round").calls, 3);
    // Those of children that share the memory are counted, those of forked children are not.
    run.check_calls(&[("tiny", 3 * 6), ("count", 3 * 2), ("count_with_info", 3 * 2)]);
}

#[test]
fn unmodified_programs_are_counted_exactly() {
    check_shapes(&[], "entry");
}

/// Without a trap where several instructions can be displaced together; with one where the program jumps among them.
#[test]
fn several_instructions_are_displaced_where_nothing_jumps_among_them() {
    for sample in [None, Some(10)] {
        let run = run("several.c", &["-no-pie", "-fcf-protection=none"], |s| s.sample = sample);
        assert_eq!(run.output.stdout, b"516500 jump trap trap\n2516500 jump jump\n");
        run.check_calls(&[("few", 1000), ("entered", 1000), ("cold_part", 1000)]);
        run.check_calls(&[("calls", 1000), ("calls_by_name", 1000), ("twice", 2000)]);
    }
}

#[test]
fn position_dependent_programs_are_counted_exactly() {
    check_shapes(&["-no-pie"], "entry");
}

#[test]
fn optimised_programs_with_frames_are_counted_exactly() {
    check_shapes(&["-fno-omit-frame-pointer", "-fcf-protection"], "entry");
}

#[test]
fn instrumented_programs_are_counted_exactly() {
    check_shapes(&["-finstrument-functions"], "instrument-functions");
}

#[test]
fn instrumented_programs_without_linkage_table_are_counted_exactly() {
    check_shapes(&["-finstrument-functions", "-fno-plt"], "instrument-functions");
}

#[test]
fn programs_with_patchable_entries_are_counted_exactly() {
    check_shapes(&["-fpatchable-function-entry=5"], "patchable-function-entry");
    check_shapes(&["-fpatchable-function-entry=8,3"], "patchable-function-entry");
}

#[test]
fn cleanups_and_nested_exceptions_are_survived() {
    for flags in [&[] as &[&str], &["-fpatchable-function-entry=5"], &["-finstrument-functions"]] {
        let run = run("cleanup.cc", flags, |_| {});
        assert_eq!(run.output.stdout, b"done 3000\n");
        run.check_calls(&[
            ("outer", 1000),
            ("middle", 1000),
            ("inner", 1000),
            ("cleaned", 2000),
            ("helper", 3000),
        ]);
        assert_eq!((run.row("outer").sampled, run.row("main").sampled), (1000, 1), "{flags:?}");
    }
}

#[test]
fn cancelled_threads_clean_up() {
    for flags in [&[] as &[&str], &["-fpatchable-function-entry=5"], &["-finstrument-functions"]] {
        let run = run("cancelled.cc", flags, |_| {});
        assert_eq!(run.output.stdout, b"120 destroyed, 20 cleaned\n", "{flags:?}");
        run.check_calls(&[("body", 20), ("level", 100), ("waits", 20)]);
    }
}

#[test]
fn a_program_with_its_own_unwinder_is_left_alone() {
    let run = run("cleanup.cc", &["-static-libgcc"], |_| {});
    assert_eq!(run.output.stdout, b"done 3000\n");
    assert!(run.profile.unprobed.iter().any(|u| u.symbol == "outer" && u.reason.contains("unwinder")));
}

#[test]
fn too_little_space_is_named() {
    let run = run("shapes.cc", &["-fpatchable-function-entry=3"], |_| {});
    assert_eq!(run.output.stdout, b"done\n");
    let reasons: Vec<_> = run.profile.unprobed.iter().filter(|u| u.symbol == "leaf").collect();
    assert!(reasons.is_empty() || reasons[0].reason.contains("shorter than five bytes"), "{reasons:?}");
}

#[test]
fn a_glob_selects_functions() {
    for flags in [&[] as &[&str], &["-finstrument-functions"]] {
        let run = run("shapes.cc", flags, |s| s.functions = "l?af,jump*".to_owned());
        run.check_calls(&[("leaf", 24550), ("jumper", 250), ("jump_catcher", 50)]);
        assert_eq!(run.profile.rows.len(), 3, "{:?}", run.profile.rows);
    }
}

/// Calls outside the sample are counted; they were extrapolated, wrong by 0.4 x in the median and 700 x at worst.
#[test]
fn sampling_counts_every_call_and_gives_the_right_percentiles() {
    for flags in [&[] as &[&str], &["-finstrument-functions"], &["-fpatchable-function-entry=5"]] {
        let run = run("steady.c", flags, |s| s.sample = Some(10));
        let (steady, seldom) = (run.row("steady"), run.row("seldom"));
        assert!(steady.sampled < steady.calls && steady.sampled >= 10, "{flags:?} {steady:?}");
        let made: u64 = String::from_utf8_lossy(&run.output.stdout).trim().parse().unwrap();
        assert_eq!((steady.calls, steady.calls_error), (made, 0.0), "{flags:?} {steady:?}");
        assert_eq!((seldom.calls, seldom.calls_error), (3, 0.0), "{flags:?}");
        // 9 of 10 calls are short, one is a hundred times as long.
        let [p50, _, p99, _] = steady.percentiles_ns;
        assert!(p99 > 5.0 * p50, "{flags:?} {steady:?}");
    }
}

/// Bursts, recursion, threads, exceptions: the same calls with one sample an epoch as with all.
#[test]
fn calls_are_the_same_with_sampling_as_without() {
    for flags in [&[] as &[&str], &["-finstrument-functions"], &["-fpatchable-function-entry=5"]] {
        for sample in [None, Some(1), Some(10)] {
            let run = run("shapes.cc", flags, |s| s.sample = sample);
            assert_eq!(run.output.stdout, b"done\n", "{flags:?} {sample:?}");
            run.check_calls(SHAPES);
            let rows = run.profile.rows.iter();
            assert!(rows.clone().all(|row| row.calls_error == 0.0), "{flags:?} {sample:?}");
            assert!(rows.clone().all(|row| row.sampled <= row.calls), "{flags:?} {sample:?}");
        }
    }
}

/// What times.cc says of a function, in ticks: no less than it turned and no more than passed, with and without its callees.
struct Truth {
    function: String,
    calls: u64,
    total: RangeInclusive<f64>,
    own: RangeInclusive<f64>,
}

fn truths(output: &Output) -> Vec<Truth> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let function = words.next().expect("a name").to_owned();
            let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
            let ticks = |at: usize| numbers[at] as f64;
            Truth { function, calls: numbers[0], total: ticks(2)..=ticks(1), own: ticks(4)..=ticks(3) }
        })
        .collect()
}

/// A program that says itself what its functions take, in the run that was profiled. Errors hold what they say, no function takes longer
/// than its thread was there, and own times add up to no more than that.
#[test]
fn times_are_possible_and_their_errors_hold_the_truth() {
    let (mut held, mut all) = (0, 0);
    for sample in [Some(10), Some(10), Some(1), None] {
        let run = run("times.cc", &[], |s| s.sample = sample);
        let profile = &run.profile;
        let elapsed = profile.elapsed_ns as f64;
        let own: f64 = profile.rows.iter().map(|row| row.self_ns).sum();
        assert!(own <= 2.0 * elapsed, "{sample:?}: {own} of two threads in {elapsed}");
        for row in &profile.rows {
            assert!(row.self_ns <= row.total_ns && row.total_ns <= 2.0 * elapsed, "{sample:?}: {row:?}");
        }
        for truth in truths(&run.output) {
            let row = run.row(&truth.function);
            assert_eq!(row.calls, truth.calls, "{sample:?}: {row:?}");
            let holds = |found: f64, error: f64, ticks: &RangeInclusive<f64>| {
                let error = error / profile.ns_per_tick + 0.01 * ticks.end();
                (ticks.start() - error..=ticks.end() + error).contains(&(found / profile.ns_per_tick))
            };
            let total = holds(row.total_ns, row.total_error_ns, &truth.total);
            let own = holds(row.self_ns, row.self_error_ns, &truth.own);
            if ["waits_one", "seldom_one", "other_one", "outer_one"].contains(&row.function.as_str()) {
                // All of them where nothing else runs; 63 of 80 once beside other tests.
                assert!(row.sampled * 4 >= row.calls, "long calls are measured: {row:?}");
                assert!(total || row.sampled < row.calls, "{sample:?}: {row:?}, not {:?} ticks", truth.total);
            }
            held += u32::from(total) + u32::from(own);
            all += 2;
        }
    }
    // 95 of 100 where nothing else runs.
    assert!(held * 4 >= all * 3, "{held} of {all}");
}

/// The time outside callees of a function is the same in the table, in JSON and over all its places in the flame graph,
/// which was not scaled.
#[test]
fn the_flame_graph_is_scaled_as_the_table_is() {
    let run = run("shapes.cc", &[], |s| s.sample = Some(3));
    for (index, row) in run.profile.rows.iter().enumerate() {
        let nodes = || run.profile.paths.iter().filter(|node| node.row == index);
        let (own, calls): (f64, f64) =
            (nodes().map(|node| node.self_ns).sum(), nodes().map(|node| node.calls).sum());
        assert!((own - row.self_ns).abs() <= 1e-6 * row.self_ns + 1.0, "{row:?}: {own}");
        if row.sampled > 0 {
            assert!((calls - row.calls as f64).abs() < 0.5 + 1e-6 * calls, "{row:?}: {calls}");
        }
    }
}

#[test]
fn a_budget_thins_the_samples_out() {
    let free = run("steady.c", &[], |s| s.sample = Some(10));
    let bound = run("steady.c", &[], |s| {
        s.sample = Some(10);
        s.budget_percent = Some(0.000_1);
    });
    assert!(bound.row("steady").sampled < free.row("steady").sampled);
}

/// Where a budget has a function switched off for a while, its calls are an estimate whose error holds the truth.
#[test]
fn the_error_of_calls_under_a_budget_holds_the_truth() {
    let (mut held, mut estimated) = (0, 0);
    for _ in 0..10 {
        let run = run("bursts.c", &[], |s| {
            s.sample = Some(3);
            s.epoch_ms = 2;
            s.budget_percent = Some(0.05);
        });
        for (function, truth) in [("often", 3_000_000u64), ("bursts", 1_000_000)] {
            let row = run.row(function);
            estimated += u32::from(row.calls_error > 0.0);
            held += u32::from(row.calls.abs_diff(truth) as f64 <= row.calls_error);
        }
    }
    assert!(estimated >= 10, "{estimated} of 20 were switched off");
    assert!(held >= 18, "{held} of 20");
}

#[test]
fn forks_exits_signals_and_unloading_are_survived() {
    let run = run("life.c", &["-rdynamic"], |_| {});
    assert_eq!(run.output.stdout, b"child\nparent\n");
    // Parent and child each call once after the fork, the parent once before.
    run.check_calls(&[("before_fork", 1), ("after_fork", 2), ("in_handler", 5), ("on_thread", 200)]);
    assert_eq!(run.profile.processes, 2);
}

/// The helper thread of the child blocked the signal by which the C library's `setgid` reaches every thread.
#[test]
fn a_forked_child_that_calls_setgid_does_not_wait_for_ever() {
    for sample in [None, Some(10)] {
        let run = run("privileges.c", &[], |s| s.sample = sample);
        let printed = String::from_utf8_lossy(&run.output.stdout).into_owned();
        assert_eq!(printed, "child\nchild 0, sum 500500\n", "{:?}", run.output);
        if sample.is_none() {
            // Also after the child gave up the right to open or write any file.
            run.check_calls(&[("work", 2000), ("unprivileged", 1000)]);
        }
        assert_eq!(run.profile.processes, 2);
    }
}

/// The helper thread kept such a process alive for ever.
#[test]
fn a_process_ends_with_the_last_thread_of_the_program() {
    let run = run("lastthread.c", &[], |_| {});
    assert_eq!(String::from_utf8_lossy(&run.output.stdout), "sum 500500", "{:?}", run.output);
    run.check_calls(&[("work", 1000)]);
}

#[test]
fn modules_that_come_and_go_are_survived() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("plugin.so");
    for flags in [&[] as &[&str], &["-finstrument-functions"], &["-fpatchable-function-entry=5"]] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/tests/programs/plugin.c");
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&plugin).arg(source).args(flags);
        assert!(compile.status().unwrap().success());
        let define = format!("-DPLUGIN=\"{}\"", plugin.display());
        // Calls that were hit before the library was known are measured without being changed.
        let changes = if flags == ["-finstrument-functions"] { "-DCHANGES=0" } else { "-DCHANGES=1" };
        let run = run("loader.c", &[&define, changes], |s| {
            s.sample = Some(3);
            s.epoch_ms = 1;
        });
        assert_eq!(run.output.stdout, b"done\n");
        assert_eq!(run.row("main").calls, 1);
        assert!(run.profile.rows.iter().any(|row| row.function == "plugged"), "{flags:?}");
    }
}

#[test]
fn sleds_work_without_their_runtime() {
    let run = run("sleds.S", &[], |_| {});
    run.check_calls(&[("sledded", 1000)]);
    let row = run.row("sledded");
    assert_eq!((row.sampled, row.provider.as_str()), (1000, "xray"));
}

/// XRay sleds and patchable entries as clang makes them. Linked by g++: the sleds need no runtime.
#[test]
fn programs_built_by_clang_are_counted_exactly() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/tests/programs/shapes.cc");
    let dir = tempfile::tempdir().unwrap();
    let check = |flags: &[&str], provider: &str| {
        let (object, program) = (dir.path().join("shapes.o"), dir.path().join("program"));
        let mut compile = Command::new("clang++");
        compile
            .args(["-c", "-O1", "-g", "-fno-inline", "-fPIC"])
            .args(flags)
            .arg(&source)
            .arg("-o")
            .arg(&object);
        assert!(compile.status().unwrap().success(), "{flags:?}");
        let mut link = Command::new("g++");
        assert!(link.arg("-pthread").arg(&object).arg("-o").arg(&program).status().unwrap().success());
        let run = run_program(&program, |_| {});
        assert_eq!(run.output.stdout, b"done\n", "{flags:?}");
        run.check_calls(SHAPES);
        for function in ["fib", "leaf", "slow", "worker", "main"] {
            let row = run.row(function);
            assert_eq!((row.sampled, row.provider.as_str()), (row.calls, provider), "{function} {flags:?}");
        }
    };
    check(&["-fxray-instrument", "-fxray-instruction-threshold=1"], "xray");
    check(&["-fpatchable-function-entry=5"], "patchable-function-entry");
    // One nop of eight bytes.
    check(&["-fpatchable-function-entry=8"], "entry");
}

/// `include/memtap_probes.h` in a C program that links the library.
#[test]
fn the_c_interface_works_and_handlers_that_do_not_return_leave_no_site_locked() {
    let dir = tempfile::tempdir().unwrap();
    let library = library();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/include");
    let flag = |text: &str, path: &Path| format!("{text}{}", path.display());
    let libraries = library.parent().unwrap();
    for extra in [&[] as &[&str], &["-fpatchable-function-entry=5"], &["-x", "c++"]] {
        let link = [flag("-I", &include), flag("-L", libraries), flag("-Wl,-rpath,", libraries)];
        let mut flags: Vec<&str> = link.iter().map(String::as_str).collect();
        flags.extend(["-x", "none", "-lmemtap_probes"]);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/tests/programs/handlers.c");
        let program = dir.path().join("handlers");
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        let status = compile.args(extra).arg(&source).args(&flags).status().unwrap();
        assert!(status.success(), "{extra:?}");
        let output = Command::new(&program).output().unwrap();
        assert!(output.status.success() && output.stdout == b"fine\n", "{extra:?} {output:?}");
    }
}

/// A service that forbids itself writable code (systemd's MemoryDenyWriteExecute) runs on, and the profile says why
/// nothing was probed.
#[test]
fn a_program_under_write_xor_execute_runs_and_the_reason_is_named() {
    const PR_SET_MDWE: i32 = 65;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "shapes.cc", &[]);
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let settings = settings(&out);
    let mut command = Command::new(&program);
    command.envs(settings.to_env()).env("LD_PRELOAD", library());
    // SAFETY: one system call that takes rights from the child.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            match libc::prctl(PR_SET_MDWE, 1usize, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = match command.output() {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            eprintln!("this kernel (before 6.3) has no such rule: nothing to test");
            return;
        }
        other => other.unwrap(),
    };
    assert_eq!(output.stdout, b"done\n", "{output:?}");
    let profile = Profile::read(&out).unwrap();
    let reason = profile.unprobed.iter().find(|u| u.symbol == "leaf").map(|u| u.reason.clone());
    assert!(reason.as_ref().is_some_and(|r| r.contains("writable")), "{reason:?}");
}

#[test]
fn every_view_shows_the_same_figures() {
    let run = run("shapes.cc", &[], |s| s.timeline = true);
    let functions = report::latency::json::functions(&run.profile);
    let keys: Vec<&str> = functions[0].as_object().unwrap().keys().map(String::as_str).collect();
    let mut expect = [
        "function",
        "file",
        "line",
        "calls",
        "sampled",
        "mean_ns",
        "p50_ns",
        "p90_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "self_ns",
        "total_ns",
        "calls_error",
        "self_error_ns",
        "total_error_ns",
    ];
    expect.sort_unstable();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expect);
    let page = report::pages::latency::page(&run.profile);
    assert!(page.contains("\"jump_catcher\"") && !page.contains("src=") && !page.contains("href="));
    let stacks = report::latency::folded::stacks(&run.profile);
    assert!(stacks.lines().any(|line| line.starts_with("main;jump_catcher;leaf ")), "{stacks}");
    assert!(stacks.lines().any(|line| line.contains("fib;fib;fib")), "{stacks}");
    let trace = report::latency::timeline::chrome(&run.profile);
    assert!(trace["traceEvents"].as_array().unwrap().len() > 1000);
}

#[test]
fn functions_of_the_c_library_are_counted_on_request() {
    const CALLS: [(&str, u64); 6] = [
        ("lfind", 100),
        ("a64l", 200),
        ("inet_addr", 300),
        ("basename", 400),
        ("swab", 500),
        ("strfry", 600),
    ];
    let names = CALLS.map(|(name, _)| name).join(",") + ",__xpg_basename";
    let without = run("system.c", &[], |s| s.functions.clone_from(&names));
    assert!(without.profile.rows.is_empty(), "not asked for: {:?}", without.profile.rows);
    for sample in [None, Some(10)] {
        let run = run("system.c", &[], |s| {
            s.functions.clone_from(&names);
            s.libraries = true;
            s.sample = sample;
        });
        assert_eq!(run.output.stdout, without.output.stdout);
        let mut probed = 0;
        for (name, calls) in CALLS {
            // The header's name for it is another one.
            let names = [name, if name == "basename" { "__xpg_basename" } else { name }];
            match run.profile.rows.iter().find(|row| names.contains(&row.function.as_str())) {
                Some(row) => {
                    assert_eq!(row.calls, calls, "{name}");
                    probed += 1;
                }
                // Only a trap would fit it, which is not done here: it is named.
                None => {
                    let unprobed = run.profile.unprobed.iter().find(|u| names.contains(&u.symbol.as_str()));
                    assert!(unprobed.is_some_and(|u| u.reason.contains("trap")), "{name}: {unprobed:?}");
                }
            }
        }
        assert!(probed > 2, "{:?}", run.profile.unprobed);
    }
}

#[test]
fn programs_run_on_with_all_functions_of_their_libraries_probed() {
    let script = "import json, os, threading\n\
        def work(): return json.dumps([i * i for i in range(100)])\n\
        threads = [threading.Thread(target=work) for _ in range(4)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]\n\
        child = os.fork()\n\
        os._exit(len(work()) % 100) if child == 0 else print(len(work()), os.waitpid(child, 0)[1] >> 8)\n";
    let line = ["-c", script];
    let native = Command::new("/usr/bin/python3").args(line).output().unwrap();
    let out = tempfile::tempdir().unwrap();
    let settings = Settings { libraries: true, sample: Some(10), ..settings(out.path()) };
    let mut probed = Command::new("/usr/bin/python3");
    let output = probed.args(line).envs(settings.to_env()).env("LD_PRELOAD", library()).output().unwrap();
    assert_eq!((output.status, &output.stdout), (native.status, &native.stdout), "{output:?}");
    let profile = Profile::read(out.path()).unwrap();
    assert!(
        profile.rows.iter().any(|row| row.function == "memchr" || row.function.contains("malloc")),
        "libc"
    );
}
