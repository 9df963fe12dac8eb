//! `memtap view`: a trace as a picture, in a browser.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Parser;
use view::{MapServer, TraceMap};

use crate::inputs;
use crate::output::Out;

/// Show a trace in a browser: time across, addresses down, colours by accesses
///
/// Prints the address of the page, which has a secret in it: who knows it can read the trace. Nothing is sent anywhere, and nothing
/// is written but the page index beside the trace. Ctrl-C ends it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// Where to listen; port 0: one that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Do not start a browser
    #[arg(long)]
    no_open: bool,
}

/// Serves until a signal ends it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let session = inputs::session(&args.file)?;
    let shown = || args.file.display().to_string();
    let terminal = std::io::stderr().is_terminal();
    let mut percent = 0;
    let mut progress = |done: usize, all: usize| {
        let now = done * 100 / all.max(1);
        if terminal && now != percent {
            percent = now;
            let _ = write!(std::io::stderr(), "\r\x1b[Kindex: {now} %");
        }
    };
    let map = TraceMap::new(session, &mut progress);
    if percent > 0 {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("signals can't be handled")?;
    let server = MapServer::start(map.with_context(shown)?, args.listen)?;
    let mut out = Out::stdout();
    out.line(server.url())?;
    out.finish()?;
    if !args.listen.ip().is_loopback() {
        eprintln!("memtap: note: other machines can reach this, and what is sent is not encrypted");
    }
    if !args.no_open {
        open(server.url());
    }
    let _ = signals.forever().next();
    Ok(ExitCode::SUCCESS)
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
