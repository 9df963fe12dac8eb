//! Decoded segments that were read lately, with a bound on their bytes.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::{Error, lock};

/// A trace that was opened, a stream, a place.
pub(crate) type Key = (u64, u32, usize);
/// A segment's entries, or `None` where it is damaged.
pub(crate) type Segment = Option<Arc<Vec<u8>>>;

#[derive(Debug)]
enum Slot {
    /// Somebody decodes it.
    Loading,
    Ready {
        segment: Segment,
        used: u64,
    },
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<Key, Slot>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    limit: usize,
    state: Mutex<State>,
    loaded: Condvar,
}

impl Cache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), loaded: Condvar::new() }
    }

    /// The segment; decoded by `load` if it is not here. Who wants one that is being decoded waits for it.
    pub(crate) fn get(
        &self,
        key: Key,
        load: impl FnOnce() -> Result<Segment, Error>,
    ) -> Result<Segment, Error> {
        let mut guard = lock(&self.state);
        loop {
            let state = &mut *guard;
            state.clock += 1;
            match state.slots.get_mut(&key) {
                Some(Slot::Ready { segment, used }) => {
                    *used = state.clock;
                    return Ok(segment.clone());
                }
                Some(Slot::Loading) => {
                    guard = self.loaded.wait(guard).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        guard.slots.insert(key, Slot::Loading);
        drop(guard);
        let loaded = load();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        match &loaded {
            Ok(segment) => {
                state.bytes += segment.as_ref().map_or(0, |segment| segment.capacity());
                state.clock += 1;
                state.slots.insert(key, Slot::Ready { segment: segment.clone(), used: state.clock });
                self.shrink(state, key);
            }
            Err(_) => {
                state.slots.remove(&key);
            }
        }
        self.loaded.notify_all();
        loaded
    }

    /// Whether the segment is here or on its way.
    pub(crate) fn has(&self, key: Key) -> bool {
        lock(&self.state).slots.contains_key(&key)
    }

    /// Drops the longest unused until the bound holds; the newest stays.
    fn shrink(&self, state: &mut State, newest: Key) {
        while state.bytes > self.limit {
            let oldest = state
                .slots
                .iter()
                .filter(|(key, _)| **key != newest)
                .filter_map(|(key, slot)| match slot {
                    Slot::Ready { used, .. } => Some((*used, *key)),
                    Slot::Loading => None,
                })
                .min();
            let Some((_, key)) = oldest else { return };
            Self::remove(state, key);
        }
    }

    fn remove(state: &mut State, key: Key) {
        if let Some(Slot::Ready { segment, .. }) = state.slots.remove(&key) {
            state.bytes -= segment.map_or(0, |segment| segment.capacity());
        }
    }

    /// Drops what belongs to a trace that was closed.
    pub(crate) fn forget(&self, trace: u64) {
        let mut state = lock(&self.state);
        let ready = |(key, slot): (&Key, &Slot)| {
            (key.0 == trace && matches!(slot, Slot::Ready { .. })).then_some(*key)
        };
        let keys: Vec<Key> = state.slots.iter().filter_map(ready).collect();
        for key in keys {
            Self::remove(&mut state, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_first_and_the_bound_holds() {
        let cache = Cache::new(250);
        let load = |byte: u8| move || Ok(Some(Arc::new(vec![byte; 100])));
        let never = || -> Result<Segment, Error> { unreachable!("it is here") };
        cache.get((1, 1, 0), load(0)).unwrap();
        cache.get((1, 1, 1), load(1)).unwrap();
        cache.get((1, 1, 0), never).unwrap();
        cache.get((1, 1, 2), load(2)).unwrap();
        assert!(cache.has((1, 1, 0)) && !cache.has((1, 1, 1)) && cache.has((1, 1, 2)));
        assert_eq!(cache.get((1, 1, 2), never).unwrap().unwrap()[0], 2);
        cache.forget(1);
        assert!(!cache.has((1, 1, 0)));
        assert_eq!(lock(&cache.state).bytes, 0);
    }

    #[test]
    fn one_load_serves_all_who_wait() {
        let cache = Cache::new(1000);
        let loads = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    cache.get((0, 0, 0), || {
                        loads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(None)
                    })
                });
            }
        });
        assert_eq!(loads.into_inner(), 1);
    }
}
