//! TCP clients that have not presented the token yet: only a few at a time, each
//! with little time, so that strangers can't lock out clients that have the token.
//!
//! A new client is always admitted. If there are too many, the server closes a connection of the address that has the most: the one that
//! has waited longest. A client that has the token presents it at once, so it is hardly ever the oldest. Start with [`Greetings::admit`].

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// So many may wait at a time.
const MOST: usize = 128;
/// So many of one address.
const MOST_OF_ONE: usize = 32;

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Greetings {
    waiting: Mutex<Vec<WaitingClient>>,
    /// Somebody came, or the server stops.
    changed: Condvar,
    numbers: AtomicU64,
}

/// A client that has not said who it is. The oldest come first.
#[derive(Debug)]
struct WaitingClient {
    number: u64,
    from: IpAddr,
    until: Instant,
    /// Shutting it down ends the thread that reads from it.
    stream: TcpStream,
}

/// A place among those that wait, until it is dropped.
#[derive(Debug)]
pub(super) struct Greeting {
    all: Arc<Greetings>,
    number: u64,
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.all.lock().retain(|client| client.number != self.number);
    }
}

impl Greetings {
    fn lock(&self) -> MutexGuard<'_, Vec<WaitingClient>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a client wait, at another one's cost where there are too many.
    pub(super) fn admit(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Greeting> {
        let (from, stream) = (stream.peer_addr()?.ip(), stream.try_clone()?);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.lock();
        let crowded = waiting.iter().filter(|client| client.from == from).count() >= MOST_OF_ONE;
        if crowded || waiting.len() >= MOST {
            let whose = if crowded { from } else { commonest(&waiting).unwrap_or(from) };
            if let Some(oldest) = waiting.iter().position(|client| client.from == whose) {
                let _ = waiting.remove(oldest).stream.shutdown(Shutdown::Both);
            }
        }
        waiting.push(WaitingClient { number, from, until: Instant::now() + PATIENCE, stream });
        drop(waiting);
        self.changed.notify_one();
        Ok(Greeting { all: self.clone(), number })
    }

    /// Closes those whose time is over, whatever they sent meanwhile, until the server stops.
    pub(super) fn watch(&self, stopping: impl Fn() -> bool) {
        let mut waiting = self.lock();
        while !stopping() {
            let now = Instant::now();
            waiting.retain(|client| {
                let in_time = now < client.until;
                if !in_time {
                    let _ = client.stream.shutdown(Shutdown::Both);
                }
                in_time
            });
            let next = waiting.first().map_or(Duration::MAX, |client| client.until - now);
            let woken = self.changed.wait_timeout(waiting, next.min(PATIENCE));
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets [`Self::watch`] see that the server stops.
    pub(super) fn wake(&self) {
        let _waiting = self.lock();
        self.changed.notify_all();
    }
}

/// The address that most of them are from.
fn commonest(waiting: &[WaitingClient]) -> Option<IpAddr> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for client in waiting {
        *counts.entry(client.from).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map(|(from, _)| from)
}
