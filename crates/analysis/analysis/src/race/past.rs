//! One access as the shadow memory records it, and the current access.

use memref::{AccessKind, ThreadId};

use super::access_site::AccessSite;
use super::clock::{Clock, Epoch};

/// One access as it is remembered: a site is of one thread, so that need not be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// In its thread's time, which begins at 1.
    pub(super) time: u32,
    /// Twice the number of the site, and 1 where the access is atomic.
    site_and_atomic: u32,
}

impl Past {
    /// Before everything.
    pub(super) const NEVER: Self = Self { time: 0, site_and_atomic: 0 };

    /// No access, but a number from 0 that stands where one could.
    pub(super) const fn number(number: u32) -> Self {
        Self { time: 0, site_and_atomic: number + 1 }
    }

    /// The number that stands there.
    #[inline]
    pub(super) fn as_number(self) -> Option<u32> {
        if self.time == 0 { self.site_and_atomic.checked_sub(1) } else { None }
    }

    pub(super) const fn site(self) -> u32 {
        self.site_and_atomic >> 1
    }

    pub(super) const fn is_atomic(self) -> bool {
        self.site_and_atomic & 1 != 0
    }
}

/// When an access is made, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present<'a> {
    pub(super) clock: &'a Clock,
    pub(super) epoch: Epoch,
    pub(super) kind: AccessKind,
    pub(super) is_atomic: bool,
    /// All that are known.
    pub(super) sites: &'a [AccessSite],
}

impl<'a> Present<'a> {
    #[inline]
    pub(super) fn new(
        clock: &'a Clock,
        thread: ThreadId,
        (kind, is_atomic): (AccessKind, bool),
        sites: &'a [AccessSite],
    ) -> Self {
        Self { clock, epoch: Epoch { thread, time: clock.get(thread) }, kind, is_atomic, sites }
    }

    /// As it will be remembered.
    pub(super) fn past(&self, site: u32) -> Past {
        Past { time: self.epoch.time, site_and_atomic: site << 1 | u32::from(self.is_atomic) }
    }

    fn thread_of(&self, past: Past) -> ThreadId {
        self.sites.get(past.site() as usize).map_or(Epoch::NEVER.thread, |site| site.thread)
    }

    /// When an access was made.
    pub(super) fn epoch_of(&self, past: Past) -> Epoch {
        if past == Past::NEVER {
            return Epoch::NEVER;
        }
        Epoch { thread: self.thread_of(past), time: past.time }
    }

    /// Whether an access was made by this thread, which has given nothing up since.
    #[inline]
    pub(super) fn is_epoch_of(&self, past: Past) -> bool {
        past.time == self.epoch.time && self.thread_of(past) == self.epoch.thread
    }

    /// Whether nothing orders an access and this one, and one of them is plain.
    #[inline]
    pub(super) fn races_with(&self, past: Past) -> bool {
        if past == Past::NEVER || past.is_atomic() && self.is_atomic {
            return false;
        }
        let epoch = self.epoch_of(past);
        epoch.thread != self.epoch.thread && !self.clock.knows(epoch)
    }
}
