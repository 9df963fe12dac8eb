//! The plan of a recording: what is recorded, and how. Everything that can be refused is decided here; nothing is started or written yet.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use buffers::Config;

use crate::store::trace_plan::TracePlan;
use crate::target::foothold::Foothold;
use crate::target::program::Linkage;

/// A recording as it will be.
pub(crate) struct Plan {
    /// The tracer.
    pub(crate) library: PathBuf,
    /// The program as the user named it.
    pub(crate) name: String,
    /// The program's file.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Whether a loader takes the tracer along.
    pub(crate) linkage: Linkage,
    /// The process that runs it already; `None`: it is started.
    pub(crate) running: Option<RunningProcess>,
    /// How long processes are waited for that outlive the program; `None`: until they end.
    pub(crate) wait: Option<Duration>,
    /// Set where the recording of a program is to end at once, whoever still runs.
    pub(crate) leave: Arc<AtomicBool>,
    /// What a traced process is told.
    pub(crate) config: Config,
    /// Where the trace goes.
    pub(crate) trace: TracePlan,
}

/// A process that is attached to.
#[derive(Clone, Debug)]
pub(crate) struct RunningProcess {
    /// The process.
    pub(crate) pid: u32,
    /// How long it is recorded; `None`: until it ends, or the flag is set.
    pub(crate) time: Option<Duration>,
    /// Set where the recording is to end.
    pub(crate) stop: Arc<AtomicBool>,
    /// What it needs where it sees other files or another network.
    pub(crate) foothold: Option<Arc<Foothold>>,
}
