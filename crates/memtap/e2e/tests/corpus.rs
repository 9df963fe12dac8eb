//! The corpus: `memtap` finds in each of these small programs what its head says, and nothing else.
//!
//! The programs are in `crates/memtap/e2e/corpus`. A head also states what memtap is known to miss;
//! a test fails if memtap does find it, so that heads stay true. `cargo xtask bench findings`
//! builds the programs with more compilers and runs other tools on them as well.

use corpus::{CaseBuild, CorpusCase};
use e2e::{bin_dir, memtap, repository};

/// The tests below, by the kinds that each of them looks at.
const PARTS: [&[&str]; 9] = [
    &["over", "under", "span"],
    &["free_twice", "mismatch", "after_free", "realloc"],
    &["unwritten", "overlap", "wild", "calls"],
    &["leak", "libc"],
    &["stack", "static"],
    &["race", "threads"],
    &["taint", "clean"],
    &["cpp"],
    &["rust"],
];

/// As many at a time as the smallest machine that tests run on has processors.
const AT_A_TIME: usize = 2;

fn all() -> Vec<CorpusCase> {
    CorpusCase::all(&repository().join("crates/memtap/e2e/corpus")).expect("every head can be read")
}

fn check(kinds: &[&str]) {
    let cases: Vec<CorpusCase> =
        all().into_iter().filter(|case| kinds.contains(&case.kind.as_str())).collect();
    let (dir, memtap) = (bin_dir().join("e2e-corpus"), memtap());
    let judge = |case: &CorpusCase| {
        let builds = [CaseBuild::GccO1, CaseBuild::RustcO];
        let build = builds.into_iter().find(|build| build.fits(case))?;
        let judged =
            build.build(case, &dir).and_then(|binary| corpus::judge_by_memtap(&memtap, case, &binary));
        match judged {
            Ok(judgement) => judgement.against_head(case, build),
            Err(error) => Some(format!("{}: {error}", case.title())),
        }
    };
    let wrong: Vec<String> = corpus::in_parallel(&cases, AT_A_TIME, judge).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_kind_is_in_one_test() {
    let parts: Vec<&str> = PARTS.concat();
    for case in all() {
        assert_eq!(parts.iter().filter(|part| **part == case.kind).count(), 1, "{}", case.title());
    }
}

#[test]
fn around_the_ends_of_blocks() {
    check(PARTS[0]);
}

#[test]
fn releases_and_what_comes_after() {
    check(PARTS[1]);
}

#[test]
fn bytes_and_addresses_that_nobody_gave() {
    check(PARTS[2]);
}

#[test]
fn leaks_and_functions_of_the_c_library() {
    check(PARTS[3]);
}

#[test]
fn arrays() {
    check(PARTS[4]);
}

#[test]
fn threads() {
    check(PARTS[5]);
}

#[test]
fn input_and_ordinary_programs() {
    check(PARTS[6]);
}

#[test]
fn cpp() {
    check(PARTS[7]);
}

#[test]
fn rust() {
    check(PARTS[8]);
}
