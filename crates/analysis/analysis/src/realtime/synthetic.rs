//! The synthetic workload, run for one seed after the other.

use rtvm::replay::{Action, ReplayOptions, Sizes, Synthetic, with_replay};

use super::{ComparedRun, Findings};
use crate::Error;

/// Actions that the systems take turns with.
const BATCH: usize = 4096;

/// Replays one seed.
///
/// # Errors
/// Where there is no memory for the systems.
pub fn run(options: &ReplayOptions, seed: u64, actions: u64, sizes: Sizes) -> Result<ComparedRun, Error> {
    let run = with_replay(options, 1, |replay| {
        let mut workload = Synthetic::new(seed, actions, sizes);
        let mut batch: Vec<Action> = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(workload.by_ref().take(BATCH));
            if batch.is_empty() {
                break;
            }
            replay.run(0, &batch);
        }
        ComparedRun::new("synthetic".to_owned(), Some(seed), replay, Findings::default())
    })?;
    Ok(run)
}
