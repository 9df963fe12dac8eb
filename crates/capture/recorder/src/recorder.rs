//! A builder for recordings: what is recorded, and how. The defaults are those of `memtap record`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use buffers::{Config, MAX_LIST_PATH_BYTES};
use memref::RegionKind;
use trace_format::{Encoders, SyncPolicy};
use trace_server::StoreFormat;

use crate::feedback::error::Feature;
use crate::plan::{Plan, RunningProcess};
use crate::run::running;
use crate::run::session;
use crate::store::remote_store::RemoteStore;
use crate::store::trace_options::{TraceOptions, trace_setters};
use crate::store::trace_plan::TracePlan;
use crate::target::breakpoints;
use crate::target::foothold::Foothold;
use crate::target::program::{self, Linkage};
use crate::{Error, Notice, RecordedRun, library};

/// Who sees the accesses of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Translated code: every access, the stack's included.
    Translate,
    /// Native execution; accesses to selected data are found by page protection.
    Protect,
}

/// How an access to closed memory is made, where pages are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// One signal for a run of instructions.
    Bursts,
    /// One signal for each access.
    Single,
    /// Two signals and two changes of rights for each access, as in the paper: only for comparison.
    TwoSignals,
}

/// A program to start, or a process that runs.
#[derive(Clone, Debug)]
enum Subject {
    Program { name: String, args: Vec<String> },
    Process { pid: u32, time: Option<Duration>, stop: Arc<AtomicBool> },
}

/// Records a program, or a process that runs already.
///
/// A program is recorded until it and all that it started have ended; a running process until it ends, its time is over
/// ([`Recorder::time`]) or a flag is set ([`Recorder::stop_flag`]). Nothing is started or written before
/// [`Recorder::record`].
#[derive(Clone, Debug)]
pub struct Recorder {
    subject: Subject,
    tracer: Option<Tracer>,
    mechanism: Option<Mechanism>,
    regions: Vec<RegionKind>,
    start: Vec<String>,
    stop: Vec<String>,
    is_idle: bool,
    children: bool,
    verify: Option<u32>,
    wait: Option<Duration>,
    leave: Arc<AtomicBool>,
    trace: TraceOptions,
    library: Option<PathBuf>,
}

impl Recorder {
    /// Records a program, which is found as a shell would find it.
    #[must_use]
    pub fn of_program(name: impl Into<String>) -> Self {
        Self::of(Subject::Program { name: name.into(), args: Vec::new() })
    }

