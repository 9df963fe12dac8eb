//! Which type each heap block and variable has, and how its fields are used.
//!
//! Two replays. In the first ([`HeapTypes`]) each access whose type is known ([`crate::typing`]) votes for its block: the type, and where it
//! begins. A block has the type that most of its own votes say; one without votes has that of the other blocks of its allocation
//! site, where these have one type alone. In the second ([`TypeUses`]) all accesses to such a block are counted by field,
//! also those that know no type themselves, and with them those to variables of the type, which debug information knows
//! (`variables`). What lies in a larger type at that place, and members' scalars, agree with it; the rest is told as a conflict. What
//! has no type is counted by place in the blocks of a call ([`OffsetUses`]).
//!
//! A block whose votes are for objects of several types at their own places is a pool (`pools`), as those of a program's own allocator are. Where it
//! is too large for its votes to tell the places, one more replay asks each access to it for its object.

mod advice;
mod conflicts;
mod field_names;
mod fields;
mod heap_types;
mod joined_votes;
mod live;
mod offsets;
mod parts;
mod pools;
mod untyped_groups;
mod uses;
mod variables;
mod votes;

pub use conflicts::TypeConflict;
pub(crate) use field_names::{BlockAddress, FieldNames, VariableAddress};
pub use fields::{FieldUse, TypeHole};
pub use heap_types::HeapTypes;
pub use live::LiveFields;
pub use offsets::{OffsetUse, OffsetUses, SiteUse};
pub use uses::{FieldPair, TypeUse, TypeUses};
pub(crate) use votes::BlockTypes;
pub use votes::TypedShare;
