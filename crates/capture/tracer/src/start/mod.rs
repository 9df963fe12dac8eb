//! How the tracer starts in a process: in one that the loader starts, and in one that is already running. Start with `constructor`.

pub(crate) mod attach;
pub(crate) mod attach_words;
pub(crate) mod constructor;
