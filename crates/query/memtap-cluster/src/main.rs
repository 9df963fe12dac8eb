//! `memtap cluster`: questions to traces in SQL, answered by many machines.
//!
//! [Ballista](https://datafusion.apache.org/ballista/) is the engine: a scheduler cuts a query into stages, executors
//! run them, and the one who asks collects the rows. `codec` is what memtap adds to it: scans of traces as bytes. A
//! trace is read where it is, by path or address, and must be reachable by the same one from everywhere; frames go over
//! the network only where that is how the trace is reached. `scheduler`, `executor` and `query` are the three
//! commands; `endpoint` tells a scheduler from what else may listen there.
#![forbid(unsafe_code)]

mod codec;
mod endpoint;
mod executor;
mod query;
mod scheduler;
mod warnings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Answer queries in SQL with the processors of many machines
#[derive(Debug, Parser)]
#[command(name = "memtap cluster", bin_name = "memtap cluster")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Scheduler(scheduler::Args),
    Executor(executor::Args),
    Query(query::Args),
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            match Args::parse().command {
                Command::Scheduler(args) => scheduler::run(&args).await,
                Command::Executor(args) => executor::run(&args).await,
                Command::Query(args) => query::run(&args).await,
            }
        })
    });
    done.unwrap_or_else(|error| {
        eprintln!("memtap: {}", trace_sql::error_line(&error));
        ExitCode::FAILURE
    })
}
