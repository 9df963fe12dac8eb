//! A model of caches: which accesses miss which level, by what they access and from where; and, in one pass, what caches of every
//! size would miss.
//!
//! The model ([`CacheMisses`]) has private levels for each thread and a shared one, writes lines back, and lets a write take the line
//! from the other threads' private levels (MESI). A cache that is asked for allocates the line, whether it is read or written; a
//! dirty line that leaves a level makes the next one's copy dirty, or goes to memory where that has none. Only data is modelled:
//! no instructions, and no translation of addresses - sets are chosen by virtual address. Each thread has a core of its own. Its accesses
//! are in their exact order; between threads, stretches come one after the other as the replay has them.
//!
//! [`ReuseSweep`] has no sets: it is the distance between two accesses to a line, in other lines, that says which sizes hit (Mattson et al.,
//! 1970). Long traces are sampled by line (SHARDS, Waldspurger et al., FAST 2015).

mod distance;
mod machines;
mod misses;
mod model;
mod shape;
mod store;
mod streams;
mod sweep;

pub use machines::{KnownMachine, known_machine, this_machine};
pub use misses::{CacheMisses, LevelMisses, MissRow};
pub use model::{CacheModel, CacheTotals, MissedLevels};
pub use shape::{CacheSetup, CacheShape, Replacement, ShapeError};
pub use sweep::{CurvePoint, DistanceBucket, MissCurve, ReuseSweep, WorkingSetPoint};
