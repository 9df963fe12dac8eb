//! The memory of the process: its pages and their properties, and how the tracer reads and writes there for the program.

pub(crate) mod code_ranges;
pub(crate) mod code_views;
pub(crate) mod pages;
pub(crate) mod program_memory;
pub(crate) mod program_writes;
pub(crate) mod ranges;
