//! Where a recording goes: a server in this process, which is the default, or another one.

use std::path::PathBuf;
use std::sync::Arc;

use trace_format::{CreateOptions, SyncPolicy, TraceWriter};
use trace_server::{
    Address, Client, Credentials, Engine, EngineOptions, RemoteSink, StoreFormat, SyncWhen, TraceOptions,
    Upstream, Workers, read_token,
};

use crate::Error;
use crate::plan::TracePlan;

/// Entries that the recorder itself gathers; the server gathers more.
const PIECE_ENTRIES: usize = 8192;

/// For how long a server is looked for whose connection was cut, if it waits as long.
const PATIENCE_SECONDS: u32 = 600;

/// A server that writes the trace, and how it is convinced.
#[derive(Clone, Debug)]
pub struct RemoteStore {
    /// Where it listens.
    pub address: Address,
    /// The file that holds its token; `None`: $MEMTAP_TOKEN, or what this user's server wrote.
    pub token_file: Option<PathBuf>,
}

impl RemoteStore {
    /// A channel to it.
    ///
    /// # Errors
    /// Where it is not there, does not admit this user, or the token can't be read.
    pub fn connect(&self) -> Result<Client, Error> {
        Client::connect(&self.address, self.token()?.as_deref()).map_err(Error::Connect)
    }

    /// A channel to it to write on, which outlives a cut.
    fn connect_to_write(&self) -> Result<Client, Error> {
        let client = self.connect()?;
        if matches!(self.address, Address::Tcp { .. }) {
            client.keep(PATIENCE_SECONDS, |text| eprintln!("memtap: {text}")).map_err(Error::Connect)?;
        }
        Ok(client)
    }

    /// The token: from the file that was named, from the environment, or from where this user's servers put it.
    fn token(&self) -> Result<Option<String>, Error> {
        if matches!(self.address, Address::Unix(_)) {
            return Ok(None);
        }
        if let Some(path) = &self.token_file {
            return Ok(Some(read_token(path)?));
        }
        if let Some(token) = std::env::var_os("MEMTAP_TOKEN") {
            return Ok(Some(token.into_string().unwrap_or_default()));
        }
        let default = Credentials::default_dir().map(|dir| dir.join("token")).filter(|path| path.exists());
        Ok(default.map(|path| read_token(&path)).transpose()?)
    }
}

/// A trace that was created.
pub(crate) struct Destination {
    /// Where events go.
    pub(crate) trace: TraceWriter,
    /// The file, if it is one of ours to remove.
    file: Option<PathBuf>,
    /// Workers of our own.
    engine: Option<Engine>,
}

impl Destination {
    /// Creates the trace, for accesses with their bytes where `data` says so. Of the options, those that another process can be
    /// told hold there too.
    pub(crate) fn create(plan: &TracePlan, data: bool) -> Result<Self, Error> {
        let (path, remote) = (plan.output.as_path(), plan.server.as_ref());
        let options = CreateOptions {
            force: plan.replace,
            encoder: Some(plan.encoder),
            sync: plan.sync,
            data,
            ..Default::default()
        };
        let Some(name) = path.to_str() else {
            // Names travel as text; this one is no text.
            let trace = TraceWriter::create(path, options)?;
            return Ok(Self { trace, file: Some(path.into()), engine: None });
        };
        // Workers here encode what another server keeps, too: frames are a hundredth of the bytes of their entries. Only other formats
        // than our own are made of entries.
        let upstream = remote.map(RemoteStore::connect_to_write).transpose()?;
        let (client, engine) = match upstream {
            Some(client) if StoreFormat::split(name).0 != StoreFormat::Memtap => (client, None),
            upstream => {
                let upstream = upstream.map(|client| Arc::new(client) as Arc<dyn Upstream>);
                let engine = Engine::start(EngineOptions { upstream, ..EngineOptions::default() })?;
                (Client::embedded(&engine), Some(engine))
            }
        };
        let sync = match options.sync {
            SyncPolicy::Never => SyncWhen::Never,
            SyncPolicy::AtFinish => SyncWhen::Closed,
            SyncPolicy::EachFlush => SyncWhen::Flushed,
        };
        let remote_options = TraceOptions { replace: options.force, sync, ..TraceOptions::default() };
        let sink = RemoteSink::create(client, name, &remote_options)?;
        let options = CreateOptions { segment_entries: PIECE_ENTRIES, ..options };
        let file = remote.is_none().then(|| StoreFormat::split(name).1.into());
        Ok(Self { trace: TraceWriter::on_sink(Arc::new(sink), options), file, engine })
    }

    /// Our own workers, if there are any.
    pub(crate) fn workers(&self) -> Option<Arc<Workers>> {
        self.engine.as_ref().map(Engine::workers)
    }

    /// Nothing was recorded: no file is better than an empty one. A server's file stays, and is empty.
    pub(crate) fn discard(self) {
        let _ = self.trace.finish();
        drop(self.engine);
        if let Some(file) = self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}
