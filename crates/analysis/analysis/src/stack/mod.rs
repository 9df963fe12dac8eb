//! Calling contexts, from the accesses alone: a call writes its return address and a return reads it, and both are recorded.
//!
//! [`Stacks`] is told every event of a replay and says in which [`CallContext`] each access was made; [`Contexts`] is the tree of
//! all of them, in which a context is its caller's context and the instruction that called. An instruction is looked at once
//! (`transfer`), then every access costs a comparison. The shadow stack of a thread (`shadow`) is kept by stack address, so that
//! frames which are left by other ways than a return are found: longjmp, exceptions, and functions whose own code is not
//! recorded (malloc and its relatives). Threads that change between stacks (coroutines, signals on a stack of their own) have
//! several.
//!
//! Needs a trace in which stacks were recorded (`record --tracer translate`); works on any such trace, also old ones. What a
//! context can't tell: a tail call looks as if the caller had made it, and code that is in no file (made by a JIT compiler) calls
//! nothing.
//!
//! [`Session::replay_in_context`](crate::Session::replay_in_context) gives any tool the [`CallPlace`] of each event, and
//! [`BlockPlaces`] that of each block's allocation. [`StackNames`] turns them into functions, inlined ones too.
//!
//! Where nothing is asked of single accesses, blocks are followed instead (`steps`): what one does to a stack is found out once.
//!
//! [`AllocationSites`] tells where blocks were allocated, wrappers of allocators left out.
//!
//! Start with [`Stacks`], then [`StackTally`], which counts, and [`StackTable`], which does so by function in bounded memory.

mod context;
mod distinct;
mod entry;
mod names;
mod passing;
mod place;
mod rows;
mod shadow;
mod sites;
mod steps;
mod sums;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod transfer;
mod tree;

pub use context::{CallContext, ContextId, Contexts, EnteredBy};
pub use names::{CalledFunction, StackNames};
pub use place::{BlockPlaces, CallPlace};
pub use rows::{CountedStacks, LeftOutStacks, StackCount, StackRow, StackRows, SummedStacks};
pub(crate) use shadow::{CreatedStacks, InnermostFrame, StacksOfThread};
pub use shadow::{StackFrame, Stacks};
pub use sites::{AllocationSites, NamedSite, SiteStyle};
pub(crate) use steps::{BlockSteps, StepFollower, TakenStep, ToldSteps};
pub use table::StackTable;
pub use tally::{StackTally, Tallied};
pub(crate) use transfer::{CallEdge, Instructions, RETURN_BYTES};
pub use tree::{StackFigures, StackId, StackTree};
