//! Physical memory: frames in linked lists, so that a whole list is released in constant time (section IV-A1).

use crate::{Error, FrameNumber, WordStore};

/// No frame.
const END: u32 = u32::MAX;

/// A list of frames. The links form a circle and the list is known by its last frame, so that two lists are joined by
/// swapping two links, and no second pointer has to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameList {
    /// The last frame; its link leads to the first.
    pub last: FrameNumber,
}

/// The frames that all address spaces share.
#[derive(Clone, Debug)]
pub struct PhysicalMemory<S> {
    /// The frame after each in its list.
    next: S,
    /// The last frame of the circle of released frames, or `END`.
    free: u32,
    /// Released frames in the circle.
    released: u32,
    /// Frames from here on were never in use, so that no list of all frames has to be made at the start.
    fresh: u32,
    frames: u32,
}

impl<S: WordStore<u32>> PhysicalMemory<S> {
    /// As many frames as the store has words, of any content.
    ///
    /// # Panics
    /// Where there are 2^32 - 1 or more.
    pub fn new(next: S) -> Self {
        assert!(next.len() < END as usize, "frames are numbered in 32 bits");
        let frames = next.len() as u32;
        Self { next, free: END, released: 0, fresh: 0, frames }
    }

    /// Frames there are.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Frames in use.
    pub fn used(&self) -> u32 {
        self.fresh - self.released
    }

    /// Frames that are free.
    pub fn free(&self) -> u32 {
        self.frames - self.used()
    }

    /// Takes a free frame.
    ///
    /// # Errors
    /// Where none is free.
    #[inline]
    pub fn take(&mut self) -> Result<FrameNumber, Error> {
        if self.free != END {
            let first = self.next.load(self.free as usize);
            if first == self.free {
                self.free = END;
            } else {
                let second = self.next.load(first as usize);
                self.next.store(self.free as usize, second);
            }
            self.released -= 1;
            return Ok(FrameNumber(first));
        }
        if self.fresh == self.frames {
            return Err(Error::OutOfFrames);
        }
        self.fresh += 1;
        Ok(FrameNumber(self.fresh - 1))
    }

    /// A list of one frame.
    #[inline]
    pub fn list_of(&mut self, frame: FrameNumber) -> FrameList {
        self.next.store(frame.0 as usize, frame.0);
        FrameList { last: frame }
    }

    /// Puts a frame at the head of a list.
    #[inline]
    pub fn push(&mut self, list: FrameList, frame: FrameNumber) {
        let first = self.next.load(list.last.0 as usize);
        self.next.store(frame.0 as usize, first);
        self.next.store(list.last.0 as usize, frame.0);
    }

    /// Releases a whole list of `len` frames, in constant time: they are free for everyone when this returns.
    #[inline]
    pub fn release(&mut self, list: FrameList, len: u32) {
        if self.free != END {
            let first = self.next.load(list.last.0 as usize);
            let free_first = self.next.load(self.free as usize);
            self.next.store(list.last.0 as usize, free_first);
            self.next.store(self.free as usize, first);
        } else {
            self.free = list.last.0;
        }
        self.released += len;
    }

    /// Releases one frame.
    #[inline]
    pub fn release_one(&mut self, frame: FrameNumber) {
        if self.free == END {
            let list = self.list_of(frame);
            self.free = list.last.0;
        } else {
            self.push(FrameList { last: FrameNumber(self.free) }, frame);
        }
        self.released += 1;
    }

    /// The frames of a list, first to last.
    pub fn iter(&self, list: FrameList) -> impl Iterator<Item = FrameNumber> + '_ {
        let mut at = Some(self.next.load(list.last.0 as usize));
        core::iter::from_fn(move || {
            let frame = at?;
            at = (frame != list.last.0).then(|| self.next.load(frame as usize));
            Some(FrameNumber(frame))
        })
    }
}
