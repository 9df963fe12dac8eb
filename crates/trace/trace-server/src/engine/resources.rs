//! Resources shared by sessions and traces: workers, memory, the cache, the root, and the list of traces that are being written.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::budget::Budget;
use super::cache::SegmentCache;
use super::root::Root;
use super::workers::Workers;
use super::write::WriteTrace;
use crate::{Error, RefusalReason, Upstream, lock};

/// How much of the machine a server may use.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Threads that encode and decode; one for each logical CPU unless told.
    pub workers: usize,
    /// Bytes of memory: three eighths for segments, a quarter for clients' buffers, a quarter for what encoding and decoding takes, an
    /// eighth for decoded segments.
    pub memory_bytes: usize,
    /// The directory that clients' files lie in; none where the client is this process.
    pub root: Option<PathBuf>,
    /// Channels at the same time.
    pub channels: usize,
    /// Bytes of a trace's file at most, but for its end.
    pub quota_bytes: Option<u64>,
    /// How long a channel over TCP is kept whose client was cut off.
    pub patience: Duration,
    /// Another server, which keeps the traces that are created here: it is sent what the workers here encode.
    pub upstream: Option<Arc<dyn Upstream>>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers,
            memory_bytes: 1 << 30,
            root: None,
            channels: 2048,
            quota_bytes: None,
            patience: Duration::from_secs(120),
            upstream: None,
        }
    }
}

/// Memory of a former segment.
pub(crate) struct Spare {
    pub(crate) bytes: Vec<u8>,
    /// What the budget has for it.
    pub(crate) reserved: usize,
}

/// What encoding or decoding takes beside the entries: at most so many times their bytes (their columns, and what is stored), and
/// something that does not depend on them. Measured with `access`, whose columns are the widest; the test of `serve --memory` holds it.
const WORKING_TIMES: usize = 3;
const WORKING_BYTES: usize = 1 << 20;
/// Segments that are to be encoded at the same time at least, where there are as many workers.
const AT_ONCE: usize = 4;

/// Memory for encoding or decoding something, until it is dropped.
pub(crate) struct WorkingMemory<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Drop for WorkingMemory<'_> {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

/// What all channels share.
pub(crate) struct Resources {
    pub(crate) options: EngineOptions,
    pub(crate) workers: Arc<Workers>,
    pub(crate) segments: Budget,
    pub(crate) rings: Budget,
    working: Budget,
    pub(crate) cache: SegmentCache,
    pub(crate) root: Root,
    traces: Mutex<Vec<Weak<WriteTrace>>>,
    spares: Mutex<Vec<Spare>>,
    ids: AtomicU64,
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Resources {
    /// Starts the workers.
    pub(crate) fn start(options: EngineOptions) -> Result<Self, Error> {
        let root = match &options.root {
            Some(path) => Root::beneath(path)?,
            None => Root::Free,
        };
        let memory = options.memory_bytes.max(1 << 20);
        Ok(Self {
            workers: Arc::new(Workers::start(options.workers)),
            segments: Budget::new(memory / 8 * 3),
            rings: Budget::new(memory / 4),
            working: Budget::new(memory / 4),
            cache: SegmentCache::new(memory / 8),
            root,
            traces: Mutex::default(),
            spares: Mutex::default(),
            ids: AtomicU64::new(1),
            options,
        })
    }

    /// Waits for the memory that encoding or decoding entries of so many bytes takes. Who needs more than there is has all of it.
    pub(crate) fn work(&self, bytes: usize) -> WorkingMemory<'_> {
        let needed = bytes.saturating_mul(WORKING_TIMES).saturating_add(WORKING_BYTES);
        let bytes = needed.min(self.working.limit());
        while !self.working.try_reserve(bytes) {
            self.working.wait();
        }
        WorkingMemory { budget: &self.working, bytes }
    }

    /// The most bytes of a segment: several can be on their way, and be encoded, at the same time.
    pub(crate) fn most_of_a_segment(&self) -> usize {
        let at_once = self.options.workers.clamp(1, AT_ONCE);
        (self.segments.limit() / 4).min(self.working.limit() / (WORKING_TIMES * at_once))
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The traces that are being written.
    pub(crate) fn traces(&self) -> Vec<Arc<WriteTrace>> {
        let mut traces = lock(&self.traces);
        traces.retain(|trace| trace.strong_count() > 0);
        traces.iter().filter_map(Weak::upgrade).collect()
    }

    /// One more of them, until it is dropped.
    pub(crate) fn add_trace(&self, trace: &Arc<WriteTrace>) {
        lock(&self.traces).push(Arc::downgrade(trace));
    }

    /// Refuses a file that is being written already.
    pub(crate) fn claim(&self, file: &File, name: &str) -> Result<(), Error> {
        use std::os::unix::fs::MetadataExt;
        let failed = |source| Error::Io { what: name.into(), operation: "look at the file", cause: source };
        let metadata = file.metadata().map_err(failed)?;
        let same = |trace: &Arc<WriteTrace>| {
            std::fs::metadata(trace.path())
                .is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
        };
        if self.traces().iter().any(same) {
            return Err(Error::refused(RefusalReason::File, format!("{name}: is being written")));
        }
        Ok(())
    }

    /// Waits for the memory of a frame. One that needs more than there is gets it: it is there already.
    pub(crate) fn reserve_for_frame(
        self: &Arc<Self>,
        bytes: usize,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        while !self.segments.try_reserve(bytes) {
            check()?;
            if bytes > self.segments.limit() {
                self.segments.reserve(bytes);
                break;
            }
            if !self.drop_spares() {
                self.relieve();
                self.segments.wait();
            }
        }
        Ok(())
    }

    /// Sends the largest open segment of all traces on its way, so that its memory comes back.
    pub(crate) fn relieve(self: &Arc<Self>) {
        let largest = self.traces().into_iter().filter_map(|trace| {
            let (reserved, stream) = trace.largest()?;
            Some((reserved, trace, stream))
        });
        if let Some((_, trace, stream)) = largest.max_by_key(|(reserved, _, _)| *reserved) {
            trace.relieve(self, &stream);
        }
    }

    /// Memory of a former segment for at least `bytes`. Touched pages cost nothing; new ones cost more than encoding.
    pub(crate) fn take_spare(&self, bytes: usize) -> Option<Spare> {
        let mut spares = lock(&self.spares);
        let place = spares.iter().position(|spare| spare.reserved >= bytes)?;
        Some(spares.swap_remove(place))
    }

    /// Keeps the memory of a segment that was written, or gives it back.
    pub(crate) fn give_spare(&self, mut bytes: Vec<u8>, reserved: usize) {
        bytes.clear();
        let mut spares = lock(&self.spares);
        if reserved >= 1 << 20 && spares.len() < self.options.workers {
            spares.push(Spare { bytes, reserved });
            // Others may wait for just this.
            drop(spares);
            self.segments.release(0);
        } else {
            drop(spares);
            drop(bytes);
            self.segments.release(reserved);
        }
    }

    /// Gives the memory of former segments back. Whether there was any.
    pub(crate) fn drop_spares(&self) -> bool {
        let spares = std::mem::take(&mut *lock(&self.spares));
        let some = !spares.is_empty();
        for Spare { bytes, reserved } in spares {
            drop(bytes);
            self.segments.release(reserved);
        }
        some
    }
}
