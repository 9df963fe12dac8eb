//! The arithmetic flags: which an instruction needs, which it may change, which it replaces. From these,
//! the flags that are live before a sequence of instructions follow from those that are live after it.

use iced_x86::{Mnemonic, RflagsBits};

use crate::instruction::Instruction;
use crate::transfer::Transfer;

/// The arithmetic flags in rflags: carry, parity, adjust, zero, sign, overflow.
pub const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// What an instruction does to the arithmetic flags, as bits of rflags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagUse {
    /// Its result, or where it leads, may depend on them.
    pub read: u64,
    /// It may change them.
    pub changed: u64,
    /// It replaces them, whatever they were: by a result, or by something that no program may rely on. Undefined ones that a processor may
    /// leave as they are are none of these.
    pub replaced: u64,
    /// Of the changed ones those whose new value is not defined.
    pub undefined: u64,
}

impl FlagUse {
    /// The flags that are needed before the instruction, where those are needed after it.
    pub fn live_before(&self, after: u64) -> u64 {
        after & !self.replaced | self.read
    }
}

/// The bits of rflags for the decoder's own ones.
fn rflags(bits: u32) -> u64 {
    [
        (RflagsBits::CF, 0),
        (RflagsBits::PF, 2),
        (RflagsBits::AF, 4),
        (RflagsBits::ZF, 6),
        (RflagsBits::SF, 7),
        (RflagsBits::OF, 11),
    ]
    .into_iter()
    .filter(|&(bit, _)| bits & bit != 0)
    .fold(0, |all, (_, place)| all | 1 << place)
}

impl Instruction {
    /// What it does to the arithmetic flags.
    pub fn flags(&self) -> FlagUse {
        let inner = &self.inner;
        // A rotation through the carry by as many bits as there are may change the overflow flag all the same.
        let may_turn = matches!(inner.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
        let turned = if may_turn { rflags(RflagsBits::CF | RflagsBits::OF) } else { 0 };
        let changed = rflags(inner.rflags_modified()) | turned;
        // Executed no times, or with a count of zero, they leave the flags.
        let may_leave = inner.is_string_instruction()
            || matches!(
                inner.mnemonic(),
                Mnemonic::Shl
                    | Mnemonic::Shr
                    | Mnemonic::Sar
                    | Mnemonic::Rol
                    | Mnemonic::Ror
                    | Mnemonic::Rcl
                    | Mnemonic::Rcr
                    | Mnemonic::Shld
                    | Mnemonic::Shrd
            );
        // Of what they leave undefined, AMD's processors leave what was there; programs can see it.
        let kept = match inner.mnemonic() {
            Mnemonic::Mul
            | Mnemonic::Imul
            | Mnemonic::Div
            | Mnemonic::Idiv
            | Mnemonic::Bsf
            | Mnemonic::Bsr
            | Mnemonic::Bt
            | Mnemonic::Btc
            | Mnemonic::Btr
            | Mnemonic::Bts => rflags(inner.rflags_undefined()),
            _ => 0,
        };
        // The kernel is given all of them, and the program can look at what was pushed.
        let reads_all = self.transfer() == Transfer::Syscall
            || matches!(inner.mnemonic(), Mnemonic::Pushf | Mnemonic::Pushfq | Mnemonic::Lahf);
        FlagUse {
            read: if reads_all { ARITHMETIC_FLAGS } else { rflags(inner.rflags_read()) | turned & 1 },
            changed,
            replaced: if may_leave { 0 } else { changed & !kept },
            undefined: rflags(inner.rflags_undefined()) | turned & !1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(bytes: &[u8]) -> FlagUse {
        Instruction::decode(bytes, 0).expect("it is an instruction").flags()
    }

    #[test]
    fn flags_are_live_until_they_are_replaced() {
        // add eax, ecx; mov eax, ecx; inc eax, which leaves the carry; jz; adc eax, ecx
        assert_eq!(flags(&[0x01, 0xc8]).live_before(ARITHMETIC_FLAGS), 0);
        assert_eq!(flags(&[0x89, 0xc8]).live_before(ARITHMETIC_FLAGS), ARITHMETIC_FLAGS);
        assert_eq!(flags(&[0xff, 0xc0]).live_before(ARITHMETIC_FLAGS), 1);
        assert_eq!(flags(&[0x74, 0]).live_before(0), 1 << 6);
        assert_eq!(flags(&[0x11, 0xc8]).live_before(ARITHMETIC_FLAGS), 1);
    }

    #[test]
    fn what_is_undefined_may_be_what_was_there() {
        // imul eax, ecx; mul r11b; div ecx; bt eax, ecx: carry and overflow are replaced, or the carry alone, or nothing.
        let replaced = |bytes| ARITHMETIC_FLAGS & !flags(bytes).live_before(ARITHMETIC_FLAGS);
        assert_eq!(replaced(&[0x0f, 0xaf, 0xc1]), 0x801);
        assert_eq!(replaced(&[0x41, 0xf6, 0xe3]), 0x801);
        assert_eq!(replaced(&[0xf7, 0xf1]), 0);
        assert_eq!(replaced(&[0x0f, 0xa3, 0xc8]), 1);
        // xor eax, eax: every processor clears the adjust flag.
        assert_eq!(replaced(&[0x31, 0xc0]), ARITHMETIC_FLAGS);
    }

    #[test]
    fn what_may_be_executed_no_times_leaves_the_flags() {
        // shl eax, cl; repe cmpsb; syscall; pushfq
        for bytes in [&[0xd3, 0xe0][..], &[0xf3, 0xa6], &[0x0f, 0x05], &[0x9c]] {
            assert_eq!(flags(bytes).live_before(ARITHMETIC_FLAGS), ARITHMETIC_FLAGS, "{bytes:x?}");
        }
    }
}
