//! Recording a program: from its name to a finished file.
//!
//! [`record`] reads as an outline. The traced processes fill shared buffers (crate `buffers`); this process reads them,
//! gives events their place in the trace (`sink`), and hands them to the trace store (`output`; crate `trace-server`). It ends when the program
//! and all traced processes that it started have ended.
#![forbid(unsafe_code)]

mod blocks;
mod clock;
mod command_line;
mod flow;
mod library;
mod listener;
pub mod machine;
mod output;
mod program;
mod progress;
mod regions;
mod running;
mod sink;
mod watch;
pub mod watching;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use buffers::{Breakpoint, BufferState, Config};
use buffers_host::{Listener as Socket, OwnedPool};
use memref::RegionKind;
use trace_format::{CreateOptions, SyncPolicy, TraceWriter};

use clock::now_ns;
use command_line::quote;
use output::Output;
use progress::Progress;
use running::Failure;
use sink::{Contents, Sink};
use watch::Watch;

pub use library::find as find_library;
pub use listener::{Heard, Hit, Listener};
pub use output::Remote;
pub use program::{Linkage, check, find};
pub use running::{Running, check as check_running};
pub use sink::{Totals, Verified};

/// How long data may wait in memory before it is written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// How many accesses may wait: at first few, so that a run that ends badly early leaves something, then twice as many each
/// time, because long frames compress better.
const FIRST_FLUSH_ACCESSES: u64 = 8192;
/// How often the recorder looks at what nobody wakes it for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file to write.
    pub output: PathBuf,
    /// Whether to replace a file that is there.
    pub force: bool,
    /// The number of the encoder of accesses.
    pub encoder: u32,
    /// When the trace is forced to disk.
    pub sync: SyncPolicy,
    /// Who writes it, if not this process.
    pub server: Option<Remote>,
    /// The program as the user named it.
    pub name: String,
    /// The program's file.
    pub program: PathBuf,
    /// Whether a loader takes the tracer along.
    pub linkage: Linkage,
    /// The process that runs it already; `None`: it is started.
    pub running: Option<Running>,
    /// Its arguments.
    pub args: Vec<String>,
    /// What a traced process is told.
    pub config: Config,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program's exit status, as a shell gives it: 128 and the signal's number where one killed it.
    pub status: u8,
    /// What was recorded.
    pub totals: Totals,
    /// What was compared with stepping, where that was asked for.
    pub verified: Option<Verified>,
}

/// A name that nothing else has.
pub fn unique_name() -> String {
    format!("memtap-{}-{}", std::process::id(), now_ns())
}

/// What a process is told when it connects, by its pid.
pub type Configure = Arc<dyn Fn(u32) -> Config + Send + Sync>;

/// Records a program until it and all that it started have ended.
pub fn record(job: &Job) -> Result<Outcome> {
    let config = job.config;
    listen(job, Arc::new(move |_| config), None)
}

/// As [`record`]; `listener` is told at once what it wants to know, which is then not kept.
pub fn listen(job: &Job, configure: Configure, listener: Option<&mut dyn Listener>) -> Result<Outcome> {
    let library = library::find()?;
    let options = CreateOptions {
        force: job.force,
        encoder: Some(job.encoder),
        sync: job.sync,
        data: job.config.data,
        ..Default::default()
    };
    let output = Output::create(&job.output, options, job.server.as_ref())?;
    let trace = output.trace.clone();
    let started = Instant::now();
    describe(&trace, job)?;
    let pool = Arc::new(OwnedPool::create().context("shared memory for the traced program can't be had")?);
    let name = unique_name();
    let socket = Arc::new(Socket::bind(name).context("a socket for the traced program can't be had")?);
    serve(&socket, &pool, configure);
    let begun = match job.running {
        Some(running) => attend(running, library, socket.name(), &pool),
        None => start(job, &library, socket.name(), &pool),
    };
    let ended = match begun {
        Ok(ended) => ended,
        Err(error) => {
            drop(trace);
            output.discard();
            return Err(error);
        }
    };
    let regions = if job.config.translate { job.config.regions } else { u32::MAX };
    let kept = Contents { regions, data: job.config.data, flow: job.config.flow };
    let mut sink = Sink::new(trace.clone(), kept, listener);
    let drained = drain(&pool, &mut sink, &ended, &job.output);
    pool.pool().control().close();
    pool.wake_producers();
    socket.shut_down();
    let (status, left) = match ended.wait() {
        Ok(status) => (status, Ok(())),
        Err(Failure::NotEntered(error)) => {
            drop((sink, trace));
            output.discard();
            return Err(error);
        }
        Err(Failure::NotLeft(error)) => (ExitStatus::from_raw(0), Err(error)),
    };
    let verified = (job.config.verify > 0).then(|| sink.verified().clone());
    if let Err(error) = drained
        .and_then(|()| verified.as_ref().map_or(Ok(()), |verified| keep_verified(&trace, verified)))
        .and_then(|()| close(&trace, &mut sink, status, started, job.config.translate))
    {
        // What is written stays readable, and says that the rest is missing, as far as there is room for that.
        let _ = trace.finish();
        let code = shell_status(status);
        return Err(
            error.context(format!("the program ended with status {code}, but the trace is not complete"))
        );
    }
    left?;
    Ok(Outcome { status: shell_status(status), totals: sink.totals(), verified })
}

