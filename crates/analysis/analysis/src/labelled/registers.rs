//! The labels of a thread's registers.

use x86::{RegisterBytes, RegisterKind};

use super::labels::Label;

const GENERAL: usize = 16;
const GENERAL_BYTES: usize = 8;
const VECTORS: usize = 32;
/// The most bytes of one value.
pub(crate) const VALUE_BYTES: usize = 64;
/// Registers of other kinds, which have one label each.
const OTHERS: usize = RegisterKind::COUNT - GENERAL - VECTORS;
/// The general registers that a function may change and need not restore: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CALLER_SAVED: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// Labels of a value, byte by byte.
pub(crate) type ByteLabels = [Label; VALUE_BYTES];
/// Those of a value that is not tainted.
pub(crate) const CLEAN: ByteLabels = [0; VALUE_BYTES];

/// Some registers, a bit for each by its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegisterSet(u128);

impl RegisterSet {
    /// Adds one.
    pub(crate) const fn add(&mut self, register: RegisterKind) {
        self.0 |= 1 << register.index();
    }

    /// Adds those of another set.
    pub(crate) const fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The labels of a thread's registers.
#[derive(Clone, Debug)]
pub(crate) struct RegisterLabels {
    general: [[Label; GENERAL_BYTES]; GENERAL],
    vector: Box<[[Label; VALUE_BYTES]; VECTORS]>,
    others: [Label; OTHERS],
    /// A bit for each register that has a label, by its index.
    tainted: u128,
}

impl Default for RegisterLabels {
    fn default() -> Self {
        Self {
            general: [[0; GENERAL_BYTES]; GENERAL],
            vector: Box::new([[0; VALUE_BYTES]; VECTORS]),
            others: [0; OTHERS],
            tainted: 0,
        }
    }
}

/// The first label of a value.
pub(crate) fn first(value: &[Label]) -> Label {
    value.iter().copied().find(|&label| label != 0).unwrap_or(0)
}

impl RegisterLabels {
    /// Whether no register has a label.
    #[inline]
    pub(crate) fn are_clean(&self) -> bool {
        self.tainted == 0
    }

    /// Whether one of these has a label.
    #[inline]
    pub(crate) const fn has_any(&self, of: RegisterSet) -> bool {
        self.tainted & of.0 != 0
    }

    /// No register has one any more.
    pub(crate) fn clear(&mut self) {
        if self.tainted != 0 {
            *self = Self::default();
        }
    }

    /// The labels of a register's bytes; a register of another kind than general and vector has its one in each.
    pub(crate) fn get(&self, bytes: RegisterBytes) -> ByteLabels {
        let mut value = CLEAN;
        let (index, first, len) = (bytes.register.index(), usize::from(bytes.first), usize::from(bytes.len));
        if self.tainted >> index & 1 == 0 {
            return value;
        }
        match index {
            0..16 => value[..len].copy_from_slice(&self.general[index][first..first + len]),
            16..48 => value[..len].copy_from_slice(&self.vector[index - 16][first..first + len]),
            _ => value[..len].fill(self.others[index - 48]),
        }
        value
    }

    /// The first label of a register's bytes.
    pub(crate) fn label(&self, bytes: RegisterBytes) -> Label {
        first(&self.get(bytes))
    }

    /// Writes a register's bytes; those after them, up to `zero_to`, are cleared.
    pub(crate) fn set(&mut self, bytes: RegisterBytes, zero_to: u8, value: &ByteLabels) {
        let (index, from, len) = (bytes.register.index(), usize::from(bytes.first), usize::from(bytes.len));
        if self.tainted >> index & 1 == 0 && value[..len].iter().all(|&label| label == 0) {
            return;
        }
        let own: &mut [Label] = match index {
            0..16 => &mut self.general[index],
            16..48 => &mut self.vector[index - 16],
            _ => {
                let own = &mut self.others[index - 48];
                *own = first(&value[..len]);
                self.tainted = self.tainted & !(1 << index) | u128::from(*own != 0) << index;
                return;
            }
        };
        own[from..from + len].copy_from_slice(&value[..len]);
        if let Some(above) = own.get_mut(from + len..zero_to.into()) {
            above.fill(0);
        }
        let any = own.iter().any(|&label| label != 0);
        self.tainted = self.tainted & !(1 << index) | u128::from(any) << index;
    }

    /// What a call may have changed and did not say: caller-saved registers hold nothing that is known.
    pub(crate) fn after_unseen_call(&mut self) {
        for number in CALLER_SAVED {
            self.set(RegisterBytes::general(number), 8, &CLEAN);
        }
        if self.tainted >> GENERAL != 0 {
            *self.vector = [[0; VALUE_BYTES]; VECTORS];
            self.others = [0; OTHERS];
            self.tainted &= (1 << GENERAL) - 1;
        }
    }

    /// Takes over what another set has that this one has not.
    pub(crate) fn join(&mut self, other: &Self) {
        let add = |to: &mut [Label], from: &[Label]| {
            for (to, &from) in to.iter_mut().zip(from) {
                if *to == 0 {
                    *to = from;
                }
            }
        };
        self.general.iter_mut().zip(&other.general).for_each(|(to, from)| add(to, from));
        self.vector.iter_mut().zip(other.vector.iter()).for_each(|(to, from)| add(to, from));
        add(&mut self.others, &other.others);
        self.tainted |= other.tainted;
    }
}
