//! Tests that frames are read back as their executions expand and within their bounds, and that damage is an error.

use blocks::{
    BasicBlock, BlockAccess, Chosen, Definition, Extent, MAX_DEFINITION_BYTES, Masked, NO_VALUE,
    RecordedValues, Repeated, SharedBlock, encode_definition,
};
use memref::{AccessKind, VirtAddr};
use proptest::prelude::*;

use super::frame::MANY;
use super::*;
use crate::{AccessCounts, Bounds, Interval};

fn block(id: u32, addr: u64, instructions: u16, values: u8, accesses: &[BlockAccess]) -> Option<SharedBlock> {
    block_of(id, addr, instructions, RecordedValues::plain(values), accesses)
}

fn block_of(
    id: u32,
    addr: u64,
    instructions: u16,
    values: RecordedValues,
    accesses: &[BlockAccess],
) -> Option<SharedBlock> {
    let mut bytes = [0; MAX_DEFINITION_BYTES];
    let extent = Extent::of(VirtAddr(addr), instructions);
    let len = encode_definition(id, extent, values, accesses, &mut bytes);
    let (definition, _) = Definition::decode(&bytes[..len]).expect("it was just encoded");
    BasicBlock::new(&definition).map(SharedBlock::from)
}

fn words(values: &[u64]) -> Vec<[u8; 8]> {
    values.iter().map(|value| value.to_le_bytes()).collect()
}

fn bytes_of(accesses: &[Access]) -> Vec<u8> {
    let mut entries = Vec::new();
    accesses.iter().for_each(|access| access.put(&mut entries));
    entries
}

fn decoded(count: u64, parts: &[Attribute]) -> Result<Vec<Access>, Corrupt> {
    let entry_type = StreamKind::Accesses.entry_type();
    let (mut bytes, mut direct) = (Vec::new(), Vec::new());
    let encoded = Encoded { entry_type: &entry_type, count: count as usize, parts, blocks: &[] };
    ExecutionEncoder.decode(&encoded, &mut bytes)?;
    ExecutionEncoder.decode_accesses(&encoded, None, &mut direct)?;
    assert_eq!(bytes, bytes_of(&direct));
    Ok(direct)
}

const VALUES_OF_ALL: u8 = 4;
const FIRST_CYCLE: u64 = 77;

prop_compose! {
    fn access()(
        instruction in 0u16..4, size in prop::sample::select(&[1u16, 2, 4, 8, 32]),
        kind in prop::sample::select(AccessKind::ALL), base in prop::sample::select(&[0u8, 1, 2, 3, NO_VALUE]),
        index in prop::sample::select(&[0u8, 1, 2, 3, NO_VALUE, NO_VALUE]), scale in prop::sample::select(&[1u8, 2, 4, 8]),
        fs: bool, short in prop::bool::weighted(0.1), masked in prop::option::weighted(0.2, 0u8..4), displacement in -500i64..500,
    ) -> BlockAccess {
        let masked = masked.map(|value| Masked { value, bytes: 1, chosen: Chosen::Each });
        BlockAccess {
            instruction, offset: i64::from(instruction) * 30_005 - 70_000, size, kind, base, index, scale, fs, short,
            repeated: None, masked, data: 0, displacement,
        }
    }
}

fn repeated() -> BlockAccess {
    BlockAccess {
        instruction: 4,
        size: 8,
        kind: AccessKind::Store,
        base: 0,
        index: 1,
        repeated: Some(Repeated { count_after: 2, place_after: 3 }),
        ..BlockAccess::NONE
    }
}

#[derive(Clone, Debug)]
enum PushedStep {
    /// Block, values, instructions before.
    Execution(usize, [u64; 4], u64),
    Single(u64, u64),
}

