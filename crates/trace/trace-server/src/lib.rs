//! The trace store: a server that takes entries from many clients at once, encodes them on one pool of workers
//! and keeps them in traces; and the library of its clients (Simutrace, sections 2.1 to 2.4; docs/protocol.md).
//!
//! [`Server`] listens on sockets. [`Engine`] is the server without sockets, which a process can embed. [`Client`] uses either through the
//! same calls. This crate decides nothing about the bytes of a trace: those are defined by `trace-format`. Start with [`Client::connect`].
#![forbid(unsafe_code)]

mod address;
mod channel;
mod client;
mod engine;
mod error;
mod role;
mod server;
mod tls;
mod upstream;
pub mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use address::Address;
pub use client::{
    Batch, Client, DataReader, DataWriter, Entry, EntryCursor, EntryReader, EntryStream, EntryWriter,
    MergedEntry, Multiplexer, RemoteSink, ServerFile, SharedWriter,
};
pub use engine::{Engine, EngineOptions, StoreFormat, Workers};
pub use error::{Error, RefusalReason};
pub use role::Role;
pub use server::{LogLevel, Server};
pub use tls::{Credentials, read_token};
pub use upstream::{TraceOptions, Upstream};
pub use wire::{By, OpenMode, SessionInfo, StoredFile, StreamStatistics, SyncWhen};

/// A poisoned lock means that a thread panicked between two consistent states; what it guards is still valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server_name() -> String {
    concat!("memtap ", env!("CARGO_PKG_VERSION")).into()
}
