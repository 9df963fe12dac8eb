//! The program or process that is recorded, as it is found: its file and functions, what it sees of this machine's files, who lives.

pub(crate) mod breakpoints;
pub(crate) mod foothold;
pub(crate) mod live_processes;
pub(crate) mod pid_namespaces;
pub(crate) mod program;
