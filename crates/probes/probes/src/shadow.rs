//! The shadow stack: which calls are in progress, and where they really return to.
//!
//! At an entry site the return address is on top of the stack. It is saved here and replaced by that of
//! [`return_path`](crate::return_path), so that the exit is seen however the function returns. Calls that never return in
//! the normal way (an exception, `longjmp`, a dropped coroutine) are recognised by their place: a frame whose slot lies
//! below the current one is dead. Frames on a foreign stack (a signal stack, a coroutine) are counted but not paired.
//!
//! This file contains only the data; the code for returns and unwinding is in that module.

use patch::arena;

/// Frames that a thread can have under way; deeper ones are counted, not paired.
pub const DEPTH: usize = 16 << 10;

/// One call under way.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Frame {
    /// Where on the stack the frame lies: the slot of its return address, or the call of the entry probe.
    pub slot: usize,
    /// The return address that was replaced; 0: none was, the exit has a probe.
    pub returns_to: usize,
    /// The function.
    pub function: u32,
    /// Its node in the tree of paths.
    pub node: u32,
    /// The probe that saw its entry.
    pub probe: u32,
    /// When it began, in TSC ticks, and what probes had taken of the thread by then.
    pub start_ticks: u64,
    /// See `start_ticks`.
    pub start_probes: u64,
    /// The function's calls by then, and all of the thread's.
    pub start_calls: u64,
    /// See `start_calls`.
    pub start_seen: u64,
    /// Ticks spent in calls from it that were measured.
    pub child_ticks: u64,
}

/// A thread's shadow stack.
pub struct ShadowStack {
    frames: *mut Frame,
    depth: usize,
    /// Where the stack pointer was when the real return addresses were put back for something that unwinds; 0: they
    /// are replaced.
    restored_at: usize,
    /// Calls that ended without their exit being seen: measured until that was noticed.
    pub unfinished: u64,
    /// Calls deeper than [`DEPTH`].
    pub too_deep: u64,
    /// Calls on a foreign stack.
    pub foreign: u64,
}

impl ShadowStack {
    pub(crate) fn new() -> Option<Self> {
        let frames = arena::map_anonymous(DEPTH * size_of::<Frame>())? as *mut Frame;
        Some(Self { frames, depth: 0, restored_at: 0, unfinished: 0, too_deep: 0, foreign: 0 })
    }

    fn frames(&mut self) -> &mut [Frame] {
        // SAFETY: `depth` frames were written, inside the mapping.
        unsafe { std::slice::from_raw_parts_mut(self.frames, self.depth) }
    }

    /// The innermost frame.
    #[inline]
    #[must_use]
    pub fn top(&mut self) -> Option<&mut Frame> {
        self.frames().last_mut()
    }

    /// Removes the innermost frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.top().copied()?;
        self.depth -= 1;
        Some(frame)
    }

    /// The frame that `depth - 1` others lie below; `None` for 0.
    #[inline]
    #[must_use]
    pub fn nth(&self, depth: usize) -> Option<&Frame> {
        let at = depth.checked_sub(1).filter(|at| *at < self.depth)?;
        // SAFETY: `depth` frames were written, inside the mapping.
        Some(unsafe { &*self.frames.add(at) })
    }

    /// How many frames there are.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Adds a frame; `false` when there is no room.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> bool {
        if self.depth == DEPTH {
            self.too_deep += 1;
            return false;
        }
        // SAFETY: `depth` is inside the mapping.
        unsafe { self.frames.add(self.depth).write(frame) };
        self.depth += 1;
        true
    }

    /// Where the innermost frame of `function` is whose exit has a probe. The frames above it are dead.
    pub fn position_of_function(&mut self, function: u32) -> Option<usize> {
        let at = self.frames().iter().rposition(|f| f.function == function && f.returns_to == 0)?;
        let replaced_above = self.frames()[at + 1..].iter().any(|f| f.returns_to != 0);
        // A live call above it still has to find its return address.
        (!replaced_above).then_some(at)
    }

    /// Where the innermost frame is whose return address was replaced at `slot`. The frames above it are dead.
    pub fn position_of_slot(&mut self, slot: usize) -> Option<usize> {
        self.frames().iter().rposition(|f| f.slot == slot && f.returns_to != 0)
    }

    /// Puts all real return addresses back, where `replaced` stands instead of them.
    pub fn restore_all(&mut self, sp: usize, replaced: usize) {
        self.restored_at = sp;
        // Innermost first: a tail call replaced the same slot twice, the outermost address must stay.
        for frame in self.frames().iter().rev().filter(|f| f.returns_to != 0) {
            // SAFETY: the slot of a frame under way on this thread's own stack, or of a dead one below it, still mapped.
            unsafe {
                if (frame.slot as *const usize).read() == replaced {
                    (frame.slot as *mut usize).write(frame.returns_to);
                }
            }
        }
    }

    /// Writes `replaced` again over the return addresses of all frames, which live.
    pub fn replace_again(&mut self, replaced: usize) {
        self.restored_at = 0;
        for frame in self.frames().iter().filter(|f| f.returns_to != 0) {
            // SAFETY: the frame lies above the stack pointer of this thread's own stack, so it is live.
            unsafe {
                if (frame.slot as *const usize).read() == frame.returns_to {
                    (frame.slot as *mut usize).write(replaced);
                }
            }
        }
    }

    /// Whether a hit at `slot` shows that unwinding is over for now: the real addresses are still on the stack, but the
    /// program runs above the place where unwinding began (the unwinder and what it calls run below).
    #[inline]
    #[must_use]
    pub fn has_landed(&self, slot: usize) -> bool {
        self.restored_at != 0 && slot > self.restored_at
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.depth = 0;
        self.restored_at = 0;
    }
}
