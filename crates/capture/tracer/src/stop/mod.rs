//! Stopping of threads by one of them: by a kick wherever they are, or, before detaching, where their native state is known.

pub(crate) mod kick;
pub(crate) mod park;