fn step() -> impl Strategy<Value = PushedStep> {
    let value = prop_oneof![0x1000u64..0x1100, 0x7fff_0000_0000u64..0x7fff_0000_1000, any::<u64>()];
    prop_oneof![
        6 => (0usize..6, prop::array::uniform4(value), 0u64..3)
            .prop_map(|(block, values, step)| PushedStep::Execution(block, values, step)),
        1 => (any::<u64>(), 0u64..9).prop_map(|(addr, step)| PushedStep::Single(addr, step)),
    ]
}

proptest! {
    #[test]
    fn executions_come_back_as_accesses(
        parts in prop::collection::vec(prop::collection::vec(access(), 0..5), 5), steps in prop::collection::vec(step(), 1..200),
        base in prop_oneof![Just(0u64), 0x7000_0000_0000u64..0x7000_0000_1000, any::<u64>()], frames in 1usize..3,
    ) {
        let mut blocks: Vec<_> = parts.iter().zip(0..)
            .map(|(accesses, id)| block(id, 0x40_0000 + u64::from(id) * 64, 5, VALUES_OF_ALL, accesses).unwrap())
            .collect();
        blocks.push(block(9, 0x50_0000, 5, VALUES_OF_ALL, &[parts[0].as_slice(), &[repeated()]].concat()).unwrap());
        let mut frame = BlockFrame::default();
        // Filled by who does not know when and where its thread is.
        let mut moved = BlockFrame::default();
        for _ in 0..frames {
            let (mut cycle, mut expected) = (FIRST_CYCLE, Vec::new());
            for step in &steps {
                match *step {
                    PushedStep::Execution(number, mut values, before) => {
                        if number == 5 {
                            // It went down by not too many.
                            values[2] = values[1].wrapping_sub(values[1] % 50);
                        }
                        cycle += before;
                        let block = &blocks[number];
                        let count = block.count(&values);
                        prop_assert!(frame.takes(count, base));
                        frame.push(number as u32 * 3, block, cycle, &words(&values), base, count);
                        moved.push(number as u32 * 3, block, cycle - FIRST_CYCLE, &words(&values), 0, count);
                        let len = expected.len();
                        block.expand(cycle, &values, base, &mut expected);
                        prop_assert_eq!((expected.len() - len) as u64, count);
                        let mut pieces = Vec::new();
                        block.expand_in_pieces(cycle, &words(&values), base, |some| pieces.extend_from_slice(some));
                        prop_assert_eq!(&pieces, &expected[len..]);
                        cycle += u64::from(block.instructions());
                    }
                    PushedStep::Single(addr, before) => {
                        cycle += before;
                        let access = Access {
                            cycle, ip: VirtAddr(1), addr: VirtAddr(addr), size: 3, kind: AccessKind::Load,
                        };
                        frame.push_single(&access);
                        moved.push_single(&Access { cycle: cycle - FIRST_CYCLE, ..access });
                        expected.push(access);
                    }
                }
            }
            prop_assert_eq!(frame.len(), expected.len() as u64);
            moved.begin_at(FIRST_CYCLE, base);
            prop_assert_eq!((moved.first_cycle(), moved.base()), (frame.first_cycle(), frame.base()));
            let (coded, moved) = (frame.finish(), moved.finish());
            prop_assert_eq!((moved.parts(), moved.bounds(), moved.counts()), (coded.parts(), coded.bounds(), coded.counts()));
            prop_assert!(frame.is_empty());
            prop_assert_eq!(Some(coded.counts()), AccessCounts::of(&StreamKind::Accesses.entry_type(), &bytes_of(&expected)));
            prop_assert!(coded.bounds().hold(&Bounds::of(&StreamKind::Accesses.entry_type(), &bytes_of(&expected))));
            prop_assert_eq!(decoded(coded.count(), coded.parts()).unwrap(), expected);
        }
    }

    #[test]
    fn entries_are_kept_one_by_one(accesses in prop::collection::vec(
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), prop::sample::select(AccessKind::ALL)).prop_map(
            |(cycle, ip, addr, size, kind)| Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size, kind }), 1..50,
    )) {
        let entry_type = StreamKind::Accesses.entry_type();
        let parts = ExecutionEncoder.encode(&entry_type, &bytes_of(&accesses));
        prop_assert_eq!(decoded(accesses.len() as u64, &parts).unwrap(), accesses);
    }

    #[test]
    fn damage_is_an_error_and_no_panic(at: prop::sample::Index, byte: u8, count in 0usize..1000) {
        let mut frame = BlockFrame::default();
        let block = block(0, 64, 5, VALUES_OF_ALL, &[BlockAccess::NONE, repeated()]).unwrap();
        for n in 0..20u64 {
            let values = [n * n, 9, 4, n];
            frame.push(1, &block, n * 10, &words(&values), 0, block.count(&values));
        }
        let mut parts = frame.finish().parts().to_vec();
        let bytes = &mut parts[0].bytes;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut out = Vec::new();
        let encoded =
            Encoded { entry_type: &StreamKind::Accesses.entry_type(), count, parts: &parts, blocks: &[] };
        let result = ExecutionEncoder.decode_accesses(&encoded, None, &mut out);
        prop_assert!(result.is_err() || out.len() == count);
    }
}

