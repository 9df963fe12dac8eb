//! The short stress run: no execution of a patched site may be half old, half new. `examples/stress.rs` is the long one.
#![cfg(not(loom))]

use patch::{
    Encoding,
    exercise::{Boundary, Case, Executor, Method, run},
};
use std::time::Duration;

const PER_CASE: Duration = Duration::from_millis(250);

fn check(boundary: Boundary, executor: Executor, patchers: usize, method: Method) {
    let case = Case { boundary, executor, executors: 1, patchers, method };
    let outcome = run(case, u64::MAX, PER_CASE).unwrap();
    assert_eq!(outcome.torn, 0, "{case:?}: {outcome:?}");
    assert!(outcome.toggles > 0 && outcome.executions > 0 && outcome.met > 0, "{case:?}: {outcome:?}");
}

fn check_straddlers(boundary: impl Fn(usize) -> Boundary) {
    for split in 1..=4 {
        for executor in [Executor::Hot, Executor::Cold, Executor::TlbThrashed] {
            for patchers in [1, 2] {
                check(boundary(split), executor, patchers, Method::Patch);
            }
        }
    }
}

#[test]
fn line_straddlers_are_never_torn() {
    check_straddlers(|split| Boundary::Line { split });
}

#[test]
fn page_straddlers_are_never_torn() {
    check_straddlers(|split| Boundary::Page { split });
}

#[test]
fn patches_inside_a_line_are_never_torn() {
    for offset in [0, 3, 4, 29, 31, 59] {
        check(Boundary::None { offset }, Executor::Hot, 1, Method::Patch);
        check(Boundary::None { offset }, Executor::Cold, 2, Method::Patch);
    }
}

#[test]
fn asynchronous_patches_are_never_torn() {
    for split in 1..=4 {
        for executor in [Executor::Hot, Executor::Cold, Executor::TlbThrashed] {
            check(Boundary::Line { split }, executor, 2, Method::Asynchronous);
        }
    }
}

#[test]
fn batches_are_never_torn() {
    for split in 1..=4 {
        check(Boundary::Line { split }, Executor::Hot, 1, Method::Batch);
        check(Boundary::Page { split }, Executor::TlbThrashed, 2, Method::Batch);
        check(Boundary::Line { split }, Executor::Cold, 2, Method::Batch);
    }
}

#[test]
fn switched_calls_are_never_torn() {
    for encoding in [Encoding::OneByte, Encoding::Paper] {
        check(Boundary::None { offset: 5 }, Executor::Cold, 2, Method::Callpatch(encoding));
        for split in 1..=4 {
            check(Boundary::Line { split }, Executor::Hot, 1, Method::Callpatch(encoding));
            check(Boundary::Page { split }, Executor::TlbThrashed, 2, Method::Callpatch(encoding));
        }
    }
}
