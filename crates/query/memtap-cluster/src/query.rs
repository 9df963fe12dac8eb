//! `memtap cluster query`: has a cluster answer one query.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use clap::Parser;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use trace_sql::{OutputArgs, ReadBy, SqlSession};

use crate::codec::codecs;
use crate::endpoint::Endpoint;

/// Answer one query with the executors of a cluster
///
/// As memtap sql answers it. The scheduler and the executors read the traces by the same paths or addresses as this command. A query that
/// meets damage fails, since only executors see it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Endpoint,
    /// Parts that scans and joins are divided into: as many as the executors have cores together [default: cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    parts: Option<u16>,
    /// Leave out what is damaged, as memtap sql does; memtap check tells of it
    #[arg(long)]
    partial: bool,
    /// The traces, and the query
    #[arg(required = true, num_args = 2.., value_name = "FILE... QUERY")]
    words: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// Look for the files that the traces' names come from in this directory, too (may be given several times)
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,
    /// End with status 1 where a trace is damaged or was not closed
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    args.output.check()?;
    args.scheduler.check()?;
    let mut files: Vec<PathBuf> = args.words.iter().map(PathBuf::from).collect();
    files.pop();
    let Some(query) = args.words.last() else { return Ok(ExitCode::FAILURE) };
    let read_by = if args.partial { ReadBy::LenientExecutors } else { ReadBy::Executors };
    let session = SqlSession::open_in(context(args)?, &files, &args.symbols, read_by)?;
    session.answer(query, args.output.create()?).await?;
    let problems = session.problems();
    for problem in &problems.words {
        eprintln!("memtap: note: {problem}");
    }
    Ok(if args.strict && problems.is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What gives plans to the cluster.
fn context(args: &Args) -> Result<SessionContext> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (logical, physical) = codecs();
    let config = SessionConfig::new_with_ballista()
        .with_information_schema(true)
        .with_target_partitions(args.parts.map_or(cores, usize::from))
        // The planner that changes a plan while it runs (Ballista 55.0) loses a query whose executor dies.
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_logical_extension_codec(logical)
        .with_ballista_physical_extension_codec(physical);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let state = state.upgrade_for_ballista(format!("http://{}", args.scheduler))?;
    Ok(SessionContext::new_with_state(state))
}
