//! The differential test: the accesses of small programs, in order, and
//! the instructions that they execute, compared with Valgrind's Lackey.

use e2e::{Reference, TestProgram, run, run_lackey, tool, variables};
use std::collections::HashMap;
use std::process::Command;

/// Compares from the first instruction of main on: memtap begins there, Lackey with the loader.
fn check(file: &str, flags: &[&str]) {
    let mut all = vec!["-static-libgcc"];
    all.extend(flags);
    let program = TestProgram::built(file, &all).with_baseline_functions();
    if !program.can_run() {
        return;
    }
    // The variables of data and bss that are the program's own: neither copied from a library nor the start-up code's.
    let places: Vec<_> = variables(&program.path)
        .into_iter()
        .filter(|v| !v.name.contains('@') && !v.name.starts_with("completed."))
        .map(|v| v.range)
        .collect();
    let within = |r: &Reference| r.kind != 'I' && places.iter().any(|p| p.contains(&r.addr));
    let theirs: Vec<Reference> = references_of_lackey(&program).filter(|r| within(r)).collect();
    let ours: Vec<Reference> =
        program.record().trace.references().into_iter().filter(|r| within(r)).collect();
    compare(file, flags, &ours, &theirs);
}

fn compare(file: &str, flags: &[&str], ours: &[Reference], theirs: &[Reference]) {
    assert!(theirs.len() > 40, "{file}: Lackey saw only {} references", theirs.len());
    if let Some(at) = (0..theirs.len().max(ours.len())).find(|&i| theirs.get(i) != ours.get(i)) {
        let around = |side: &[Reference]| -> Vec<String> {
            side.iter()
                .skip(at.saturating_sub(3))
                .take(8)
                .map(|r| format!("{} {:x},{}", r.kind, r.addr, r.size))
                .collect()
        };
        panic!(
            "{file} {flags:?}: reference {at} differs\nmemtap, of {}: {:?}\nLackey, of {}: {:?}",
            ours.len(),
            around(ours),
            theirs.len(),
            around(theirs)
        );
    }
}

/// From the first instruction of main on.
fn references_of_lackey(program: &TestProgram) -> impl Iterator<Item = Reference> {
    let main = address_of(program, " T main");
    run_lackey(program).into_iter().skip_while(move |r| !(r.kind == 'I' && r.addr == main))
}

/// A static program whose allocator has no names that memtap knows: its functions are ordinary ones then, as they are for Lackey, and not
/// an event a call.
fn with_plain_allocator(mut program: TestProgram) -> TestProgram {
    const NAMES: [&str; 9] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "cfree",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
    ];
    // Tests have processes of their own, and several are of one program.
    let path = program.path.with_extension(format!("plain{}", std::process::id()));
    let mut objcopy = Command::new(tool("objcopy"));
    for name in NAMES.iter().chain(&["pvalloc", "reallocarray"]) {
        objcopy.arg(format!("--redefine-sym={name}=plain_{name}"));
    }
    let copied = run(objcopy.arg(&program.path).arg(&path), b"");
    assert_eq!(copied.status, 0, "{}", copied.err());
    program.path = path;
    program
}

fn address_of(program: &TestProgram, end: &str) -> u64 {
    let out = run(Command::new(tool("nm")).arg(&program.path), b"").out();
    let line = out.lines().find(|l| l.ends_with(end)).expect("the program has that symbol");
    u64::from_str_radix(&line[..16], 16).expect("nm writes hexadecimal numbers")
}

#[test]
fn integers() {
    check("integers.c", &[]);
}

#[test]
fn modify() {
    check("modify.c", &[]);
}

#[test]
fn strings() {
    check("strings.c", &[]);
}

#[test]
fn vectors() {
    check("vectors.c", &[]);
}

#[test]
fn avx_where_the_processor_has_it() {
    check("avx.c", &[]);
}

#[test]
fn statics() {
    check("statics.c", &["-O0"]);
}

#[test]
fn straddle() {
    check("straddle.c", &[]);
}

#[test]
fn assembly() {
    check("assembly.S", &[]);
}

#[test]
fn branches() {
    check("branches.S", &[]);
}

#[test]
fn targets() {
    check("targets.S", &[]);
}

#[test]
fn loops() {
    check("loops.S", &[]);
}

#[test]
fn algorithms_not_optimised() {
    check("algorithms.c", &["-O0"]);
}

#[test]
fn algorithms_optimised() {
    check("algorithms.c", &["-O2"]);
}

#[test]
fn algorithms_vectorised_where_the_processor_has_avx2() {
    check("algorithms.c", &["-O3", "-mavx2"]);
}

#[test]
fn algorithms_for_size() {
    check("algorithms.c", &["-Os"]);
}

/// All accesses of a static program, the stack's and the C library's included, from main's first instruction to the end
/// of the process. Where the stack begins is the kernel's choice: addresses there are taken relative to the first one. Where
/// in the heap something lies depends on where the kernel lets it begin within a page: only size and kind are compared.
fn check_all(file: &str, flags: &[&str]) {
    check_all_with(file, flags, &[], true);
}

