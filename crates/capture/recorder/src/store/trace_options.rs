//! Options that recordings of programs and of machines share: what is kept of the accesses, and where the trace goes.

use std::path::PathBuf;

use trace_format::SyncPolicy;

use crate::store::remote_store::RemoteStore;
use crate::store::trace_plan::TracePlan;

/// As a user gave them; `None` where nothing was said.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceOptions {
    pub(crate) data: bool,
    pub(crate) flow: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) replace: bool,
    pub(crate) encoder: Option<u32>,
    pub(crate) sync: SyncPolicy,
    pub(crate) server: Option<RemoteStore>,
    pub(crate) memory_bytes: Option<usize>,
}

impl TraceOptions {
    /// The trace of what is called `name`, with this encoder where none was chosen.
    pub(crate) fn plan(&self, name: &str, encoder: u32) -> TracePlan {
        TracePlan {
            output: self.output.clone().unwrap_or_else(|| default_output(name)),
            replace: self.replace,
            encoder: self.encoder.unwrap_or(encoder),
            sync: self.sync,
            server: self.server.clone(),
            memory_bytes: self.memory_bytes,
        }
    }
}

/// A name of its own in the current directory.
fn default_output(name: &str) -> PathBuf {
    let base = name.rsplit('/').next().unwrap_or(name);
    PathBuf::from(format!("{base}.memtap"))
}

/// The builder's functions for a type that has them in its field `trace`.
macro_rules! trace_setters {
    () => {
        /// Whether the bytes that accesses read and write are recorded, too; of a machine those that are written.
        #[must_use]
        pub fn data(mut self, data: bool) -> Self {
            self.trace.data = data;
            self
        }

        /// Whether every basic block that is executed is recorded, not only those that access memory.
        #[must_use]
        pub fn flow(mut self, flow: bool) -> Self {
            self.trace.flow = flow;
            self
        }

        /// The file to write; by default the name of the program, or of QEMU, with `.memtap` in the current directory. On a
        /// server it is relative to its root.
        #[must_use]
        pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
            self.trace.output = Some(path.into());
            self
        }

        /// Whether a file that is there is replaced.
        #[must_use]
        pub fn replace(mut self, replace: bool) -> Self {
            self.trace.replace = replace;
            self
        }

        /// The number of the encoder of accesses ([`trace_format::Encoders`]); by default a fast one.
        #[must_use]
        pub fn encoder(mut self, encoder: u32) -> Self {
            self.trace.encoder = Some(encoder);
            self
        }

        /// When the trace is forced to disk.
        #[must_use]
        pub fn sync(mut self, sync: SyncPolicy) -> Self {
            self.trace.sync = sync;
            self
        }

        /// Lets a server write the trace.
        #[must_use]
        pub fn server(mut self, server: RemoteStore) -> Self {
            self.trace.server = Some(server);
            self
        }
    };
}
pub(crate) use trace_setters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_called_after_what_it_is_of_unless_its_name_is_given() {
        let output = |options: TraceOptions| options.plan("/usr/bin/gzip", 0).output;
        assert_eq!(output(TraceOptions::default()), PathBuf::from("gzip.memtap"));
        assert_eq!(
            output(TraceOptions { output: Some("a".into()), ..Default::default() }),
            PathBuf::from("a")
        );
    }
}
