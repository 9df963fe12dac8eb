//! `memtap record`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use memref::RegionKind;
use recorder::{
    Direction, Error, GapCause, MachineFilter, MachineRecorder, ProgramEnd, RecordedRun, Recorder,
    RemoteStore,
};
use report::tables::deaths::deaths;
use report::{amount, grouped};
use trace_server::{Address, StoreFormat};

use super::record_tables::TableArgs;
use crate::inputs;
use crate::progress::short_bytes;
use crate::recording::{Teller, flag_of_signals, in_options};
use crate::unnamed_trace::UnnamedTrace;

/// Who sees the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TracerName {
    /// Translated code: every access, the stack's included
    Translate,
    /// Native execution, accesses to selected data found by page protection
    Protect,
    /// A whole machine, by QEMU's translator
    Qemu,
}

/// A kind of memory that can be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RegionName {
    /// Initialised data of the program and its libraries
    Data,
    /// Data without initial values
    Bss,
    /// What brk gives
    Heap,
    /// Anonymous mappings
    Anon,
    /// The threads' stacks (translated programs only)
    Stack,
}

/// How an access to closed memory is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MechanismName {
    /// One signal for a run of instructions (the default)
    Bursts,
    /// One signal for each access
    Single,
    /// Two signals and two changes of rights for each access, as in the paper: only for comparison
    TwoSignals,
}

/// What of the control flow is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowExtent {
    /// Every basic block that is executed, also those without accesses
    Full,
}

/// Run a program, or attach to a process, and record what it does to its memory
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The kinds of memory to trace [default: all that the tracer can see]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KINDS", help_heading = RECORDED)]
    regions: Vec<RegionName>,
    /// Start recording at the entry of this function instead of main (may be given several times)
    #[arg(long, value_name = "FN", help_heading = RECORDED)]
    start: Vec<String>,
    /// Stop recording at the entry of this function (may be given several times)
    #[arg(long, value_name = "FN", help_heading = RECORDED)]
    stop: Vec<String>,
    /// Do not record the processes that the program starts
    #[arg(long, help_heading = RECORDED)]
    no_children: bool,
    /// Also record the bytes that accesses read and write (translated programs; for a machine only those written)
    #[arg(long, help_heading = RECORDED)]
    data: bool,
    /// Also record the control flow: every basic block that is executed, not only those that access memory (translated programs,
    /// machines)
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        num_args = 0..=1,
        default_missing_value = "full",
        help_heading = RECORDED
    )]
    flow: Option<FlowExtent>,

    /// How accesses are observed [default: translate; protect if --regions selects data, that is, without stack]
    #[arg(long, value_enum, help_heading = HOW)]
    tracer: Option<TracerName>,
    /// Single-step through windows of N instructions and compare the accesses with what is recorded; exit with status 1 if they differ
    /// (translated programs)
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        help_heading = HOW
    )]
    verify: Option<u32>,
    /// How long to wait for processes that outlive the program; after that they run on unrecorded [default: until they end]
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "pid",
        value_parser = parse_patience,
        help_heading = HOW
    )]
    wait: Option<f64>,
    /// Limit this process to so many MiB of resident memory while it records, 64 or more (programs and processes). Small limits make
    /// longer traces; if a program with very much code needs more, memtap says so [default: as much as is fast, 100 to 400]
    #[arg(long, value_name = "MIB", help_heading = HOW)]
    memory: Option<u32>,
    /// Exit with the program's status even if events are missing
    #[arg(long, help_heading = HOW)]
    allow_gaps: bool,
    /// Do not print a summary at the end
    #[arg(short, long, help_heading = HOW)]
    quiet: bool,
    /// Run under the tracer without recording: for measurements
    #[arg(long, hide = true)]
    never: bool,
    /// How an access to closed memory is made
    #[arg(long, value_enum, hide = true)]
    mechanism: Option<MechanismName>,

    /// The trace to write [default: PROG.memtap in this directory; none with --report or --errors]
    #[arg(short, long, value_name = "FILE", value_parser = crate::new_file::name(), help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, help_heading = WRITTEN)]
    force: bool,
    /// How accesses are encoded: access is half the size of the fast encoders or less, but slower; memtap copy can also do that later
    /// [default: blocks if code is translated and everything goes to a file, else live]
    #[arg(long, value_name = "NAME", value_parser = super::encoders(), help_heading = WRITTEN)]
    encoder: Option<u32>,
    /// When the trace is synced to disk
    #[arg(long, value_enum, default_value = "close", help_heading = WRITTEN)]
    sync: super::Sync,
    /// Let a server write the trace: unix:PATH or tcp:HOST:PORT; FILE is relative to its root
    #[arg(long, value_name = "URL", help_heading = WRITTEN)]
    server: Option<Address>,
    /// The file with the token of a server on TCP [default: $MEMTAP_TOKEN, or what this user's server wrote]
    #[arg(long, value_name = "FILE", requires = "server", help_heading = WRITTEN)]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Attach to this running process; recording ends after --for, on Ctrl-C or with the process. Afterwards the process runs on natively
    #[arg(long, value_name = "PID", conflicts_with = "program", help_heading = ATTACHED)]
    pid: Option<u32>,
    /// With --pid: how long to record
    #[arg(
        long = "for",
        value_name = "SECONDS",
        requires = "pid",
        conflicts_with = "program",
        value_parser = super::parse_seconds,
        help_heading = ATTACHED
    )]
    seconds: Option<f64>,

    /// The program and its arguments: everything after it belongs to the program, with or without -- in front
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "PROG")]
    program: Vec<String>,

    // Last: its heading holds for what follows.
    #[command(flatten)]
    machine: MachineArgs,
}

