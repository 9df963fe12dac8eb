//! Channels that outlive their connection: a client that was cut off reconnects and continues where it was (docs/protocol.md, *Cuts*).
//!
//! The thread of a cut channel waits here with all the channel's state. The thread of the client's new connection takes
//! that state over. If the server has not noticed yet that the previous connection is dead, the new thread ends it first.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::ChannelHandler;
use crate::wire::{ChannelKey, Message};

/// What a channel is, whatever it travels on.
#[derive(Debug)]
pub(super) struct ChannelState {
    pub(super) handler: ChannelHandler,
    /// The answer to the last request that was done.
    pub(super) last: Message,
    /// The trace that it works on, for the log.
    pub(super) trace: String,
}

/// Why a channel is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// There is none with that key.
    Unknown,
    /// What it did when it was cut is not done yet.
    Busy,
}

#[derive(Debug)]
struct KeptChannel {
    secret: [u8; 16],
    /// The connection that it is on.
    connection: Option<TcpStream>,
    /// Its state, while it is on none.
    waiting: Option<Box<ChannelState>>,
    /// How often it was cut.
    cuts: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct KeptChannels {
    channels: Mutex<Channels>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Channels {
    next: u64,
    kept: BTreeMap<u64, KeptChannel>,
    stopping: bool,
}

impl KeptChannels {
    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a channel that is on that connection. `None` where there is no randomness to keep it secret.
    pub(super) fn keep(&self, connection: TcpStream) -> Option<ChannelKey> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty()).ok()?;
        let mut channels = self.lock();
        channels.next += 1;
        let number = channels.next;
        channels
            .kept
            .insert(number, KeptChannel { secret, connection: Some(connection), waiting: None, cuts: 0 });
        Some(ChannelKey { number, secret })
    }

    /// Forgets a channel whose client has left.
    pub(super) fn forget(&self, number: u64) {
        self.lock().kept.remove(&number);
    }

    /// Waits with a channel that was cut until its client comes back. Returns the state where it does not.
    pub(super) fn wait(
        &self,
        number: u64,
        state: ChannelState,
        patience: Duration,
    ) -> Option<Box<ChannelState>> {
        let until = Instant::now() + patience;
        let mut channels = self.lock();
        let Some(channel) = channels.kept.get_mut(&number) else { return Some(Box::new(state)) };
        (channel.connection, channel.waiting) = (None, Some(Box::new(state)));
        channel.cuts += 1;
        let cuts = channel.cuts;
        self.changed.notify_all();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let stopping = channels.stopping;
            let channel = channels.kept.get_mut(&number)?;
            // Somebody took it over, and may be cut off again already: then another thread waits with it.
            if channel.connection.is_some() || channel.cuts != cuts {
                return None;
            }
            if left.is_zero() || stopping {
                return channels.kept.remove(&number)?.waiting;
            }
            let woken = self.changed.wait_timeout(channels, left);
            channels = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes a channel over, on that connection. What it did when it was cut may take so long.
    pub(super) fn resume(
        &self,
        key: ChannelKey,
        connection: TcpStream,
        patience: Duration,
    ) -> Result<Box<ChannelState>, NotTaken> {
        let until = Instant::now() + patience;
        let mut channels = self.lock();
        loop {
            let channel = channels.kept.get_mut(&key.number).filter(|channel| channel.secret == key.secret);
            let channel = channel.ok_or(NotTaken::Unknown)?;
            if let Some(state) = channel.waiting.take() {
                channel.connection = Some(connection);
                self.changed.notify_all();
                return Ok(state);
            }
            if let Some(former) = &channel.connection {
                let _ = former.shutdown(Shutdown::Both);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NotTaken::Busy);
            }
            let woken = self.changed.wait_timeout(channels, left);
            channels = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has nobody wait any longer.
    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_channel_that_is_busy_is_told_from_one_that_is_unknown() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let connect = || TcpStream::connect(address).expect("it listens");
        let channels = KeptChannels::default();
        let key = channels.keep(connect()).expect("randomness");
        let refused =
            |key| channels.resume(key, connect(), Duration::ZERO).expect_err("its thread never waits");
        assert_eq!(refused(key), NotTaken::Busy);
        let mut secret = key.secret;
        secret[0] ^= 1;
        assert_eq!(refused(ChannelKey { secret, ..key }), NotTaken::Unknown);
        channels.forget(key.number);
        assert_eq!(refused(key), NotTaken::Unknown);
    }
}
