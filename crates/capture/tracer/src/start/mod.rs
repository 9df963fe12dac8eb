//! How the tracer begins in a process: in one that the loader starts, and in one that runs already. Start with `constructor`.

pub(crate) mod attach;
pub(crate) mod attach_words;
pub(crate) mod constructor;
