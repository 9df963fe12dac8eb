//! Hand-counted programs: exactly their counts per variable, size and kind, and the same behaviour as in a native run.

use e2e::{Tally, TestProgram, variables};
use serde_json::Value;

/// Records a program by that tracer and compares everything that its head states.
fn check(file: &str, tracer: &str, options: &[&str]) {
    let program = TestProgram::named(file);
    if !program.can_run() || !program.header.tracers.has(tracer) {
        return;
    }
    program.check(&program.run());
    let recording = program.record_with(tracer, options);
    let trace = &recording.trace;
    let stat = trace.stat();
    let mut wrong = Vec::new();
    let mut compare = |what: String, found: String, expected: String| {
        if found != expected {
            wrong.push(format!("{what}: {found}, not {expected}"));
        }
    };
    compare("gaps".into(), stat["gaps"].to_string(), "0".into());
    for (key, expected) in &program.header.stat {
        compare(key.clone(), stat[key].to_string(), expected.to_string());
    }
    if options.contains(&"--verify") {
        let verified = |key: &str| stat["verified"][key].as_u64();
        compare("mismatches".into(), format!("{:?}", verified("mismatches")), "Some(0)".into());
        for key in ["windows", "instructions"] {
            compare(format!("verified {key}"), (verified(key) > Some(0)).to_string(), "true".into());
        }
        let some = verified("accesses") > Some(0);
        let with_bytes = options.contains(&"--data").then_some(some);
        compare(
            "with bytes".into(),
            format!("{:?}", verified("with_bytes").map(|n| n > 0)),
            format!("{with_bytes:?}"),
        );
    }
    for (key, expected) in &program.header.alloc {
        let found = if key == "frees" { &stat["frees"] } else { &stat["allocations"][key] };
        compare(format!("allocations by {key}"), found.to_string(), expected.to_string());
    }

    // By address: what binutils says of the variables, without memtap's symbols.
    let places = variables(&program.path);
    let references = trace.references();
    for expectation in &program.header.expect {
        if let Some(place) = places.iter().find(|p| e2e_name(&p.name) == expectation.name) {
            let mut tally = Tally::default();
            for r in references.iter().filter(|r| place.range.contains(&r.addr)) {
                tally.count(r.kind, r.size);
            }
            compare(
                format!("accesses at {}", place.name),
                format!("{tally:?}"),
                format!("{:?}", expectation.tally),
            );
        }
    }
    // By name.
    let events = trace.events();
    for expectation in &program.header.expect {
        let tally = trace.tally(&events, &expectation.name);
        compare(
            format!("accesses to {}", expectation.name),
            format!("{tally:?}"),
            format!("{:?}", expectation.tally),
        );
    }
    // The same figure is the same in every output.
    let rows = trace.variables();
    for expectation in &program.header.expect {
        let total = e2e::total_of(&rows, &expectation.name);
        compare(
            format!("report's row {}", expectation.name),
            format!("{total:?}"),
            format!("{:?}", expectation.tally.total()),
        );
    }
    for blocks in &program.header.blocks {
        let found = events.iter().filter(|e| is_block(e, blocks)).count() as u64;
        compare(format!("{blocks:?}"), found.to_string(), blocks.count.to_string());
    }
    for (name, expected) in &program.header.markers {
        let found =
            events.iter().filter(|e| e["type"] == "mark" && e["name"] == name.as_str()).count() as u64;
        compare(format!("marks {name}"), found.to_string(), expected.to_string());
    }
    assert!(wrong.is_empty(), "{file}:\n{}", wrong.join("\n"));
}

/// `calls.0` of nm is `calls` of the source.
fn e2e_name(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(name, _)| name)
}

fn is_block(event: &Value, blocks: &e2e::BlockOps) -> bool {
    let names = |key: &str, wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|w| event[key].as_str().is_some_and(|v| e2e::is_named(v, w)))
    };
    matches!(event["type"].as_str(), Some("copy" | "fill" | "fetch"))
        && event["function"] == blocks.function.as_str()
        && event["size"] == blocks.bytes
        && blocks.kind.as_ref().is_none_or(|k| event["type"] == k.as_str())
        && names("dst_variable", &blocks.dst)
        && names("src_variable", &blocks.src)
}

