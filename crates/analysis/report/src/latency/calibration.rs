//! How long a patch of two cache lines must wait on this machine (Living on the Edge, Figure 9), as a table and in words.

use std::fmt::Write;

use patch::calibrate::Calibration;

/// What was measured, and what follows from it.
#[must_use]
pub fn table(measured: &Calibration) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:>10} {:>5} {:>6} {:>13} {:>10} {:>8}",
        "wait", "split", "page", "executor", "toggles", "torn"
    );
    for p in &measured.points {
        let executor = format!("{:?}", p.executor);
        let _ = writeln!(
            out,
            "{:>10} {:>5} {:>6} {executor:>13} {:>10} {:>8}",
            p.wait_ticks, p.split, p.page, p.toggles, p.torn
        );
    }
    let _ = match measured.advised_ticks {
        Some(ticks) => writeln!(
            out,
            "a wait of {ticks} ticks is twice the longest that failed here; membarrier, the default, needs none and is safe"
        ),
        None => writeln!(out, "no wait tried is safe on this machine: use membarrier, the default"),
    };
    out
}
