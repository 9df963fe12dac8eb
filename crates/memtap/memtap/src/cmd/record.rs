//! `memtap record`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use buffers::{Config, MAX_BREAKPOINTS};
use clap::{Parser, ValueEnum};
use memref::RegionKind;

use trace_format::Encoders;
use trace_server::Address;

use recorder::{self as record, Job, Linkage, Remote, Running};

use report::grouped;

/// Who sees the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tracer {
    /// Translated code: every access, the stack's included
    Translate,
    /// Native execution, accesses to selected data found by page protection
    Protect,
    /// A whole machine, by QEMU's translator
    Qemu,
}

/// A kind of memory that can be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Region {
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
pub(crate) enum Mechanism {
    /// One signal for a run of instructions (the default)
    Bursts,
    /// One signal for each access
    Single,
    /// Two signals and two changes of rights for each access, as in the paper: only for comparison
    TwoSignals,
}

/// What of the control flow is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flow {
    /// Every basic block that is executed, also those without accesses
    Full,
}

/// Run a program, or attach to a process, and record what it does to its memory
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace to write [default: PROG.memtap in this directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    /// Who sees the accesses [default: translate; protect where --regions selects data, that is without stack]
    #[arg(long, value_enum)]
    tracer: Option<Tracer>,
    /// The kinds of memory to trace [default: all that the tracer can see]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KINDS")]
    regions: Vec<Region>,
    /// Start recording at the entry of this function instead of main (may be given several times)
    #[arg(long, value_name = "FN")]
    start: Vec<String>,
    /// Stop recording at the entry of this function (may be given several times)
    #[arg(long, value_name = "FN")]
    stop: Vec<String>,
    /// Leave the processes that the program starts alone
    #[arg(long)]
    no_children: bool,
    /// Record the bytes that accesses read and write, too (translated programs; of a machine those written)
    #[arg(long)]
    data: bool,
    /// Record the control flow, too: every basic block that is executed, not only those that access memory (translated
    /// programs, machines)
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, default_missing_value = "full")]
    flow: Option<Flow>,
    /// Step through windows of N instructions and compare what the program accesses there with what is recorded; a
    /// difference is exit status 1 (translated programs)
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    verify: Option<u32>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Exit with the program's status even where events are missing
    #[arg(long)]
    allow_gaps: bool,
    /// How accesses are encoded: access is smaller by half or more than the fast ones, and slower; memtap copy does that
    /// later too [default: blocks where code is translated and all of it goes to a file, else live]
    #[arg(long, value_name = "NAME", value_parser = super::encoders())]
    encoder: Option<u32>,
    /// When the trace is forced to disk
    #[arg(long, value_enum, default_value = "close")]
    sync: super::Sync,
    /// Let a server write the trace: unix:PATH or tcp:HOST:PORT; FILE is relative to its root
    #[arg(long, value_name = "URL")]
    server: Option<Address>,
    /// The file with the token of a server on TCP [default: $MEMTAP_TOKEN, or what this user's server wrote]
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// Attach to this running process; recording ends with --for, with Ctrl-C or with the process, which runs on natively
    #[arg(long, value_name = "PID", conflicts_with = "program")]
    pid: Option<u32>,
    /// With --pid: how long to record
    #[arg(long = "for", value_name = "SECONDS", requires = "pid", conflicts_with = "program", value_parser = super::parse_seconds)]
    seconds: Option<f64>,
    /// Run under the tracer without recording: for measurements
    #[arg(long, hide = true)]
    never: bool,
    /// How an access to closed memory is made
    #[arg(long, value_enum, hide = true)]
    mechanism: Option<Mechanism>,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", last = true, value_name = "PROG")]
    program: Vec<String>,
}

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

    /// As the plugin reads it.
    fn settings(&self, data: bool, flow: bool) -> Vec<String> {
        let flag = |name: &str, on: bool| on.then(|| format!("{name}=on"));
        let text = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={value}"));
        [
            flag("data", data),
            flag("read_data", self.read_data),
            flag("flow", flow),
            (self.only == Some(Only::Loads)).then(|| "stores=off".to_owned()),
            (self.only == Some(Only::Stores)).then(|| "loads=off".to_owned()),
            text("cycles", &self.cycles),
            text("millis", &self.millis),
            text("phys", &self.physical),
            text("virt", &self.virtual_range),
            text("process", &self.process),
            flag("marked", self.marked),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Records a machine, and ends with QEMU's own status.
fn run_machine(args: &Args, name: &str, rest: &[String]) -> Result<ExitCode> {
    let job = record::machine::Job {
        output: args.output.clone().unwrap_or_else(|| default_output(name)),
        force: args.force,
        encoder: args.encoder.unwrap_or(Encoders::LIVE),
        sync: args.sync.into(),
        server: args.server.clone().map(|address| Remote { address, token_file: args.token_file.clone() }),
        name: name.to_owned(),
        program: record::find(name)?,
        args: rest.to_vec(),
        settings: args.machine.settings(args.data, args.flow.is_some()),
        data: args.data || args.machine.read_data,
        flow: args.flow.is_some(),
    };
    let outcome = record::machine::record(&job)?;
    status(args.allow_gaps, &job.output, outcome)
}

impl Args {
    /// Whether code is translated, where no machine is recorded.
    ///
    /// What `--tracer` says is obeyed. Else code is translated: that is fast, and shows every access. Page protection is for
    /// selected data, beside which everything runs natively, and where its own mechanism is chosen; but only where it can do
    /// what is asked for.
    fn translates(&self, linkage: Linkage) -> bool {
        if let Some(tracer) = self.tracer {
            return tracer == Tracer::Translate;
        }
        let only_translated = self.pid.is_some()
            || self.data
            || self.flow.is_some()
            || self.verify.is_some()
            || linkage == Linkage::Static;
        let selected_data = !self.regions.is_empty() && !self.regions.contains(&Region::Stack);
        only_translated || !selected_data && self.mechanism.is_none()
    }

    /// Refuses what page protection, which was asked for, can't do.
    fn check_protected(&self) -> Result<()> {
        if self.data {
            bail!("--data: page protection does not record values; use --tracer translate");
        }
        if self.flow.is_some() {
            bail!("--flow: page protection sees accesses, not the code between them; use --tracer translate");
        }
        if self.regions.contains(&Region::Stack) {
            bail!("--regions stack: page protection leaves the stack alone; use --tracer translate");
        }
        Ok(())
    }
}

/// Records, and ends with the program's own status.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    if args.tracer != Some(Tracer::Qemu)
        && let Some(option) = args.machine.first()
    {
        bail!("{option}: that is for a whole machine, recorded with --tracer qemu");
    }
    if let Some(pid) = args.pid {
        return run_attached(args, pid);
    }
    let (name, rest) = args.program.split_first().expect("clap requires a program");
    if args.verify.is_some() && args.tracer.is_some_and(|tracer| tracer != Tracer::Translate) {
        bail!("--verify: only translated code is compared with stepping; use --tracer translate");
    }
    match args.tracer {
        Some(Tracer::Qemu) => return run_machine(&args, name, rest),
        Some(Tracer::Protect) => args.check_protected()?,
        Some(Tracer::Translate) | None => {}
    }
    let program = record::find(name)?;
    let linkage = record::check(&program)?;
    let translate = args.translates(linkage);
    let mut start = args.start.clone();
    if linkage == Linkage::Static {
        if !translate {
            bail!(
                "{}: is statically linked, so no tracer can be preloaded; record it with --tracer translate",
                program.display()
            );
        }
        // No C library of ours calls its main.
        if start.is_empty() && record::has_function(&program, "main") {
            start.push("main".to_owned());
        }
    }
    let output = default_output(name);
    let (name, rest) = (name.clone(), rest.to_vec());
    let subject = Subject { name, program, linkage, running: None, args: rest, output, start };
    record_subject(args, subject, translate)
}

/// What is recorded by a tracer in the process.
struct Subject {
    name: String,
    program: PathBuf,
    linkage: Linkage,
    running: Option<Running>,
    args: Vec<String>,
    /// Where its trace is written unless it is said.
    output: PathBuf,
    /// The functions that start recording.
    start: Vec<String>,
}

fn record_subject(args: Args, subject: Subject, translate: bool) -> Result<ExitCode> {
    let Subject { name, program, linkage, running, args: rest, output, start } = subject;
    let mut breakpoints = [None; MAX_BREAKPOINTS];
    for (place, breakpoint) in breakpoints.iter_mut().zip(record::breakpoints(&program, &start, &args.stop)?)
    {
        *place = Some(breakpoint);
    }
    let regions = region_mask(&args.regions, translate);
    let by_blocks = translate && regions == u32::MAX && args.server.is_none();
    let job = Job {
        output: args.output.unwrap_or(output),
        force: args.force,
        encoder: args.encoder.unwrap_or(if by_blocks { Encoders::BLOCKS } else { Encoders::LIVE }),
        sync: args.sync.into(),
        server: args.server.map(|address| Remote { address, token_file: args.token_file }),
        name,
        program,
        linkage,
        running,
        args: rest,
        config: Config {
            regions,
            children: !args.no_children,
            bursts: matches!(args.mechanism, None | Some(Mechanism::Bursts)),
            two_signals: args.mechanism == Some(Mechanism::TwoSignals),
            at_main: args.start.is_empty() && !args.never,
            translate,
            data: args.data,
            flow: args.flow.is_some(),
            verify: args.verify.unwrap_or(0),
            watchpoints: [0; buffers::MAX_LIST_PATH_BYTES],
            breakpoints,
        },
    };
    let outcome = record::record(&job)?;
    status(args.allow_gaps, &job.output, outcome)
}

/// Records a process that runs already, and ends with success unless something is missing.
fn run_attached(args: Args, pid: u32) -> Result<ExitCode> {
    match args.tracer {
        Some(Tracer::Translate) | None => {}
        Some(Tracer::Protect) => bail!(
            "--pid: page protection must be there from a program's first instruction on; use --tracer translate"
        ),
        Some(Tracer::Qemu) => bail!("--pid: a machine is recorded from its start; use --tracer translate"),
    }
    record::check_running(pid, &record::find_library()?)?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut command = command.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    // It was found a moment ago.
    let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { bail!("process {pid} ended") };
    let name = command.next().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| program.display().to_string());
    let mut rest: Vec<String> = command.collect();
    // The last argument ends with a zero too.
    rest.pop();
    let running = Some(Running { pid, time: args.seconds.map(Duration::from_secs_f64) });
    let (linkage, output) = (Linkage::Dynamic, default_output(&program.to_string_lossy()));
    let (start, translate) = (args.start.clone(), args.translates(linkage));
    record_subject(args, Subject { name, program, linkage, running, args: rest, output, start }, translate)
}

