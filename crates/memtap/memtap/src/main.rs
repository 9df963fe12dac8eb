//! memtap: the command line. Each command has a file under `cmd`; this file is only the list of commands.
#![forbid(unsafe_code)]
#![deny(clippy::print_stderr)]

/// Says a line to people, on standard error. Where nobody reads that any more (`2>&1 | head`), memtap goes on; `eprintln!` would panic.
macro_rules! say {
    ($($words:tt)+) => {
        crate::output::say(format_args!($($words)+))
    };
}

mod cmd {
    pub(crate) mod analysis_args;
    pub(crate) mod archive;
    pub(crate) mod cache;
    pub(crate) mod catalogue;
    pub(crate) mod check;
    pub(crate) mod cluster;
    pub(crate) mod completions;
    pub(crate) mod copy;
    pub(crate) mod determinism;
    pub(crate) mod diff;
    pub(crate) mod doctor;
    pub(crate) mod dump;
    pub(crate) mod errors;
    pub(crate) mod export;
    pub(crate) mod flame;
    pub(crate) mod heatmap;
    pub(crate) mod import;
    pub(crate) mod index;
    pub(crate) mod layout;
    mod limit;
    pub(crate) mod lines;
    pub(crate) mod man;
    pub(crate) mod mcp;
    pub(crate) mod memory;
    pub(crate) mod merge;
    pub(crate) mod probe;
    pub(crate) mod race;
    pub(crate) mod record;
    mod record_tables;
    pub(crate) mod report;
    pub(crate) mod rtvm;
    mod rtvm_options;
    pub(crate) mod serve;
    pub(crate) mod sessions;
    mod sibling;
    pub(crate) mod sql;
    pub(crate) mod stat;
    pub(crate) mod taint;
    pub(crate) mod view;
    pub(crate) mod watch;

    /// When a trace is forced to disk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
    pub(crate) enum Sync {
        /// Never: after a power loss the trace may be damaged or empty
        Never,
        /// When it is closed
        Close,
        /// At each flush, about once a second
        Flush,
    }

    impl From<Sync> for trace_format::SyncPolicy {
        fn from(sync: Sync) -> Self {
            match sync {
                Sync::Never => Self::Never,
                Sync::Close => Self::AtFinish,
                Sync::Flush => Self::EachFlush,
            }
        }
    }

    /// Takes the name of an encoder of accesses, and gives its number.
    pub(crate) fn encoders() -> impl clap::builder::TypedValueParser<Value = u32> {
        use clap::builder::{PossibleValuesParser, TypedValueParser};
        use trace_format::Encoders;
        PossibleValuesParser::new(Encoders::of_accesses()).map(|name| {
            Encoders::default().by_name(&name).expect("only the names of encoders are taken").id()
        })
    }

    /// A time on the command line.
    pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
        match text.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
            _ => Err("a number of seconds above 0".to_owned()),
        }
    }

    /// Ends with a wrong command line: `words` say which of a command's options do not go together.
    pub(crate) fn wrong_command_line(command: &str, words: &str) -> ! {
        use clap::CommandFactory;
        let mut cli = crate::Cli::command();
        // The usage that it prints is of memtap's command.
        cli.build();
        let command = cli.find_subcommand_mut(command).expect("it is a command");
        command.error(clap::error::ErrorKind::ArgumentConflict, words).exit()
    }

    /// An output that is an input would be gone before it is read.
    pub(crate) fn refuse_same(input: &std::path::Path, output: &std::path::Path) -> anyhow::Result<()> {
        let same = |path: &std::path::Path| path.canonicalize().ok();
        if same(input).is_some_and(|input| same(output) == Some(input)) {
            anyhow::bail!("{}: is input and output; choose another name for the output", output.display());
        }
        Ok(())
    }
}
mod inputs;
mod new_file;
mod output;
mod progress;
mod recording;
mod unnamed_trace;
mod watching;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// What programs that call memtap rely on; docs/guide.md has the same table.
const EXIT_STATUS: &str = "\
Exit status:
  0  fine
  1  the input or the run is at fault: one line on standard error says what, where, and what to do
  2  the command line is at fault
  3  a condition of --fail-on-race, --fail-on-error or --fail-if is met
  record, probe and watch end with the status of the program, or with 128 + the number of the signal that ended it; record ends
  with 1 instead of 0 where events are missing (--allow-gaps)";

