//! Threads and processes: how they begin, execute other programs, and end.

pub(crate) mod connect;
pub(crate) mod debugger;
pub(crate) mod exec;
pub(crate) mod filter_code;
pub(crate) mod filters;
pub(crate) mod forks;
pub(crate) mod give_back;
pub(crate) mod identity;
pub(crate) mod image;
pub(crate) mod kept_descriptor;
pub(crate) mod library_path;
pub(crate) mod main;
pub(crate) mod namespaces;
pub(crate) mod program;
pub(crate) mod regions;
pub(crate) mod sanitizer;
pub(crate) mod surroundings;
pub(crate) mod threads;
pub(crate) mod unrecorded;
