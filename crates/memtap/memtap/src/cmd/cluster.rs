//! `memtap cluster`: queries in SQL on many machines. It runs the binary of its own crate.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use super::sibling;
use super::sql::OutputArgs;

/// Answer queries in SQL with the processors of many machines
///
/// A scheduler divides the work of each query among executors, which run on as many machines as there are. The engine is Apache Ballista. Runs
/// the binary memtap-cluster, which must be next to memtap or on PATH. docs/cluster.md has an example, and manifests for Kubernetes.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Take queries and divide their work among the executors
    ///
    /// Whoever reaches its port can have the executors read any trace that they can read: there is no authentication. Listen on an address
    /// that only the cluster reaches.
    Scheduler {
        /// Where to listen [default: 127.0.0.1:50050]
        #[arg(long, value_name = "HOST:PORT")]
        listen: Option<String>,
    },
    /// Run parts of queries for a scheduler
    ///
    /// It must reach the traces by the paths and addresses that the queries name. It keeps intermediate rows in a folder, and spills there
    /// what does not fit into its memory.
    Executor {
        /// The scheduler [default: 127.0.0.1:50050]
        #[arg(long, value_name = "HOST:PORT")]
        scheduler: Option<String>,
        /// Where to listen for those who fetch rows; port 0 for one that is free [default: 127.0.0.1:0]
        #[arg(long, value_name = "HOST:PORT")]
        listen: Option<String>,
        /// The host by which others reach this executor [default: that of --listen]
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// Parts that run at the same time [default: one per core]
        #[arg(long, value_name = "N")]
        cores: Option<u16>,
        /// Memory for the rows of queries, in MiB [default: 70 % of the machine's or the container's]
        #[arg(long, value_name = "MIB")]
        memory: Option<u32>,
        /// The folder for intermediate rows [default: one below $TMPDIR, which goes with the executor]
        #[arg(long, value_name = "DIR")]
        work_dir: Option<PathBuf>,
        /// Seconds to wait for the scheduler [default: 30]
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u64>,
    },
    /// Answer one query with the executors of a cluster
    ///
    /// As memtap sql answers it. The scheduler and the executors read the traces by the same paths or addresses as this command. A query that
    /// meets damage fails, since only executors see it.
    Query {
        /// The scheduler [default: 127.0.0.1:50050]
        #[arg(long, value_name = "HOST:PORT")]
        scheduler: Option<String>,
        /// Parts that scans and joins are divided into: as many as the executors have cores together [default: cores of this machine]
        #[arg(long, value_name = "N")]
        parts: Option<u16>,
        /// Leave out what is damaged, as memtap sql does; memtap check tells of it
        #[arg(long)]
        partial: bool,
        /// The traces, and the query
        #[arg(required = true, num_args = 2.., value_name = "FILE... QUERY")]
        words: Vec<OsString>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// An option with its value, where it is given.
fn give<T: Into<OsString>>(command: &mut Command, option: &str, value: Option<T>) {
    if let Some(value) = value {
        command.arg(option).arg(value.into());
    }
}

/// Becomes the other binary. `symbols` and `strict` are options that all commands have.
pub(crate) fn run(args: Args, symbols: &[PathBuf], strict: bool) -> Result<ExitCode> {
    let program = sibling::find("memtap-cluster")?;
    let mut command = Command::new(&program);
    match args.command {
        Action::Scheduler { listen } => {
            command.arg("scheduler");
            give(&mut command, "--listen", listen);
        }
        Action::Executor { scheduler, listen, host, cores, memory, work_dir, wait } => {
            command.arg("executor");
            give(&mut command, "--scheduler", scheduler);
            give(&mut command, "--listen", listen);
            give(&mut command, "--host", host);
            give(&mut command, "--cores", cores.map(|cores| cores.to_string()));
            give(&mut command, "--memory", memory.map(|mib| mib.to_string()));
            give(&mut command, "--work-dir", work_dir);
            give(&mut command, "--wait", wait.map(|seconds| seconds.to_string()));
        }
        Action::Query { scheduler, parts, partial, words, output } => {
            command.arg("query");
            give(&mut command, "--scheduler", scheduler);
            give(&mut command, "--parts", parts.map(|parts| parts.to_string()));
            command.args(partial.then_some("--partial")).args(strict.then_some("--strict"));
            for dir in symbols {
                give(&mut command, "--symbols", Some(dir));
            }
            output.give(&mut command);
            command.arg("--").args(&words);
        }
    }
    Err(command.exec()).with_context(|| format!("{}: can't be started", program.display()))
}
