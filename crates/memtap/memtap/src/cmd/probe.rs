//! `memtap probe`: runs a program with the latency profiler in it and reports.
//!
//! The profiler is a library that `LD_PRELOAD` loads into the program. This command passes the
//! settings, waits, reads what the processes wrote, and writes the report. The exit status is the
//! program's. With `--pid` the library is loaded into a running process, which is left as it was.

use anyhow::{Context, bail};
use patch::calibrate;
use probes::{
    attach::{self, AttachError, Attached, ProcessError},
    joined::Profile,
    name,
    profile::settings::Settings,
};
use report::latency::{LatencyForm, calibration};
use std::{
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Measure each function's latency while a program runs.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How many calls of a function are measured before its probe switches itself off for the rest of the epoch, or `all`
    #[arg(long, default_value = "10", value_name = "N|all", value_parser = parse_sample)]
    sample: Sample,
    /// Length of an epoch in milliseconds
    #[arg(long, default_value_t = 10, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    epoch: u64,
    /// Probe only functions whose name matches; `*` matches any characters, commas separate patterns
    #[arg(long, default_value = "", value_name = "GLOB")]
    functions: String,
    /// Also probe functions of the system's libraries: all, or those that match --functions
    #[arg(long)]
    libraries: bool,
    /// Keep the probes' overhead below this share of the processor time, such as 3%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    budget: Option<f64>,
    /// Measure how long a patch across two cache lines must wait on this machine, and exit
    #[arg(long)]
    calibrate: bool,
    /// Attach to this running process; ends after --seconds, on Ctrl-C or with the process. Afterwards the process runs on as before
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// With --pid: how long to measure
    #[arg(long, value_name = "S", requires = "pid", conflicts_with = "command", value_parser = super::parse_seconds)]
    seconds: Option<f64>,
    /// Print the functions as JSON. Without --output, the program's standard output goes to standard error, so that standard output has
    /// nothing but JSON
    #[arg(long)]
    json: bool,
    /// Write the report to a file: .json, .folded, .html, .trace.json (Chrome, Perfetto), otherwise the table
    #[arg(short, long, value_name = "FILE", value_parser = crate::new_file::name())]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["calibrate", "pid"], value_name = "PROG")]
    command: Vec<String>,
}

/// How many calls are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    All,
    Some(u32),
}