/// The program's status, unless something is missing.
fn status(allow_gaps: bool, output: &std::path::Path, outcome: record::Outcome) -> Result<ExitCode> {
    let file = output.display();
    if let Some(verified) = &outcome.verified {
        for words in &verified.shown {
            eprintln!("memtap: {words}");
        }
        let [windows, instructions, accesses] =
            [verified.windows, verified.instructions, verified.accesses].map(grouped);
        let with_bytes = verified.with_bytes.map(|count| format!(", {} with their bytes,", grouped(count)));
        let with_bytes = with_bytes.unwrap_or_default();
        let compared =
            format!("{accesses} accesses{with_bytes} of {instructions} instructions in {windows} windows");
        if verified.mismatches > 0 {
            let count = grouped(verified.mismatches);
            eprintln!(
                "memtap: {file}: what was recorded differs from stepping {count} times, of {compared}: a bug in memtap, \
                 please report it with these lines"
            );
            return Ok(ExitCode::FAILURE);
        }
        eprintln!("memtap: {file}: {compared} are as stepping sees them");
    }
    if outcome.totals.gaps == 0 || allow_gaps {
        return Ok(ExitCode::from(outcome.status));
    }
    eprintln!(
        "memtap: {file}: {} events are missing; memtap stat {file} says why, --allow-gaps accepts it",
        outcome.totals.gaps
    );
    Ok(ExitCode::from(if outcome.status == 0 { 1 } else { outcome.status }))
}

