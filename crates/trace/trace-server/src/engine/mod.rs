//! The server without its sockets: sessions, traces, memory and workers. A channel's requests come through [`ChannelHandler`];
//! a server inside the client's process calls it directly. Resources shared by all of them are in `resources.rs`.

mod budget;
mod cache;
mod frame;
mod handler;
mod quota;
mod read;
mod resources;
pub(crate) mod ring;
mod root;
mod session;
mod text;
mod workers;
mod write;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub use resources::EngineOptions;
pub use text::StoreFormat;
pub use workers::Workers;

pub(crate) use handler::{Answer, ChannelHandler};

use trace_format::EndReason;

use crate::{Error, Role};
use resources::Resources;
use session::SessionList;

/// How often open segments, and what clients have filled, are looked at.
const TICK: Duration = Duration::from_millis(50);

/// A server without sockets. Cheap to clone; it ends with its last clone and channel.
#[derive(Clone, Debug)]
pub struct Engine {
    sessions: Arc<SessionList>,
}

impl Engine {
    /// Starts the workers.
    ///
    /// # Errors
    /// Where the root can't be opened or no thread be started.
    pub fn start(options: EngineOptions) -> Result<Self, Error> {
        let resources = Arc::new(Resources::start(options)?);
        let watched = Arc::downgrade(&resources);
        std::thread::Builder::new().name("memtap-ticker".into()).spawn(move || tick(&watched)).map_err(
            |source| Error::Io { what: "the server".into(), operation: "start a thread", cause: source },
        )?;
        Ok(Self { sessions: Arc::new(SessionList::new(resources)) })
    }

    /// Makes the memory of the options a bound of the process: what was freed is given back to the system. For a process that does
    /// little else; it has its own 24 MiB at most, and messages of clients on TCP while they come in.
    pub fn keep_bound(&self) {
        buffers_host::give_back_freed_memory();
    }

    /// A new channel. `shared` says whether descriptors, or references in the same process, reach the client.
    pub(crate) fn channel(&self, shared: bool, role: Role) -> ChannelHandler {
        ChannelHandler::new(self.sessions.clone(), shared, role)
    }

    /// Its workers, for what a client in this process does before it hands something over.
    pub fn workers(&self) -> Arc<Workers> {
        self.sessions.resources.workers.clone()
    }

    pub(crate) fn options(&self) -> &EngineOptions {
        &self.sessions.resources.options
    }

    /// Closes all traces, as far as that is possible. Returns what could not be completed.
    pub fn close(&self) -> Vec<Error> {
        self.sessions
            .all()
            .iter()
            .filter_map(|session| session.close(EndReason::ServerStopped).err())
            .collect()
    }
}

/// Looks after open segments as long as the server lives.
fn tick(resources: &Weak<Resources>) {
    loop {
        std::thread::sleep(TICK);
        let Some(resources) = resources.upgrade() else { return };
        for trace in resources.traces() {
            trace.tick(&resources);
        }
    }
}