fn parse_sample(text: &str) -> Result<Sample, String> {
    match text {
        "all" => Ok(Sample::All),
        _ => match text.parse() {
            Ok(count) if count >= 1 => Ok(Sample::Some(count)),
            _ => Err("a number of at least 1, or all".to_owned()),
        },
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("a percentage above 0, such as 3%".to_owned()),
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.calibrate {
        return calibrate_waits();
    }
    let library = recorder::find_library("libmemtap_probes.so")?;
    if let Some(path) = &args.output {
        // Said before the program runs, not after it.
        let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
        file.with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(pid) = args.pid {
        return attach(&args, pid, &library);
    }
    let results = Results::new(&std::env::temp_dir())?;
    let settings = settings(&args, &results.0, 0);
    let Some((program, arguments)) = args.command.split_first() else { bail!("no program was named") };
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|p| !p.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(program);
    command.args(arguments).envs(settings.to_env()).env("LD_PRELOAD", preload);
    if args.json && args.output.is_none() {
        command.stdout(std::io::stderr());
    }
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    let profile = Profile::read(&results.0)?;
    if profile.processes == 0 {
        bail!(
            "{program} left no profile: LD_PRELOAD does not reach a program that is statically linked or set-user-id"
        );
    }
    write_report(&args, &profile)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

fn settings(args: &Args, results: &Path, controller: u32) -> Settings {
    Settings {
        out_dir: results.display().to_string(),
        sample: match args.sample {
            Sample::All => None,
            Sample::Some(count) => Some(count),
        },
        epoch_ms: args.epoch,
        functions: args.functions.clone(),
        libraries: args.libraries,
        budget_percent: args.budget,
        timeline: form(args) == LatencyForm::Timeline,
        controller,
    }
}

/// Profiles a process that runs already.
fn attach(args: &Args, pid: u32, library: &Path) -> anyhow::Result<ExitCode> {
    attach::check(pid)?;
    // The process may have another root directory: it is given what it can see.
    let shared = Path::new("/tmp");
    let results = Results::new(&match attach::sees(pid, shared) {
        true => shared.to_path_buf(),
        false => attach::path_here(pid, "/tmp"),
    })?;
    let there =
        Path::new("/tmp").join(results.0.file_name().context("the directory for results has no name")?);
    let owner = std::fs::metadata(format!("/proc/{pid}"))?;
    std::os::unix::fs::chown(&results.0, Some(owner.uid()), Some(owner.gid()))
        .with_context(|| format!("cannot give {} to the user of process {pid}", results.0.display()))?;
    let library = library.canonicalize().with_context(|| format!("cannot find {}", library.display()))?;
    let library = if attach::sees(pid, &library) {
        library
    } else {
        let name = library.file_name().context("the library has no name")?;
        std::fs::copy(&library, results.0.join(name))
            .with_context(|| format!("cannot copy {} to where process {pid} sees it", library.display()))?;
        there.join(name)
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let process = Attached::start(pid, &library, &settings(args, &there, std::process::id()))?;
    say!("memtap: profiling process {pid}{}", if args.seconds.is_none() { ", end with Ctrl-C" } else { "" });
    let begin = Instant::now();
    let is_time = || args.seconds.is_some_and(|s| begin.elapsed() >= Duration::from_secs_f64(s));
    while !stop.load(Ordering::Relaxed) && !is_time() && !process.has_ended() {
        std::thread::sleep(Duration::from_millis(20));
    }
    match process.end() {
        Ok(0) => {}
        Ok(silent) => say!(
            "memtap: {silent} forked children did not answer: what they called in their last second may be missing"
        ),
        Err(AttachError::Process(ProcessError::Ended(_))) => say!("memtap: process {pid} ended"),
        Err(error @ AttachError::Unsettled(_)) => say!("memtap: {error}"),
        Err(error) => return Err(error.into()),
    }
    let profile = Profile::read(&results.0)?;
    if profile.processes == 0 {
        bail!("process {pid} left no profile: it was killed in its first second");
    }
    write_report(args, &profile)?;
    Ok(ExitCode::SUCCESS)
}

/// One line for each function that was asked for by its name and has no probe, and for globs that nothing matched.
fn say_what_was_not_probed(args: &Args, profile: &Profile) {
    if args.functions.is_empty() {
        return;
    }
    let names: Vec<&str> = args.functions.split(',').filter(|glob| !glob.contains(['*', '?'])).collect();
    for u in &profile.unprobed {
        if names.iter().any(|name| name::matches_symbol(name, &u.symbol)) {
            say!("memtap: {} in {} is not probed: {}", name::demangle(&u.symbol), u.module, u.reason);
        }
    }
    if profile.rows.is_empty() && profile.unprobed.is_empty() {
        say!("memtap: no function that matches {:?} was called", args.functions);
    }
}

fn write_report(args: &Args, profile: &Profile) -> anyhow::Result<()> {
    say_what_was_not_probed(args, profile);
    let report = form(args).write(profile);
    match &args.output {
        Some(path) => {
            std::fs::write(path, report).with_context(|| format!("cannot write {}", path.display()))
        }
        None => {
            print!("{report}");
            Ok(())
        }
    }
}

fn form(args: &Args) -> LatencyForm {
    LatencyForm::of(args.output.as_deref(), args.json)
}

/// The directory that the probed processes write to; removed at the end.
struct Results(PathBuf);

impl Results {
    fn new(parent: &Path) -> anyhow::Result<Self> {
        let first = std::process::id();
        for suffix in 0..100 {
            let dir = parent.join(match suffix {
                0 => format!("memtap-probe-{first}"),
                _ => format!("memtap-probe-{first}-{suffix}"),
            });
            match std::fs::create_dir(&dir) {
                Ok(()) => {
                    let results = Self(dir);
                    results.open_to_others()?;
                    return Ok(results);
                }
                // Left by a process of this number that was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot make {}", dir.display())),
            }
        }
        bail!("cannot make a directory for results in {}", parent.display())
    }

    /// What the administrator starts may start programs as other users (`su`, `runuser`): they write their profiles, too.
    /// As in /tmp, nobody removes or replaces another one's.
    fn open_to_others(&self) -> anyhow::Result<()> {
        if std::fs::metadata(&self.0)?.uid() == 0 {
            std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(0o1777))
                .with_context(|| format!("cannot let other users write to {}", self.0.display()))?;
        }
        Ok(())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        // Nothing depends on it: the report is written.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Figure 9 on this machine, and what follows from it.
fn calibrate_waits() -> anyhow::Result<ExitCode> {
    let waits = [1, 200, 400, 800, 1_600, 3_200, 6_400, 12_800];
    let result = calibrate::calibrate(&waits, Duration::from_millis(150))?;
    print!("{}", calibration::table(&result));
    Ok(ExitCode::SUCCESS)
}