/// The program's own name in the present directory.
fn default_output(name: &str) -> PathBuf {
    let base = name.rsplit('/').next().unwrap_or(name);
    PathBuf::from(format!("{base}.memtap"))
}

/// A bit for each kind, as tracers have it; none named: all that the tracer sees.
fn region_mask(regions: &[Region], translate: bool) -> u32 {
    let regions = match regions {
        [] if translate => return u32::MAX,
        [] => &[Region::Data, Region::Bss, Region::Heap, Region::Anon],
        some => some,
    };
    regions.iter().fold(0, |mask, region| {
        let kind = match region {
            Region::Data => RegionKind::Data,
            Region::Bss => RegionKind::Bss,
            Region::Heap => RegionKind::Heap,
            Region::Anon => RegionKind::Anonymous,
            Region::Stack => RegionKind::Stack,
        };
        mask | 1 << kind.code()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a command line without a program's name is recorded by.
    fn check_default(words: &str, linkage: Linkage, translates: bool) {
        let line = [&["record"][..], &words.split_whitespace().collect::<Vec<_>>()].concat();
        let line = if words.contains("--pid") { line } else { [&line[..], &["--", "prog"]].concat() };
        let args = Args::try_parse_from(line).expect("a command line");
        assert_eq!(args.translates(linkage), translates, "{words:?} {linkage:?}");
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
                let error = run(args).expect_err("it is no machine").to_string();
                assert_eq!(
                    error,
                    format!("{name}: that is for a whole machine, recorded with --tracer qemu")
                );
            }
        }
    }

    #[test]
    fn code_is_translated_unless_data_is_selected() {
        let (dynamic, fixed) = (Linkage::Dynamic, Linkage::Static);
        for words in ["", "--start f", "--regions stack", "--regions data,stack", "--no-children"] {
            check_default(words, dynamic, true);
        }
        for words in ["--regions data", "--regions bss,heap,anon", "--mechanism bursts", "--mechanism single"]
        {
            check_default(words, dynamic, false);
            check_default(words, fixed, true);
            for more in ["--data", "--flow", "--flow full", "--verify", "--pid 1"] {
                check_default(&format!("{words} {more}"), dynamic, true);
            }
        }
        check_default("--tracer protect", dynamic, false);
        check_default("--tracer protect --regions stack", dynamic, false);
        check_default("--tracer translate --regions data --mechanism single", dynamic, true);
    }

    #[test]
    fn regions_become_bits() {
        assert_eq!(region_mask(&[Region::Data, Region::Heap], true), 1 << 1 | 1 << 4);
        assert_eq!(region_mask(&[], true), u32::MAX);
        assert_eq!(region_mask(&[], false).count_ones(), 4);
        assert_eq!(default_output("/usr/bin/gzip"), PathBuf::from("gzip.memtap"));
    }
}
