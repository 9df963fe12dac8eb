//! The program or process to be recorded, as it is found: its file and
//! functions, its view of this machine's files, and which processes live.

pub(crate) mod breakpoints;
pub(crate) mod foothold;
pub(crate) mod live_processes;
pub(crate) mod pid_namespaces;
pub(crate) mod program;
