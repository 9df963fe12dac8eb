//! The server without its sockets: sessions, traces, memory and workers. What a channel asks for comes through
//! [`Handler`]; a server inside the client's process calls that directly.

mod budget;
mod cache;
mod handler;
mod read;
pub(crate) mod ring;
mod root;
mod session;
mod text;
mod workers;
mod write;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use budget::Budget;
use cache::Cache;
use root::Root;
use session::Session;
use workers::Workers;
use write::WriteTrace;

pub use text::Format;

pub(crate) use handler::{Answer, Handler};

use crate::{Error, Reason, lock};

/// How often open segments are looked at.
const TICK: Duration = Duration::from_millis(200);

/// How much of the machine a server may use.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that encode and decode; one for each logical CPU unless told.
    pub workers: usize,
    /// Bytes of trace data in memory: half for segments, a quarter for clients' buffers, a quarter for decoded segments.
    pub memory_bytes: usize,
    /// The directory that clients' files lie in; none where the client is this process.
    pub root: Option<PathBuf>,
    /// Channels at the same time.
    pub channels: usize,
}

impl Default for Options {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { workers, memory_bytes: 1 << 30, root: None, channels: 2048 }
    }
}

/// What all channels share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) workers: Workers,
    pub(crate) segments: Budget,
    pub(crate) rings: Budget,
    pub(crate) cache: Cache,
    pub(crate) root: Root,
    pub(crate) sessions: Mutex<BTreeMap<u64, Arc<Session>>>,
    traces: Mutex<Vec<Weak<WriteTrace>>>,
    /// Memory of former segments, with what the budget has for it.
    spares: Mutex<Vec<(Vec<u8>, usize)>>,
    ids: AtomicU64,
}

/// A server without sockets. Cheap to clone; it ends with its last clone and channel.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

impl Engine {
    /// Starts the workers.
    ///
    /// # Errors
    /// Where the root can't be opened or no thread be started.
    pub fn start(options: Options) -> Result<Self, Error> {
        let root = match &options.root {
            Some(path) => Root::beneath(path)?,
            None => Root::Free,
        };
        let memory = options.memory_bytes.max(1 << 20);
        let inner = Arc::new(Inner {
            workers: Workers::start(options.workers),
            segments: Budget::new(memory / 2),
            rings: Budget::new(memory / 4),
            cache: Cache::new(memory / 4),
            root,
            sessions: Mutex::default(),
            traces: Mutex::default(),
            spares: Mutex::default(),
            ids: AtomicU64::new(1),
            options,
        });
        let watched = Arc::downgrade(&inner);
        std::thread::Builder::new().name("memtap-ticker".into()).spawn(move || tick(&watched)).map_err(
            |source| Error::Io { what: "the server".into(), operation: "start a thread", cause: source },
        )?;
        Ok(Self { inner })
    }

    /// A new channel. `shared` says whether descriptors, or references in the same process, reach the client.
    pub(crate) fn channel(&self, shared: bool) -> Handler {
        Handler::new(self.inner.clone(), shared)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Closes all traces, as far as that is possible. Returns what could not be completed.
    pub fn close(&self) -> Vec<Error> {
        let sessions: Vec<_> = lock(&self.inner.sessions).values().cloned().collect();
        sessions.iter().filter_map(|session| session.close().err()).collect()
    }
}

/// Looks after open segments as long as the server lives.
fn tick(inner: &Weak<Inner>) {
    loop {
        std::thread::sleep(TICK);
        let Some(inner) = inner.upgrade() else { return };
        for trace in inner.traces() {
            trace.tick(&inner);
        }
    }
}

impl Inner {
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn traces(&self) -> Vec<Arc<WriteTrace>> {
        let mut traces = lock(&self.traces);
        traces.retain(|trace| trace.strong_count() > 0);
        traces.iter().filter_map(Weak::upgrade).collect()
    }

    fn add_trace(&self, trace: &Arc<WriteTrace>) {
        lock(&self.traces).push(Arc::downgrade(trace));
    }

    /// Refuses a file that is being written already.
    fn claim(&self, file: &File, name: &str) -> Result<(), Error> {
        use std::os::unix::fs::MetadataExt;
        let failed = |source| Error::Io { what: name.into(), operation: "look at the file", cause: source };
        let metadata = file.metadata().map_err(failed)?;
        let same = |trace: &Arc<WriteTrace>| {
            std::fs::metadata(trace.path())
                .is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
        };
        if self.traces().iter().any(same) {
            return Err(Error::refused(Reason::File, format!("{name}: is being written")));
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
    pub(crate) fn take_spare(&self, bytes: usize) -> Option<(Vec<u8>, usize)> {
        let mut spares = lock(&self.spares);
        let place = spares.iter().position(|(_, reserved)| *reserved >= bytes)?;
        Some(spares.swap_remove(place))
    }

    /// Keeps the memory of a segment that was written, or gives it back.
    pub(crate) fn give_spare(&self, mut bytes: Vec<u8>, reserved: usize) {
        bytes.clear();
        let mut spares = lock(&self.spares);
        if reserved >= 1 << 20 && spares.len() < self.options.workers {
            spares.push((bytes, reserved));
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
        for (bytes, reserved) in spares {
            drop(bytes);
            self.segments.release(reserved);
        }
        some
    }
}
