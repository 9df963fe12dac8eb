//! The latest measured calls of a thread, for a timeline. This is a ring: older calls are overwritten, and their number is kept.

use super::settings;
use patch::arena;

/// Calls that are kept.
pub const EVENTS: usize = 1 << 15;

/// One call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Event {
    /// When it began, in TSC ticks.
    pub start_ticks: u64,
    /// How long it took.
    pub ticks: u64,
    /// The function.
    pub function: u32,
    _pad: u32,
}

/// The ring.
pub struct Timeline {
    events: *mut Event,
    /// Calls ever added.
    pub added: u64,
}

impl Timeline {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { events: arena::map_anonymous(EVENTS * size_of::<Event>())? as *mut Event, added: 0 })
    }

    #[inline]
    pub(crate) fn add(&mut self, function: u32, start_ticks: u64, ticks: u64) {
        if !settings::current().is_some_and(|s| s.timeline) {
            return;
        }
        // SAFETY: the index is below EVENTS.
        unsafe {
            self.events.add(self.added as usize % EVENTS).write(Event {
                start_ticks,
                ticks,
                function,
                _pad: 0,
            });
        }
        self.added += 1;
    }

    /// What is kept, in no particular order.
    #[must_use]
    pub fn kept(&self) -> &[Event] {
        // SAFETY: that many were written.
        unsafe { std::slice::from_raw_parts(self.events, (self.added as usize).min(EVENTS)) }
    }

    pub(crate) fn clear(&mut self) {
        self.added = 0;
    }
}
