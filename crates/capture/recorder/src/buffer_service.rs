//! The pool of buffers, and the socket through which it is handed to each process that connects.

use std::sync::Arc;
use std::time::Duration;

use buffers::Config;
use buffers_host::{Listener, OwnedPool};

use crate::Error;
use crate::clock::now_ns;
use crate::target::foothold::Foothold;

/// How long is waited where a process that connects could not be served.
const PAUSE: Duration = Duration::from_millis(1);

/// What a process is told when it connects, by its pid.
pub(crate) type Configure = Arc<dyn Fn(u32) -> Config + Send + Sync>;

/// A name that nothing else has.
pub(crate) fn unique_name() -> String {
    format!("memtap-{}-{}", std::process::id(), now_ns())
}

/// A pool, and a thread that hands it out until the service is closed.
pub(crate) struct BufferService {
    pool: Arc<OwnedPool>,
    socket: Arc<Listener>,
}

impl BufferService {
    /// Opens the socket, in a foothold where there is one; `configure` is asked what each process is told.
    pub(crate) fn open(configure: Configure, foothold: Option<&Foothold>) -> Result<Self, Error> {
        let pool = OwnedPool::create();
        let pool =
            Arc::new(pool.map_err(Error::system("shared memory for the traced program can't be had"))?);
        let socket = match foothold {
            Some(foothold) => Listener::bind_file(&foothold.socket(), foothold.channel.clone()),
            None => Listener::bind(unique_name()),
        };
        let socket = Arc::new(socket.map_err(Error::system("a socket for the traced program can't be had"))?);
        let service = Self { pool, socket };
        let (pool, socket) = (Arc::clone(&service.pool), Arc::clone(&service.socket));
        std::thread::spawn(move || {
            while !pool.pool().control().is_closed() {
                if socket.serve_one(&pool, |pid| configure(pid)).is_err() {
                    // The process is gone again, or descriptors are short for a moment.
                    std::thread::sleep(PAUSE);
                }
            }
        });
        Ok(service)
    }

    /// The pool.
    pub(crate) fn pool(&self) -> &Arc<OwnedPool> {
        &self.pool
    }

    /// The socket's name, for processes that are to connect.
    pub(crate) fn socket_name(&self) -> &str {
        self.socket.name()
    }

    /// Nobody is served any more, and nobody waits for a buffer.
    pub(crate) fn close(&self) {
        self.pool.pool().control().close();
        self.pool.wake_producers();
        self.socket.shut_down();
    }
}
