//! How much of its area an instruction accesses that saves or restores the processor's state in parts (xsave and
//! its relatives). This follows from what the system enables and from what the program requests in edx and eax.
//!
//! A state that is restored is assumed to be in the standard form: its own header would tell, but it is not read here.

use core::arch::x86_64::{__cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU64, Ordering};

use iced_x86::{Instruction, Mnemonic};

use crate::registers::Registers;

/// The legacy area and the header.
const FIRST_BYTES: u32 = 576;
const PARTS: usize = 63;

/// Bytes that the instruction accesses; `None` where it is none of these.
pub(crate) fn bytes(instruction: &Instruction, regs: &Registers) -> Option<u32> {
    let compact = match instruction.mnemonic() {
        Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64
        | Mnemonic::Xrstor
        | Mnemonic::Xrstor64 => false,
        Mnemonic::Xsavec | Mnemonic::Xsavec64 => true,
        _ => return None,
    };
    if !has_xsave() {
        return None;
    }
    // SAFETY: the processor and the system have the instruction.
    let enabled = unsafe { _xgetbv(0) };
    let asked = enabled & (regs.rdx << 32 | regs.rax & 0xffff_ffff);
    let mut end = FIRST_BYTES;
    for part in (2..PARTS).filter(|part| asked >> part & 1 != 0) {
        let StateComponent { start, len, aligned } = StateComponent::of_processor(part);
        end = match compact {
            true if aligned => end.next_multiple_of(64) + len,
            true => end + len,
            false => end.max(start + len),
        };
    }
    Some(end)
}

/// Whether the system lets programs use xsave.
fn has_xsave() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    __cpuid_count(1, 0).ecx & OSXSAVE != 0
}

/// A part of the state: where it is in the standard form, its length, and whether it is aligned to 64 in the compact one.
#[derive(Clone, Copy)]
struct StateComponent {
    start: u32,
    len: u32,
    aligned: bool,
}

impl StateComponent {
    /// As the processor says. It is asked once, which under a hypervisor takes long.
    fn of_processor(part: usize) -> Self {
        const KNOWN: u64 = 1 << 63;
        const ALIGNED: u64 = 1 << 62;
        static ANSWERS: [AtomicU64; PARTS] = [const { AtomicU64::new(0) }; PARTS];
        let place = ANSWERS.get(part);
        let mut answer = place.map_or(0, |place| place.load(Ordering::Relaxed));
        if answer == 0 {
            let leaf = __cpuid_count(0xd, part as u32);
            let aligned = if leaf.ecx & 2 != 0 { ALIGNED } else { 0 };
            answer =
                KNOWN | aligned | u64::from(leaf.ebx & 0xff_ffff) << 24 | u64::from(leaf.eax & 0xff_ffff);
            if let Some(place) = place {
                place.store(answer, Ordering::Relaxed);
            }
        }
        Self {
            start: (answer >> 24) as u32 & 0xff_ffff,
            len: answer as u32 & 0xff_ffff,
            aligned: answer & ALIGNED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};
    use std::vec;

    /// Bytes of the area that the instruction `code` of `[rdi]` is said to access with that mask.
    fn said(code: &[u8], mask: u64) -> u32 {
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        let regs = Registers { rax: mask & 0xffff_ffff, rdx: mask >> 32, ..Default::default() };
        bytes(&instruction, &regs).expect("an instruction that saves the state")
    }

    #[test]
    fn xsave_stores_what_is_said_and_nothing_after_it() {
        let xsave64 = [0x48, 0x0f, 0xae, 0x27];
        for mask in [1, 3, 7, 0xe7, 0x2ff] {
            let mut area = vec![0xaau8; 16 << 10];
            let start = area.as_ptr().align_offset(64);
            let len = said(&xsave64, mask) as usize;
            // SAFETY: the area is aligned, and larger than any state.
            unsafe {
                core::arch::asm!("xsave64 [rdi]", in("rdi") area.as_mut_ptr().add(start), in("eax") mask as u32,
                    in("edx") 0);
            }
            assert!(area[start + len..].iter().all(|&byte| byte == 0xaa), "mask {mask:#x}, {len} bytes");
            assert!(len >= 576);
        }
    }

    #[test]
    fn the_compact_form_has_no_holes() {
        let xsavec64 = [0x48, 0x0f, 0xc7, 0x27];
        assert_eq!(said(&xsavec64, 3), 576);
        assert!(said(&xsavec64, 0x204) <= said(&[0x48, 0x0f, 0xae, 0x27], 0x204));
        assert_eq!(
            bytes(&Decoder::new(64, &[0x90], DecoderOptions::NONE).decode(), &Registers::default()),
            None
        );
    }
}
