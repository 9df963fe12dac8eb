//! Recording a whole machine: QEMU runs with our plugin (`tracer-qemu`), which fills the buffers that are read here.

mod command;
mod sink;

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use buffers::{BufferState, Config, MAX_BREAKPOINTS, MAX_LIST_PATH_BYTES};
use buffers_host::{Listener, OwnedPool};
use trace_format::{CreateOptions, ProcessRecord, SyncPolicy, TraceWriter};

use super::output::{Output, Remote};
use super::progress::Progress;
use super::{Outcome, shell_status};
use crate::clock::now_ns;
use crate::command_line::quote;
use sink::Sink;

const LIBRARY: &str = "libmemtap_qemu.so";
/// How often what is buffered here goes to the trace store, so that a recorder that is killed loses little.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file to write.
    pub output: PathBuf,
    /// Whether to replace one that is there.
    pub force: bool,
    /// The number of the encoder of accesses.
    pub encoder: u32,
    /// When the trace is forced to disk.
    pub sync: SyncPolicy,
    /// Who writes it, if not this process.
    pub server: Option<Remote>,
    /// QEMU as the user named it.
    pub name: String,
    /// Its file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// What the plugin is told, `name=value`.
    pub settings: Vec<String>,
    /// Whether written data is recorded.
    pub data: bool,
    /// Whether every block that is entered is recorded.
    pub flow: bool,
}

/// Records a machine until QEMU ends.
pub fn record(job: &Job) -> Result<Outcome> {
    let library = super::library::find_named(LIBRARY)?;
    check_plugins(job)?;
    let pool = Arc::new(OwnedPool::create().context("shared memory for QEMU can't be had")?);
    let name = format!("memtap-{}-{}", std::process::id(), now_ns());
    let listener = Arc::new(Listener::bind(name).context("a socket for QEMU can't be had")?);
    let mut plugin = format!("file={}", library.to_string_lossy().replace(',', ",,"));
    plugin.push_str(&format!(",channel={}", listener.name()));
    for setting in &job.settings {
        plugin.push(',');
        plugin.push_str(&setting.replace(',', ",,"));
    }
    let command = command::complete(&job.args, &plugin, job.data)?;
    let options = CreateOptions {
        force: job.force,
        data: job.data,
        encoder: Some(job.encoder),
        sync: job.sync,
        ..Default::default()
    };
    let output = Output::create(&job.output, options, job.server.as_ref())?;
    let trace = output.trace.clone();
    let started = Instant::now();
    describe(&trace, job, command.ram_bytes)?;
    serve(&listener, &pool);
    let mut child = match Command::new(&job.program).args(&command.args).spawn() {
        Ok(child) => child,
        Err(error) => {
            drop(trace);
            output.discard();
            return Err(error).with_context(|| format!("{}: can't be started", job.program.display()));
        }
    };
    super::stop_signals(child.id())?;
    let process = ProcessRecord {
        pid: child.id(),
        start_ns: now_ns(),
        exe: job.program.to_string_lossy().into_owned(),
        args: line(job),
        ..Default::default()
    };
    let mut sink = Sink::new(&trace, &process, job.data, job.flow)?;
    let drained = drain(&pool, &mut sink, &mut child, &job.output);
    pool.pool().control().close();
    pool.wake_producers();
    listener.shut_down();
    let status = child.wait().context("QEMU's end can't be waited for")?;
    drained?;
    finish(&trace, &mut sink, status, started)?;
    let totals = sink.totals();
    if totals.cycle == 0 {
        output.discard();
        let code = shell_status(status);
        bail!("{}: ended with status {code} before the machine ran; its own words are above", job.name);
    }
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        eprintln!(
            "memtap: {}: QEMU was ended by signal {signal}; the trace holds what happened before",
            job.output.display()
        );
    }
    if let Some(why) = sink.introspection.as_deref().filter(|why| *why != "found") {
        eprintln!("memtap: note: processes of the guest are not told apart: {why}");
    }
    let totals = super::Totals { accesses: totals.accesses, slow: 0, gaps: totals.gaps };
    Ok(Outcome { status: shell_status(status), totals, verified: None })
}

