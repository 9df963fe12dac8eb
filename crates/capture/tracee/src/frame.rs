//! The signal frame, as the kernel writes it on x86-64 (arch/x86/include/uapi/asm/sigcontext.h and ucontext.h).

use x86::Registers;

/// A signal stack, as sigaltstack(2) takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// SS_DISABLE, SS_ONSTACK, SS_AUTODISARM.
    pub flags: i32,
    /// Bytes.
    pub size: u64,
}

/// What a handler gets as third argument.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UContext {
    /// UC_FP_XSTATE and others.
    pub flags: u64,
    /// Not used by the kernel.
    pub link: u64,
    /// The signal stack at the time of the signal.
    pub stack: AltStack,
    /// Registers.
    pub gregs: Registers,
    /// cs, gs, fs, ss.
    pub segments: [u16; 4],
    /// Error code of the fault.
    pub error: u64,
    /// Number of the fault.
    pub trap: u64,
    /// Signal mask of the time, as in `mask`.
    pub old_mask: u64,
    /// Address of the fault.
    pub cr2: u64,
    /// Address of the floating point and vector state, or null.
    pub fpstate: u64,
    /// Unused.
    pub reserved: [u64; 8],
    /// The signal mask that the return restores; bit n-1 is signal n.
    pub mask: u64,
}

/// What a handler gets as second argument.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct SigInfo {
    /// The signal.
    pub signo: i32,
    /// errno.
    pub errno: i32,
    /// Where it comes from.
    pub code: i32,
    _pad: i32,
    /// For faults: the address. For others their own fields.
    pub addr: u64,
    _rest: [u64; 13],
}

impl SigInfo {
    /// What the kernel says of a fault at an address.
    pub const fn fault(signo: i32, code: i32, addr: u64) -> Self {
        Self { signo, errno: 0, code, _pad: 0, addr, _rest: [0; 13] }
    }

    /// Of a timer's signal: what its maker gave it.
    pub const fn value(&self) -> u64 {
        // After si_tid and si_overrun, which are in the place of the address.
        self._rest[0]
    }

    /// Of a SIGSYS: whether the call was one by the numbers of 32-bit programs (`int 0x80`).
    pub const fn is_call_of_32_bits(&self) -> bool {
        // si_syscall and si_arch.
        self._rest[0] >> 32 == AUDIT_ARCH_I386
    }
}

/// rt_sigaction(2)'s structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigAction {
    /// SIG_DFL, SIG_IGN or the handler.
    pub handler: u64,
    /// SA_ flags.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: u64,
    /// Signals blocked meanwhile.
    pub mask: u64,
}

/// What the kernel pushes: return address, context, information. The floating point state stands above it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SigFrame {
    /// The restorer.
    pub return_to: u64,
    /// The context.
    pub context: UContext,
    /// The information.
    pub info: SigInfo,
}

const _: () = {
    assert!(size_of::<Registers>() == 144);
    assert!(size_of::<UContext>() == 304);
    assert!(size_of::<SigInfo>() == 128);
    assert!(size_of::<SigFrame>() == 440);
    assert!(core::mem::offset_of!(UContext, gregs) == 40);
    assert!(core::mem::offset_of!(UContext, mask) == 296);
};

/// What the kernel calls the architecture of 32-bit programs.
const AUDIT_ARCH_I386: u64 = 0x4000_0003;

/// What the kernel says in [`UContext::flags`]: there is extended state, and the stack segment is to be restored.
pub const CONTEXT_FLAGS: u64 = 7;
/// The segments of 64-bit programs: cs, gs, fs, ss.
pub const SEGMENTS: [u16; 4] = [0x33, 0, 0, 0x2b];

/// Offset of the kernel's own words (`struct _fpx_sw_bytes`) in the floating point state.
const SW_BYTES_AT: u64 = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;

/// The kernel's own words in the floating point state.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct StateWords {
    magic: u32,
    /// With the magic word after it.
    extended: u32,
    parts: u64,
    bytes: u32,
}

/// What of the processor's extended state is in a frame, and how long it is without the magic word after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameState {
    /// The parts, a bit each, as in XCR0.
    pub parts: u64,
    /// Bytes.
    pub bytes: u32,
}

impl FrameState {
    /// What is at `fpstate`; `None` where it is not extended.
    ///
    /// # Safety
    /// `fpstate` is null or the address that a signal frame gives.
    pub unsafe fn of(fpstate: u64) -> Option<Self> {
        if fpstate == 0 {
            return None;
        }
        // SAFETY: the legacy area is 512 bytes, and these words lie inside.
        let words = unsafe { ((fpstate + SW_BYTES_AT) as *const StateWords).read_unaligned() };
        (words.magic == FP_XSTATE_MAGIC1).then_some(Self { parts: words.parts, bytes: words.bytes })
    }

    /// Says so in a state.
    pub fn write(&self, state: &mut [u8]) {
        let Self { parts, bytes } = *self;
        let extended = bytes + size_of::<u32>() as u32;
        let words = [u64::from(FP_XSTATE_MAGIC1) | u64::from(extended) << 32, parts, bytes.into()];
        let at = SW_BYTES_AT as usize;
        for (place, word) in state.get_mut(at..).unwrap_or(&mut []).chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        if let Some(place) = state.get_mut(bytes as usize..extended as usize) {
            place.copy_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
        }
    }
}

/// Bytes of the floating point state at `fpstate`, with the magic word after it.
///
/// # Safety
/// `fpstate` is null or the address that a signal frame gives.
pub unsafe fn fpstate_bytes(fpstate: u64) -> u64 {
    if fpstate == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let state = unsafe { FrameState::of(fpstate) };
    state.map_or(512, |state| u64::from(state.bytes) + size_of::<u32>() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_state_is_read_again() {
        let mut bytes = [0u64; 400];
        let state = FrameState { parts: 0x2e7, bytes: 2696 };
        // SAFETY: zeros, of sufficient length.
        assert_eq!(unsafe { FrameState::of(bytes.as_ptr() as u64) }, None);
        // SAFETY: words as bytes.
        let all = unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<u8>(), 3200) };
        state.write(all);
        assert_eq!(all[2696..2700], 0x4650_5845_u32.to_le_bytes());
        // SAFETY: the state has just been written there.
        unsafe {
            assert_eq!(FrameState::of(bytes.as_ptr() as u64), Some(state));
            assert_eq!(fpstate_bytes(bytes.as_ptr() as u64), 2700);
            assert_eq!(fpstate_bytes(0), 0);
        }
    }
}
