//! The long stress run: `stress [TOGGLES]` spreads that many toggles (default 10^8) over the straddlers, {4 splits} x
//! {line, page} x {hot, cold, TLB-thrashed executor} x {1, 2 patchers}, and as many over sites inside a line; prints one
//! line each, and exits 1 if any execution was torn. The default takes about an hour on two cores.

use patch::exercise::{Boundary, Case, Executor, Method, run};
use std::{process::ExitCode, time::Duration};

fn cases(boundaries: impl Fn(usize) -> Vec<Boundary>) -> Vec<Case> {
    let mut cases = Vec::new();
    for boundary in (1..=4).flat_map(boundaries) {
        for executor in [Executor::Hot, Executor::Cold, Executor::TlbThrashed] {
            for patchers in [1, 2] {
                cases.push(Case { boundary, executor, executors: 1, patchers, method: Method::Patch });
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
    let straddlers = cases(|split| vec![Boundary::Line { split }, Boundary::Page { split }]);
    let inside = cases(|split| vec![Boundary::None { offset: 7 * split }]);
    let share = |cases: &[Case]| total.div_ceil(cases.len() as u64);
    let (each, each_inside) = (share(&straddlers), share(&inside));
    let (mut toggles, mut torn) = (0, 0);
    println!("{:>12} {:>12} {:>14} {:>6}  case", "toggles", "refused", "executions", "torn");
    let planned =
        straddlers.into_iter().map(|c| (c, each)).chain(inside.into_iter().map(|c| (c, each_inside)));
    for (case, count) in planned {
        match run(case, count, Duration::from_secs(3600)) {
            Ok(o) => {
                println!("{:>12} {:>12} {:>14} {:>6}  {case:?}", o.toggles, o.refused, o.executions, o.torn);
                toggles += o.toggles;
                torn += o.torn;
            }
            Err(error) => {
                eprintln!("{case:?}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    // The control: the same site without the protocol. A checker that saw nothing here would prove nothing above.
    let control = Case {
        boundary: Boundary::Line { split: 2 },
        executor: Executor::Hot,
        executors: 1,
        patchers: 1,
        method: Method::Unprotected,
    };
    if let Ok(o) = run(control, 5_000_000, Duration::from_secs(20)) {
        println!(
            "control without protocol: {} toggles, {} torn of {} executions",
            o.toggles, o.torn, o.executions
        );
    }
    println!("{toggles} toggles, {torn} torn executions");
    if torn == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
