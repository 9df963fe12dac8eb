//! The server's sockets: one thread per channel, with bounds on their number and on how long they wait.

mod greeting;
mod kept;
mod log;
mod serve;

use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use greeting::{Greeting, Greetings};
use kept::KeptChannels;
pub use log::LogLevel;
use log::printable;

use crate::channel::{Channel, UnixChannel, notice_cuts};
use crate::{Address, Credentials, Engine, Error};

/// How long a client may take to say hello, or to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Stack of a channel's thread; it holds no data.
const STACK_BYTES: usize = 256 << 10;

/// What all channels' threads share.
#[derive(Debug)]
struct ServerState {
    engine: Engine,
    channels: AtomicUsize,
    stopping: AtomicBool,
    level: LogLevel,
    greetings: Arc<Greetings>,
    kept: KeptChannels,
}

impl ServerState {
    /// Says something to who runs the server. What clients sent may be in it: control characters are shown, not obeyed.
    fn log(&self, level: LogLevel, text: impl FnOnce() -> String) {
        if level <= self.level {
            eprintln!("memtap serve: {}", printable(&text()));
        }
    }

    /// A seat for a channel, if there is one.
    fn seat(self: &Arc<Self>) -> Option<Seat> {
        let most = self.engine.options().channels;
        let seat = Seat { server: self.clone() };
        (self.channels.fetch_add(1, Ordering::AcqRel) < most).then_some(seat)
    }
}

/// One of the channels that there may be at a time; free again when it is dropped.
#[derive(Debug)]
struct Seat {
    server: Arc<ServerState>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.server.channels.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A server that listens. Each address has a thread that accepts; dropping the server stops them.
#[derive(Debug)]
pub struct Server {
    shared: Arc<ServerState>,
    sockets: Vec<PathBuf>,
    addresses: Vec<Address>,
    listeners: Vec<SocketAddr>,
    credentials: Option<Arc<Credentials>>,
}

impl Server {
    /// A server that does not listen yet, and says so much to standard error.
    pub fn new(engine: &Engine, level: LogLevel) -> Self {
        let shared = ServerState {
            engine: engine.clone(),
            channels: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            level,
            greetings: Arc::default(),
            kept: KeptChannels::default(),
        };
        Self {
            shared: Arc::new(shared),
            sockets: Vec::new(),
            addresses: Vec::new(),
            listeners: Vec::new(),
            credentials: None,
        }
    }

    /// Listens on an address, and returns it as clients call it: with the port that was chosen where it was 0.
    pub fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        let bound = match address {
            Address::Unix(path) => self.listen_unix(path)?,
            Address::Tcp { host, port } => self.listen_tcp(host, *port)?,
        };
        self.addresses.push(bound.clone());
        Ok(bound)
    }

    /// What TCP clients must show, and what they are shown. Without it nobody can listen on TCP.
    pub fn set_credentials(&mut self, credentials: Credentials) {
        self.credentials = Some(Arc::new(credentials));
    }

    fn listen_tcp(&mut self, host: &str, port: u16) -> Result<Address, Error> {
        let address = Address::Tcp { host: host.into(), port };
        let credentials = self.credentials.clone().ok_or_else(|| Error::Token {
            what: address.to_string(),
            problem: "nobody listens on TCP without a token",
        })?;
        let failed = |operation| {
            let what = address.to_string();
            move |source| Error::Io { what, operation, cause: source }
        };
        let mut chosen = port;
        let mut bound = 0;
        let mut refused = None;
        // A name may stand for an address of each version.
        for socket in (host, port).to_socket_addrs().map_err(failed("look up the name"))? {
            let listener = match TcpListener::bind(SocketAddr::new(socket.ip(), chosen)) {
                Ok(listener) => listener,
                Err(error) => {
                    refused = Some(error);
                    continue;
                }
            };
            bound += 1;
            let local = listener.local_addr().map_err(failed("listen"))?;
            chosen = local.port();
            self.listeners.push(local);
            let (shared, credentials) = (self.shared.clone(), credentials.clone());
            let accept = move || {
                for stream in listener.incoming() {
                    if shared.stopping.load(Ordering::Acquire) {
                        return;
                    }
                    match stream {
                        Ok(stream) => admit_tcp(&shared, &credentials, stream),
                        Err(_) => std::thread::sleep(Duration::from_millis(10)),
                    }
                }
            };
            spawn("memtap-accept", accept).map_err(failed("start a thread"))?;
        }
        if let Some(error) = refused.filter(|_| bound == 0) {
            return Err(failed("listen")(error));
        }
        let shared = self.shared.clone();
        let watch = move || shared.greetings.watch(|| shared.stopping.load(Ordering::Acquire));
        spawn("memtap-greeting", watch).map_err(failed("start a thread"))?;
        Ok(Address::Tcp { host: host.into(), port: chosen })
    }

