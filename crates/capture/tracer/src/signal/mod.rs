//! The program's signals: which are pending, how they are delivered, and
//! what the kernel is told. Who handles a signal is decided in `router`.

pub(crate) mod actions;
pub(crate) mod alt_stack;
pub(crate) mod busy;
pub(crate) mod deaths;
pub(crate) mod delivery;
pub(crate) mod mask;
pub(crate) mod rseq;
pub(crate) mod stubs;
pub(crate) mod trap_reason;
pub(crate) mod wait_limit;
pub(crate) mod waiting;
