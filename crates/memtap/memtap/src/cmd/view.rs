//! `memtap view`: shows a trace as a picture in a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Parser;
use view::{MapServer, TraceMap};

use crate::inputs;
use crate::output::Out;
use crate::progress::Indexing;

/// Show a trace in the browser: time from left to right, addresses from top to bottom
///
/// With two traces, shows them side by side, aligned by name: what grew, what shrank, what is new and what is gone.
///
/// Prints the address of the page. The address contains a secret: whoever knows it can read the trace. memtap sends nothing anywhere, and
/// writes only the page index next to the trace. Ctrl-C ends it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// A second trace to compare with: FILE is the run before, FILE2 the run after
    #[arg(value_name = "FILE2")]
    second: Option<PathBuf>,
    /// The address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Do not start a browser
    #[arg(long)]
    no_open: bool,
}

/// Serves until a signal ends it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let files = std::iter::once(&args.file).chain(&args.second);
    let runs = files.map(|file| map(file)).collect::<Result<Vec<TraceMap>>>()?;
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("signals can't be handled")?;
    let server = MapServer::start(runs, args.listen)?;
    let mut out = Out::stdout();
    out.line(server.url())?;
    out.finish()?;
    if !args.listen.ip().is_loopback() {
        say!("memtap: note: other machines can connect, and the connection is not encrypted");
    }
    if !args.no_open {
        open(server.url());
    }
    let _ = signals.forever().next();
    Ok(ExitCode::SUCCESS)
}

/// What there is to see of a trace; its index is built where there is none.
fn map(file: &Path) -> Result<TraceMap> {
    let session = inputs::session(file)?;
    let mut progress = Indexing::new();
    let map = TraceMap::new(session, &mut |done, all| progress.show(done, all));
    map.with_context(|| file.display().to_string())
}

/// Starts a browser where there is a display. That there is none is no error: the address was printed.
fn open(url: &str) {
    if ["DISPLAY", "WAYLAND_DISPLAY"].iter().all(|name| std::env::var_os(name).is_none()) {
        return;
    }
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
}