/// A time on the command line, which may be none.
fn parse_patience(text: &str) -> Result<f64, String> {
    if text == "0" {
        Ok(0.0)
    } else {
        super::parse_seconds(text).map_err(|_| "a number of seconds from 0 on".to_owned())
    }
}

/// The headings of the options.
const RECORDED: &str = "What is recorded";
const HOW: &str = "How it is recorded";
const WRITTEN: &str = "The trace";
const ATTACHED: &str = "A process that runs already";

/// What only holds for a whole machine.
#[derive(Debug, Parser)]
#[command(next_help_heading = "For a whole machine (--tracer qemu)")]
pub(crate) struct MachineArgs {
    /// Record the bytes that are read too
    #[arg(long)]
    read_data: bool,
    /// Record only accesses that read, or only those that write
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// Record only between these counts of executed instructions
    #[arg(long, value_name = "A..B")]
    cycles: Option<String>,
    /// Record only between these milliseconds since the machine started
    #[arg(long, value_name = "A..B")]
    millis: Option<String>,
    /// Record only accesses to these physical addresses
    #[arg(long, value_name = "A..B")]
    physical: Option<String>,
    /// Record only accesses to these virtual addresses
    #[arg(long, value_name = "A..B")]
    virtual_range: Option<String>,
    /// Record only while a process of this name executes
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    /// Record only between the guest's marker instructions
    #[arg(long)]
    marked: bool,
}

/// Accesses that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// Those that read
    Loads,
    /// Those that write
    Stores,
}

