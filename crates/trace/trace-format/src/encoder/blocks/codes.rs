//! The codes and columns of a frame of block executions, as docs/format.md lists them (*Encoders*, 8).

/// The low bits of a code that say which block was executed; 0 is the last successor of the block before.
pub(super) const BLOCK_MASK: u8 = 3;
/// The last successor but one.
pub(super) const SECOND: u8 = 1;
/// A block of the frame, by its number.
pub(super) const KNOWN: u8 = 2;
/// A block that appears for the first time.
pub(super) const NEW: u8 = 3;
/// Other instructions lay between the block before and this one than the last time.
pub(super) const STEP: u8 = 1 << 2;
/// Some value was not predicted: a code for each follows.
pub(super) const VALUES: u8 = 1 << 3;
/// An access by itself, and nothing else of the above.
pub(super) const SINGLE: u8 = 1 << 4;

/// A value's code: the last value plus its stride.
pub(super) const STRIDE: u8 = 0;
/// The value before it in the frame, plus the distance that the two had the last time.
pub(super) const RELATION: u8 = 1;
/// The last value plus a difference of 1 byte; of 2, 4 or 8 bytes with the codes that follow.
pub(super) const BY_1: u8 = 2;
/// Bytes in the column of differences, by code.
pub(super) const BYTES: [usize; 6] = [0, 0, 1, 2, 4, 8];
/// As [`BYTES`], of any number.
#[inline]
pub(super) const fn bytes_of(code: u8) -> usize {
    const BYTES_OF: [u8; 8] = [0, 0, 1, 2, 4, 8, 0, 0];
    BYTES_OF[(code & 7) as usize] as usize
}

/// What is added to [`BY_1`] for a difference: 0 where it fits 1 byte, 1 for 2, 2 for 4, and 3 for 8.
#[inline]
pub(super) const fn length_of(difference: u64) -> u8 {
    // The digits, the last one first, are for differences of one byte to eight.
    (0x3333_2210u32 >> (4 * ((difference | 1).ilog2() / 8)) & 0xf) as u8
}

/// The type of the attribute with the columns, where two codes of values are in a byte: the first one in its low bits.
pub(super) const PAIRED: u16 = 34;
/// The same with a byte for each, as versions of the format before 5 have it.
pub(super) const UNPAIRED: u16 = 0;
pub(super) const PAIR_SHIFT: u32 = 4;
pub(super) const PAIR_MASK: u8 = (1 << PAIR_SHIFT) - 1;

/// Columns of a frame.
pub(super) const COLUMNS: usize = 7;
/// The column of codes: a byte an execution or single access.
pub(super) const CODES: usize = 0;
/// The column of blocks that appear for the first time: their definitions, unless the frame names them.
pub(super) const NEW_BLOCKS: usize = 1;
/// The column of numbers of blocks that were not expected.
pub(super) const NUMBERS: usize = 2;
/// The column of single accesses, after those of steps, of codes of values and of differences.
pub(super) const SINGLES: usize = 6;
/// Where the columns' lengths are, after cycle and fs base.
pub(super) const LENGTHS: usize = 2 * 8;
/// Bytes before the columns: cycle and fs base at the beginning, and the columns' lengths.
pub(super) const HEAD_BYTES: usize = LENGTHS + COLUMNS * 8;
/// Bytes of a single access.
pub(super) const SINGLE_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_shortest_code_that_holds_it() {
        for code in STRIDE..=BY_1 + 3 {
            assert_eq!(bytes_of(code), BYTES[usize::from(code)]);
        }
        for bits in 0..64 {
            for difference in [1 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let length = length_of(difference);
                let holds = |length: u8| {
                    bytes_of(BY_1 + length) == 8 || difference >> (8 * bytes_of(BY_1 + length)) == 0
                };
                assert!(holds(length), "{difference:#x}");
                assert!(length == 0 || !holds(length - 1), "{difference:#x}");
            }
        }
    }
}