/// Shows what a program does to its memory: every access, by variable and allocation
#[derive(Debug, Parser)]
#[command(version = env!("MEMTAP_VERSION"), after_long_help = EXIT_STATUS)]
struct Cli {
    /// Exit with status 1 if a trace is damaged or was not closed
    #[arg(long, global = true)]
    strict: bool,
    /// Also look in this directory for the files that names come from, by build id, path or name (may be given several times)
    #[arg(long, value_name = "DIR", global = true)]
    symbols: Vec<std::path::PathBuf>,
    /// Count a trace on this many threads, where the analysis can be divided [default: one per core, up to 4; 1 for a short trace]
    #[arg(long, value_name = "N", global = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(cmd::record::Args),
    Stat(cmd::stat::Args),
    Dump(cmd::dump::Args),
    Report(cmd::report::Args),
    Heatmap(cmd::heatmap::Args),
    View(cmd::view::Args),
    Diff(cmd::diff::Args),
    Flame(cmd::flame::Args),
    Export(cmd::export::Args),
    Sql(cmd::sql::Args),
    Catalogue(cmd::catalogue::Args),
    Cluster(cmd::cluster::Args),
    Mcp(cmd::mcp::Args),
    Memory(cmd::memory::Args),
    Archive(cmd::archive::Args),
    Check(cmd::check::Args),
    Copy(cmd::copy::Args),
    Merge(cmd::merge::Args),
    Index(cmd::index::Args),
    Import(cmd::import::Args),
    Serve(cmd::serve::Args),
    Sessions(cmd::sessions::Args),
    Probe(cmd::probe::Args),
    Rtvm(cmd::rtvm::Args),
    Race(cmd::race::Args),
    Determinism(cmd::determinism::Args),
    Errors(cmd::errors::Args),
    Layout(cmd::layout::Args),
    Lines(cmd::lines::Args),
    Cache(cmd::cache::Args),
    Taint(cmd::taint::Args),
    Watch(cmd::watch::Args),
    Doctor(cmd::doctor::Args),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
}

/// A file that grows beyond the shell's limit is an error like a full disk, not the end. A handler, because a program that is
/// recorded would inherit that the signal is ignored.
fn survive_file_limits() {
    let seen = std::sync::Arc::default();
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
}

fn main() -> ExitCode {
    survive_file_limits();
    let Cli { strict, symbols, jobs, command } = Cli::parse();
    inputs::look_in(symbols.clone());
    if let Some(jobs) = jobs.and_then(|jobs| std::num::NonZero::new(usize::from(jobs))) {
        inputs::count_by(jobs);
    }
    let result = match command {
        Command::Record(args) => cmd::record::run(&args),
        Command::Stat(args) => cmd::stat::run(&args, strict),
        Command::Dump(args) => cmd::dump::run(&args),
        Command::Report(args) => cmd::report::run(&args),
        Command::Heatmap(args) => cmd::heatmap::run(&args),
        Command::View(args) => cmd::view::run(&args),
        Command::Diff(args) => cmd::diff::run(&args),
        Command::Flame(args) => cmd::flame::run(&args),
        Command::Export(args) => cmd::export::run(&args, &symbols, strict),
        Command::Sql(args) => cmd::sql::run(&args, &symbols, strict),
        Command::Catalogue(args) => cmd::catalogue::run(&args, &symbols),
        Command::Cluster(args) => cmd::cluster::run(args, &symbols, strict),
        Command::Mcp(args) => cmd::mcp::run(&args, &symbols),
        Command::Memory(args) => cmd::memory::run(&args),
        Command::Archive(args) => cmd::archive::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Copy(args) => cmd::copy::run(&args),
        Command::Merge(args) => cmd::merge::run(&args),
        Command::Index(args) => cmd::index::run(&args),
        Command::Import(args) => cmd::import::run(&args),
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Sessions(args) => cmd::sessions::run(&args),
        Command::Probe(args) => cmd::probe::run(args),
        Command::Rtvm(args) => cmd::rtvm::run(&args),
        Command::Race(args) => cmd::race::run(&args),
        Command::Determinism(args) => cmd::determinism::run(&args),
        Command::Errors(args) => cmd::errors::run(&args),
        Command::Layout(args) => cmd::layout::run(&args),
        Command::Lines(args) => cmd::lines::run(&args),
        Command::Cache(args) => cmd::cache::run(&args),
        Command::Taint(args) => cmd::taint::run(&args),
        Command::Watch(args) => cmd::watch::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Completions(args) => cmd::completions::run(&args, Cli::command()),
        Command::Man(args) => cmd::man::run(&args, Cli::command()),
    };
    let lacking = inputs::tell_what_is_missing();
    let status = result.unwrap_or_else(|error| {
        if output::is_reader_gone(&error) {
            return ExitCode::SUCCESS;
        }
        say!("memtap: {}", output::error_line(&error));
        ExitCode::FAILURE
    });
    if strict && lacking && status == ExitCode::SUCCESS { ExitCode::FAILURE } else { status }
}
