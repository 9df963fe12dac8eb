//! `memtap view`: shows a trace as a picture in a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use analysis::Session;
use anyhow::{Context, Result, bail};
use clap::Parser;
use recorder::RemoteStore;
use trace_server::Address;
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
    /// Show a trace of a server, also one that is still being written: unix:PATH or tcp:HOST:PORT; FILE is relative to its root
    #[arg(long, value_name = "URL")]
    server: Option<Address>,
    /// The file with the token of a server on TCP [default: $MEMTAP_TOKEN, or what this user's server wrote]
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
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
    // Each window is drawn and counted by all cores, and what that takes is freed. Left alone, the C library keeps twice as much as is used.
    buffers_host::share_heaps();
    buffers_host::give_back_freed_memory();
    let traces = Traces::of(args);
    let sessions = traces.sessions()?;
    let opening = Arc::new(Opening::default());
    let (sender, opened) = mpsc::channel();
    thread::spawn({
        let opening = opening.clone();
        move || sender.send(maps(sessions, &opening))
    });
    // Of most traces all is there before anybody could look. What is wrong with them is told without an address.
    let soon = opened.recv_timeout(SOON).ok().transpose()?;
    let open_again = move |opening: &Opening| {
        let opened = traces.sessions().and_then(|sessions| maps(sessions, opening));
        opened.map_err(|error| format!("{error:#}"))
    };
    let server = MapServer::listen(args.listen, opening, Box::new(open_again))?;
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

/// The traces that are shown, and where they are.
struct Traces {
    files: Vec<PathBuf>,
    server: Option<RemoteStore>,
}

impl Traces {
    fn of(args: &Args) -> Self {
        let token_file = args.token_file.clone();
        let server = args.server.clone().map(|address| RemoteStore { address, token_file });
        Self { files: std::iter::once(&args.file).chain(&args.second).cloned().collect(), server }
    }

    /// Opens them as they are now.
    fn sessions(&self) -> Result<Vec<(PathBuf, Session)>> {
        let open = |file: &Path| match &self.server {
            Some(server) => inputs::session_of_server(server, file),
            None => inputs::session(file),
        };
        self.files.iter().map(|file| Ok((file.clone(), open(file)?))).collect()
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
