//! How far those are who read a trace, and whether they are to go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Error;

/// What readers of a session have met so far, and whether anybody still wants what they count. Written by replays, read by whoever
/// shows progress: only a number and a wish, so relaxed.
#[derive(Debug, Default)]
pub struct ReadProgress {
    accesses: AtomicU64,
    cancelled: AtomicBool,
}

impl ReadProgress {
    /// Accesses that replays have gone through.
    pub fn accesses(&self) -> u64 {
        self.accesses.load(Ordering::Relaxed)
    }

    /// Ends what is being counted: with [`Error::Cancelled`], at the next batch of accesses.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// So many accesses were read.
    pub(crate) fn note(&self, accesses: u64) -> Result<(), Error> {
        if accesses > 0 {
            self.accesses.fetch_add(accesses, Ordering::Relaxed);
        }
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::sync::Arc;

    use memref::{Access, AccessKind, Event, VirtAddr};
    use trace_format::{CreateOptions, ProcessRecord, ThreadRecord, TraceWriter};

    use super::*;
    use crate::errors::FoundErrors;
    use crate::{By, Session, Tally, TracePart};

    #[test]
    fn what_is_cancelled_ends_and_leaves_the_session_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
        let process = writer.add_process(&ProcessRecord { pid: 1, ..ProcessRecord::default() }).unwrap();
        let thread = writer.add_thread(&ThreadRecord { process, ..ThreadRecord::default() }).unwrap();
        let mut shard = writer.shard(thread).unwrap();
        for cycle in 0..1000 {
            let (ip, addr, kind) = (VirtAddr(1), VirtAddr(0x10_0000 + cycle * 8), AccessKind::Store);
            shard.push(&Event::Access(Access { cycle, ip, addr, size: 8, kind })).unwrap();
        }
        drop(shard);
        writer.finish().unwrap();
        for jobs in [1, 3] {
            let session = Session::open(&path).unwrap().with_jobs(NonZero::new(jobs));
            let count = |session: &Session| {
                Tally::new(session, &[By::Region]).unwrap().replay(session, &TracePart::default())
            };
            let progress = Arc::<ReadProgress>::default();
            count(&session.read_for(progress.clone())).unwrap();
            assert_eq!((progress.accesses(), session.accesses_seen()), (1000, 0));
            progress.cancel();
            let cancelled = session.read_for(progress);
            assert!(matches!(count(&cancelled), Err(Error::Cancelled)));
            assert!(matches!(FoundErrors::of(&cancelled), Err(Error::Cancelled)));
            // What was begun and not finished is not kept.
            assert!(FoundErrors::of(&session).unwrap().errors.is_empty());
            assert_eq!(count(&session).unwrap().len(), 1);
        }
    }
}