macro_rules! programs {
    ($($name:ident: $file:literal),+ $(,)?) => {
        $(#[test] fn $name() { check($file, "protect", &[]); })+
        /// The same counts by the other tracer.
        mod translated {
            $(#[test] fn $name() { super::check($file, "translate", &[]); })+
        }
        /// And where the bytes of accesses are recorded, which takes other code.
        mod translated_with_data {
            $(#[test] fn $name() { super::check($file, "translate", &["--data"]); })+
        }
        /// And in windows single-stepped, with the same accesses.
        mod translated_and_verified {
            $(#[test] fn $name() { super::check($file, "translate", &["--verify"]); })+
        }
        /// With the same bytes, too.
        mod translated_and_verified_with_data {
            $(#[test] fn $name() { super::check($file, "translate", &["--verify", "--data"]); })+
        }
    };
}

programs! {
    integers: "integers.c",
    modify: "modify.c",
    bits: "bits.c",
    strings: "strings.c",
    compare: "compare.c",
    vectors: "vectors.c",
    avx_where_the_processor_has_it: "avx.c",
    fma_where_the_processor_has_it: "fma.c",
    avx512_where_the_processor_has_it: "avx512.c",
    emulation: "emulation.c",
    straddle: "straddle.c",
    statics: "statics.c",
    heap: "heap.c",
    use_after_free: "use_after_free.c",
    disparity: "disparity.c",
    objects: "objects.cpp",
    containers: "containers.cpp",
    boxes: "boxes.rs",
    own_allocator: "own_allocator.cpp",
    own_allocator_of_rust: "own_allocator.rs",
    static_allocations: "static_allocations.cpp",
    assembly: "assembly.S",
    branches: "branches.S",
    targets: "targets.S",
    loops: "loops.S",
    loop_fault: "loop_fault.c",
    translate: "translate.S",
    threads: "threads.c",
    pipeline: "pipeline.c",
    fork: "fork.c",
    vfork: "vfork.c",
    spawn: "spawn.c",
    children: "children.sh",
    segv_handler: "segv_handler.c",
    signals: "signals.c",
    mappings: "mappings.c",
    dlopen: "dlopen.c",
    coroutine: "coroutine.c",
    syscalls: "syscalls.c",
    blocks: "blocks.c",
    wide: "wide.c",
    files: "files.c",
    stream_buffers: "stream_buffers.c",
    crash: "crash.c",
    abort: "abort.c",
    breakpoint: "breakpoint.c",
    status: "status.c",
    marks: "marks.c",
    window: "window.c",
    jit: "jit.c",
    jit_read: "jit_read.c",
    jit_views: "jit_views.c",
    jit_threads: "jit_threads.c",
    jumps_to_data: "jumps_to_data.c",
    trampolines: "trampolines.c",
    gs_base: "gs_base.c",
    rseq: "rseq.c",
    rseq_own: "rseq_own.c",
    low_reserved: "low_reserved.c",
    exec: "exec.c",
    closing: "closing.c",
    reserve: "reserve.c",
    exits: "exits.c",
    thread_local: "thread_local.c",
    many_threads: "many_threads.c",
    small_stacks: "small_stacks.c",
    locked: "locked.c",
    exceptions: "exceptions.cpp",
    cancel: "cancel.c",
    masks: "masks.c",
    static_executable: "static.c",
    openmp: "openmp.c",
    library: "library.cpp",
    instructions: "instructions.S",
    sent_signals: "sent_signals.c",
    timer_storm: "timer_storm.c",
    signal_flood: "signal_flood.c",
    blocked_signals: "blocked_signals.c",
    bad_lengths: "bad_lengths.c",
    bad_pointers: "bad_pointers.c",
    rights: "rights.c",
    alignment_checks: "alignment_checks.c",
    inherited_masks: "inherited_masks.c",
    locked_memory: "locked_memory.c",
    interrupted_calls: "interrupted_calls.c",
    maps_device: "maps_device.c",
    shared_process: "shared_process.c",
    clone_vm: "clone_vm.c",
    code_by_calls: "code_by_calls.c",
    ignored_asleep: "ignored_asleep.c",
    ignored_and_blocked: "ignored_and_blocked.c",
    own_status: "own_status.c",
    ignored_by_exec: "ignored_by_exec.c",
    looks_at_its_crash: "looks_at_its_crash.c",
    prefetch: "prefetch.S",
    algorithms: "algorithms.c",
}

/// Stepping, where the processor has something to step; gaps are allowed, wrong results and crashes are not.
#[test]
fn stepping_in_two_threads_where_the_processor_has_avx512() {
    let program = TestProgram::named("stepping.c");
    if program.can_run() {
        program.check(&program.run());
        for _ in 0..3 {
            program.record();
        }
    }
}

/// With one tracer: each fork takes its time.
#[test]
fn more_than_a_thousand_processes_are_one_trace() {
    check("many_forks.c", "translate", &[]);
}

#[test]
fn forks_beside_a_thread_with_new_code_neither_hang_nor_miss() {
    check("forks_beside_new_code.c", "translate", &[]);
}

/// Position-independent: names and counts are the same.
#[test]
fn counts_do_not_depend_on_the_load_address() {
    for file in ["statics.c", "heap.c"] {
        let program = TestProgram::built(file, &["-fPIE", "-pie"]);
        let trace = program.record().trace;
        let rows = trace.variables();
        for expectation in &program.header.expect {
            assert_eq!(
                e2e::total_of(&rows, &expectation.name),
                expectation.tally.total(),
                "{file} {}",
                expectation.name
            );
        }
    }
}

/// Stripped: no names, and the same accesses by address.
#[test]
fn stripped_programs_have_the_same_accesses() {
    let (with, without) = (TestProgram::named("integers.c"), TestProgram::built("integers.c", &["-s"]));
    let places: Vec<_> = e2e::data_and_bss(&with.path).into_iter().map(|s| s.range).collect();
    let accesses = |program: &TestProgram| -> Vec<_> {
        let references = program.record().trace.references();
        references.into_iter().filter(|r| places.iter().any(|p| p.contains(&r.addr))).collect()
    };
    let expected = accesses(&with);
    assert!(expected.len() > 1000, "only {} accesses", expected.len());
    assert_eq!(accesses(&without), expected);
}

/// One stream a thread: `dump --thread N` together is `dump`, and no thread has another one's accesses.
#[test]
fn threads_have_streams_of_their_own() {
    let program = TestProgram::named("threads.c");
    let recording = program.record();
    let shared =
        variables(&program.path).into_iter().find(|v| v.name == "shared").expect("the program has it");
    let mut per_thread = Vec::new();
    for thread in 0..5 {
        let out = recording.trace.ask("dump", &["--format", "lackey", "--thread", &thread.to_string()]);
        assert_eq!(out.status, 0, "{}", out.err());
        per_thread
            .push(e2e::parse_lackey(&out.out()).iter().filter(|r| shared.range.contains(&r.addr)).count());
    }
    // The main thread reads it once, the others modify it a thousand times each.
    per_thread.sort_unstable();
    assert_eq!(per_thread, [1, 1000, 1000, 1000, 1000]);
}

/// `--no-children` leaves them alone, and they run as natively.
#[test]
fn children_are_left_alone_on_request() {
    let program = TestProgram::named("fork.c");
    for tracer in ["protect", "translate"] {
        let alone = program.record_with(tracer, &["--no-children"]);
        assert_eq!(alone.trace.number("threads"), 1, "{tracer}");
        let rows = alone.trace.variables();
        let counter = e2e::total_of(&rows, "counter");
        assert_eq!((counter.loads, counter.stores), (31, 30), "{tracer}");
    }
}
