//! The paper's synthetic workload: 10^6 actions, 10 % allocations, 10 % releases, 40 % loads, 40 % stores (section V-A).

use super::{Action, BlockId};
use crate::Random;

/// How large blocks are. The paper does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// 1 to this many bytes, all equally likely.
    Uniform(u64),
    /// The same, but all orders of magnitude equally likely.
    LogUniform(u64),
}

impl Sizes {
    /// The largest.
    pub const fn most(self) -> u64 {
        match self {
            Self::Uniform(most) | Self::LogUniform(most) => most,
        }
    }

    fn draw(self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform(most) => 1 + random.below(most),
            Self::LogUniform(most) => {
                let unit = random.bits() as f64 / u64::MAX as f64;
                ((unit * (most as f64).ln()).exp() as u64).clamp(1, most)
            }
        }
    }
}

/// The workload, an iterator of actions. An action that needs a block when there is none is drawn again.
#[derive(Clone, Debug)]
pub struct Synthetic {
    random: Random,
    sizes: Sizes,
    left: u64,
    live: Vec<(BlockId, u64)>,
    unused: Vec<BlockId>,
    made: BlockId,
}

impl Synthetic {
    /// A workload.
    pub fn new(seed: u64, actions: u64, sizes: Sizes) -> Self {
        Self { random: Random::new(seed), sizes, left: actions, live: vec![], unused: vec![], made: 0 }
    }

    /// The paper's number of actions.
    pub const ACTIONS: u64 = 1_000_000;
    /// The largest block where nothing else is asked for.
    pub const MOST_BYTES: u64 = 8 << 20;
}

impl Iterator for Synthetic {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let what = self.random.below(10);
            if what == 0 {
                let id = self.unused.pop().unwrap_or_else(|| {
                    self.made += 1;
                    self.made - 1
                });
                let bytes = self.sizes.draw(&mut self.random);
                self.live.push((id, bytes));
                return Some(Action::Malloc { id, align_bits: 0, bytes });
            }
            if self.live.is_empty() {
                continue;
            }
            let which = self.random.below(self.live.len() as u64) as usize;
            if what == 1 {
                let (id, _) = self.live.swap_remove(which);
                self.unused.push(id);
                return Some(Action::Free { id });
            }
            let (id, bytes) = self.live[which];
            return Some(Action::Access { id, store: what >= 6, offset: self.random.below(bytes) });
        }
    }
}
