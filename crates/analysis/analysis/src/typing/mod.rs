//! Types of accesses: what the register points to from which an instruction takes its address. Debug information tells which
//! variable is in which register at which instructions. For the rest, a walk through the function follows pointers through
//! moves, sums, loads of pointer fields, the stack and calls (`walk`). The crate `x86` tells the effect of each instruction.

mod arrays;
mod step;
mod types;
mod walk;

pub(crate) use arrays::BoundedArray;
pub(crate) use types::{AllocationWay, CodeTypes, KnownAllocation, KnownType, TypedCode};

use symbols::{DebugType, LinkAddr};

/// What a register or a slot of the frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldValue {
    /// The address of something of that type, so many bytes from its start.
    Pointer {
        type_: DebugType,
        offset: i64,
        /// A number that is not known was added: elements of an array.
        is_indexed: bool,
        /// Debug information says so right there.
        is_named: bool,
        /// The static variable from whose start on it was counted.
        home: Option<LinkAddr>,
        /// It is a part of what the register points to, so that no other element of an array follows it.
        is_part: bool,
    },
    /// The canonical frame address and so many bytes.
    Frame(i64),
    /// What the call at that address returned, as long as nobody says what it is.
    Returned(LinkAddr),
    /// The table of virtual functions at an address.
    VirtualTable(LinkAddr),
}

impl HeldValue {
    /// The address of something of that type, of which no more is known.
    fn pointer_to(type_: DebugType) -> Self {
        Self::Pointer { type_, offset: 0, is_indexed: false, is_named: false, home: None, is_part: false }
    }
}