/// Keeps what was compared with stepping, for `memtap stat`.
fn keep_verified(trace: &TraceWriter, verified: &Verified) -> Result<()> {
    for (name, count) in [
        ("verified_windows", verified.windows),
        ("verified_instructions", verified.instructions),
        ("verified_accesses", verified.accesses),
        ("verified_mismatches", verified.mismatches),
    ] {
        trace.set_property(name, &count.to_string())?;
    }
    if let Some(count) = verified.with_bytes {
        trace.set_property("verified_with_bytes", &count.to_string())?;
    }
    if !verified.shown.is_empty() {
        trace.set_property("verified_first_mismatches", &verified.shown.join("\n"))?;
    }
    Ok(())
}

/// What a reader should know of the run.
fn describe(trace: &TraceWriter, job: &Job) -> Result<()> {
    let mut args = vec![quote(&job.name)];
    args.extend(job.args.iter().map(|arg| quote(arg)));
    let program = std::fs::canonicalize(&job.program).unwrap_or_else(|_| job.program.clone());
    trace.set_property("program", &program.to_string_lossy())?;
    trace.set_property("args", &args.join(" "))?;
    trace.set_property("tracer", if job.config.translate { "translate" } else { "protect" })?;
    if job.config.regions != u32::MAX {
        let selected = RegionKind::ALL.iter().filter(|kind| regions::selects(job.config.regions, **kind));
        let names: Vec<&str> = selected.map(|kind| kind.name()).collect();
        trace.set_property("regions", &names.join(","))?;
    }
    // Of what the order between threads is known: calls and the accesses that carry news, or calls alone. A translated
    // program tells of no calls before recording starts.
    if !job.config.translate {
        trace.set_property("syncs", "1")?;
    } else if job.config.at_main && job.running.is_none() {
        trace.set_property("syncs", "calls")?;
    }
    if job.config.flow {
        trace.set_property("flow", "full")?;
    }
    trace.set_property("version", env!("CARGO_PKG_VERSION"))?;
    trace.set_property("start_ns", &now_ns().to_string())?;
    Ok(())
}

/// Signals that end a recording are passed on to the program, which decides; the trace is finished either way. Those that
/// the terminal sends (Ctrl-C) reach the program by themselves.
fn stop_signals(pid: u32) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::WithOrigin;
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])
        .context("signals can't be handled")?;
    std::thread::spawn(move || {
        for origin in &mut signals {
            let signal = rustix::process::Signal::from_named_raw(origin.signal);
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            if let (Some(_), Some(signal), Some(pid)) = (origin.process, signal, pid) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    });
    Ok(())
}

