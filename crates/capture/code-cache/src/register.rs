//! Registers as types for the emitter, so that a register, a number of bytes and a mask can't be confused.

/// A general register of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(u8);

impl Gpr {
    pub(crate) const RAX: Self = Self(0);
    pub(crate) const RCX: Self = Self(1);
    pub(crate) const RDX: Self = Self(2);
    pub(crate) const RSP: Self = Self(4);
    pub(crate) const RSI: Self = Self(6);
    pub(crate) const RDI: Self = Self(7);

    /// The register that the processor numbers so; of the number only the lower four bits count.
    pub(crate) const fn numbered(number: u8) -> Self {
        Self(number & 15)
    }

    /// The processor's number of it.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// Its bit in a set of registers.
    pub(crate) const fn bit(self) -> u16 {
        1 << self.0
    }

    /// The lower three bits of its number, which a ModRM or SIB byte has.
    pub(crate) const fn low(self) -> u8 {
        self.0 & 7
    }

    /// The fourth bit of its number, which a prefix has.
    pub(crate) const fn high(self) -> u8 {
        self.0 >> 3
    }

    /// The first register of a set.
    pub(crate) const fn first_of(set: u16) -> Option<Self> {
        if set == 0 { None } else { Some(Self(set.trailing_zeros() as u8)) }
    }
}

/// A mask register of AVX-512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaskRegister(u8);

impl MaskRegister {
    /// The register that the processor numbers so; of the number only the lower three bits count.
    pub(crate) const fn numbered(number: u8) -> Self {
        Self(number & 7)
    }

    /// The processor's number of it.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }
}

/// A register whose value a block keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptRegister {
    General(Gpr),
    Mask(MaskRegister),
}

impl KeptRegister {
    /// The general register's bit in a set; none of a mask register.
    pub(crate) const fn bit(self) -> u16 {
        match self {
            Self::General(register) => register.bit(),
            Self::Mask(_) => 0,
        }
    }
}