fn line(job: &Job) -> String {
    let mut words = vec![quote(&job.name)];
    words.extend(job.args.iter().map(|arg| quote(arg)));
    words.join(" ")
}

fn describe(trace: &TraceWriter, job: &Job, ram_bytes: u64) -> Result<()> {
    let program = std::fs::canonicalize(&job.program).unwrap_or_else(|_| job.program.clone());
    trace.set_property("program", &program.to_string_lossy())?;
    trace.set_property("args", &line(job))?;
    trace.set_property("tracer", "qemu")?;
    trace.set_property("version", env!("CARGO_PKG_VERSION"))?;
    trace.set_property("start_ns", &now_ns().to_string())?;
    trace.set_property("guest_ram_bytes", &ram_bytes.to_string())?;
    trace.set_property("written_data", if job.data { "yes" } else { "no" })?;
    trace.set_property("settings", &job.settings.join(" "))?;
    Ok(())
}

/// Whether this is a QEMU that runs whole x86 machines and loads plugins.
fn check_plugins(job: &Job) -> Result<()> {
    let shown = job.program.display();
    let output = Command::new(&job.program)
        .arg("--help")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .with_context(|| format!("{shown}: can't be started"))?;
    let help = String::from_utf8_lossy(&output.stdout);
    if !help.contains("-machine") {
        bail!("{shown}: is no QEMU that runs a machine; name qemu-system-x86_64");
    }
    if !help.contains("-plugin") {
        bail!(
            "{shown}: this QEMU was built without plugins; use one built with --enable-plugins, such as Debian's"
        );
    }
    Ok(())
}

/// Gives the pool to the plugin.
fn serve(listener: &Arc<Listener>, pool: &Arc<OwnedPool>) {
    let (listener, pool) = (listener.clone(), pool.clone());
    // The plugin has its settings on QEMU's command line; these are for other tracers.
    let config = Config {
        regions: 0,
        children: false,
        translate: false,
        data: false,
        flow: false,
        bursts: false,
        two_signals: false,
        at_main: false,
        verify: 0,
        watchpoints: [0; MAX_LIST_PATH_BYTES],
        breakpoints: [None; MAX_BREAKPOINTS],
    };
    std::thread::spawn(move || {
        while !pool.pool().control().is_closed() {
            if listener.serve_one(&pool, |_| config).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// Reads buffers until QEMU has ended.
fn drain(pool: &OwnedPool, sink: &mut Sink, child: &mut Child, output: &std::path::Path) -> Result<()> {
    let mut progress = Progress::new(output);
    let mut flushed = Instant::now();
    let mut looked = Instant::now();
    let mut over = false;
    let result = loop {
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
                progress.clear();
                return Err(anyhow::Error::new(error));
            }
            pool.wake_producers();
        }
        if over && !some {
            break Ok(());
        }
        if !some || looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            let totals = sink.totals();
            progress.show(super::Totals { accesses: totals.accesses, slow: 0, gaps: totals.gaps });
            over = child.try_wait().context("QEMU's end can't be waited for")?.is_some();
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            flushed = Instant::now();
            sink.push_buffered()?;
        }
        if !some && !over {
            pool.wait(seen, LOOK_EVERY);
        }
    };
    progress.clear();
    // What a QEMU that was killed had not handed over.
    let mut left: Vec<_> = pool.pool().buffers().filter(|buffer| buffer.is_owned_by(0)).collect();
    left.sort_by_key(|buffer| buffer.header().sequence());
    for buffer in left {
        sink.take(buffer)?;
        pool.pool().free(buffer);
    }
    sink.settle()?;
    result
}

fn finish(trace: &TraceWriter, sink: &mut Sink, status: ExitStatus, started: Instant) -> Result<()> {
    if std::os::unix::process::ExitStatusExt::signal(&status).is_some() && sink.totals().cycle > 0 {
        sink.killed()?;
    }
    sink.flush()?;
    trace.set_property("instructions", &sink.totals().cycle.to_string())?;
    trace.set_property("exit_status", &shell_status(status).to_string())?;
    trace.set_property("wall_seconds", &format!("{:.6}", started.elapsed().as_secs_f64()))?;
    trace.clone().finish()?;
    Ok(())
}
