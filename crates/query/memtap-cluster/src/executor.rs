//! `memtap cluster executor`: runs the parts of queries.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use clap::Parser;
use datafusion::prelude::SessionConfig;
use tokio::signal::unix::{SignalKind, signal};

use crate::codec::codecs;
use crate::endpoint::Endpoint;

/// Between two looks for the scheduler.
const AGAIN: Duration = Duration::from_millis(200);

/// Run parts of queries for a scheduler
///
/// It must reach the traces by the paths and addresses that the queries name. It keeps intermediate rows in a folder, and spills there
/// what does not fit into its memory.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Endpoint,
    /// Where to listen for those who fetch rows; port 0 for one that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: Endpoint,
    /// The host by which others reach this executor [default: that of --listen]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Parts that run at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,
    /// Memory for the rows of queries, in MiB [default: 70 % of the machine's or the container's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..))]
    memory: Option<u32>,
    /// The folder for intermediate rows [default: one below $TMPDIR, which goes with the executor]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Seconds to wait for the scheduler
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    wait_for(&args.scheduler, Duration::from_secs(args.wait)).await?;
    let listen = args.listen.with_port()?;
    crate::warnings::show();
    let temporary = match args.work_dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("memtap-executor-").tempdir()?),
    };
    let work_dir =
        args.work_dir.clone().or_else(|| Some(temporary.as_ref()?.path().to_owned())).unwrap_or_default();
    std::fs::create_dir_all(&work_dir).with_context(|| format!("{}: can't be made", work_dir.display()))?;
    let work_dir = work_dir.into_os_string().into_string();
    let work_dir = work_dir.map_err(|dir| anyhow!("{}: is not UTF-8", dir.display()))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = args.cores.map_or(cores, usize::from);
    let (logical, physical) = codecs();
    // Those that a query can name: Ballista's own list lacks DataFusion's functions of lists.
    let known = default_session_builder(SessionConfig::new())?;
    let config = ExecutorProcessConfig {
        bind_host: listen.host.clone(),
        external_host: Some(args.host.clone().unwrap_or_else(|| listen.host.clone())),
        port: listen.port,
        scheduler_host: args.scheduler.host.clone(),
        scheduler_port: args.scheduler.port,
        vcores: cores,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(work_dir),
        memory_pool_size: args.memory.map(|mib| u64::from(mib) << 20),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&known))),
        override_logical_codec: Some(logical),
        override_physical_codec: Some(physical),
        ..ExecutorProcessConfig::default()
    };
    let parts = if cores == 1 { "1 part".to_owned() } else { format!("{cores} parts") };
    eprintln!("memtap: executor at {listen}, {parts} at a time, for the scheduler at {}", args.scheduler);
    let ended = start_executor_process(Arc::new(config)).await;
    ended.map_err(|error| anyhow!("the executor failed: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until a scheduler is there: whoever starts both at once need not see to the order.
async fn wait_for(scheduler: &Endpoint, at_most: Duration) -> Result<()> {
    let begun = Instant::now();
    loop {
        let asked = scheduler.clone();
        match tokio::task::spawn_blocking(move || asked.check()).await? {
            Err(_) if begun.elapsed() < at_most => tokio::time::sleep(AGAIN).await,
            done => return done,
        }
    }
}

/// Waits for a signal that ends a process in order.
pub(crate) async fn asked_to_end() {
    let (Ok(mut ended), Ok(mut interrupted)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = ended.recv() => {}
        _ = interrupted.recv() => {}
    }
}
