//! The type of each heap block and variable, and how the fields of the type are used.
//!
//! There are two replays. In the first ([`HeapTypes`]) each access whose type is known ([`crate::typing`]) votes for its
//! block: for a type, and for the place where an object of it begins. A block has the type that most of its own votes
//! name. A block without votes has the type of the other blocks of its allocation site, if these have only one. In the
//! second ([`TypeUses`]) all accesses to such a block are counted by field, including those whose own type is unknown.
//! Accesses to variables of the type, which debug information lists (`variables`), are counted with them. A vote for
//! what lies in a larger type at that place agrees with it, and so does a vote for the scalar of a member; all others
//! are reported as conflicts. Blocks without a type are counted by offset, grouped by allocating call ([`OffsetUses`]).
//!
//! A block whose votes name objects of several types, each at a place of its own, is a pool
//! (`pools`), such as the blocks of a program's own allocator. If a pool is too large for its
//! votes to determine the places, one more replay asks for the object of each access to it.

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
