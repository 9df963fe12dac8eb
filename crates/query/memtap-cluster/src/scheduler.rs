//! `memtap cluster scheduler`: takes queries, and gives their parts to executors.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::Parser;

use crate::codec::codecs;
use crate::endpoint::Endpoint;

/// Seconds without a word from an executor after which its work is given to others. They say one every 5 seconds.
const SILENT_SECONDS: u64 = 20;

/// Take queries and divide their work among the executors
///
/// Whoever reaches its port can have the executors read any trace that they can read: there is no authentication. Listen on an address
/// that only the cluster reaches.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: Endpoint,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let listen = args.listen.with_port()?;
    crate::warnings::show();
    let (logical, physical) = codecs();
    let config = SchedulerConfig {
        bind_host: listen.host.clone(),
        bind_port: listen.port,
        external_host: listen.host.clone(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: SILENT_SECONDS,
        expire_dead_executor_interval_seconds: 2,
        // Executors may come later than the first query.
        no_executors_grace_period_seconds: SILENT_SECONDS,
        override_logical_codec: Some(logical),
        override_physical_codec: Some(physical),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(|error| anyhow!("{error}"))?;
    let address = listen.to_string().parse().with_context(|| format!("{listen}: is no address"))?;
    eprintln!("memtap: scheduler at {listen}");
    tokio::select! {
        ended = start_server(cluster, address, Arc::new(config)) => {
            ended.map_err(|error| anyhow!("the scheduler failed: {error}"))?;
        }
        () = crate::executor::asked_to_end() => {}
    }
    Ok(ExitCode::SUCCESS)
}
