//! A model of caches: which accesses miss which level, by the data accessed and the
//! code that accesses it; and, in one pass, what caches of every size would miss.
//!
//! The model ([`CacheMisses`]) has private levels for each thread and one shared level. It writes lines back, and a
//! write takes the line from the private levels of the other threads (MESI). Each cache that is accessed allocates
//! the line, on reads and on writes. When a level evicts a dirty line, the copy in the next level becomes dirty; if
//! the next level has no copy, the line is written to memory. Only data is modelled: no instruction fetches and no
//! address translation. Sets are chosen by virtual address. Each thread has a core of its own. The accesses of one
//! thread are in their exact order; between threads, stretches follow one another in replay order.
//!
//! [`ReuseSweep`] has no sets. The distance between two accesses to a line, counted in other lines, tells which
//! cache sizes hit (Mattson et al., 1970). Long traces are sampled by line (SHARDS, Waldspurger et al., FAST 2015).

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