    /// Records a process that runs already; it goes on natively afterwards.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        Self::of(Subject::Process { pid, time: None, stop: Arc::default() })
    }

    fn of(subject: Subject) -> Self {
        Self {
            subject,
            tracer: None,
            mechanism: None,
            regions: Vec::new(),
            start: Vec::new(),
            stop: Vec::new(),
            is_idle: false,
            children: true,
            verify: None,
            wait: None,
            leave: Arc::default(),
            trace: TraceOptions::default(),
            library: None,
        }
    }

    /// Adds arguments of the program.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, more: impl IntoIterator<Item = T>) -> Self {
        if let Subject::Program { args, .. } = &mut self.subject {
            args.extend(more.into_iter().map(Into::into));
        }
        self
    }

    /// How long a running process is recorded.
    #[must_use]
    pub fn time(mut self, limit: Duration) -> Self {
        if let Subject::Process { time, .. } = &mut self.subject {
            *time = Some(limit);
        }
        self
    }

    /// The recording of a running process ends once this is set.
    #[must_use]
    pub fn stop_flag(mut self, flag: Arc<AtomicBool>) -> Self {
        if let Subject::Process { stop, .. } = &mut self.subject {
            *stop = flag;
        }
        self
    }

    /// The recording of a program ends at once when this is set: the program and all that it started go on, unrecorded, and each of them is a
    /// gap.
    #[must_use]
    pub fn leave_flag(mut self, flag: Arc<AtomicBool>) -> Self {
        self.leave = flag;
        self
    }

    /// Who sees the accesses. By default code is translated: that is fast, and shows every access. Page protection is for
    /// selected data, beside which everything runs natively, and where its own mechanism is chosen; but only where it can do
    /// what is asked for.
    #[must_use]
    pub fn tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// How accesses to closed memory are made.
    #[must_use]
    pub fn mechanism(mut self, mechanism: Mechanism) -> Self {
        self.mechanism = Some(mechanism);
        self
    }

    /// Only these kinds of memory; none named: all that the tracer can see.
    #[must_use]
    pub fn regions(mut self, kinds: impl IntoIterator<Item = RegionKind>) -> Self {
        self.regions.extend(kinds);
        self
    }

    /// Starts recording at the entry of this function instead of main.
    #[must_use]
    pub fn start_at(mut self, function: impl Into<String>) -> Self {
        self.start.push(function.into());
        self
    }

    /// Stops recording at the entry of this function.
    #[must_use]
    pub fn stop_at(mut self, function: impl Into<String>) -> Self {
        self.stop.push(function.into());
        self
    }

    /// Runs the program under the tracer without recording: for measurements.
    #[must_use]
    pub fn idle(mut self, is_idle: bool) -> Self {
        self.is_idle = is_idle;
        self
    }

    /// Whether the processes that the program starts are recorded, too: yes by default.
    #[must_use]
    pub fn children(mut self, children: bool) -> Self {
        self.children = children;
        self
    }

    /// How long processes are waited for that outlive the program: by default until they end. Those that go on then do so
    /// unrecorded, which is a gap.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Steps through windows of so many instructions, and compares what is accessed there with what is recorded.
    #[must_use]
    pub fn verify(mut self, window_instructions: u32) -> Self {
        self.verify = Some(window_instructions);
        self
    }

    trace_setters!();

    /// Bounds the memory of this process while it records, in bytes: [`crate::LEAST_MEMORY_BYTES`] or more, of which a recording takes
    /// no less. Also tells the C library to keep little of what is freed, from then on.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.trace.memory_bytes = Some(bytes);
        self
    }

    /// The tracer's library, `libmemtap_tracer.so`; by default it is looked for where the head of this crate says.
    #[must_use]
    pub fn library(mut self, path: impl Into<PathBuf>) -> Self {
        self.library = Some(path.into());
        self
    }

    /// Records.
    ///
    /// # Errors
    /// Where the program can't be recorded, which is said before it is started; where it is not known how it ended; and where
    /// its trace is not complete ([`Error::Incomplete`]).
    pub fn record(&self) -> Result<RecordedRun, Error> {
        self.record_with(|_| {})
    }

    /// Records, and tells what happens, on the thread that called this.
    ///
    /// # Errors
    /// As for [`Recorder::record`].
    pub fn record_with(&self, mut tell: impl FnMut(Notice<'_>)) -> Result<RecordedRun, Error> {
        session::record(&self.plan()?, &mut tell)
    }

    fn plan(&self) -> Result<Plan, Error> {
        match &self.subject {
            Subject::Program { name, args } => self.plan_program(name, args),
            Subject::Process { pid, time, stop } => self.plan_process(RunningProcess {
                pid: *pid,
                time: *time,
                stop: Arc::clone(stop),
                foothold: None,
            }),
        }
    }

    fn plan_program(&self, name: &str, args: &[String]) -> Result<Plan, Error> {
        self.check_features()?;
        let program = program::find(name)?;
        let linkage = program::check(&program)?;
        let translate = self.translates(linkage);
        let mut start = self.start.clone();
        if linkage == Linkage::Static {
            if !translate {
                return Err(Error::Static(program));
            }
            // No C library of ours calls its main.
            if start.is_empty() && breakpoints::has_function(&program, "main") {
                start.push("main".to_owned());
            }
        }
        let config = self.config(translate, &program, &start)?;
        Ok(Plan {
            library: self.find_library()?,
            name: name.to_owned(),
            args: args.to_vec(),
            linkage,
            running: None,
            wait: self.wait,
            leave: Arc::clone(&self.leave),
            trace: self.trace_plan(name, &config),
            program,
            config,
        })
    }

    fn plan_process(&self, mut running: RunningProcess) -> Result<Plan, Error> {
        if self.tracer == Some(Tracer::Protect) {
            return Err(Error::NeedsTranslation(Feature::Attach));
        }
        let pid = running.pid;
        let mut library = self.find_library()?;
        running::check(pid, &library)?;
        if Foothold::is_needed(pid, &library) {
            // One that has ended sees nothing.
            attach::check(pid)?;
            let foothold = Foothold::make(pid, &library)?;
            library.clone_from(&foothold.library);
            running.foothold = Some(Arc::new(foothold));
        }
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words =
            command.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        // It was found a moment ago.
        let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else {
            return Err(Error::ProcessEnded(pid));
        };
        let name = words.next().filter(|name| !name.is_empty());
        let mut args: Vec<String> = words.collect();
        // The last argument ends with a zero too.
        args.pop();
        let config = Config { leaves: true, ..self.config(true, &program, &self.start)? };
        Ok(Plan {
            library,
            name: name.unwrap_or_else(|| program.display().to_string()),
            args,
            linkage: Linkage::Dynamic,
            running: Some(running),
            wait: None,
            leave: Arc::default(),
            trace: self.trace_plan(&program.to_string_lossy(), &config),
            program,
            config,
        })
    }

    fn find_library(&self) -> Result<PathBuf, Error> {
        self.library.clone().map_or_else(library::find, Ok)
    }

    /// Whether code is translated.
    fn translates(&self, linkage: Linkage) -> bool {
        if let Some(tracer) = self.tracer {
            return tracer == Tracer::Translate;
        }
        let only_translated =
            self.trace.data || self.trace.flow || self.verify.is_some() || linkage == Linkage::Static;
        let selected_data = !self.regions.is_empty() && !self.regions.contains(&RegionKind::Stack);
        only_translated || !selected_data && self.mechanism.is_none()
    }

    /// Refuses what page protection can't do, where that was asked for.
    fn check_features(&self) -> Result<(), Error> {
        let asked = [
            (self.verify.is_some(), Feature::Verify),
            (self.trace.data, Feature::Data),
            (self.trace.flow, Feature::Flow),
            (self.regions.contains(&RegionKind::Stack), Feature::Stack),
        ];
        match asked.into_iter().find(|(is_asked, _)| *is_asked) {
            Some((_, feature)) if self.tracer == Some(Tracer::Protect) => {
                Err(Error::NeedsTranslation(feature))
            }
            _ => Ok(()),
        }
    }

    /// What a traced process is told.
    fn config(&self, translate: bool, program: &Path, start: &[String]) -> Result<Config, Error> {
        Ok(Config {
            regions: region_mask(&self.regions, translate),
            children: self.children,
            bursts: matches!(self.mechanism, None | Some(Mechanism::Bursts)),
            two_signals: self.mechanism == Some(Mechanism::TwoSignals),
            at_main: self.start.is_empty() && !self.is_idle,
            translate,
            data: self.trace.data,
            flow: self.trace.flow,
            leaves: false,
            verify: self.verify.unwrap_or(0),
            pid: 0,
            watchpoints: [0; MAX_LIST_PATH_BYTES],
            breakpoints: breakpoints::find(program, start, &self.stop)?,
        })
    }

    fn trace_plan(&self, name: &str, config: &Config) -> TracePlan {
        // What a server keeps in another format goes there as entries.
        let has_frames = self.trace.server.is_none() || StoreFormat::split(name).0 == StoreFormat::Memtap;
        let by_blocks = config.translate && config.regions == u32::MAX && has_frames;
        self.trace.plan(name, if by_blocks { Encoders::BLOCKS } else { Encoders::LIVE })
    }
}

