//! The state machine of one site: who may write it, and how far a straddling patch has come.
//!
//! The states are those of the paper's Figures 6 and 7, with the lock made part of them. No thread ever waits for the lock: a
//! claim that finds the site taken is refused, so exactly one of several concurrent patches wins and no thread blocks. A patch
//! that is started and then forgotten is finished by any caller of [`Protocol::advance`]; the trap handler calls it after a while.
//!
//! The machine touches code only through [`Code`], so that loom can check it against a model of instruction fetch.

use crate::sync::{AtomicU32, Ordering};

/// The steps of a straddling patch, as the machine sees them.
pub trait Code {
    /// Puts the guard (an `int3`, or a jump to itself) on the first bytes.
    fn write_guard(&self);
    /// Writes all bytes after the guard.
    fn write_tail(&self);
    /// Replaces the guard by the first bytes of the new instruction.
    fn write_head(&self);
    /// Returns when no core executes what stood there before; `false`: not yet, ask again.
    fn separate(&self) -> bool;
}

/// How far a patch has come (Figure 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The guard is written; threads that arrive wait.
    FirstWait,
    /// The part after the guard is written.
    SecondWait,
    /// The patch is complete, or none is under way.
    Finished,
}

/// Why a claim was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Another patch holds the site.
    Busy,
    /// The site's code was unloaded.
    Gone,
}

const IDLE: u32 = 0;
/// Held by the thread that patches at once, or that starts a patch.
const CLAIMED: u32 = 1;
const FIRST_WAIT: u32 = 2;
/// Held by the thread that moves a started patch on.
const ADVANCING: u32 = 3;
const SECOND_WAIT: u32 = 4;
const GONE: u32 = 5;
/// The bits of the state; above them claims are counted, so that two looks can tell whether a patch was in between.
const STATE: u32 = 7;
const CLAIM: u32 = STATE + 1;

/// The state of one site.
pub struct Protocol {
    /// Written by whoever holds the site; acquire on taking it, release on giving it on, so that the holder sees all
    /// that earlier holders stored.
    word: AtomicU32,
}

impl Protocol {
    /// A site that nobody patches.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU32::new(IDLE) }
    }

    /// Takes the site.
    #[inline]
    pub fn claim(&self) -> Result<(), Taken> {
        let seen = self.word.load(Ordering::Relaxed);
        match seen & STATE {
            IDLE => {}
            GONE => return Err(Taken::Gone),
            _ => return Err(Taken::Busy),
        }
        let claimed = (seen & !STATE).wrapping_add(CLAIM) | CLAIMED;
        match self.word.compare_exchange(seen, claimed, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(found) if found & STATE == GONE => Err(Taken::Gone),
            Err(_) => Err(Taken::Busy),
        }
    }

    /// Goes on to another state; only for the holder, nobody else writes meanwhile.
    #[inline]
    fn pass_on(&self, state: u32) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word & !STATE | state, Ordering::Release);
    }

    /// Gives a claimed site back.
    #[inline]
    pub fn release(&self) {
        self.pass_on(IDLE);
    }

    /// Whether someone holds the site or a patch of it is under way.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !matches!(self.word.load(Ordering::Acquire) & STATE, IDLE | GONE)
    }

    /// Whether what `guard_stands` sees cannot be the guard of a patch: no patch was under way at any moment of the look.
    pub fn is_foreign(&self, guard_stands: impl Fn() -> bool) -> bool {
        let before = self.word.load(Ordering::Acquire);
        matches!(before & STATE, IDLE | GONE) && guard_stands() && self.word.load(Ordering::Acquire) == before
    }

    /// Whether the site was given up for good.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == GONE
    }

    /// Gives the site up for good, a started patch of it too; `false` while someone holds it.
    pub fn retire(&self) -> bool {
        let mut seen = self.word.load(Ordering::Acquire);
        while matches!(seen & STATE, IDLE | FIRST_WAIT | SECOND_WAIT) {
            let gone = seen & !STATE | GONE;
            match self.word.compare_exchange(seen, gone, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => seen = found,
            }
        }
        false
    }

    /// Makes all steps of a claimed site at once and gives it back (Figure 4).
    pub fn complete(&self, code: &impl Code) {
        code.write_guard();
        while !code.separate() {}
        code.write_tail();
        while !code.separate() {}
        code.write_head();
        self.release();
    }

    /// Guards a claimed site and leaves the rest to [`Self::advance`] (Figure 6).
    pub fn start(&self, code: &impl Code) {
        code.write_guard();
        self.pass_on(FIRST_WAIT);
    }

    /// Moves a started patch on by at most one step (Figure 7). Never blocks on another thread.
    pub fn advance(&self, code: &impl Code) -> Progress {
        let seen = self.word.load(Ordering::Acquire);
        let (first, second) = match seen & STATE {
            FIRST_WAIT => (true, false),
            SECOND_WAIT => (false, true),
            ADVANCING | CLAIMED => return Progress::FirstWait,
            _ => return Progress::Finished,
        };
        let advancing = seen & !STATE | ADVANCING;
        if self.word.compare_exchange(seen, advancing, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return if first { Progress::FirstWait } else { Progress::SecondWait };
        }
        if !code.separate() {
            self.pass_on(seen & STATE);
        } else if first {
            code.write_tail();
            self.pass_on(SECOND_WAIT);
            return Progress::SecondWait;
        } else if second {
            code.write_head();
            self.release();
            return Progress::Finished;
        }
        if first { Progress::FirstWait } else { Progress::SecondWait }
    }
}

impl Default for Protocol {
    fn default() -> Self {
        Self::new()
    }
}
