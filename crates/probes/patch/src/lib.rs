//! Changes live x86-64 code while all threads run: *wordpatch* (any word of up to eight bytes that
//! belongs to one instruction) and *callpatch* (switching one five-byte call on and off with one store).
//!
//! The algorithms are those of "Living on the Edge: Rapid-Toggling Probes with Cross-Modification on x86" (sections 5 and 6), with one
//! change. The paper separates the steps of a straddling patch by a wait of `T_max`, which is not safe on current machines. Here the
//! steps are separated by `membarrier(PRIVATE_EXPEDITED_SYNC_CORE)`, and the wait is an option (see [`Separation`] and [`calibrate`]).
//!
//! Start reading at [`Site`] (one patchable place), then [`protocol`] (the state machine,
//! model-checked with loom), [`tier`] (how a patch is stored), [`callpatch`] and [`trap`].
//!
//! The crate deliberately never stops threads, never calls `mprotect` for a toggle, never allocates while patching, knows nothing of
//! probes or functions, and relocates no instruction. It trusts its caller for one thing that it cannot check: that a site is one
//! instruction before and after the patch (the paper's *layout equivalence*, section 4), so that no thread can be in the middle of it.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub mod arena;
pub mod barrier;
pub mod batch;
pub mod calibrate;
pub mod callpatch;
pub mod error;
pub mod exercise;
pub mod maps;
pub mod near;
pub mod pages;
pub mod protocol;
mod resume;
pub mod site;
pub mod store;
mod sync;
pub mod sys;
pub mod table;
pub mod tier;
pub mod trap;
pub mod wordpatch;

pub use barrier::Separation;
pub use batch::patch_all;
pub use callpatch::{CallSite, Encoding};
pub use error::{CodeAddr, PatchError, Refusal};
pub use protocol::Progress;
pub use site::{Guard, Site};
pub use tier::Tier;
pub use wordpatch::{finish_patch, patch, start_patch};

/// Bytes of a cache line (section 3).
pub const LINE_BYTES: usize = 64;
/// Bytes of the unit that instruction fetch reads at once. The paper's processors read a whole line; a Zen 5 (family 26) was seen
/// to execute half of a store across the middle of a line that it fetched anew, once in some hundred thousand executions.
pub const FETCH_BYTES: usize = 32;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// The longest patch, in bytes.
pub const MAX_PATCH_BYTES: usize = 8;
/// `int3`.
pub const INT3: u8 = 0xcc;
/// A call with a 32-bit displacement.
pub const CALL_REL32: u8 = 0xe8;
/// A jump with a 32-bit displacement.
pub const JMP_REL32: u8 = 0xe9;
/// `test eax, imm32`: five bytes as a call has, no effect but on the flags.
pub const TEST_EAX_IMM32: u8 = 0xa9;
/// The five-byte nop that compilers emit.
pub const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
