//! Finds the call that precedes a return address, from the bytes before that address.
//!
//! Code can't be decoded backwards reliably: the result is a call only if the bytes before the address are an instruction
//! at all. This is used at each call that a tracer notes, so it looks for a few encodings and does not decode.

use crate::instruction::MAX_INSTRUCTION_BYTES;

const CALL: u8 = 0xe8;
/// Of its operand byte the field in the middle is 2: a call of a register or of memory.
const GROUP: u8 = 0xff;
const REX_B: u8 = 0x41;

/// The length in bytes of the call that these bytes end with, if it is one of the usual ones.
pub fn call_before(bytes: &[u8]) -> Option<usize> {
    let at = |distance: usize| bytes.len().checked_sub(distance).and_then(|at| bytes.get(at)).copied();
    debug_assert!(bytes.len() <= MAX_INSTRUCTION_BYTES);
    // An operand byte of memory without another byte that names registers: `mode` is 0, 0x40 or 0x80.
    let names_memory = |operand: Option<u8>, mode: u8| {
        operand.is_some_and(|byte| byte & 0xf8 == mode | 0x10 && byte & 7 != 4)
    };
    // call rel32
    if at(5) == Some(CALL) {
        return Some(5);
    }
    // call [rip + disp32], call [register + disp32]
    if at(6) == Some(GROUP) && (at(5) == Some(0x15) || names_memory(at(5), 0x80)) {
        return Some(6);
    }
    // call [register + disp8]
    if at(3) == Some(GROUP) && names_memory(at(2), 0x40) {
        return Some(3);
    }
    // call r8..r15, call register
    if at(2) == Some(GROUP) && at(1).is_some_and(|byte| byte & 0xf8 == 0xd0) {
        return Some(if at(3) == Some(REX_B) { 3 } else { 2 });
    }
    // call [register]
    (at(2) == Some(GROUP) && names_memory(at(1), 0) && at(1) != Some(0x15)).then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instruction, Transfer};
    use proptest::prelude::*;

    #[test]
    fn the_usual_calls_are_found() {
        for bytes in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x90, 1, 2, 3, 4],
            &[0xff, 0x53, 8],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0xd0],
            &[0xff, 0x10],
        ] {
            assert_eq!(call_before(bytes), Some(bytes.len()), "{bytes:x?}");
        }
        assert_eq!(call_before(&[0xff, 0xe0]), None, "a jump");
        assert_eq!(call_before(&[]), None);
    }

    #[test]
    fn a_short_call_with_other_bytes_after_it_is_no_long_one() {
        // call [rax]; nops: the call does not end there.
        assert_eq!(call_before(&[0xff, 0x10, 0x90, 0x90, 0x90, 0x90]), None);
        // call [rsp + 8] has four bytes, call [rsp] three.
        assert_eq!(call_before(&[0xff, 0x54, 0x24]), None);
        assert_eq!(call_before(&[0xff, 0x14]), None);
    }

    proptest! {
        #[test]
        fn what_is_found_is_a_call(
            rest in proptest::collection::vec(any::<u8>(), 0..8),
            kind in 0usize..4,
            operand in any::<u8>(),
            distance in 1usize..7,
        ) {
            let mut bytes = rest;
            bytes.extend([[0x90, 0xff], [0x41, 0xff], [0x90, 0xe8], [0x90, 0x90]][kind]);
            bytes.push(operand);
            bytes.resize(bytes.len() + distance, operand);
            bytes.truncate(MAX_INSTRUCTION_BYTES);
            if let Some(len) = call_before(&bytes) {
                let instruction = Instruction::decode(&bytes[bytes.len() - len..], 0x1000);
                let transfer = instruction.map(|found| (found.len_bytes(), found.transfer()));
                prop_assert!(
                    matches!(transfer, Some((found, Transfer::Call(_) | Transfer::CallIndirect)) if found == len),
                    "{:x?}: {:?}", bytes, transfer
                );
            }
        }
    }
}
