//! Output to the recorder: records of a thread, the buffers of its own code, the
//! order of the session, and counts of the tracer's work. Start with `records`.

pub(crate) mod recorder;
mod records;
pub(crate) mod thread_buffers;
pub(crate) mod work;
