//! An open trace, with everything needed to name its addresses.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use memref::{Event, GapReason, ProcessId, RegionEvent};
use symbols::{BuildId, ModuleStore, Names, Resolver, SearchPath};
use trace_format::{Batch, Filter, KindSet, Trace};

use crate::machine::Machine;
use crate::{Error, Owner, ReadProgress};

/// A trace, the files that its processes mapped, and the names found so far.
#[derive(Clone, Debug)]
pub struct Session {
    trace: Trace,
    store: Arc<ModuleStore>,
    names: Arc<Names>,
    regions: Arc<Vec<RegionEvent<String>>>,
    seen: Arc<ReadProgress>,
    kept: Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>,
    jobs: Option<NonZero<usize>>,
}

/// Whoever reads a trace for those who count keeps no more of them busy.
const MOST_WORKERS: usize = 4;
/// A trace with fewer accesses is counted before there are several who count.
const FEW_ACCESSES: u64 = 1 << 22;

/// What was copied of a trace's modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedSymbols {
    /// Modules that are in the archive.
    pub modules: u64,
    /// Files of theirs.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Modules that were not found as they were when the trace was recorded.
    pub missing: Vec<String>,
}

impl Session {
    /// Opens a trace.
    ///
    /// # Errors
    /// Where it can't be read or is none.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, &[])
    }

    /// Opens a trace whose modules may be in these directories, or in the one that was archived beside the trace.
    ///
    /// # Errors
    /// Where it can't be read or is none.
    pub fn open_with(path: &Path, symbols: &[PathBuf]) -> Result<Self, Error> {
        Self::of(Trace::open(path)?, symbols)
    }

    /// The same of an open trace.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn of(trace: Trace, symbols: &[PathBuf]) -> Result<Self, Error> {
        let mut symbol_roots = symbols.to_vec();
        symbol_roots.push(Self::archive_of(trace.path()));
        let store = ModuleStore::new(SearchPath { symbol_roots, ..SearchPath::default() });
        for module in trace.modules()? {
            // A build id that is no hexadecimal number checks nothing.
            if let Ok(id) = module.build_id.parse::<BuildId>() {
                store.expect(&module.path, id);
            }
        }
        for (path, name) in called_by_others(&trace) {
            store.call(&path, &name);
        }
        let regions = Arc::new(trace.regions()?);
        Ok(Self {
            trace,
            store: Arc::new(store),
            names: Arc::default(),
            regions,
            seen: Arc::default(),
            kept: Arc::default(),
            jobs: None,
        })
    }

    /// Has it counted by so many threads beside the one that reads; otherwise by one a core, where the trace is worth it.
    pub fn with_jobs(self, jobs: Option<NonZero<usize>>) -> Self {
        Self { jobs, ..self }
    }

    /// The same, read for one purpose: what it reads is counted there, and it ends when it is cancelled there.
    pub fn read_for(&self, progress: Arc<ReadProgress>) -> Self {
        Self { seen: progress, ..self.clone() }
    }

    /// How many count it.
    pub(crate) fn workers(&self) -> usize {
        match self.jobs {
            Some(jobs) => jobs.get(),
            None if self.accesses() < FEW_ACCESSES => 1,
            None => std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_WORKERS),
        }
    }

    /// The directory beside a trace that its symbols are archived in.
    pub fn archive_of(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".symbols");
        PathBuf::from(name)
    }

    /// Copies all modules of the trace into a directory; what could not be found is told by [`Self::problems`].
    ///
    /// # Errors
    /// Where the trace can't be read, or a file can't be copied.
    pub fn archive(&self, directory: &Path) -> Result<ArchivedSymbols, Error> {
        let paths: BTreeSet<String> = self.trace.modules()?.into_iter().map(|module| module.path).collect();
        let mut all = ArchivedSymbols::default();
        for path in paths {
            // A file that is mapped and no module has no names.
            let Some(module) = self.store.get(&path) else { continue };
            match symbols::archive(&module, directory)? {
                Some(copied) => {
                    all.modules += 1;
                    all.files += copied.files;
                    all.bytes += copied.bytes;
                }
                None => all.missing.push(path),
            }
        }
        Ok(all)
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

    /// What an analysis found of the whole trace and keeps for whoever asks next: one of each type. It is made outside of the lock,
    /// since that may take a replay; of two at once the first one stays.
    ///
    /// # Errors
    /// Where it can't be made.
    pub(crate) fn kept<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Arc<T>, Error> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |all: &[Arc<dyn Any + Send + Sync>]| {
            all.iter().find_map(|one| Arc::clone(one).downcast::<T>().ok())
        };
        if let Some(known) = find(&kept()) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let mut all = kept();
        let first = find(&all);
        Ok(first.unwrap_or_else(|| {
            all.push(made.clone());
            made
        }))
    }

    /// Whether any file that a process mapped, other than memtap's own, has debug information. Without it nothing has a type, and no access
    /// need be read to know. Of a machine the programs are not known before its trace was read, so it may have.
    pub fn may_have_types(&self) -> bool {
        let has_types = |event: &RegionEvent<String>| {
            self.store.mapped_by(event).is_some_and(|module| {
                module.has_debug_info() && Owner::of_module(module.name()) != Owner::Memtap
            })
        };
        Machine::of(self).is_some() || self.regions.iter().any(has_types)
    }

    /// A resolver that knows nothing yet.
    pub(crate) fn resolver(&self, process: ProcessId) -> Resolver {
        Resolver::new(process, Arc::clone(&self.store), Arc::clone(&self.names))
    }

    /// The processes that begin inside of calls which nothing was recorded of: those that were forked, and one that was attached to.
    pub(crate) fn begun_inside(&self) -> Vec<ProcessId> {
        let attached: Option<u32> = self.trace.properties().get("attached").and_then(|pid| pid.parse().ok());
        let records = self.trace.processes().iter();
        let inside = records.filter(|record| record.parent.is_some() || Some(record.pid) == attached);
        inside.map(|record| record.process).collect()
    }

    /// Accesses that replays of this session have gone through so far.
    pub fn accesses_seen(&self) -> u64 {
        self.seen.accesses()
    }

    /// Accesses that it has, as far as is known without reading them.
    pub fn accesses(&self) -> u64 {
        let threads = self.trace.threads().iter();
        threads.map(|record| self.trace.shard(record.thread).access_count()).sum()
    }

    /// A replay went through a batch. Fails where nobody wants it to go on.
    pub(crate) fn note_seen(&self, batch: &Batch<'_>) -> Result<(), Error> {
        match batch {
            Batch::Accesses(accesses) => self.note_read(accesses.len() as u64),
            Batch::Event(_) => Ok(()),
        }
    }

    /// As [`Self::note_seen`], of so many accesses.
    pub(crate) fn note_read(&self, accesses: u64) -> Result<(), Error> {
        self.seen.note(accesses)
    }

    /// What readers should know of this session, one line each: what is missing, and what could not be named (files that are
    /// gone or of another build).
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let missing = self.recorded_gaps();
        if missing > 0 {
            problems.push(format!(
                "{}: {} since the recording; memtap stat says why",
                self.trace.path().display(),
                crate::missing(missing)
            ));
        }
        problems.extend(self.store.take_problems().into_iter().map(|problem| problem.to_string()));
        problems
    }

    /// Events that the recorder knew to be missing.
    fn recorded_gaps(&self) -> u64 {
        let filter = Filter { kinds: KindSet::GAPS, ..Filter::default() };
        let mut missing = 0;
        for record in self.trace.threads() {
            let mut cursor = self.trace.shard(record.thread).events(&filter);
            while let Ok(Some(batch)) = cursor.next_batch() {
                if let Batch::Event(Event::Gap(gap)) = batch
                    && gap.reason != GapReason::DamagedFrame
                {
                    missing += gap.count;
                }
            }
        }
        missing
    }
}

