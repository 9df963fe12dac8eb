//! Records a whole machine: QEMU runs with our plugin (`tracer-qemu`), which fills the buffers that are read here.
//!
//! [`MachineRecorder`] sets what is recorded; `command` completes QEMU's command line, and `sink` processes the plugin's records.

mod command;
mod filter;
mod sink;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use buffers::{BufferState, Config, MAX_BREAKPOINTS, MAX_LIST_PATH_BYTES};
use buffers_host::OwnedPool;
use memref::RamLayout;
use trace_format::{Encoders, ProcessRecord, SyncPolicy, TraceWriter};

use crate::buffer_service::BufferService;
use crate::clock::now_ns;
use crate::command_line;
use crate::flushes::Flushes;
use crate::store::destination::Destination;
use crate::store::remote_store::RemoteStore;
use crate::store::trace_options::{TraceOptions, trace_setters};
use crate::store::trace_plan::TracePlan;
use crate::target::program;
use crate::{Error, Notice, ProgramEnd, RecordedRun, Totals, Warning, library};
pub use filter::{Direction, MachineFilter};
use sink::{MachineSink, MachineTotals};

pub(crate) const LIBRARY: &str = "libmemtap_qemu.so";
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Records a machine that QEMU runs, until QEMU ends.
#[derive(Clone, Debug)]
pub struct MachineRecorder {
    name: String,
    args: Vec<String>,
    filter: MachineFilter,
    trace: TraceOptions,
}

impl MachineRecorder {
    /// Records what this QEMU runs with these arguments.
    #[must_use]
    pub fn new<T: Into<String>>(name: impl Into<String>, args: impl IntoIterator<Item = T>) -> Self {
        Self {
            name: name.into(),
            args: args.into_iter().map(Into::into).collect(),
            filter: MachineFilter::default(),
            trace: TraceOptions::default(),
        }
    }

    /// Which accesses are recorded.
    #[must_use]
    pub fn filter(mut self, filter: MachineFilter) -> Self {
        self.filter = filter;
        self
    }

    trace_setters!();

    /// Records.
    ///
    /// # Errors
    /// Where the machine can't be recorded, QEMU ended before it ran, or its trace can't be written.
    pub fn record(&self) -> Result<RecordedRun, Error> {
        self.record_with(|_| {})
    }

