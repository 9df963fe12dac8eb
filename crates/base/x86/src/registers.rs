//! The general registers of a program, in the order in which the kernel saves them (struct sigcontext).

/// Saved registers: the part of a signal frame that a handler finds in `uc_mcontext.gregs`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Registers {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub rflags: u64,
}

/// Where the flags are.
pub(crate) const FLAGS_AT: u32 = 17 * 8;
/// No register.
pub(crate) const NONE: u8 = 0xff;

/// Index in the saved registers of the processor's register number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6,
/// rdi 7, r8..r15).
const SAVED: [u8; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

/// Byte offset of a register in the saved ones.
pub(crate) const fn offset(number: u8) -> u32 {
    SAVED[(number & 15) as usize] as u32 * 8
}

impl Registers {
    /// The register of that processor's number.
    #[inline]
    pub fn get(&self, number: u8) -> u64 {
        let words: &[u64; 18] = self.words();
        words[SAVED[usize::from(number & 15)] as usize]
    }

    /// Sets all 64 bits.
    #[inline]
    pub(crate) fn set(&mut self, number: u8, value: u64) {
        // SAFETY: `Registers` is 18 words in `repr(C)`.
        let words = unsafe { &mut *(&raw mut *self).cast::<[u64; 18]>() };
        words[SAVED[usize::from(number & 15)] as usize] = value;
    }

    /// Sets the register of that processor's number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8..r15).
    pub fn set_number(&mut self, number: u8, value: u64) {
        self.set(number, value);
    }

    /// In the order of the fields, as they are told to another process.
    #[must_use]
    pub const fn words(&self) -> &[u64; 18] {
        // SAFETY: `Registers` is 18 words in `repr(C)`.
        unsafe { &*(&raw const *self).cast() }
    }

    /// From words in the order of the fields.
    #[must_use]
    pub const fn from_words(words: [u64; 18]) -> Self {
        let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags] =
            words;
        Self { r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags }
    }

    /// Sets a register as an instruction of that operand size does: 4 bytes clear the upper half.
    #[inline]
    pub(crate) fn set_sized(&mut self, number: u8, value: u64, bytes: u32) {
        let merged = match bytes {
            8 => value,
            4 => value & 0xffff_ffff,
            2 => self.get(number) & !0xffff | value & 0xffff,
            _ => self.get(number) & !0xff | value & 0xff,
        };
        self.set(number, merged);
    }
}
