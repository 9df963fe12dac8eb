//! Calibration on a few short waits: the figure is complete, and the recommendation follows from it.
#![cfg(not(loom))]

use patch::{Separation, barrier, calibrate::calibrate};
use std::time::Duration;

#[test]
fn the_advice_follows_from_the_points() {
    let before = barrier::separation();
    let result = calibrate(&[1, 4000], Duration::from_millis(20)).unwrap();
    assert_eq!(result.points.len(), 2 * 4 * 4);
    assert!(result.points.iter().all(|p| p.toggles > 0));
    let failing = result.points.iter().filter(|p| p.torn > 0).map(|p| p.wait_ticks).max();
    match result.advised_ticks {
        None => assert_eq!(failing, Some(4000)),
        Some(ticks) => assert!(ticks >= 2000 && failing.is_none_or(|f| ticks >= 2 * f)),
    }
    assert_eq!(barrier::separation(), before, "the separation in use is restored");
    assert_ne!(before, Separation::Unavailable);
}