proptest! {
    /// What a frame spans is found from the ends of what moved on by strides, as from each value.
    #[test]
    fn bounds_are_those_of_values_that_move_by_strides(runs in prop::collection::vec((
        prop_oneof![0x1000u64..0x1100, any::<u64>(), Just(u64::MAX - 3), Just(i64::MAX as u64)],
        prop_oneof![-9i64..9, any::<i64>(), Just(i64::MIN), Just(i64::MAX)], 1u64..9, any::<bool>(),
    ), 1..20)) {
        let access = BlockAccess { base: 0, size: 1, ..BlockAccess::NONE };
        let block = block(0, 0x1000, 2, 2, &[access]).unwrap();
        let mut frame = BlockFrame::default();
        let mut expected = Interval::NONE;
        let mut cycle = 0;
        for (start, stride, times, disturb) in runs {
            for time in 0..times {
                let value = start.wrapping_add((stride as u64).wrapping_mul(time));
                // The other value is as predicted, or never is.
                let other = if disturb { cycle * cycle } else { 0 };
                frame.push(0, &block, cycle, &words(&[value, other]), 0, 1);
                expected.add(value);
                cycle += 2;
            }
        }
        let negative = |value: u64| value >> 63 != 0;
        if negative(expected.max) {
            expected = Interval { min: 0, max: u64::MAX };
        }
        prop_assert_eq!(frame.finish().bounds().addrs, expected);
    }
}

/// Found by the fuzz target `trace_encoders`.
#[test]
fn words_that_are_no_accesses_come_back() {
    let entry_type = EntryType { entry_bytes: 8, ..EntryType::accesses() };
    let entries = [7; 16];
    let parts = ExecutionEncoder.encode(&entry_type, &entries);
    let encoded = Encoded { entry_type: &entry_type, count: 2, parts: &parts, blocks: &[] };
    let mut out = Vec::new();
    assert_eq!(ExecutionEncoder.decode(&encoded, &mut out), Ok(()));
    assert_eq!(out, entries);
}

#[test]
fn what_repeats_itself_takes_a_byte() {
    let accesses = [
        BlockAccess { base: 0, size: 8, ..BlockAccess::NONE },
        BlockAccess { base: 1, size: 8, kind: AccessKind::Store, ..BlockAccess::NONE },
    ];
    let block = block(0, 0x1000, 7, 2, &accesses).unwrap();
    let mut frame = BlockFrame::default();
    for n in 0..10_000 {
        frame.push(3, &block, n * 9, &words(&[0x5000 + 8 * n, 0x9000]), 0, 2);
    }
    let coded = frame.finish();
    assert_eq!(coded.count(), 20_000);
    let bytes = coded.parts()[0].bytes.len();
    assert!(bytes < 10_000 + 300, "{bytes}");
}