impl MachineArgs {
    /// The first option that was given.
    fn first(&self) -> Option<&'static str> {
        let given = [
            ("--read-data", self.read_data),
            ("--only", self.only.is_some()),
            ("--cycles", self.cycles.is_some()),
            ("--millis", self.millis.is_some()),
            ("--physical", self.physical.is_some()),
            ("--virtual-range", self.virtual_range.is_some()),
            ("--process", self.process.is_some()),
            ("--marked", self.marked),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Without what all recordings have.
    fn filter(&self) -> MachineFilter {
        MachineFilter {
            read_data: self.read_data,
            only: self.only.map(|only| match only {
                Only::Loads => Direction::Loads,
                Only::Stores => Direction::Stores,
            }),
            cycles: self.cycles.clone(),
            millis: self.millis.clone(),
            physical: self.physical.clone(),
            virtual_range: self.virtual_range.clone(),
            process: self.process.clone(),
            marked: self.marked,
        }
    }
}

impl From<RegionName> for RegionKind {
    fn from(name: RegionName) -> Self {
        match name {
            RegionName::Data => Self::Data,
            RegionName::Bss => Self::Bss,
            RegionName::Heap => Self::Heap,
            RegionName::Anon => Self::Anonymous,
            RegionName::Stack => Self::Stack,
        }
    }
}

impl From<MechanismName> for recorder::Mechanism {
    fn from(name: MechanismName) -> Self {
        match name {
            MechanismName::Bursts => Self::Bursts,
            MechanismName::Single => Self::Single,
            MechanismName::TwoSignals => Self::TwoSignals,
        }
    }
}

impl Args {
    /// Refuses tables that this recording can't give, in words.
    fn check_tables(&self) -> Result<(), String> {
        if !self.tables.are_wanted() {
            return Ok(());
        }
        if self.tracer == Some(TracerName::Qemu) {
            return Err(
                "--report and --errors are for programs; record a machine with -o FILE, then use memtap report FILE"
                    .to_owned(),
            );
        }
        if let Some(table) = self.tables.of_stacks().filter(|_| self.tracer == Some(TracerName::Protect)) {
            return Err(format!("{table}: page protection leaves the stack alone; use --tracer translate"));
        }
        match &self.output {
            Some(output) if file_of(output).is_none() => {
                Err("--report and --errors read memtap's own format; name a FILE without another one"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Refuses a bound that does not hold, in words.
    fn check_memory(&self) -> Result<(), String> {
        let Some(bytes) = self.memory_bytes() else { return Ok(()) };
        if self.tracer == Some(TracerName::Qemu) {
            return Err("--memory: of a whole machine it is not supported; leave the option out".to_owned());
        }
        if bytes < recorder::LEAST_MEMORY_BYTES {
            let least = recorder::LEAST_MEMORY_BYTES >> 20;
            return Err(format!("--memory {}: a recording needs {least} MiB or more", bytes >> 20));
        }
        Ok(())
    }

    fn memory_bytes(&self) -> Option<usize> {
        self.memory.map(|mib| (mib as usize) << 20)
    }

    /// Whether there is a trace when this is over.
    fn keeps_trace(&self) -> bool {
        self.output.is_some() || !self.tables.are_wanted()
    }

    /// The file of a trace of which tables are printed and nothing else is wanted.
    fn unnamed_trace(&self) -> Result<Option<UnnamedTrace>> {
        (!self.keeps_trace()).then(UnnamedTrace::create).transpose()
    }

    fn server(&self) -> Option<RemoteStore> {
        let token_file = self.token_file.clone();
        self.server.clone().map(|address| RemoteStore { address, token_file })
    }

    /// QEMU's machine, as it is to be recorded.
    fn machine_recorder(&self, name: &str, rest: &[String]) -> MachineRecorder {
        let mut recorder = MachineRecorder::new(name, rest)
            .filter(self.machine.filter())
            .data(self.data)
            .flow(self.flow.is_some())
            .replace(self.force)
            .sync(self.sync.into());
        if let Some(output) = &self.output {
            recorder = recorder.output(output);
        }
        if let Some(encoder) = self.encoder {
            recorder = recorder.encoder(encoder);
        }
        if let Some(server) = self.server() {
            recorder = recorder.server(server);
        }
        recorder
    }

    /// A program or process, as it is to be recorded.
    fn recorder(&self, subject: Recorder, unnamed: Option<&UnnamedTrace>) -> Recorder {
        // Nobody finds an unnamed trace after a loss of power.
        let sync = if unnamed.is_some() { super::Sync::Never } else { self.sync };
        let mut recorder = subject
            .regions(self.regions.iter().map(|name| RegionKind::from(*name)))
            .idle(self.never)
            .children(!self.no_children)
            .data(self.data)
            .flow(self.flow.is_some())
            // An unnamed one is there, and empty.
            .replace(self.force || unnamed.is_some())
            .sync(sync.into());
        recorder = match self.tracer {
            Some(TracerName::Translate) => recorder.tracer(recorder::Tracer::Translate),
            Some(TracerName::Protect) => recorder.tracer(recorder::Tracer::Protect),
            Some(TracerName::Qemu) | None => recorder,
        };
        recorder = self.start.iter().fold(recorder, Recorder::start_at);
        recorder = self.stop.iter().fold(recorder, Recorder::stop_at);
        if let Some(mechanism) = self.mechanism {
            recorder = recorder.mechanism(mechanism.into());
        }
        if let Some(seconds) = self.wait {
            recorder = recorder.wait(Duration::from_secs_f64(seconds));
        }
        if let Some(bytes) = self.memory_bytes() {
            recorder = recorder.memory(bytes);
        }
        if let Some(window) = self.verify {
            recorder = recorder.verify(window);
        }
        if let Some(output) = unnamed.map(UnnamedTrace::path).or(self.output.as_deref()) {
            recorder = recorder.output(output);
        }
        if let Some(encoder) = self.encoder {
            recorder = recorder.encoder(encoder);
        }
        if let Some(server) = self.server() {
            recorder = recorder.server(server);
        }
        recorder
    }
}

/// Records, and ends with the program's own status.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.tracer != Some(TracerName::Qemu)
        && let Some(option) = args.machine.first()
    {
        bail!("{option} is for a whole machine, recorded with --tracer qemu");
    }
    if let Err(words) = args.check_tables() {
        super::wrong_command_line("record", &words);
    }
    if let Err(words) = args.check_memory() {
        say!("memtap: {words}");
        return Ok(ExitCode::from(2));
    }
    if let Some(pid) = args.pid {
        return run_attached(args, pid);
    }
    let (name, rest) = args.program.split_first().expect("clap requires a program");
    let unnamed = args.unnamed_trace()?;
    let started = Instant::now();
    let mut teller = Teller::new(None);
    if !args.quiet && !args.never {
        teller.tell_outliving();
    }
    let run = if args.tracer == Some(TracerName::Qemu) {
        if args.verify.is_some() {
            bail!("--verify compares translated code with single-stepping; use --tracer translate");
        }
        args.machine_recorder(name, rest).record_with(|notice| teller.tell(&notice))
    } else {
        let subject = Recorder::of_program(name).args(rest);
        let subject = subject.leave_flag(teller.leave_flag());
        args.recorder(subject, unnamed.as_ref()).record_with(|notice| teller.tell(&notice))
    };
    end(args, unnamed.as_ref(), started.elapsed(), teller, run)
}

/// Records a process that runs already, and ends with success unless something is missing.
fn run_attached(args: &Args, pid: u32) -> Result<ExitCode> {
    if args.tracer == Some(TracerName::Qemu) {
        bail!("--pid: a machine is recorded from its start; use --tracer translate");
    }
    let mut subject = Recorder::of_process(pid).stop_flag(flag_of_signals()?);
    if let Some(seconds) = args.seconds {
        subject = subject.time(Duration::from_secs_f64(seconds));
    }
    let unnamed = args.unnamed_trace()?;
    let how_to_end = args.seconds.is_none().then_some(", end with Ctrl-C");
    let started = Instant::now();
    let mut teller = Teller::new(how_to_end);
    let run = args.recorder(subject, unnamed.as_ref()).record_with(|notice| teller.tell(&notice));
    end(args, unnamed.as_ref(), started.elapsed(), teller, run)
}

/// The recording is over: says how it went, and prints the tables that are wanted, also of what is there of a trace that could not be
/// written to its end.
fn end(
    args: &Args,
    unnamed: Option<&UnnamedTrace>,
    took: Duration,
    teller: Teller,
    run: Result<RecordedRun, Error>,
) -> Result<ExitCode> {
    let is_readable = matches!(run, Ok(_) | Err(Error::Incomplete { .. } | Error::LostProgram(_)));
    let said = teller.end(run.map_err(in_options)).and_then(|run| ended(args, took, &run));
    let trace = unnamed.map(UnnamedTrace::path).or_else(|| file_of(args.output.as_deref()?));
    let Some(trace) = trace.filter(|_| is_readable && args.tables.are_wanted()) else { return said };
    let are_made = args.tables.print(trace);
    // What is wrong with the recording is told last, where it is seen.
    let status = said?;
    Ok(if are_made? || status != ExitCode::SUCCESS { status } else { ExitCode::FAILURE })
}

/// The file that the name of an output means; none where it is of another format than memtap's own.
fn file_of(output: &Path) -> Option<&Path> {
    match output.to_str().map(StoreFormat::split) {
        Some((StoreFormat::Memtap, path)) => Some(Path::new(path)),
        Some(_) => None,
        // Formats travel as text.
        None => Some(output),
    }
}

/// Says what was recorded, and what can be asked now.
fn tell_of_trace(args: &Args, took: Duration, run: &RecordedRun) {
    let file = run.output.display();
    let until = match run.end {
        ProgramEnd::Killed(_) => " until a signal ended the program",
        _ => "",
    };
    let missing = missing(run.totals.gaps);
    let accesses = amount(run.totals.accesses, "access");
    let took = took.as_secs_f64();
    if !args.keeps_trace() {
        say!("memtap: recorded {accesses} in {took:.1} s; {missing}{until}");
        return;
    }
    let (size, is_here) = match run.output.metadata() {
        Ok(facts) if facts.is_file() && args.server.is_none() => (format!(", {}", bytes(facts.len())), true),
        _ => (String::new(), false),
    };
    say!("memtap: wrote {file}: {accesses}{size} in {took:.1} s; {missing}{until}");
    if is_here {
        let by = if args.tracer == Some(TracerName::Qemu) { "process" } else { "variable,function" };
        say!(
            "memtap: next: memtap report {file} (what is accessed most); memtap report {file} --by {by} (by whom)"
        );
    }
}

/// Deaths that are told at the end; `memtap stat` tells all.
const MAX_DEATHS: usize = 10;

/// Says which processes a signal ended, and where.
fn tell_of_deaths(args: &Args, run: &RecordedRun) {
    let count = run.totals.deaths;
    if count == 0 || args.quiet || args.never {
        return;
    }
    let told = match args.server {
        None => inputs::session(&run.output).and_then(|session| Ok(deaths(&session)?)).unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    for death in told.iter().take(MAX_DEATHS) {
        say!("memtap: {death}");
    }
    if let Some(more @ 1..) = count.checked_sub(told.len().min(MAX_DEATHS) as u64) {
        let processes = amount(more, "process");
        say!("memtap: {processes} ended by signals; memtap stat says which");
    }
}

/// How much is missing, as people read it.
fn missing(gaps: u64) -> String {
    match gaps {
        0 => "nothing is missing".to_owned(),
        gaps => report::missing(gaps),
    }
}

/// Bytes as people read them.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => amount(bytes, "byte"),
        _ => short_bytes(bytes as f64),
    }
}

/// Programs that are named at the end, of those that ran untraced; `memtap stat` names all.
const MAX_UNTRACED: usize = 10;

/// Causes of missing events that are told at the end; `memtap stat` tells all.
const MAX_CAUSES: usize = 10;

/// The program's status, unless something is missing.
fn ended(args: &Args, took: Duration, run: &RecordedRun) -> Result<ExitCode> {
    let file = run.output.display();
    let of_file = if args.keeps_trace() { format!("{file}: ") } else { String::new() };
    if let Some(verified) = &run.verified {
        for words in &verified.shown {
            say!("memtap: {words}");
        }
        let accesses = amount(verified.accesses, "access");
        let instructions = amount(verified.instructions, "instruction");
        let windows = amount(verified.windows, "window");
        let with_bytes = verified.with_bytes.map(|count| format!(", {} with their bytes,", grouped(count)));
        let with_bytes = with_bytes.unwrap_or_default();
        let compared = format!("{accesses}{with_bytes} of {instructions} in {windows}");
        if verified.mismatches > 0 {
            let count = amount(verified.mismatches, "time");
            say!(
                "memtap: {of_file}what was recorded differs from stepping {count}, of {compared}: a bug in memtap, \
                 please report it with these lines"
            );
            return Ok(ExitCode::FAILURE);
        }
        say!("memtap: {of_file}{compared} are the same as when stepping");
    }
    if !args.quiet && !args.never {
        tell_of_trace(args, took, run);
    }
    tell_of_deaths(args, run);
    for program in run.untraced.iter().take(MAX_UNTRACED) {
        say!("memtap: not recorded: {program}");
    }
    if let Some(more @ 1..) = run.untraced.len().checked_sub(MAX_UNTRACED) {
        let is = if more == 1 { "is" } else { "are" };
        say!("memtap: {} {is} not recorded", amount(more as u64, "more program"));
    }
    // Programs are named above.
    let causes = run.causes.iter().filter(|cause| !run.untraced.contains(&cause.cause));
    for GapCause { reason, cause, count } in causes.take(MAX_CAUSES) {
        say!("memtap: {} ({}): {cause}", missing(*count), reason.name());
    }
    let status = run.end.shell_status();
    if run.totals.gaps == 0 || args.allow_gaps {
        return Ok(ExitCode::from(status));
    }
    let missing = missing(run.totals.gaps);
    if args.keeps_trace() {
        say!("memtap: {file}: {missing}; memtap stat {file} says why, --allow-gaps accepts it");
    } else {
        say!("memtap: {missing}; --allow-gaps accepts it, memtap stat says why of a trace that -o keeps");
    }
    Ok(ExitCode::from(if status == 0 { 1 } else { status }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::report::Grouping;

    fn parsed(line: &[&str]) -> Args {
        Args::try_parse_from(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    #[test]
    fn a_program_needs_no_dashes_before_it_and_keeps_its_own() {
        let args = parsed(&["record", "--tracer", "protect", "ls", "-l", "--tracer", "none", "--", "x"]);
        assert_eq!(args.program, ["ls", "-l", "--tracer", "none", "--", "x"]);
        assert_eq!(args.tracer, Some(TracerName::Protect));
        assert_eq!(parsed(&["record", "--", "ls", "-l"]).program, ["ls", "-l"]);
        assert_eq!(parsed(&["record", "-q", "--", "-odd"]).program, ["-odd"]);
        assert!(Args::try_parse_from(["record", "--bogus", "ls"]).is_err(), "no option of ours");
        assert!(Args::try_parse_from(["record", "--pid", "1", "ls"]).is_err());
    }

    #[test]
    fn tables_are_those_of_report_one_by_one() {
        let args = parsed(&["record", "--report", "stack,variable", "--report=line", "ls", "--errors"]);
        assert_eq!(args.tables.report, [Grouping::Stack, Grouping::Variable, Grouping::Line]);
        assert_eq!(
            (args.tables.errors, &args.program[..]),
            (false, &["ls".to_owned(), "--errors".into()][..])
        );
        assert!(parsed(&["record", "--errors", "--pid=1"]).tables.errors);
        for wrong in ["nonsense", "variable,", "variable,nonsense", "", "process", "initcall"] {
            let refused = Args::try_parse_from(["record", "--report", wrong, "ls"]);
            assert!(refused.is_err(), "{wrong}");
        }
        for table in ["--report=function", "--errors"] {
            let elsewhere = Args::try_parse_from(["record", table, "--server=unix:socket", "-o=a", "ls"]);
            assert!(elsewhere.is_err(), "{table}: the trace is on another machine");
        }
    }

    #[test]
    fn a_trace_is_kept_where_its_name_is_given_or_nothing_else_is_wanted() {
        let check = |options: &[&str], expect| {
            assert_eq!(
                parsed(&[&["record"], options, &["ls"]].concat()).keeps_trace(),
                expect,
                "{options:?}"
            );
        };
        check(&[], true);
        check(&["--report=function"], false);
        check(&["--errors", "--quiet"], false);
        check(&["--errors", "-o", "a"], true);
    }

    #[test]
    fn tables_that_a_recording_can_not_give_are_refused() {
        let check = |options: &[&str], expect: Option<&str>| {
            let refused = parsed(&[&["record"], options, &["ls"]].concat()).check_tables().err();
            let is_expected = match (&refused, expect) {
                (Some(words), Some(expect)) => words.contains(expect),
                (refused, expect) => refused.is_none() && expect.is_none(),
            };
            assert!(is_expected, "{options:?}: {refused:?}");
        };
        check(&["--tracer=qemu"], None);
        check(&["--errors", "--tracer=qemu"], Some("memtap report FILE"));
        check(&["--report=function,stack", "--tracer=protect"], Some("--report stack: page protection"));
        check(&["--report=variable", "--errors", "--tracer=protect"], None);
        check(&["--report=stack"], None);
        check(&["--errors", "-o", "lackey:a"], Some("own format"));
        check(&["--errors", "-o", "memtap:a"], None);
        check(&["-o", "lackey:a"], None);
    }

    #[test]
    fn headings_of_the_help_are_true() {
        use clap::CommandFactory;
        let command = Args::command();
        let heading = |id: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id);
            arg.and_then(|arg| arg.get_help_heading().map(str::to_owned))
        };
        assert_eq!(heading("allow_gaps").as_deref(), Some(HOW));
        assert_eq!(heading("sync").as_deref(), Some(WRITTEN));
        assert_eq!(heading("marked").as_deref(), Some("For a whole machine (--tracer qemu)"));
        let machine = command
            .get_arguments()
            .filter(|arg| arg.get_help_heading() == Some("For a whole machine (--tracer qemu)"));
        assert_eq!(machine.count(), 8, "nothing that holds for programs is there");
    }

    #[test]
    fn what_holds_for_machines_is_refused_for_programs() {
        let options = [
            "--read-data",
            "--only=loads",
            "--cycles=1..2",
            "--millis=1..2",
            "--physical=1..2",
            "--virtual-range=1..2",
            "--process=init",
            "--marked",
        ];
        for option in options {
            let name = option.split('=').next().expect("there is one");
            for program in [&["--", "prog"][..], &["--pid", "1"], &["--tracer=protect", "--", "prog"]] {
                let line = [&["record", option][..], program].concat();
                let args = Args::try_parse_from(line).expect("a command line");
                let error = run(&args).expect_err("it is not a machine").to_string();
                assert_eq!(error, format!("{name} is for a whole machine, recorded with --tracer qemu"));
            }
        }
    }
}