/// Gives the pool to every process that connects.
fn serve(socket: &Arc<Socket>, pool: &Arc<OwnedPool>, configure: Configure) {
    let (socket, pool) = (socket.clone(), pool.clone());
    std::thread::spawn(move || {
        while !pool.pool().control().is_closed() {
            if socket.serve_one(&pool, |pid| configure(pid)).is_err() {
                // The process is gone again, or descriptors are short for a moment.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// The program's end, or that of its recording, seen by a thread that waits for it.
struct Ended {
    flag: Arc<AtomicBool>,
    waiter: std::thread::JoinHandle<Result<ExitStatus, Failure>>,
}

impl Ended {
    fn is_over(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    fn wait(self) -> Result<ExitStatus, Failure> {
        self.waiter.join().unwrap_or_else(|_| Ok(ExitStatus::from_raw(0)))
    }
}

/// Starts the program with the tracer in it.
fn start(job: &Job, library: &Path, channel: &str, pool: &Arc<OwnedPool>) -> Result<Ended> {
    let mut preload = library.as_os_str().to_owned();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        preload.push(":");
        preload.push(more);
    }
    let mut command = Command::new(&job.program);
    if job.linkage == Linkage::Static {
        // This program has a loader: the tracer in it puts the static one in its place (crate tracer, `image`).
        command = Command::new(std::env::current_exe().context("the path of memtap itself can't be found")?);
        command.env("MEMTAP_STATIC", &job.program);
    }
    std::os::unix::process::CommandExt::arg0(&mut command, &job.name);
    command.args(&job.args).env("LD_PRELOAD", preload).env("MEMTAP_CHANNEL", channel);
    let mut child =
        command.spawn().with_context(|| format!("{}: can't be started", job.program.display()))?;
    let pid = child.id();
    let flag = Arc::new(AtomicBool::new(false));
    let (over, pool) = (flag.clone(), pool.clone());
    let waiter = std::thread::spawn(move || {
        let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0));
        over.store(true, Ordering::Release);
        pool.wake();
        Ok(status)
    });
    stop_signals(pid)?;
    Ok(Ended { flag, waiter })
}

/// Has a process recorded that runs already, until a signal or the time ends that.
fn attend(running: Running, library: PathBuf, channel: &str, pool: &Arc<OwnedPool>) -> Result<Ended> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("signals can't be handled")?;
    }
    let flag = Arc::new(AtomicBool::new(false));
    let (over, pool, channel) = (flag.clone(), pool.clone(), channel.to_owned());
    let waiter = std::thread::spawn(move || {
        let result = running::run(running, &library, &channel, &pool, &stop);
        over.store(true, Ordering::Release);
        pool.wake();
        result.map(|()| ExitStatus::from_raw(0))
    });
    Ok(Ended { flag, waiter })
}

/// Reads buffers until nobody is left who could fill one.
fn drain(pool: &OwnedPool, sink: &mut Sink<'_>, ended: &Ended, output: &Path) -> Result<()> {
    let mut progress = Progress::new(output);
    let mut watch = Watch::default();
    let mut known = 0;
    let mut flushed = Instant::now();
    let (mut written, mut may_wait) = (0, FIRST_FLUSH_ACCESSES);
    let mut looked = Instant::now();
    let mut result = Ok(());
    loop {
        let seen = pool.submissions();
        let over = ended.is_over();
        let control = pool.pool().control();
        while known < control.processes() {
            let Some(slot) = pool.pool().process(known) else { break };
            if slot.state() == buffers::ProcessState::Empty {
                // It has its number and is about to fill its slot. One that died in between never will.
                if !over {
                    break;
                }
                known += 1;
                continue;
            }
            let added = sink.add_process(known, slot.pid(), slot.parent(), slot.start_ns());
            result = result.and(added.map_err(anyhow::Error::new));
            if let Some(former) = watch.add(known, slot.pid()) {
                result = result.and(leave(pool, sink, former));
            }
            known += 1;
        }
        let some = read_submitted(pool, sink, &mut result);
        let waiting = result.is_ok() && {
            let heard = sink.looked(pool.pool());
            result = heard.as_ref().map(|_| ()).map_err(|error| anyhow::anyhow!("{error:#}"));
            heard.unwrap_or(false)
        };
        if over || looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            let left = |number| {
                let slot = pool.pool().process(number);
                slot.is_some_and(|slot| slot.state() == buffers::ProcessState::Ended)
            };
            for number in watch.dead().into_iter().chain(watch.gone(left)) {
                result = result.and(leave(pool, sink, number));
            }
            // In this order, and behind the ends that were seen: a child is expected before its parent can end, and numbered
            // before it is expected no more.
            if !control.expects_children() && known == control.processes() {
                sink.forget_ended();
            }
            progress.show(sink.totals());
        }
        let accesses = sink.totals().accesses;
        if flushed.elapsed() >= FLUSH_EVERY || accesses - written >= may_wait {
            flushed = Instant::now();
            (written, may_wait) = (accesses, may_wait.saturating_mul(2));
            result = result.and(sink.flush().map_err(anyhow::Error::new));
        }
        if result.is_err() {
            // Nothing more can be kept: the program goes on, unrecorded.
            break;
        }
        if over && watch.is_empty() && !some && known == control.processes() {
            break;
        }
        if !some && !waiting {
            pool.wait(seen, LOOK_EVERY);
        }
    }
    progress.clear();
    while result.is_ok() && sink.looked(pool.pool())? {}
    result.and_then(|()| sink.refused(pool.pool().control().refused()).map_err(anyhow::Error::new))
}

