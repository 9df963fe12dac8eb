//! The long stress run: `stress [TOGGLES]` spreads that many toggles (default 10^8) over all combinations of split,
//! boundary, executor and number of patchers, prints one line each, and exits 1 if any execution was torn.

use patch::exercise::{Boundary, Case, Executor, Method, run};
use std::{process::ExitCode, time::Duration};

fn main() -> ExitCode {
    let total: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000_000);
    let mut cases = Vec::new();
    for split in 1..=4 {
        for boundary in
            [Boundary::Line { split }, Boundary::Page { split }, Boundary::None { offset: 7 * split }]
        {
            for executor in [Executor::Hot, Executor::Cold, Executor::TlbThrashed] {
                for patchers in [1, 2] {
                    cases.push(Case { boundary, executor, executors: 1, patchers, method: Method::Patch });
                }
            }
        }
    }
    let each = total.div_ceil(cases.len() as u64);
    let (mut toggles, mut torn) = (0, 0);
    println!("{:>12} {:>12} {:>14} {:>6}  case", "toggles", "refused", "executions", "torn");
    for case in cases {
        match run(case, each, Duration::from_secs(3600)) {
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