    /// Records, and tells what happens, on the thread that called this.
    ///
    /// # Errors
    /// As for [`MachineRecorder::record`].
    pub fn record_with(&self, mut tell: impl FnMut(Notice<'_>)) -> Result<RecordedRun, Error> {
        let program = program::find(&self.name)?;
        let plan = MachinePlan {
            program,
            name: self.name.clone(),
            args: self.args.clone(),
            settings: self.filter.settings(self.trace.data, self.trace.flow),
            data: self.trace.data || self.filter.read_data,
            flow: self.trace.flow,
            trace: self.trace.plan(&self.name, Encoders::LIVE),
        };
        record(&plan, &mut tell)
    }
}

/// A recording as it will be.
struct MachinePlan {
    /// QEMU as the user named it.
    name: String,
    /// Its file.
    program: PathBuf,
    /// Its arguments.
    args: Vec<String>,
    /// What the plugin is told, `name=value`.
    settings: Vec<String>,
    /// Whether accesses come with bytes.
    data: bool,
    /// Whether every block that is entered is recorded.
    flow: bool,
    trace: TracePlan,
}

/// What should be known of the recording: kept, and told at once.
#[derive(Default)]
struct Warnings(Vec<Warning>);

impl Warnings {
    fn add(&mut self, warning: Warning, tell: &mut dyn FnMut(Notice<'_>)) {
        tell(Notice::Warning(warning.clone()));
        self.0.push(warning);
    }
}

/// Records a machine until QEMU ends.
fn record(plan: &MachinePlan, tell: &mut dyn FnMut(Notice<'_>)) -> Result<RecordedRun, Error> {
    let library = library::find_library(LIBRARY)?;
    let help = help_of(&plan.program)?;
    // The plugin has its settings on QEMU's command line; these are for other tracers.
    let service = BufferService::open(Arc::new(|_| NO_CONFIG), None)?;
    let mut plugin = plugin_option(&library, service.socket_name(), &plan.settings);
    let version = command::QemuVersion::of(&help);
    if version.is_some_and(command::QemuVersion::tells_offsets) {
        plugin.push_str(",offsets=on");
    }
    let command = command::complete(&plan.args, &plugin, plan.data)?;
    let mut warnings = Warnings::default();
    if let Some(why) = command.problem {
        warnings.add(Warning::NoGuestMemory(why), tell);
    }
    if version.is_some_and(command::QemuVersion::hides_addresses) {
        warnings.add(Warning::SharedCode, tell);
    }
    let destination = Destination::create(&plan.trace, plan.data)?;
    let trace = destination.trace.clone();
    let started = Instant::now();
    describe(&trace, plan, command.ram)?;
    let mut child = match Command::new(&plan.program).args(&command.args).spawn() {
        Ok(child) => child,
        Err(error) => {
            drop(trace);
            destination.discard();
            return Err(Error::file(&plan.program, "can't be started")(error));
        }
    };
    tell(Notice::Started { pid: child.id() });
    let process = ProcessRecord {
        pid: child.id(),
        start_ns: now_ns(),
        exe: plan.program.to_string_lossy().into_owned(),
        args: command_line::of_words(&plan.name, &plan.args),
        ..Default::default()
    };
    let mut sink = MachineSink::new(&trace, &process, plan.data, plan.flow)?;
    let drained = drain(service.pool(), &mut sink, &mut child, &plan.trace.output, tell);
    service.close();
    let end: ProgramEnd = child.wait().map_err(Error::system(NO_END))?.into();
    drained?;
    finish(&trace, &mut sink, end, started)?;
    let totals = sink.totals();
    if totals.cycle == 0 {
        destination.discard();
        return Err(Error::NoMachine { name: plan.name.clone(), end });
    }
    if let ProgramEnd::Killed(signal) = end {
        let output = plan.trace.output.clone();
        warnings.add(Warning::MachineKilled { output, signal }, tell);
    }
    if let Some(why) = sink.introspection.as_deref().filter(|why| *why != "found") {
        warnings.add(Warning::NoIntrospection(why.to_owned()), tell);
    }
    Ok(RecordedRun {
        output: plan.trace.output.clone(),
        end,
        totals: in_short(totals),
        missing: sink.missing().to_vec(),
        causes: Vec::new(),
        untraced: Vec::new(),
        verified: None,
        warnings: warnings.0,
    })
}

const NO_END: &str = "QEMU's end can't be waited for";

const NO_CONFIG: Config = Config {
    regions: 0,
    children: false,
    translate: false,
    data: false,
    flow: false,
    leaves: false,
    bursts: false,
    two_signals: false,
    at_main: false,
    verify: 0,
    pid: 0,
    watchpoints: [0; MAX_LIST_PATH_BYTES],
    breakpoints: [None; MAX_BREAKPOINTS],
};

/// The plugin as QEMU's option names it, where a comma is written twice.
fn plugin_option(library: &Path, socket: &str, settings: &[String]) -> String {
    let mut option = format!("file={}", library.to_string_lossy().replace(',', ",,"));
    option.push_str(&format!(",channel={socket}"));
    for setting in settings {
        option.push(',');
        option.push_str(&setting.replace(',', ",,"));
    }
    option
}

fn in_short(totals: MachineTotals) -> Totals {
    Totals { accesses: totals.accesses, slow: 0, gaps: totals.gaps, deaths: 0 }
}

fn describe(trace: &TraceWriter, plan: &MachinePlan, ram: RamLayout) -> Result<(), Error> {
    let program = std::fs::canonicalize(&plan.program).unwrap_or_else(|_| plan.program.clone());
    trace.set_property("program", &program.to_string_lossy())?;
    trace.set_property("args", &command_line::of_words(&plan.name, &plan.args))?;
    trace.set_property("tracer", "qemu")?;
    trace.set_property("version", env!("CARGO_PKG_VERSION"))?;
    trace.set_property("start_ns", &now_ns().to_string())?;
    trace.set_property("guest_ram_bytes", &ram.bytes().to_string())?;
    trace.set_property("guest_ram_low_bytes", &ram.low_bytes().to_string())?;
    trace.set_property("written_data", if plan.data { "yes" } else { "no" })?;
    trace.set_property("settings", &plan.settings.join(" "))?;
    Ok(())
}

/// What QEMU says of itself, if it is one that runs whole machines and loads plugins.
fn help_of(program: &Path) -> Result<String, Error> {
    let output = Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(Error::file(program, "can't be started"))?;
    let help = String::from_utf8_lossy(&output.stdout);
    if !help.contains("-machine") {
        return Err(Error::NoQemu(program.into()));
    }
    if !help.contains("-plugin") {
        return Err(Error::NoPlugins(program.into()));
    }
    Ok(help.into_owned())
}

/// Reads buffers until QEMU has ended.
fn drain(
    pool: &OwnedPool,
    sink: &mut MachineSink,
    child: &mut Child,
    output: &Path,
    tell: &mut dyn FnMut(Notice<'_>),
) -> Result<(), Error> {
    let mut flushes = Flushes::from(Instant::now());
    let mut looked = Instant::now();
    let mut over = false;
    loop {
        let seen = pool.submissions();
        let mut some = false;
        for buffer in pool.pool().buffers().filter(|buffer| buffer.header().state() == BufferState::Submitted)
        {
            some = true;
            let taken = sink.take(buffer);
            pool.pool().free(buffer);
            if let Err(error) = taken {
                // Nothing more can be kept: the machine goes on, unrecorded.
                pool.pool().control().close();
                pool.wake_producers();
                return Err(error.into());
            }
            pool.wake_producers();
        }
        if over && !some {
            break;
        }
        if !some || looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            tell(Notice::Progress { totals: in_short(sink.totals()), output });
            over = child.try_wait().map_err(Error::system(NO_END))?.is_some();
        }
        if flushes.is_due(Instant::now(), sink.totals().accesses) {
            sink.flush()?;
        }
        if !some && !over {
            pool.wait(seen, LOOK_EVERY);
        }
    }
    // What a QEMU that was killed had not handed over.
    let mut left: Vec<_> = pool.pool().buffers().filter(|buffer| buffer.is_owned_by(0)).collect();
    left.sort_by_key(|buffer| buffer.header().sequence());
    for buffer in left {
        sink.take(buffer)?;
        pool.pool().free(buffer);
    }
    sink.settle()?;
    Ok(())
}

fn finish(
    trace: &TraceWriter,
    sink: &mut MachineSink,
    end: ProgramEnd,
    started: Instant,
) -> Result<(), Error> {
    if matches!(end, ProgramEnd::Killed(_)) && sink.totals().cycle > 0 {
        sink.killed()?;
    }
    sink.flush()?;
    trace.set_property("instructions", &sink.totals().cycle.to_string())?;
    trace.set_property("exit_status", &end.shell_status().to_string())?;
    trace.set_property("wall_seconds", &format!("{:.6}", started.elapsed().as_secs_f64()))?;
    trace.clone().finish()?;
    Ok(())
}
