//! A cache of recently read decoded segments, bounded in bytes.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::{Error, lock};

/// Which segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentKey {
    /// The trace, by the number that it got when it was opened.
    pub(crate) trace: u64,
    pub(crate) stream: u32,
    /// The segment's place in the stream.
    pub(crate) place: usize,
}

/// A segment's entries, or `None` where it is damaged.
pub(crate) type DecodedSegment = Option<Arc<Vec<u8>>>;

#[derive(Debug)]
enum CacheLine {
    /// Somebody decodes it.
    Loading,
    Ready {
        segment: DecodedSegment,
        used: u64,
    },
}

#[derive(Debug, Default)]
struct CacheContent {
    slots: HashMap<SegmentKey, CacheLine>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct SegmentCache {
    limit: usize,
    state: Mutex<CacheContent>,
    loaded: Condvar,
}

impl SegmentCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), loaded: Condvar::new() }
    }

    /// The segment; decoded by `load` if it is not here. Who wants one that is being decoded waits for it.
    pub(crate) fn get(
        &self,
        key: SegmentKey,
        load: impl FnOnce() -> Result<DecodedSegment, Error>,
    ) -> Result<DecodedSegment, Error> {
        let mut guard = lock(&self.state);
        loop {
            let state = &mut *guard;
            state.clock += 1;
            match state.slots.get_mut(&key) {
                Some(CacheLine::Ready { segment, used }) => {
                    *used = state.clock;
                    return Ok(segment.clone());
                }
                Some(CacheLine::Loading) => {
                    guard = self.loaded.wait(guard).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        guard.slots.insert(key, CacheLine::Loading);
        drop(guard);
        let loaded = load();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        match &loaded {
            Ok(segment) => {
                state.bytes += segment.as_ref().map_or(0, |segment| segment.capacity());
                state.clock += 1;
                state.slots.insert(key, CacheLine::Ready { segment: segment.clone(), used: state.clock });
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
    pub(crate) fn has(&self, key: SegmentKey) -> bool {
        lock(&self.state).slots.contains_key(&key)
    }

    /// Drops the longest unused until the bound holds; the newest stays.
    fn shrink(&self, state: &mut CacheContent, newest: SegmentKey) {
        while state.bytes > self.limit {
            let oldest = state
                .slots
                .iter()
                .filter(|(key, _)| **key != newest)
                .filter_map(|(key, slot)| match slot {
                    CacheLine::Ready { used, .. } => Some((*used, *key)),
                    CacheLine::Loading => None,
                })
                .min();
            let Some((_, key)) = oldest else { return };
            Self::remove(state, key);
        }
    }

    fn remove(state: &mut CacheContent, key: SegmentKey) {
        if let Some(CacheLine::Ready { segment, .. }) = state.slots.remove(&key) {
            state.bytes -= segment.map_or(0, |segment| segment.capacity());
        }
    }

    /// Drops what belongs to a trace that was closed.
    pub(crate) fn forget(&self, trace: u64) {
        let mut state = lock(&self.state);
        let ready = |(key, slot): (&SegmentKey, &CacheLine)| {
            (key.trace == trace && matches!(slot, CacheLine::Ready { .. })).then_some(*key)
        };
        let keys: Vec<SegmentKey> = state.slots.iter().filter_map(ready).collect();
        for key in keys {
            Self::remove(&mut state, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(trace: u64, stream: u32, place: usize) -> SegmentKey {
        SegmentKey { trace, stream, place }
    }

    #[test]
    fn the_longest_unused_go_first_and_the_bound_holds() {
        let cache = SegmentCache::new(250);
        let load = |byte: u8| move || Ok(Some(Arc::new(vec![byte; 100])));
        let never = || -> Result<DecodedSegment, Error> { unreachable!("it is here") };
        cache.get(key(1, 1, 0), load(0)).unwrap();
        cache.get(key(1, 1, 1), load(1)).unwrap();
        cache.get(key(1, 1, 0), never).unwrap();
        cache.get(key(1, 1, 2), load(2)).unwrap();
        assert!(cache.has(key(1, 1, 0)) && !cache.has(key(1, 1, 1)) && cache.has(key(1, 1, 2)));
        assert_eq!(cache.get(key(1, 1, 2), never).unwrap().unwrap()[0], 2);
        cache.forget(1);
        assert!(!cache.has(key(1, 1, 0)));
        assert_eq!(lock(&cache.state).bytes, 0);
    }

    #[test]
    fn one_load_serves_all_who_wait() {
        let cache = SegmentCache::new(1000);
        let loads = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    cache.get(key(0, 0, 0), || {
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
