//! What Ballista warns of goes to standard error, a line each.

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Warnings;

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn && metadata.target().starts_with("ballista")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string().lines().collect::<Vec<_>>().join(" ");
            eprintln!("memtap: {text}");
        }
    }

    fn flush(&self) {}
}

/// From now on.
pub(crate) fn show() {
    if log::set_logger(&Warnings).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