/// Where programs are looked for that were called by a name without a directory.
const PROGRAM_DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Executables that were executed by a link with another name (`redis-server` is one to `redis-check-rdb`), and that name, where all
/// processes agree on it.
fn called_by_others(trace: &Trace) -> Vec<(String, String)> {
    let mut called: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for record in trace.processes() {
        let name = called_name(Path::new(&record.exe), record.args.split(' ').next().unwrap_or(""));
        let known = called.entry(&record.exe).or_insert_with(|| name.clone());
        if *known != name {
            *known = None;
        }
    }
    called.into_iter().filter_map(|(path, name)| Some((path.to_owned(), name?))).collect()
}

/// The file name of a word that leads to an executable by a link. A program can be told any first word.
fn called_name(exe: &Path, word: &str) -> Option<String> {
    let word = Path::new(word);
    let name = word.file_name().filter(|name| Some(*name) != exe.file_name())?;
    let leads_there = |path: &Path| path.canonicalize().is_ok_and(|path| path == exe);
    let beside = exe.parent().map(|parent| parent.join(name));
    let directories = PROGRAM_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name));
    let mut places = beside.into_iter().chain(directories).chain([word.to_owned()]);
    places.find(|place| leads_there(place))?;
    name.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_is_called_as_the_link_that_leads_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let [exe, link, other] = ["checker", "server", "other"].map(|name| dir.join(name));
        std::fs::write(&exe, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&exe, &link).unwrap();
        let check = |word: &str, expect: Option<&str>| {
            assert_eq!(called_name(&exe, word).as_deref(), expect, "{word}");
        };
        check("server", Some("server"));
        check(link.to_str().unwrap(), Some("server"));
        check("checker", None);
        check("other", None);
        check("-server", None);
        check("", None);
    }
}