/// Reads what was handed over. Whether there was anything. Buffers of a process that appeared since the sink was last told
/// of new ones wait for the next look.
fn read_submitted(pool: &OwnedPool, sink: &mut Sink<'_>, result: &mut Result<()>) -> bool {
    let mut some = false;
    let is_new = |sink: &Sink<'_>, process: u32| {
        !sink.knows(process)
            && pool.pool().process(process).is_some_and(|slot| slot.state() != buffers::ProcessState::Empty)
    };
    let threads = pool.pool().control().threads();
    if result.is_ok() {
        *result = sink.announce(pool.pool(), threads).map_err(anyhow::Error::new);
    }
    // What is handed over from here on is read next time: what its blocks are may come after this look.
    let submitted: Vec<_> =
        pool.pool().buffers().filter(|buffer| buffer.header().state() == BufferState::Submitted).collect();
    if !submitted.is_empty() && result.is_ok() {
        *result = sink.read_definitions(pool.pool()).map_err(anyhow::Error::new);
    }
    for buffer in submitted {
        {
            some = true;
            if is_new(sink, buffer.header().process()) {
                continue;
            }
            if result.is_ok() {
                *result = sink.read(buffer).map_err(anyhow::Error::new);
            }
            pool.pool().free(buffer);
        }
    }
    if some {
        pool.wake_producers();
    }
    if result.is_ok() {
        match sink.read_filling(pool.pool()) {
            Ok(more) => some |= more,
            Err(error) => *result = Err(anyhow::Error::new(error)),
        }
    }
    some
}

/// A process is gone: what it handed over, then what it had begun.
fn leave(pool: &OwnedPool, sink: &mut Sink<'_>, number: u32) -> Result<()> {
    let mut result = Ok(());
    read_submitted(pool, sink, &mut result);
    result = result.and_then(|()| sink.read_definitions(pool.pool()).map_err(anyhow::Error::new));
    for buffer in pool.pool().buffers().filter(|buffer| buffer.is_owned_by(number)) {
        let live = pool
            .pool()
            .lives()
            .find(|live| live.owner() == Some(number) && live.buffer() as usize == buffer.index());
        let filled = live.map_or(buffer.header().filled(), buffers::flow::Live::filled);
        result = result.and(sink.read_filled(buffer, filled).map_err(anyhow::Error::new));
        pool.pool().free(buffer);
    }
    for live in pool.pool().lives().filter(|live| live.owner() == Some(number)) {
        live.release();
    }
    result?;
    sink.settle(number)?;
    sink.end_process(number)?;
    Ok(())
}

fn close(
    trace: &TraceWriter,
    sink: &mut Sink<'_>,
    status: ExitStatus,
    started: Instant,
    translated: bool,
) -> Result<()> {
    sink.finish()?;
    if translated {
        trace.set_property("instructions", &sink.instructions().to_string())?;
    }
    trace.set_property("exit_status", &shell_status(status).to_string())?;
    let (own, children) = cpu_seconds();
    trace.set_property("recorder_cpu_seconds", &format!("{own:.2}"))?;
    trace.set_property("program_cpu_seconds", &format!("{children:.2}"))?;
    trace.set_property("wall_seconds", &format!("{:.6}", started.elapsed().as_secs_f64()))?;
    trace.clone().finish()?;
    Ok(())
}

/// Processor time of this process and of its children that have ended.
fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the name in parentheses, may hold anything; the third follows it.
    let fields = text.rsplit(") ").next().unwrap_or_default();
    let ticks: Vec<f64> =
        fields.split(' ').skip(11).take(4).map(|field| field.parse().unwrap_or(0.0)).collect();
    let seconds = |range: std::ops::Range<usize>| {
        ticks.get(range).map_or(0.0, |ticks| ticks.iter().sum::<f64>())
            / rustix::param::clock_ticks_per_second() as f64
    };
    (seconds(0..2), seconds(2..4))
}

/// A status as a shell gives it.
fn shell_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => 1,
    }
}

/// Whether the program has a function of that name.
pub fn has_function(program: &Path, name: &str) -> bool {
    library::breakpoint(program, name, buffers::BreakpointKind::Start).is_ok()
}

/// Makes the list of functions that start and stop recording, from their names.
pub fn breakpoints(program: &Path, start: &[String], stop: &[String]) -> Result<Vec<Breakpoint>> {
    let mut list = Vec::new();
    for (names, kind) in [(start, buffers::BreakpointKind::Start), (stop, buffers::BreakpointKind::Stop)] {
        for name in names {
            list.push(library::breakpoint(program, name, kind)?);
        }
    }
    if list.len() > buffers::MAX_BREAKPOINTS {
        bail!("--start and --stop: at most {} functions together", buffers::MAX_BREAKPOINTS);
    }
    Ok(list)
}
