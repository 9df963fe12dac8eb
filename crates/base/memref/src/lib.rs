//! The vocabulary of memory traces.
//!
//! Every other crate speaks in these types: a tracer produces them, the file keeps them, an analysis reads them. The
//! crate has no dependency, allocates nothing and contains no logic beyond conversions, so that code inside a traced
//! process and code in a report can share it. It deliberately knows nothing of files, buffers or instructions.
//!
//! Start with [`Access`], then [`Event`], which is what a thread's ordered stream consists of.
//!
//! **Order.** A thread's events are numbered by [`Cycle`]: instructions executed where the tracer counts them, the
//! thread's event number otherwise. Between threads and processes of one session, events that change what an address
//! *means* (allocations, releases, mappings) or order threads ([`Sync`]) carry an [`Order`]: a number drawn from one
//! counter for the whole session.
//! An [`OrderMark`] in a thread's stream says that all later events of that thread happened after that order.
#![no_std]
#![forbid(unsafe_code)]

mod access;
mod addr;
mod allocation;
mod block;
mod event;
mod gap;
mod region;
mod sync;

pub use access::{Access, AccessKind};
pub use addr::VirtAddr;
pub use allocation::{Allocation, AllocationFunction, AllocationKind};
pub use block::{BlockFunction, BlockKind, BlockOp};
pub use event::{Cycle, Event, Marker, MarkerKind, Order, OrderMark, ProcessId, ThreadId};
pub use gap::{Gap, GapReason};
pub use region::{RegionChange, RegionEvent, RegionKind};
pub use sync::{Sync, SyncFunction, SyncKind};

/// Declares a field-less enum with stable numbers and names, and conversions between the three.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident : $repr:ty { $($(#[$vdoc:meta])* $variant:ident = $code:literal $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($repr)]
        pub enum $name { $($(#[$vdoc])* $variant = $code),+ }

        impl $name {
            /// All values, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable number used in files and buffers.
            pub const fn code(self) -> $repr { self as $repr }

            /// The value with that number, if there is one.
            pub const fn from_code(code: $repr) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The stable name used in text and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value with that name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { f.pad(self.name()) }
        }
    };
}
pub(crate) use coded;

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
