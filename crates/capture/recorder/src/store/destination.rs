//! Where a recording goes: to a server in this process, which is the default, or to another one.

use std::path::PathBuf;
use std::sync::Arc;

use trace_format::{CreateOptions, SyncPolicy, TraceWriter};
use trace_server::{
    Client, Engine, EngineOptions, RemoteSink, StoreFormat, SyncWhen, TraceOptions, Upstream, Workers,
};

use crate::Error;
use crate::store::memory_plan::MemoryPlan;
use crate::store::remote_store::RemoteStore;
use crate::store::trace_plan::TracePlan;

/// A trace that was created.
pub(crate) struct Destination {
    /// Where events go.
    pub(crate) trace: TraceWriter,
    /// The file, if it is one of ours to remove.
    file: Option<PathBuf>,
    /// Workers of our own.
    engine: Option<Engine>,
    /// Who may have how much memory.
    pub(crate) memory: MemoryPlan,
}

impl Destination {
    /// Creates the trace, for accesses with their bytes where `data` says so. Of the options, those that another process can be
    /// told hold there too.
    pub(crate) fn create(plan: &TracePlan, data: bool) -> Result<Self, Error> {
        let (path, remote) = (plan.output.as_path(), plan.server.as_ref());
        let mut engine_options = EngineOptions::default();
        let memory = MemoryPlan::new(plan.memory_bytes, engine_options.workers);
        if let Some(bytes) = memory.store_bytes {
            // Before any thread of ours is there, which would have a heap of its own.
            buffers_host::share_heaps();
            trace_format::keep_of_frames(memory.spare_bytes);
            engine_options.memory_bytes = bytes;
        }
        let options = CreateOptions {
            frame_bytes: memory.frame_bytes,
            segment_entries: memory.segment_entries,
            force: plan.replace,
            encoder: Some(plan.encoder),
            sync: plan.sync,
            data,
            ..Default::default()
        };
        let Some(name) = path.to_str() else {
            // Names travel as text; this one is no text.
            let long = CreateOptions::default().segment_entries;
            let segment_entries = if memory.is_bounded() { memory.segment_entries } else { long };
            let trace = TraceWriter::create(path, CreateOptions { segment_entries, ..options })?;
            return Ok(Self { trace, file: Some(path.into()), engine: None, memory });
        };
        // Workers here encode what another server keeps, too: frames are a hundredth of the bytes of their entries. Only other formats
        // than our own are made of entries.
        let upstream = remote.map(RemoteStore::connect_to_write).transpose()?;
        let (client, engine) = match upstream {
            Some(client) if StoreFormat::split(name).0 != StoreFormat::Memtap => (client, None),
            upstream => {
                let upstream = upstream.map(|client| Arc::new(client) as Arc<dyn Upstream>);
                let engine = Engine::start(EngineOptions { upstream, ..engine_options })?;
                if memory.is_bounded() {
                    engine.keep_bound();
                }
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
        let file = remote.is_none().then(|| StoreFormat::split(name).1.into());
        Ok(Self { trace: TraceWriter::on_sink(Arc::new(sink), options), file, engine, memory })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use trace_format::Encoders;

    fn create(output: &Path, replace: bool) -> Result<Destination, Error> {
        let (output, encoder, sync) = (output.to_owned(), Encoders::LIVE, SyncPolicy::default());
        Destination::create(
            &TracePlan { output, replace, encoder, sync, server: None, memory_bytes: None },
            false,
        )
    }

    #[test]
    fn a_trace_that_is_discarded_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        // A name that is no text goes another way.
        for name in [OsStr::new("t.memtap"), OsStr::from_bytes(b"\xff.memtap")] {
            let path = folder.path().join(name);
            let destination = create(&path, false).expect("a trace");
            assert_eq!(destination.workers().is_some(), name.to_str().is_some());
            assert!(path.exists());
            destination.discard();
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_file_that_is_there_is_replaced_where_that_is_wanted_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.memtap");
        fs::write(&path, "something else").expect("a file");
        assert!(create(&path, false).is_err());
        assert_eq!(fs::read(&path).expect("it is kept"), b"something else");
        let destination = create(&path, true).expect("a trace");
        destination.trace.finish().expect("a trace");
        assert!(trace_format::Trace::open(&path).is_ok());
    }
}
