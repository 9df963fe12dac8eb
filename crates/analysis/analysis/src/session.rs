//! An open trace with what its names need.

use std::path::Path;
use std::sync::Arc;

use memref::{ProcessId, RegionEvent};
use symbols::{BuildId, ModuleStore, Names, Resolver};
use trace_format::Trace;

use crate::Error;

/// A trace, the files that its processes mapped, and the names found so far.
#[derive(Clone, Debug)]
pub struct Session {
    trace: Trace,
    store: Arc<ModuleStore>,
    names: Arc<Names>,
    regions: Arc<Vec<RegionEvent<String>>>,
}

impl Session {
    /// Opens a trace.
    ///
    /// # Errors
    /// Where it can't be read or is none.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let trace = Trace::open(path)?;
        let store = ModuleStore::default();
        for module in trace.modules()? {
            // A build id that is no hexadecimal number checks nothing.
            if let Ok(id) = module.build_id.parse::<BuildId>() {
                store.expect(&module.path, id);
            }
        }
        let regions = Arc::new(trace.regions()?);
        Ok(Self { trace, store: Arc::new(store), names: Arc::default(), regions })
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// All changes of regions, in order.
    pub(crate) fn region_events(&self) -> &[RegionEvent<String>] {
        &self.regions
    }

    /// A resolver that knows nothing yet.
    pub(crate) fn resolver(&self, process: ProcessId) -> Resolver {
        Resolver::new(process, Arc::clone(&self.store), Arc::clone(&self.names))
    }

    /// The processes that begin inside of calls which another process made: those that were forked.
    pub(crate) fn begun_inside(&self) -> Vec<ProcessId> {
        let records = self.trace.processes().iter();
        records.filter(|record| record.parent.is_some()).map(|record| record.process).collect()
    }

    /// What could not be named, one line each: files that are gone or of another build.
    pub fn problems(&self) -> Vec<String> {
        self.store.take_problems().into_iter().map(|problem| problem.to_string()).collect()
    }
}