    fn listen_unix(&mut self, path: &Path) -> Result<Address, Error> {
        let address = Address::Unix(path.into());
        let failed = |operation| {
            let what = address.to_string();
            move |source| Error::Io { what, operation, cause: source }
        };
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
            && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            // Left by a server that was killed.
            std::fs::remove_file(path).map_err(failed("remove the old socket"))?;
        }
        let listener = UnixListener::bind(path).map_err(failed("listen"))?;
        // Who may connect is decided by user below; this keeps others from trying.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(failed("protect the socket"))?;
        self.sockets.push(path.into());
        let shared = self.shared.clone();
        let accept = move || {
            for stream in listener.incoming() {
                if shared.stopping.load(Ordering::Acquire) {
                    return;
                }
                match stream {
                    Ok(stream) => admit_unix(&shared, stream),
                    // Descriptors are short for a moment.
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        };
        spawn("memtap-accept", accept).map_err(failed("start a thread"))?;
        Ok(address)
    }

    /// Stops accepting and closes all traces. Returns what could not be completed.
    pub fn stop(mut self) -> Vec<Error> {
        self.close();
        self.shared.engine.close()
    }

    fn close(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.greetings.wake();
        // Wakes the threads that accept.
        for address in std::mem::take(&mut self.addresses) {
            if let Address::Unix(path) = &address {
                let _ = UnixStream::connect(path);
            }
        }
        for mut local in std::mem::take(&mut self.listeners) {
            if local.ip().is_unspecified() {
                local.set_ip(if local.is_ipv4() {
                    Ipv4Addr::LOCALHOST.into()
                } else {
                    Ipv6Addr::LOCALHOST.into()
                });
            }
            let _ = TcpStream::connect_timeout(&local, Duration::from_secs(1));
        }
        for path in std::mem::take(&mut self.sockets) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        // After their traces were closed as those of a server that stops, where they were.
        self.shared.kept.stop();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(run).map(|_| ())
}

fn admit_unix(shared: &Arc<ServerState>, stream: UnixStream) {
    let own = rustix::process::geteuid();
    let peer = rustix::net::sockopt::socket_peercred(&stream);
    let admitted = peer.as_ref().is_ok_and(|peer| peer.uid == own || peer.uid.is_root());
    let who = peer.map_or_else(
        |_| "an unknown process".to_owned(),
        |peer| format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw()),
    );
    let channel = UnixChannel::new(stream, false);
    let refusal = (!admitted).then_some("only the server's own user and root are admitted on this socket");
    let place = serve::Place::Local(shared.seat());
    start(shared, Box::new(channel), serve::Guest { who, refusal, place });
}

fn admit_tcp(shared: &Arc<ServerState>, credentials: &Arc<Credentials>, stream: TcpStream) {
    let who = stream.peer_addr().map_or_else(|_| "an unknown peer".into(), |peer| peer.to_string());
    let _ = notice_cuts(&stream);
    // One that is gone already needs no place.
    let (Ok(greeting), Ok(connection)) = (shared.greetings.admit(&stream), stream.try_clone()) else {
        return;
    };
    // The handshake is the channel's thread's: nobody else waits for it.
    match credentials.accept(stream) {
        Ok(channel) => {
            let place = serve::Place::Remote { greeting, credentials: credentials.clone(), connection };
            start(shared, channel, serve::Guest { who, refusal: None, place });
        }
        Err(error) => shared.log(LogLevel::Refusals, || format!("{who}: refused: {error}")),
    }
}

/// Gives a channel its thread.
fn start(shared: &Arc<ServerState>, channel: Box<dyn Channel>, guest: serve::Guest) {
    let own = shared.clone();
    if spawn("memtap-channel", move || serve::serve(&own, channel, guest)).is_err() {
        // The closure is gone, and with it the channel and its place.
        shared.log(LogLevel::Errors, || "no thread for another channel".into());
    }
}
