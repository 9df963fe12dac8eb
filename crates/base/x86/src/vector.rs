//! Masks and vector indices: which elements an instruction accesses, according to the saved vector state.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Elements that one instruction can access.
pub(crate) const MAX_ELEMENTS: usize = 64;
const LEGACY_XMM_AT: usize = 160;
const STATE_BV_AT: usize = 512;

/// Where the components of the standard form are, as the processor says (CPUID leaf 0xD).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Components {
    ymm_high: usize,
    masks: usize,
    zmm_high: usize,
    zmm_upper: usize,
}

impl Components {
    pub(crate) fn of_processor() -> Self {
        let at = |component: u32| core::arch::x86_64::__cpuid_count(0xd, component).ebx as usize;
        Self { ymm_high: at(2), masks: at(5), zmm_high: at(6), zmm_upper: at(7) }
    }

    /// A word of 64 bits of the state; zero where its component is in its initial state.
    unsafe fn word(self, state: *const u8, component: u32, at: usize) -> u64 {
        if state.is_null() {
            return 0;
        }
        // SAFETY: the caller vouches for a state in the standard form, and the processor for its layout.
        unsafe {
            let present = state.add(STATE_BV_AT).cast::<u64>().read_unaligned();
            if present >> component & 1 == 0 { 0 } else { state.add(at).cast::<u64>().read_unaligned() }
        }
    }

    /// A mask register.
    pub(crate) unsafe fn mask(self, state: *const u8, number: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.word(state, 5, self.masks + number * 8) }
    }

    /// An element of a vector register.
    pub(crate) unsafe fn element(self, state: *const u8, register: usize, index: usize, bytes: usize) -> u64 {
        let at = index * bytes;
        let word = at & !7;
        let (component, place) = match (register, word) {
            (16.., _) => (7, self.zmm_upper + (register - 16) * 64 + word),
            (_, 0..16) => (1, LEGACY_XMM_AT + register * 16 + word),
            (_, 16..32) => (2, self.ymm_high + register * 16 + word - 16),
            _ => (6, self.zmm_high + register * 32 + word - 32),
        };
        // SAFETY: the caller's promise.
        let value = unsafe { self.word(state, component, place) };
        let shifted = value >> ((at & 7) * 8);
        if bytes == 8 { shifted } else { shifted & ((1 << (bytes * 8)) - 1) }
    }
}

/// What decides which elements are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Those whose bit in a mask register is set.
    Mask(u8),
    /// As many as bits are set, one after the other.
    Packed(u8),
    /// All of one, if any bit is set.
    Any(u8),
    /// Those whose highest bit in a vector register is set.
    Signs(u8),
}

/// The elements of a vector access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    pub(crate) chosen: Chosen,
    /// Bytes of an element.
    pub(crate) bytes: u8,
    pub(crate) count: u8,
    /// The vector register of a gather's or scatter's indices, and their bytes; 0xff: elements stand in a row.
    pub(crate) index: u8,
    pub(crate) index_bytes: u8,
}

impl Elements {
    /// The elements of an instruction with one memory operand; `None` where it has no mask.
    pub(crate) fn of(instruction: &Instruction) -> Option<Self> {
        let size = instruction.memory_size();
        let bytes = if instruction.is_vsib() { size.size() } else { size.element_size() };
        let mask = instruction.op_mask();
        let k = (mask != Register::None).then(|| mask.number() as u8);
        if instruction.is_vsib() {
            return Self::gather(instruction, k, bytes);
        }
        let count = size.size().checked_div(bytes)?;
        let mut elements = Self {
            chosen: Chosen::Mask(0),
            bytes: bytes as u8,
            count: count as u8,
            index: 0xff,
            index_bytes: 0,
        };
        elements.chosen = match (k, vector_mask(instruction)) {
            (Some(k), _) if instruction.is_broadcast() => Chosen::Any(k),
            (Some(k), _) if is_packed(instruction.mnemonic()) => Chosen::Packed(k),
            (Some(k), _) => Chosen::Mask(k),
            (None, Some(register)) => Chosen::Signs(register),
            (None, None) => return None,
        };
        if matches!(elements.chosen, Chosen::Any(_)) {
            elements.count = 1;
        }
        (count <= MAX_ELEMENTS).then_some(elements)
    }

    fn gather(instruction: &Instruction, k: Option<u8>, bytes: usize) -> Option<Self> {
        let index = instruction.memory_index();
        let index_bytes = if instruction.is_vsib64() { 8 } else { 4 };
        let data = (0..instruction.op_count())
            .find(|&op| instruction.op_kind(op) == OpKind::Register)
            .map(|op| instruction.op_register(op))?;
        let count = (index.size() / index_bytes).min(data.size() / bytes);
        let chosen = match k {
            Some(k) => Chosen::Mask(k),
            None => Chosen::Signs(instruction.op2_register().number() as u8),
        };
        Some(Self {
            chosen,
            bytes: bytes as u8,
            count: count as u8,
            index: index.number() as u8,
            index_bytes: index_bytes as u8,
        })
    }

    /// Whether it is a gather or scatter.
    pub(crate) fn is_gather(&self) -> bool {
        self.index != 0xff
    }

    /// Bits of the elements that are accessed.
    pub(crate) unsafe fn enabled(&self, components: Components, state: *const u8) -> u64 {
        let count = u32::from(self.count);
        let all = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        // SAFETY: the caller vouches for the state.
        unsafe {
            match self.chosen {
                Chosen::Mask(k) => components.mask(state, k.into()) & all,
                Chosen::Any(k) => u64::from(components.mask(state, k.into()) != 0),
                Chosen::Packed(k) => {
                    let set = (components.mask(state, k.into()) & all).count_ones();
                    if set >= 64 { u64::MAX } else { (1 << set) - 1 }
                }
                Chosen::Signs(register) => {
                    let bytes = usize::from(self.bytes);
                    (0..usize::from(self.count)).fold(0, |bits, index| {
                        let element = components.element(state, register.into(), index, bytes);
                        bits | (element >> (bytes * 8 - 1) & 1) << index
                    })
                }
            }
        }
    }

    /// What an element's place is from the operand's base: its index scaled, or its position.
    pub(crate) unsafe fn displacement(
        &self,
        components: Components,
        state: *const u8,
        element: usize,
        scale: u8,
    ) -> u64 {
        if !self.is_gather() {
            return element as u64 * u64::from(self.bytes);
        }
        let bytes = usize::from(self.index_bytes);
        // SAFETY: the caller vouches for the state.
        let index = unsafe { components.element(state, self.index.into(), element, bytes) };
        let index = if bytes == 4 { i64::from(index as i32) as u64 } else { index };
        index.wrapping_mul(scale.into())
    }
}

/// The register whose signs are the mask of an AVX masked move.
fn vector_mask(instruction: &Instruction) -> Option<u8> {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq
    )
    .then(|| instruction.op1_register().number() as u8)
}

/// Instructions whose memory holds only the chosen elements, without gaps.
pub(crate) fn is_packed(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Vcompressps
            | M::Vcompresspd
            | M::Vpcompressb
            | M::Vpcompressw
            | M::Vpcompressd
            | M::Vpcompressq
            | M::Vexpandps
            | M::Vexpandpd
            | M::Vpexpandb
            | M::Vpexpandw
            | M::Vpexpandd
            | M::Vpexpandq
    )
}
