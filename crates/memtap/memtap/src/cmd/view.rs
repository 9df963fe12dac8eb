//! `memtap view`: shows a trace as a picture in a browser.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use analysis::Session;
use anyhow::{Context, Result, bail};
use clap::Parser;
use view::{MapServer, Opening, TraceMap};

use crate::inputs;
use crate::output::Out;
use crate::progress::Indexing;

/// What takes longer to open is opened while the page is there already.
const SOON: Duration = Duration::from_millis(300);

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
    let sessions =
        files.map(|file| Ok((file.clone(), inputs::session(file)?))).collect::<Result<Vec<_>>>()?;
    let opening = Arc::new(Opening::default());
    let (sender, opened) = mpsc::channel();
    thread::spawn({
        let opening = opening.clone();
        move || sender.send(maps(sessions, &opening))
    });
    // Of most traces all is there before anybody could look. What is wrong with them is told without an address.
    let soon = opened.recv_timeout(SOON).ok().transpose()?;
    let mut server = MapServer::listen(args.listen, opening)?;
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("signals can't be handled")?;
    if let Some(runs) = soon {
        server.show(runs)?;
        announce(&server, args)?;
        let _ = signals.forever().next();
        return Ok(ExitCode::SUCCESS);
    }
    announce(&server, args)?;
    let waiting = signals.handle();
    let showing = thread::spawn(move || {
        let runs = opened.recv().context("the trace can't be opened").flatten();
        let shown = runs.and_then(|runs| Ok(server.show(runs)?));
        if shown.is_err() {
            waiting.close();
        }
        // It is served until the process ends.
        shown.map(|()| server)
    });
    match signals.forever().next() {
        Some(_) => Ok(ExitCode::SUCCESS),
        None => match showing.join() {
            Ok(shown) => shown.map(|_| ExitCode::SUCCESS),
            Err(_) => bail!("the trace can't be opened"),
        },
    }
}

/// Says where the page is.
fn announce(server: &MapServer, args: &Args) -> Result<()> {
    let mut out = Out::stdout();
    out.line(server.url())?;
    out.finish()?;
    if !args.listen.ip().is_loopback() {
        say!("memtap: note: other machines can connect, and the connection is not encrypted");
    }
    if !args.no_open {
        open(server.url());
    }
    Ok(())
}

/// What there is to see of each trace; its index is built where there is none.
fn maps(sessions: Vec<(PathBuf, Session)>, opening: &Opening) -> Result<Vec<TraceMap>> {
    let map = |(file, session): (PathBuf, Session)| {
        let mut progress = Indexing::new();
        let map = TraceMap::new(session, &mut |step| {
            progress.show(step.done, step.all);
            opening.step(step);
        });
        map.with_context(|| file.display().to_string())
    };
    sessions.into_iter().map(map).collect()
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
