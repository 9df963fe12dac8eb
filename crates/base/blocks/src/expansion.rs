//! Expands one execution of a block to its accesses.
//!
//! Accesses come in the order of the instructions. Most are a single access. A masked one is an
//! access per element, lowest first. A repeated string instruction ends its block: its accesses
//! (one, or a load and a store) are made in turn, as often as its count was decremented.

use alloc::vec::Vec;

use memref::{Access, VirtAddr};

use crate::{BasicBlock, BlockAccess, MAX_VALUES};

/// How many accesses [`BasicBlock::expand_in_pieces`] makes at a time.
const PIECE_ACCESSES: usize = 1 << 14;

/// The values in words as a recorder finds them.
#[inline]
pub fn values_of(words: &[[u8; 8]]) -> [u64; MAX_VALUES] {
    let mut values = [0; MAX_VALUES];
    for (value, word) in values.iter_mut().zip(words) {
        *value = u64::from_le_bytes(*word);
    }
    values
}

impl BasicBlock {
    /// Appends the accesses of one execution that begins at `cycle`, with the values that it recorded and the thread's fs base.
    #[inline]
    pub fn expand(&self, cycle: u64, values: &[u64], fs_base: u64, into: &mut Vec<Access>) {
        self.for_each_access(cycle, values, fs_base, |access| into.push(access));
    }

    /// As [`Self::expand`], for any number of accesses: some at a time.
    pub fn expand_in_pieces(
        &self,
        cycle: u64,
        words: &[[u8; 8]],
        fs_base: u64,
        mut act: impl FnMut(&[Access]),
    ) {
        let mut piece = Vec::with_capacity(PIECE_ACCESSES);
        self.for_each_access(cycle, &values_of(words), fs_base, |access| {
            piece.push(access);
            if piece.len() == PIECE_ACCESSES {
                act(&piece);
                piece.clear();
            }
        });
        act(&piece);
    }

    /// As [`Self::expand`], each access with the bytes that it read or wrote: none where they were not recorded. Blocks whose
    /// bytes are recorded have neither masked nor repeated accesses.
    pub fn expand_data(&self, cycle: u64, values: &[u64], fs_base: u64, mut act: impl FnMut(Access, &[u8])) {
        let mut bytes = Vec::with_capacity(64);
        for access in self.accesses() {
            bytes.clear();
            access.bytes(values, |part| bytes.extend_from_slice(part));
            act(self.access(access, cycle, access.address(values, fs_base)), &bytes);
        }
    }

    #[inline]
    fn for_each_access(&self, cycle: u64, values: &[u64], fs_base: u64, mut act: impl FnMut(Access)) {
        let mut rest = self.accesses();
        while let Some((access, later)) = rest.split_first() {
            if let Some(times) = access.times(values) {
                // All repeated accesses of a block are one instruction's, its last.
                for time in 0..times {
                    for access in rest {
                        if let Some(addr) = access.repeated_address(values, fs_base, time) {
                            act(self.access(access, cycle, addr));
                        }
                    }
                }
                return;
            }
            rest = later;
            self.for_each_element(access, cycle, values, fs_base, &mut act);
        }
    }

    /// One access of the block's that is not repeated; under a mask an access an element.
    #[inline]
    pub fn for_each_element(
        &self,
        access: &BlockAccess,
        cycle: u64,
        values: &[u64],
        fs_base: u64,
        mut act: impl FnMut(Access),
    ) {
        let addr = access.address(values, fs_base);
        let Some(masked) = access.masked else {
            return act(self.access(access, cycle, addr));
        };
        let mut elements = masked.elements(access.size, values);
        while elements != 0 {
            let distance = u64::from(elements.trailing_zeros()) * u64::from(masked.bytes);
            let element = self.access(access, cycle, addr.offset(distance));
            act(Access { size: masked.bytes.into(), ..element });
            elements &= elements - 1;
        }
    }

