//! The progress line, shown where standard error is a terminal.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use analysis::Session;
use recorder::Totals;

const EVERY: Duration = Duration::from_millis(500);

/// Rewrites one line of the terminal now and then.
pub(crate) struct Progress {
    shown: bool,
    started: Instant,
    last: Instant,
    last_accesses: u64,
    terminal: bool,
}

impl Progress {
    /// Nothing shown yet.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Self { shown: false, started: now, last: now, last_accesses: 0, terminal }
    }

    /// Shows the totals of a trace that is written to `file`, if it is time.
    pub(crate) fn show(&mut self, totals: Totals, file: &Path) {
        let since = self.last.elapsed();
        if !self.terminal || since < EVERY {
            return;
        }
        let rate = (totals.accesses - self.last_accesses) as f64 / since.as_secs_f64();
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let slow =
            if totals.accesses == 0 { 0.0 } else { totals.slow as f64 * 100.0 / totals.accesses as f64 };
        let line = format!(
            "{:.0} s  {} accesses  {}/s  {} written  {slow:.1} % on the slow path",
            self.started.elapsed().as_secs_f64(),
            short(totals.accesses as f64),
            short(rate),
            short_bytes(bytes as f64),
        );
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        (self.shown, self.last, self.last_accesses) = (true, Instant::now(), totals.accesses);
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Shows on a terminal how much of the page index is built, until it is dropped.
pub(crate) struct Indexing {
    percent: usize,
    terminal: bool,
}

impl Indexing {
    /// Nothing shown yet.
    pub(crate) fn new() -> Self {
        Self { percent: 0, terminal: std::io::stderr().is_terminal() }
    }

    /// Shows that `done` of `all` parts are in it.
    pub(crate) fn show(&mut self, done: usize, all: usize) {
        let percent = done * 100 / all.max(1);
        if self.terminal && percent != self.percent {
            self.percent = percent;
            let _ = write!(std::io::stderr(), "\r\x1b[Kindex: {percent} %");
        }
    }
}

impl Drop for Indexing {
    fn drop(&mut self) {
        if self.percent > 0 {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// A trace takes so long to read before people are told how far it is.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows on a terminal how far a trace has been read, and how long that still takes, until it is dropped.
pub(crate) struct Reading {
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Reading {
    /// Begins now.
    pub(crate) fn of(session: &Session) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { thread: None };
        }
        let session = session.clone();
        let (end, ended) = mpsc::channel();
        let thread = std::thread::spawn(move || show_reading(&session, &ended));
        Self { thread: Some((end, thread)) }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn show_reading(session: &Session, ended: &mpsc::Receiver<()>) {
    let (started, before) = (Instant::now(), session.accesses_seen());
    let all = session.accesses();
    let mut wait = PATIENCE;
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let line = reading_line(started.elapsed(), session.accesses_seen() - before, all);
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        wait = EVERY;
    }
    if wait == EVERY {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// How far it is. What is skipped is not seen, so the time that is left is at most what is said.
fn reading_line(elapsed: Duration, seen: u64, all: u64) -> String {
    let part = (seen as f64 / all.max(1) as f64).min(1.0);
    let left = elapsed.as_secs_f64() * (1.0 - part) / part;
    let left = if part > 0.01 { format!("  about {left:.0} s left") } else { String::new() };
    format!("reading: {:.0} % of {} accesses{left}", part * 100.0, short(all as f64))
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1} G", v / 1e9),
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.0} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

pub(crate) fn short_bytes(value: f64) -> String {
    match value {
        v if v >= f64::from(1 << 30) => format!("{:.1} GiB", v / f64::from(1 << 30)),
        v if v >= f64::from(1 << 20) => format!("{:.1} MiB", v / f64::from(1 << 20)),
        v => format!("{:.0} KiB", v / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_says_how_long_it_still_takes() {
        let check = |seen, expect| assert_eq!(reading_line(Duration::from_secs(3), seen, 4_000_000), expect);
        check(0, "reading: 0 % of 4.0 M accesses");
        check(1_000_000, "reading: 25 % of 4.0 M accesses  about 9 s left");
        check(5_000_000, "reading: 100 % of 4.0 M accesses  about 0 s left");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(short(950.0), "950");
        assert_eq!(short(12_345.0), "12 k");
        assert_eq!(short(3_400_000.0), "3.4 M");
        assert_eq!(short_bytes(3.0 * 1024.0 * 1024.0), "3.0 MiB");
    }
}