/// With wide vectors a function aligns its stack to them, and how much that takes is the kernel's choice too: `stack` says
/// whether places in the stack are compared.
fn check_all_with(file: &str, flags: &[&str], options: &[&str], stack: bool) {
    let mut all = vec!["-static"];
    all.extend(flags);
    let program = with_plain_allocator(TestProgram::built(file, &all).with_baseline_functions());
    if !program.can_run() {
        return;
    }
    let end = address_of(&program, " _end");
    let theirs: Vec<Reference> = references_of_lackey(&program).filter(|r| r.kind != 'I').collect();
    let ours = program.record_with("translate", options).trace.references();
    let (ours, theirs) = (relative(&ours, end), without_bit_tests(relative(&theirs, end)));
    let places = |side: Vec<Reference>| -> Vec<Reference> {
        let kept = |r: &Reference| stack || r.addr < end;
        side.into_iter().map(|r| Reference { addr: if kept(&r) { r.addr } else { 1 << 40 }, ..r }).collect()
    };
    compare(file, flags, &places(ours), &places(theirs));
    std::fs::remove_file(&program.path).expect("the test's own copy");
}

fn relative(references: &[Reference], end: u64) -> Vec<Reference> {
    // The first access of main outside the file is one to its stack.
    let stack = references.iter().find(|r| r.addr >= end).map_or(0, |r| r.addr);
    let place = |addr: u64| match addr {
        addr if addr < end => addr,
        addr if addr.abs_diff(stack) < 1 << 30 => addr.wrapping_sub(stack),
        _ => 1 << 40,
    };
    references.iter().map(|r| Reference { addr: place(r.addr), ..*r }).collect()
}

/// Valgrind executes a bit test of a register in memory: it stores the register below the stack and loads a byte of it.
fn without_bit_tests(references: Vec<Reference>) -> Vec<Reference> {
    let mut kept: Vec<Reference> = Vec::with_capacity(references.len());
    for next in references {
        if let Some(last) = kept.last()
            && (last.kind, next.kind, next.size) == ('S', 'L', 1)
            && last.size >= 4
            && next.addr.wrapping_sub(last.addr) < last.size
            && (last.addr as i64) < 0
        {
            kept.pop();
            continue;
        }
        kept.push(next);
    }
    kept
}

#[test]
fn all_of_integers() {
    check_all("integers.c", &[]);
}

#[test]
fn all_of_modify() {
    check_all("modify.c", &[]);
}

#[test]
fn all_of_strings() {
    check_all("strings.c", &[]);
}

#[test]
fn all_of_algorithms_not_optimised() {
    check_all("algorithms.c", &["-O0"]);
}

#[test]
fn all_of_algorithms_optimised() {
    check_all("algorithms.c", &["-O2"]);
}

#[test]
fn all_of_algorithms_vectorised_where_the_processor_has_avx2() {
    check_all_with("algorithms.c", &["-O3", "-mavx2"], &[], false);
}

#[test]
fn all_of_algorithms_and_control_flow() {
    check_all_with("algorithms.c", &["-O2"], &["--flow"], true);
}

#[test]
fn all_of_assembly() {
    check_all("assembly.S", &[]);
}

#[test]
fn all_of_loops() {
    check_all("loops.S", &[]);
}

#[test]
fn all_of_targets() {
    check_all("targets.S", &[]);
}

#[test]
fn all_of_branches() {
    check_all("branches.S", &[]);
}

/// All instructions of a static program from main's first one to the end of the process, in their order, as control flow was
/// recorded with these options.
fn check_flow(file: &str, flags: &[&str], options: &[&str]) {
    let mut all = vec!["-static"];
    all.extend(flags);
    let program = with_plain_allocator(TestProgram::built(file, &all).with_baseline_functions());
    if !program.can_run() {
        return;
    }
    let theirs: Vec<Reference> = references_of_lackey(&program).filter(|r| r.kind == 'I').collect();
    let sizes: HashMap<u64, u64> = theirs.iter().map(|r| (r.addr, r.size)).collect();
    let options: Vec<&str> = ["--flow"].iter().chain(options).copied().collect();
    let flow = program.record_with("translate", &options).trace.flow();
    let mut executed = Vec::with_capacity(theirs.len());
    for (index, entered) in flow.iter().enumerate() {
        let until = flow.get(index + 1).map_or(u64::MAX, |next| next.cycle);
        let mut addr = entered.ip;
        for _ in entered.cycle..(entered.cycle + entered.instructions).min(until) {
            let Some(&size) = sizes.get(&addr) else { panic!("Lackey saw nothing executed at {addr:#x}") };
            executed.push(Reference { kind: 'I', addr, size });
            addr += size;
        }
    }
    // A repeated string instruction is many for Lackey.
    let mut expected = theirs;
    expected.dedup();
    executed.dedup();
    compare(file, flags, &executed, &expected);
    std::fs::remove_file(&program.path).expect("the test's own copy");
}

#[test]
fn flow_of_integers() {
    check_flow("integers.c", &[], &[]);
}

#[test]
fn flow_of_strings() {
    check_flow("strings.c", &[], &[]);
}

#[test]
fn flow_of_algorithms() {
    check_flow("algorithms.c", &["-O2"], &[]);
}

#[test]
fn flow_of_algorithms_and_the_bytes_of_accesses() {
    check_flow("algorithms.c", &["-Os"], &["--data"]);
}

#[test]
fn flow_of_assembly() {
    check_flow("assembly.S", &[], &[]);
}

#[test]
fn flow_of_loops() {
    check_flow("loops.S", &[], &[]);
}

#[test]
fn flow_of_targets() {
    check_flow("targets.S", &[], &[]);
}

#[test]
fn flow_of_branches() {
    check_flow("branches.S", &[], &["--verify"]);
}