/// A bit for each kind, as tracers have it; none named: all that the tracer sees.
fn region_mask(regions: &[RegionKind], translate: bool) -> u32 {
    let regions = match regions {
        [] if translate => return u32::MAX,
        [] => &[RegionKind::Data, RegionKind::Bss, RegionKind::Heap, RegionKind::Anonymous],
        some => some,
    };
    regions.iter().fold(0, |mask, kind| mask | 1 << kind.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: [RegionKind; 1] = [RegionKind::Data];

    fn program() -> Recorder {
        Recorder::of_program("prog")
    }

    fn check(recorder: &Recorder, linkage: Linkage, translates: bool) {
        assert_eq!(recorder.translates(linkage), translates, "{linkage:?} {recorder:?}");
    }

    #[test]
    fn code_is_translated_unless_data_is_selected() {
        use RegionKind::{Anonymous, Bss, Data, Heap, Stack};
        let (dynamic, fixed) = (Linkage::Dynamic, Linkage::Static);
        let all = [
            program(),
            program().start_at("f"),
            program().regions([Stack]),
            program().regions([Data, Stack]),
            program().children(false),
        ];
        for recorder in all {
            check(&recorder, dynamic, true);
        }
        let selected = [
            program().regions([Data]),
            program().regions([Bss, Heap, Anonymous]),
            program().mechanism(Mechanism::Bursts),
            program().mechanism(Mechanism::Single),
        ];
        for recorder in selected {
            check(&recorder, dynamic, false);
            check(&recorder, fixed, true);
            check(&recorder.clone().data(true), dynamic, true);
            check(&recorder.clone().flow(true), dynamic, true);
            check(&recorder.clone().verify(1000), dynamic, true);
        }
        check(&program().tracer(Tracer::Protect), dynamic, false);
        check(&program().tracer(Tracer::Protect).regions([Stack]), dynamic, false);
        check(&program().tracer(Tracer::Translate).regions(DATA).mechanism(Mechanism::Single), dynamic, true);
    }

    #[test]
    fn what_page_protection_can_not_do_is_refused() {
        let protected = program().tracer(Tracer::Protect);
        let check = |recorder: Recorder, feature| {
            let refused = recorder.record();
            assert!(
                matches!(&refused, Err(Error::NeedsTranslation(found)) if *found == feature),
                "{refused:?}"
            );
        };
        check(protected.clone().data(true), Feature::Data);
        check(protected.clone().flow(true), Feature::Flow);
        check(protected.clone().verify(10), Feature::Verify);
        check(protected.regions([RegionKind::Stack]), Feature::Stack);
        check(Recorder::of_process(1).tracer(Tracer::Protect), Feature::Attach);
    }

    #[test]
    fn regions_become_bits() {
        assert_eq!(region_mask(&[RegionKind::Data, RegionKind::Heap], true), 1 << 1 | 1 << 4);
        assert_eq!(region_mask(&[], true), u32::MAX);
        assert_eq!(region_mask(&[], false).count_ones(), 4);
    }
}
