//! The differential test: the accesses to data and bss of small programs, in order, against Valgrind's Lackey.

use e2e::{Program, Reference, run, run_lackey, tool, variables};
use std::process::Command;

/// Compares from the first instruction of main on: memtap begins there, Lackey with the loader.
fn check(file: &str, flags: &[&str]) {
    let mut all = vec!["-static-libgcc"];
    all.extend(flags);
    let program = Program::built(file, &all);
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
    let main = address_of_main(&program);
    let theirs: Vec<Reference> = run_lackey(&program)
        .into_iter()
        .skip_while(|r| !(r.kind == 'I' && r.addr == main))
        .filter(|r| within(r))
        .collect();
    let ours: Vec<Reference> =
        program.record().trace.references().into_iter().filter(|r| within(r)).collect();
    assert!(theirs.len() > 40, "{file}: Lackey saw only {} accesses", theirs.len());
    if let Some(at) = (0..theirs.len().max(ours.len())).find(|&i| theirs.get(i) != ours.get(i)) {
        let around = |side: &[Reference]| -> Vec<String> {
            side.iter()
                .skip(at.saturating_sub(3))
                .take(8)
                .map(|r| format!("{} {:x},{}", r.kind, r.addr, r.size))
                .collect()
        };
        panic!(
            "{file} {flags:?}: access {at} differs\nmemtap, of {}: {:?}\nLackey, of {}: {:?}",
            ours.len(),
            around(&ours),
            theirs.len(),
            around(&theirs)
        );
    }
}

fn address_of_main(program: &Program) -> u64 {
    let out = run(Command::new(tool("nm")).arg(&program.path), b"").out();
    let line = out.lines().find(|l| l.ends_with(" T main")).expect("the program has a main");
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
fn algorithms_not_optimised() {
    check("algorithms.c", &["-O0"]);
}

#[test]
fn algorithms_optimised() {
    check("algorithms.c", &["-O2"]);
}

#[test]
fn algorithms_vectorised() {
    check("algorithms.c", &["-O3", "-mavx2"]);
}

#[test]
fn algorithms_for_size() {
    check("algorithms.c", &["-Os"]);
}
