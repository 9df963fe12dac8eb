//! Registers of all kinds in a single numbering, and runs of their bytes.

use iced_x86::Register;

/// General registers.
const GENERAL: u8 = 16;
/// Vector registers.
const VECTORS: u8 = 32;
/// Registers of each other kind.
const OTHERS: u8 = 8;
const FIRST_MMX: u8 = GENERAL + VECTORS;
const FIRST_X87: u8 = FIRST_MMX + OTHERS;
const FIRST_MASK: u8 = FIRST_X87 + OTHERS;

/// The kind of a register, and its number among those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterKind {
    /// 8 bytes.
    General(u8),
    /// 64 bytes, of which a processor may have less.
    Vector(u8),
    /// 8 bytes. In the processor they are a part of the x87 ones, which is not told here.
    Mmx(u8),
    /// 10 bytes, numbered from the top of their stack as it is before the instruction.
    X87(u8),
    /// 8 bytes.
    Mask(u8),
}

/// A run of a register's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterBytes {
    /// Which register.
    pub register: RegisterKind,
    /// The first byte.
    pub first: u8,
    /// How many.
    pub len: u8,
}

impl RegisterKind {
    /// How many registers there are.
    pub const COUNT: usize = (FIRST_MASK + OTHERS) as usize;

    /// Its number among all registers: first the general ones.
    pub const fn index(self) -> usize {
        (match self {
            Self::General(number) => number,
            Self::Vector(number) => GENERAL + number,
            Self::Mmx(number) => FIRST_MMX + number,
            Self::X87(number) => FIRST_X87 + number,
            Self::Mask(number) => FIRST_MASK + number,
        }) as usize
    }

    /// Its bytes.
    pub const fn len_bytes(self) -> u8 {
        match self {
            Self::General(_) | Self::Mmx(_) | Self::Mask(_) => 8,
            Self::Vector(_) => 64,
            Self::X87(_) => 10,
        }
    }
}

impl RegisterBytes {
    /// All of a general register.
    pub const fn general(number: u8) -> Self {
        Self { register: RegisterKind::General(number), first: 0, len: 8 }
    }

    /// The first ones, at most `len`.
    pub(crate) fn cut(self, len: usize) -> Self {
        Self { len: self.len.min(len as u8), ..self }
    }

    /// What the decoder's name of a register stands for; `None` for those that hold no data.
    pub(crate) fn of(register: Register) -> Option<Self> {
        let number = register.number() as u8;
        let len = register.size() as u8;
        if register.is_gpr() {
            let is_high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
            let number = register.full_register().number() as u8;
            return Some(Self { register: RegisterKind::General(number), first: u8::from(is_high), len });
        }
        let register = match register {
            _ if register.is_vector_register() => {
                return Some(Self { register: RegisterKind::Vector(number), first: 0, len });
            }
            _ if register.is_mm() => RegisterKind::Mmx(number),
            _ if register.is_st() => RegisterKind::X87(number),
            _ if register.is_k() => RegisterKind::Mask(number),
            _ => return None,
        };
        Some(Self { register, first: 0, len: register.len_bytes() })
    }
}

/// The name of a general register of 64 bits.
pub fn general_name(number: u8) -> &'static str {
    const NAMES: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ];
    NAMES.get(usize::from(number)).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_registers_are_runs_of_their_bytes() {
        let check = |register, kind, first, len| {
            assert_eq!(RegisterBytes::of(register), Some(RegisterBytes { register: kind, first, len }));
        };
        check(Register::AH, RegisterKind::General(0), 1, 1);
        check(Register::SIL, RegisterKind::General(6), 0, 1);
        check(Register::R9D, RegisterKind::General(9), 0, 4);
        check(Register::YMM17, RegisterKind::Vector(17), 0, 32);
        check(Register::K3, RegisterKind::Mask(3), 0, 8);
        check(Register::ST2, RegisterKind::X87(2), 0, 10);
        assert_eq!(RegisterBytes::of(Register::FS), None);
        assert_eq!(RegisterKind::Mask(7).index() + 1, RegisterKind::COUNT);
    }
}
