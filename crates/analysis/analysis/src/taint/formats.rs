//! Functions whose format decides what they read and write.

/// Functions with a format, and how many unnamed functions of the C library lie between them and the one that reads it.
pub(super) const FORMATTERS: &[(&str, usize)] = &[
    ("printf", 0),
    ("fprintf", 0),
    ("vprintf", 0),
    ("vfprintf", 0),
    ("sprintf", 1),
    ("snprintf", 1),
    ("vsprintf", 1),
    ("vsnprintf", 1),
    ("dprintf", 1),
    ("vdprintf", 1),
    ("asprintf", 1),
    ("vasprintf", 1),
];
