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

/// Offset of the kernel's own words (`struct _fpx_sw_bytes`) in the floating point state.
const SW_BYTES_AT: u64 = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;

/// Bytes of the floating point state at `fpstate`, with the magic word after it.
///
/// # Safety
/// `fpstate` is null or the address that a signal frame gives.
pub unsafe fn fpstate_bytes(fpstate: u64) -> u64 {
    if fpstate == 0 {
        return 0;
    }
    // SAFETY: the legacy area is 512 bytes, and these two words lie inside.
    let (magic, extended) = unsafe {
        let words = (fpstate + SW_BYTES_AT) as *const u32;
        (words.read_unaligned(), words.add(1).read_unaligned())
    };
    if magic == FP_XSTATE_MAGIC1 { u64::from(extended) } else { 512 }
}