#[test]
fn orders_are_told_and_not_kept() {
    let access = BlockAccess { base: 0, size: 8, kind: AccessKind::Modify, ..BlockAccess::NONE };
    let ordered = |count| RecordedValues { count, ordered: true };
    let block = block_of(0, 0x1000, 1, ordered(3), &[access]).unwrap();
    assert_eq!(block.values(), 3);
    assert_eq!(block.orders(&words(&[0x5000, 41, 44])), Some([41, 44]));
    assert_eq!(block.orders(&words(&[0x5000, 0, 0])), None, "the thread was alone");
    assert_eq!(block.orders(&words(&[0x5000, 41])), None);
    let (mut with, mut without) = (BlockFrame::default(), BlockFrame::default());
    let plain = block_of(0, 0x1000, 1, RecordedValues::plain(1), &[access]).unwrap();
    for n in 0..100 {
        with.push(0, &block, n, &words(&[0x5000, 41 + 2 * n, 50 + 3 * n]), 0, 1);
        without.push(0, &plain, n, &words(&[0x5000]), 0, 1);
    }
    assert_eq!(with.finish().parts(), without.finish().parts());
    assert!(block_of(0, 0, 1, ordered(1), &[]).is_none());
}

#[test]
fn too_many_for_a_frame_are_not_taken() {
    let frame = BlockFrame::default();
    assert!(frame.takes(MANY, 5));
    assert!(!frame.takes(MANY + 1, 5));
}

#[test]
fn expected_blocks_are_those_that_the_frame_has_and_that_are_plain() {
    let plain = BlockAccess { base: 0, size: 8, ..BlockAccess::NONE };
    let one = block(0, 0x1000, 5, VALUES_OF_ALL, &[plain]).unwrap();
    let varying = block(1, 0x2000, 5, VALUES_OF_ALL, &[repeated()]).unwrap();
    let values = RecordedValues { count: 3, ordered: true };
    let ordered = block_of(2, 0x3000, 1, values, &[plain]).unwrap();
    let (mut frame, mut by_each) = (BlockFrame::default(), BlockFrame::default());
    assert!(frame.expect(3, 9).is_none());
    let values = |cycle: u64| words(&[0x1000 + cycle * cycle % 999, cycle, 0, 7]);
    for cycle in (0..10_000).step_by(10) {
        if cycle % 100 == 0 {
            for frame in [&mut frame, &mut by_each] {
                frame.push(7, &varying, cycle, &words(&[0x5000, 3, 1, 0x5010]), 9, 2);
                frame.push(8, &ordered, cycle, &words(&[0x6000, 0, 0]), 9, 1);
            }
        }
        match frame.expect(3, 9) {
            Some(expected) => {
                assert_eq!((expected.values(), expected.instructions(), expected.accesses()), (4, 5, 1));
                frame.push_expected(expected, cycle + 5, &values(cycle));
            }
            None => frame.push(3, &one, cycle + 5, &values(cycle), 9, 1),
        }
        by_each.push(3, &one, cycle + 5, &values(cycle), 9, 1);
        assert!(frame.expect(3, 9).is_some() && frame.expect(3, 8).is_none() && frame.expect(4, 9).is_none());
        assert!(frame.expect(7, 9).is_none() && frame.expect(8, 9).is_none());
    }
    let (coded, by_each) = (frame.finish(), by_each.finish());
    assert!(frame.expect(3, 9).is_none());
    assert_eq!((coded.count(), coded.parts()), (by_each.count(), by_each.parts()));
    assert_eq!((coded.bounds(), coded.counts()), (by_each.bounds(), by_each.counts()));
}

#[test]
fn a_frame_of_accesses_by_themselves_is_full_before_they_take_much_memory() {
    let access =
        |cycle| Access { cycle, ip: VirtAddr(1), addr: VirtAddr(2), size: 8, kind: AccessKind::Load };
    let mut frame = BlockFrame::default();
    let longest = (1..).find(|&turn| {
        frame.push_single(&access(turn));
        frame.is_full()
    });
    assert_eq!(longest.map(|singles| singles * 32), Some(8 << 20), "bytes");
}
