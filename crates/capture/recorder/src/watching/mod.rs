//! Watchpoints: bytes of an unmodified program, where each access is reported at once.
//!
//! [`Watcher`] runs the program. What is watched is given as [`WatchExpression`]s (`names` looks them up, `list` is what the tracer
//! gets). Hits go to a [`HitReport`] in an order in which names are right (`live`). The report decides how hits are written.

mod expression;
mod libraries;
mod list;
mod live;
mod names;

use std::path::PathBuf;
use std::sync::Arc;

use buffers::{Config, MAX_BREAKPOINTS, MAX_LIST_PATH_BYTES};
use memref::RegionKind;
use trace_format::{Encoders, SyncPolicy};

use crate::buffer_service::unique_name;
use crate::plan::Plan;
use crate::run::session;
use crate::store::trace_plan::TracePlan;
use crate::target::program::{self, Linkage};
use crate::{Error, Notice, RecordedRun, Tracer, library};
use list::{Temporary, WatchLists};
use live::HitQueue;

pub use crate::listener::Hit;
pub use expression::{WatchExpression, WatchKind, parse_number};
pub use list::HitChoices;
pub use live::{HitPlace, HitReport, Unwatched};

/// A program with watchpoints, about to run.
pub struct Watcher {
    name: String,
    args: Vec<String>,
    program: PathBuf,
    linkage: Linkage,
    lists: Arc<WatchLists>,
    translate: bool,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct WatchedRun {
    /// The program's end. There is no trace: it was only there as long as the program ran.
    pub run: RecordedRun,
    /// Files whose debug information is damaged, one line each.
    pub damage: Vec<String>,
    /// Addresses at which nothing could be watched.
    pub unwatched: Option<Unwatched>,
}

impl Watcher {
    /// Watches what these expressions name in a program, which is found as a shell would find it. Without a tracer code is
    /// translated: that is several times the time of the program at most, while each access beside watched bytes in a closed page is
    /// hundreds of times its own.
    ///
    /// # Errors
    /// Where the program can't be recorded, or an expression names nothing in it.
    pub fn new(
        name: &str,
        args: &[String],
        expressions: Vec<WatchExpression>,
        choices: HitChoices,
        tracer: Option<Tracer>,
    ) -> Result<Self, Error> {
        let program = program::find(name)?;
        let linkage = program::check(&program)?;
        if linkage == Linkage::Static {
            return Err(Error::StaticWatched(program));
        }
        let lists = Arc::new(WatchLists::new(&program, expressions, choices)?);
        let translate = match (tracer, lists.thread_local()) {
            (Some(Tracer::Protect), Some(expression)) => {
                return Err(Error::ThreadLocal(expression.to_owned()));
            }
            (Some(tracer), _) => tracer == Tracer::Translate,
            (None, _) => true,
        };
        let (name, args) = (name.to_owned(), args.to_vec());
        Ok(Self { name, args, program, linkage, lists, translate })
    }

    /// Runs the program, and tells hits as they come.
    ///
    /// # Errors
    /// Where the program can't be started, the hits can't be told, or it is not known how the program ended.
    pub fn watch(
        &self,
        report: impl HitReport,
        mut tell: impl FnMut(Notice<'_>),
    ) -> Result<WatchedRun, Error> {
        // Regions and processes are kept for the while, which takes little.
        let trace = Temporary(std::env::temp_dir().join(format!("{}.memtap", unique_name())));
        let plan = self.plan(trace.0.clone())?;
        let (config, lists) = (plan.config, Arc::clone(&self.lists));
        let configure = Arc::new(move |pid| {
            let mut config = config;
            config.watchpoints = lists.path(pid);
            config
        });
        let mut hits = HitQueue::new(self.lists.wanted(), report);
        let run = session::listen(&plan, configure, Some(&mut hits), &mut tell)?;
        let ranges = self.lists.wanted().iter().filter_map(WatchExpression::addresses);
        Ok(WatchedRun { damage: hits.damage(), unwatched: hits.unwatched(ranges), run })
    }

    fn plan(&self, output: PathBuf) -> Result<Plan, Error> {
        let regions = [RegionKind::Data, RegionKind::Bss, RegionKind::Heap, RegionKind::Anonymous];
        Ok(Plan {
            library: library::find()?,
            name: self.name.clone(),
            program: self.program.clone(),
            args: self.args.clone(),
            linkage: self.linkage,
            running: None,
            wait: None,
            leave: std::sync::Arc::default(),
            config: Config {
                regions: regions.iter().fold(0, |mask, kind| mask | 1 << kind.code()),
                children: true,
                bursts: true,
                two_signals: false,
                at_main: true,
                translate: self.translate,
                data: false,
                flow: false,
                leaves: false,
                verify: 0,
                pid: 0,
                watchpoints: [0; MAX_LIST_PATH_BYTES],
                breakpoints: [None; MAX_BREAKPOINTS],
            },
            trace: TracePlan {
                output,
                replace: true,
                encoder: Encoders::LIVE,
                sync: SyncPolicy::default(),
                server: None,
                memory_bytes: None,
            },
        })
    }
}
