//! `memtap serve`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use trace_server::{Address, Credentials, Engine, EngineOptions, LogLevel, Role, Server};

/// Run a trace server for programs on this machine and others
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The address to listen on: unix:PATH, tcp:HOST:PORT or tcp:PORT, which accepts this machine only (may be given several times)
    #[arg(long, required = true, value_name = "URL")]
    listen: Vec<Address>,
    /// The directory for all traces
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Threads that encode and decode [default: one per logical CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Memory limit in MiB for entries, clients' buffers, encoding and decoding; the process itself needs up to 24 more
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = clap::value_parser!(u32).range(16..))]
    memory: u32,
    /// Size limit of one trace in MiB; what does not fit becomes a gap [default: as much as fits on the disk]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    quota: Option<u32>,
    /// How many seconds a TCP client may be disconnected and still resume; after that its trace is closed
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    patience: u32,
    /// What is logged to standard error: nothing, errors, refusals, sessions (who reads and writes which trace) or requests; each level
    /// includes those before it
    #[arg(long, value_name = "LEVEL", default_value = "refusals")]
    log: LogLevel,
    /// The directory of the certificate and the tokens for TCP, created if there are none [default: ~/.local/state/memtap]
    #[arg(long, value_name = "DIR")]
    credentials: Option<PathBuf>,
}

/// Serves until a signal ends it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("signals can't be handled")?;
    let mut options = EngineOptions {
        memory_bytes: (args.memory as usize) << 20,
        root: Some(args.root.clone()),
        quota_bytes: args.quota.map(|mib| u64::from(mib) << 20),
        patience: Duration::from_secs(args.patience.into()),
        ..EngineOptions::default()
    };
    if let Some(workers) = args.workers {
        options.workers = workers.into();
    }
    let engine = Engine::start(options)?;
    engine.keep_bound();
    let mut server = Server::new(&engine, args.log);
    if args.listen.iter().any(|address| matches!(address, Address::Tcp { .. })) {
        let Some(dir) = args.credentials.clone().or_else(Credentials::default_dir) else {
            bail!("--listen tcp: there is no home directory to keep the token in; use --credentials DIR");
        };
        let credentials = Credentials::load_or_create(&dir)?;
        let file = credentials.token_file().display();
        let [read, write] = [Role::Read, Role::Write].map(Role::name);
        say!(
            "memtap serve: the token is in {file}; those that only {read} or {write} in {file}.{read} and {file}.{write}"
        );
        server.set_credentials(credentials);
    }
    for address in &args.listen {
        let bound = server.listen(address)?;
        say!("memtap serve: listening on {bound}, traces in {}", args.root.display());
    }
    let _ = signals.forever().next();
    let incomplete = server.stop();
    for error in &incomplete {
        say!("memtap serve: {error}");
    }
    Ok(ExitCode::from(u8::from(!incomplete.is_empty())))
}
