//! The vocabulary of memory traces.
//!
//! All other crates use these types: a tracer produces them, the file stores them, an analysis reads them. The crate
//! has no dependencies, allocates nothing and contains no logic except conversions, so that code inside a traced
//! process and code in a report can share it. It deliberately knows nothing of files, buffers or instructions.
//!
//! Start with [`Access`], then [`Event`], which is an element of a thread's ordered stream.
//!
//! **Order.** A thread's events are numbered by [`Cycle`]: instructions executed where the tracer counts them, the thread's event
//! number otherwise. Between threads and processes of one session, some events carry an [`Order`], a number drawn from one counter
//! for the whole session: those that change what an address *means* (allocations, releases, mappings), and those that order
//! threads ([`Sync`]). An [`OrderMark`] in a thread's stream says that all later events of that thread happened after that order.
#![no_std]
#![forbid(unsafe_code)]

mod access;
mod addr;
mod allocation;
mod block;
mod coded;
mod event;
mod gap;
mod ids;
mod ram;
mod region;
mod sync;

pub use access::{Access, AccessKind};
pub use addr::VirtAddr;
pub use allocation::{Allocation, AllocationFunction, AllocationKind};
pub use block::{BlockFunction, BlockKind, BlockOp};
pub use event::{Event, Marker, MarkerKind, OrderMark};
pub use gap::{Gap, GapReason};
pub use ids::{Cycle, Order, ProcessId, ThreadId};
pub use ram::RamLayout;
pub use region::{RegionChange, RegionEvent, RegionKind};
pub use sync::{Sync, SyncFunction, SyncKind};

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + core::fmt::Debug>(
        all: &[T],
        code: impl Fn(T) -> u64,
        from_code: impl Fn(u64) -> Option<T>,
        name: impl Fn(T) -> &'static str,
        from_name: impl Fn(&str) -> Option<T>,
    ) {
        for &value in all {
            assert_eq!(from_code(code(value)), Some(value));
            assert_eq!(from_name(name(value)), Some(value));
        }
        assert_eq!(from_name("no such name"), None);
    }

    macro_rules! check_coded {
        ($($name:ident : $repr:ty),+) => { $(check($name::ALL, |v| v.code() as u64, |c| $name::from_code(c as $repr), $name::name, $name::from_name);)+ };
    }

    #[test]
    fn codes_and_names_convert_back() {
        check_coded!(
            AccessKind: u8, AllocationKind: u8, AllocationFunction: u8, BlockKind: u8, BlockFunction: u8,
            GapReason: u8, RegionKind: u8, RegionChange: u8, MarkerKind: u8, SyncKind: u8, SyncFunction: u8
        );
    }

    #[test]
    fn unknown_codes_are_refused() {
        assert_eq!(AccessKind::from_code(200), None);
        assert_eq!(BlockFunction::from_code(255), None);
    }
}
