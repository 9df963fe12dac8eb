//! Callpatch (section 6): switches a five-byte call on and off with a single store, wherever it lies.
//!
//! The default encoding changes one byte: `E8` (call) to `A9` (`test eax, imm32`), which skips the displacement as
//! its operand. It needs dead flags at the site, which is the case at function entries and wherever the call itself
//! was. The paper's encodings depend on the split instead and preserve the flags. No barrier and no wait is ever
//! needed, because every store changes one line only; the change becomes visible eventually, as section 6 says.

use crate::{
    CALL_REL32, NOP5, TEST_EAX_IMM32,
    error::{CodeAddr, PatchError, Refusal},
    near,
    site::Site,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a call is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `E8 <-> A9`: one byte, every split; the flags must be dead.
    OneByte,
    /// The paper's: inside a line a five-byte nop; split 1|4 a call of a `ret` nearby; the other splits a two-byte jump
    /// over the rest.
    Paper,
}

/// A call that can be switched. Copying it copies the handle, not the site.
#[derive(Clone, Copy)]
pub struct CallSite {
    site: Site,
    /// The bytes of the active call.
    on: u64,
    /// The bytes of the inactive one.
    off: u64,
    /// The bytes that differ, as offsets; all in one line.
    low: u8,
    high: u8,
}

/// The `ret` allocated last, so that sites near each other share one; 0: none yet.
static LAST_RET: AtomicUsize = AtomicUsize::new(0);

impl CallSite {
    /// Describes the call at `addr` to `target`, whatever of call, `test` or nop stands there, and leaves it inactive.
    /// The displacement is written once here; a site that straddles may cost barriers for that.
    ///
    /// # Safety
    /// At `addr` stands one instruction of five bytes that may be replaced by a call of `target` and by nothing; for
    /// [`Encoding::OneByte`] the flags are dead there.
    pub unsafe fn prepare(addr: CodeAddr, target: CodeAddr, encoding: Encoding) -> Result<Self, PatchError> {
        let call = Self::describe(addr, target, encoding)?;
        // SAFETY: passed on to the caller; `off` has no effect but on the flags.
        unsafe { call.site.patch(call.off)? };
        Ok(call)
    }

    /// As [`Self::prepare`], but writes nothing: returns the site and the bytes that must be patched in before it may
    /// be switched, so that many sites can be prepared by one [`crate::patch_all`].
    pub fn describe(addr: CodeAddr, target: CodeAddr, encoding: Encoding) -> Result<Self, PatchError> {
        let site = Site::open(addr, 5)?;
        let displacement = displacement(addr, target)?;
        let on = u64::from(CALL_REL32) | u64::from(displacement) << 8;
        let (off, low, high) = match (encoding, site.split()) {
            (Encoding::OneByte, _) => (u64::from(TEST_EAX_IMM32) | u64::from(displacement) << 8, 0, 1),
            (Encoding::Paper, None) => (nop5(), 0, 5),
            (Encoding::Paper, Some(1)) => {
                let ret = ret_near(addr)?;
                let displacement = self::displacement(addr, ret)?;
                (u64::from(CALL_REL32) | u64::from(displacement) << 8, 1, 5)
            }
            // jmp +3: over the three bytes that stay.
            (Encoding::Paper, Some(_)) => (on & !0xffff | 0x03eb, 0, 2),
        };
        Ok(Self { site, on, off, low, high })
    }

    /// The bytes of the inactive call, to be patched in first.
    #[must_use]
    pub fn inactive_bytes(&self) -> u64 {
        self.off
    }

    /// The bytes of the active call.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        self.on
    }

    /// The site.
    #[must_use]
    pub fn site(&self) -> Site {
        self.site
    }

    /// Whether the call is switched on.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.site.bytes() == self.on
    }

    /// Switches the call on with one store. Switching on an active call changes nothing.
    #[inline]
    pub fn activate(&self) -> Result<(), PatchError> {
        self.site.store_part(usize::from(self.low), usize::from(self.high), self.on)
    }

    /// Switches the call off with one store.
    #[inline]
    pub fn deactivate(&self) -> Result<(), PatchError> {
        self.site.store_part(usize::from(self.low), usize::from(self.high), self.off)
    }
}

fn nop5() -> u64 {
    NOP5.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The displacement of a five-byte call or jump at `addr` to `target`.
pub fn displacement(addr: CodeAddr, target: CodeAddr) -> Result<u32, PatchError> {
    let delta = (target.0 as i64).wrapping_sub(addr.0 as i64 + 5);
    i32::try_from(delta)
        .map(|d| d as u32)
        .map_err(|_| PatchError::new(addr, Refusal::OutOfReach { target: target.0 }))
}

/// A `ret` within reach: the paper's degenerate trampoline, shared by the sites around it.
fn ret_near(addr: CodeAddr) -> Result<CodeAddr, PatchError> {
    let known = CodeAddr(LAST_RET.load(Ordering::Acquire));
    if known.0 != 0 && displacement(addr, known).is_ok() {
        return Ok(known);
    }
    let place =
        near::allocate_near(addr.0, 1).ok_or(PatchError::new(addr, Refusal::OutOfReach { target: 0 }))?;
    // SAFETY: one byte of a fresh writable chunk.
    unsafe { (place as *mut u8).write(RET) };
    LAST_RET.store(place, Ordering::Release);
    Ok(CodeAddr(place))
}

const RET: u8 = 0xc3;
