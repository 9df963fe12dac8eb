//! The program or process that is recorded, as it is found: its file, what it sees of this machine's files, who lives.

pub(crate) mod elsewhere;
pub(crate) mod foothold;
pub(crate) mod living;
pub(crate) mod program;
