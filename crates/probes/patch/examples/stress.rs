//! The long stress run: `stress [TOGGLES]` distributes that many toggles (default 10^8) over the straddlers, {4
//! splits} x {line, page} x {hot, cold, TLB-thrashed executor} x {1, 2 patchers}. A tenth of that number each goes to
//! sites inside a line, asynchronous patches, batches, and calls switched by one byte and by the paper's encoding. It
//! prints one line per case, with the average number of executions per toggle, and exits 1 if any execution was torn.

use patch::{
    Encoding,
    exercise::{Boundary, Case, Executor, Method, run},
};
use std::{process::ExitCode, time::Duration};

/// The longest that a case may take.
const LONGEST: Duration = Duration::from_secs(3600);

fn cases(boundaries: impl Fn(usize) -> Vec<Boundary>, method: Method) -> Vec<Case> {
    let mut cases = Vec::new();
    for boundary in (1..=4).flat_map(boundaries) {
        for executor in [Executor::Hot, Executor::Cold, Executor::TlbThrashed] {
            for patchers in [1, 2] {
                cases.push(Case { boundary, executor, executors: 1, patchers, method });
            }
        }
    }
    cases
}

fn main() -> ExitCode {
    let total: u64 = match std::env::args().nth(1).map(|n| n.parse()) {
        None => 100_000_000,
        Some(Ok(toggles)) if toggles > 0 => toggles,
        Some(_) => {
            eprintln!("usage: stress [TOGGLES]: a number above 0, 100000000 if not given");
            return ExitCode::from(2);
        }
    };
    let straddlers = |split| vec![Boundary::Line { split }, Boundary::Page { split }];
    let inside = |split| vec![Boundary::None { offset: 7 * split }];
    let parts = [
        ("straddlers", total, cases(straddlers, Method::Patch)),
        ("inside a line", total / 10, cases(inside, Method::Patch)),
        ("asynchronous", total / 10, cases(straddlers, Method::Asynchronous)),
        ("batches of four", total / 10, cases(straddlers, Method::Batch)),
        ("calls, one byte", total / 10, cases(straddlers, Method::Callpatch(Encoding::OneByte))),
        ("calls, the paper's", total / 10, cases(straddlers, Method::Callpatch(Encoding::Paper))),
    ];
    let mut torn = 0;
    let mut sums = Vec::new();
    println!(
        "{:>11} {:>10} {:>13} {:>10} {:>5}  case",
        "toggles", "refused", "executions", "a toggle", "torn"
    );
    for (name, toggles, cases) in parts {
        let each = toggles.div_ceil(cases.len() as u64);
        let mut sum = patch::exercise::Outcome::default();
        for case in cases {
            let o = match run(case, each, LONGEST) {
                Ok(outcome) => outcome,
                Err(error) => {
                    eprintln!("{case:?}: {error}");
                    return ExitCode::FAILURE;
                }
            };
            println!(
                "{:>11} {:>10} {:>13} {:>10.1} {:>5}  {case:?}",
                o.toggles,
                o.refused,
                o.executions,
                o.executions_per_toggle(),
                o.torn
            );
            sum.toggles += o.toggles;
            sum.met += o.met;
            sum.executions += o.executions;
            sum.torn += o.torn;
        }
        torn += sum.torn;
        sums.push((name, sum));
    }
    // The control: the same site without the protocol. A checker that saw nothing here would prove nothing above.
    for executor in [Executor::Hot, Executor::Cold, Executor::TlbThrashed] {
        let boundary = Boundary::Line { split: 2 };
        let case = Case { boundary, executor, executors: 1, patchers: 1, method: Method::Unprotected };
        if let Ok(o) = run(case, total / 20, Duration::from_secs(20)) {
            println!(
                "control without protocol, {executor:?}: {} toggles, {} torn of {} executions",
                o.toggles, o.torn, o.executions
            );
        }
    }
    for (name, sum) in sums {
        println!(
            "{name}: {} toggles, {:.1} executions each, {} torn",
            sum.toggles,
            sum.executions_per_toggle(),
            sum.torn
        );
    }
    if torn == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