    #[inline]
    fn access(&self, access: &BlockAccess, cycle: u64, addr: VirtAddr) -> Access {
        Access {
            cycle: cycle + u64::from(access.instruction),
            ip: self.ip(access),
            addr,
            size: access.size.into(),
            kind: access.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::tests::{ADDR, block};
    use crate::{Chosen, Masked, NO_VALUE, RecordedValues, Repeated};
    use memref::AccessKind;
    use proptest::prelude::*;

    const VALUES: u8 = 6;
    const LEN: u64 = 40;

    /// What the processor does, an instruction after the other, from the table in docs/format.md and nothing else.
    fn model(accesses: &[BlockAccess], cycle: u64, values: &[u64], fs_base: u64) -> Vec<Access> {
        let mut made = Vec::new();
        let mut make = |by: &BlockAccess, addr: u64, size: u32| {
            let ip = VirtAddr(ADDR.0.wrapping_add_signed(by.offset));
            made.push(Access {
                cycle: cycle + u64::from(by.instruction),
                ip,
                addr: VirtAddr(addr),
                size,
                kind: by.kind,
            });
        };
        let modulo = |sum: i128| (sum & i128::from(u64::MAX)) as u64;
        let value = |number: u8| if number == NO_VALUE { 0 } else { i128::from(values[usize::from(number)]) };
        for access in accesses.iter().filter(|access| access.repeated.is_none()) {
            let sum = value(access.base) + value(access.index) * i128::from(access.scale);
            let mut addr = modulo(sum + i128::from(access.displacement));
            if access.short {
                addr %= 1 << 32;
            }
            if access.fs {
                addr = modulo(i128::from(addr) + i128::from(fs_base));
            }
            match access.masked {
                None => make(access, addr, access.size.into()),
                Some(Masked { value, bytes, chosen }) => {
                    let elements = u64::from(access.size) / u64::from(bytes);
                    let mask = values[usize::from(value)];
                    let bits: Vec<u64> = (0..elements).filter(|bit| mask >> bit & 1 != 0).collect();
                    let chosen: Vec<u64> = match chosen {
                        Chosen::Each => bits,
                        Chosen::Packed => (0..bits.len() as u64).collect(),
                        Chosen::Any => (0..u64::from(mask != 0)).collect(),
                    };
                    for element in chosen {
                        make(
                            access,
                            modulo(i128::from(addr) + i128::from(element * u64::from(bytes))),
                            bytes.into(),
                        );
                    }
                }
            }
        }
        // The string instruction: registers that move until the count is what it was found to be afterwards.
        let string: Vec<&BlockAccess> = accesses.iter().filter(|access| access.repeated.is_some()).collect();
        if let Some(Repeated { count_after, .. }) = string.first().and_then(|access| access.repeated) {
            let mut places: Vec<u64> = string.iter().map(|access| values[usize::from(access.base)]).collect();
            let mut count = values[usize::from(string[0].index)];
            while count != values[usize::from(count_after)] {
                for (access, place) in string.iter().zip(&mut places) {
                    let Some(Repeated { place_after, .. }) = access.repeated else { continue };
                    let down = (values[usize::from(place_after)]
                        .wrapping_sub(values[usize::from(access.base)])
                        as i64)
                        < 0;
                    let base = if access.fs { fs_base } else { 0 };
                    make(access, place.wrapping_add(base), access.size.into());
                    let step = u64::from(access.size);
                    *place = if down { place.wrapping_sub(step) } else { place.wrapping_add(step) };
                }
                count = count.wrapping_sub(1);
            }
        }
        made
    }

    prop_compose! {
        fn masked()(value in 0..VALUES, bytes in prop::sample::select(&[1u8, 2, 4, 8]),
            chosen in prop::sample::select(&[Chosen::Each, Chosen::Packed, Chosen::Any])) -> Masked {
            Masked { value, bytes, chosen }
        }
    }

    fn number() -> impl Strategy<Value = u8> {
        prop_oneof![3 => 0..VALUES, 1 => Just(NO_VALUE)]
    }

    prop_compose! {
        fn access()(
            instruction in 0u16..64, size in prop::sample::select(&[1u16, 2, 4, 8, 16, 32, 64]),
            kind in prop::sample::select(AccessKind::ALL), base in number(), index in number(),
            scale in prop::sample::select(&[1u8, 2, 4, 8]), fs: bool, short: bool,
            masked in prop::option::weighted(0.3, masked()), displacement: i64,
        ) -> BlockAccess {
            BlockAccess {
                instruction, offset: i64::from(instruction) * 30_000 - 40_000, size, kind, base, index, scale, fs, short,
                repeated: None, masked, data: 0, displacement,
            }
        }
    }

    prop_compose! {
        /// One or two accesses of a string instruction: places in values 0 and 1, its count in 2, and the three afterwards.
        fn string()(both: bool, fs: bool, size in prop::sample::select(&[1u16, 2, 4, 8])) -> Vec<BlockAccess> {
            let of = |base: u8, kind| BlockAccess {
                instruction: 4, offset: 17, size, kind, base, index: 2, fs,
                repeated: Some(Repeated { count_after: 5, place_after: base + 3 }), ..BlockAccess::NONE
            };
            if both { [of(0, AccessKind::Load), of(1, AccessKind::Store)].into() } else { [of(0, AccessKind::Store)].into() }
        }
    }

    fn words(values: &[u64]) -> Vec<[u8; 8]> {
        values.iter().map(|value| value.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn an_execution_expands_to_what_its_instructions_do(
            plain in prop::collection::vec(access(), 0..8), string in prop::option::of(string()),
            mut values in prop::array::uniform6(any::<u64>()), times in 0..LEN, cycle in 0u64..1 << 60, fs_base: u64,
        ) {
            values[5] = values[2].wrapping_sub(times);
            let accesses = [plain, string.unwrap_or_default()].concat();
            let block = block(RecordedValues::plain(VALUES), &accesses).unwrap();
            let expected = model(&accesses, cycle, &values, fs_base);
            let mut expanded = Vec::new();
            block.expand(cycle, &values, fs_base, &mut expanded);
            prop_assert_eq!(&expanded, &expected);
            prop_assert_eq!(block.count(&values), expected.len() as u64);
            prop_assert_eq!(block.count_words(&words(&values)), expected.len() as u64);
            let mut pieces = Vec::new();
            block.expand_in_pieces(cycle, &words(&values), fs_base, |piece| pieces.extend_from_slice(piece));
            prop_assert_eq!(&pieces, &expected);
        }

        #[test]
        fn bytes_stand_beside_the_accesses(
            sizes in prop::collection::vec(prop::sample::select(&[1u16, 2, 4, 8, 10, 16]), 1..6), bytes in prop::array::uniform32(any::<u8>()),
        ) {
            // Each access has one value for its address, and after all addresses its words.
            let mut values: Vec<u64> = (0..sizes.len() as u64).map(|number| 0x1000 * (number + 1)).collect();
            let mut accesses = Vec::new();
            for (&size, base) in sizes.iter().zip(0..) {
                let data = values.len() as u8;
                let own = &bytes[..size.into()];
                values.extend(own.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
                if size % 8 != 0 {
                    let last = &own[own.len().saturating_sub(8)..];
                    let mut word = [0; 8];
                    word[..last.len()].copy_from_slice(last);
                    values.push(u64::from_le_bytes(word));
                }
                accesses.push(BlockAccess { size, base, data, ..BlockAccess::NONE });
            }
            let block = block(RecordedValues::plain(values.len() as u8), &accesses).unwrap();
            let mut made = Vec::new();
            block.expand_data(5, &values, 0, |access, own| made.push((access, own.to_vec())));
            let expected = model(&accesses, 5, &values, 0);
            prop_assert_eq!(made.len(), expected.len());
            for ((access, own), expected) in made.iter().zip(&expected) {
                prop_assert_eq!(access, expected);
                prop_assert_eq!(&own[..], &bytes[..access.size as usize]);
            }
        }
    }
}
