//! The encoder for accesses during recording, when time counts more than bytes: per-instruction prediction, one
//! byte per access that says what was predicted, and columns with what was not (docs/format.md, *Encoders*, 2).
//!
//! Encoder and decoder walk the same [`LiveModel`]: a table of the frame's instructions, each with its
//! last two successors, its last address, stride and so on, and a table of the last values by address.
//! Where a program repeats itself, the bytes are zero, and zstd reduces them to almost nothing.

use memref::Access;

use super::{
    attribute::{Attribute, Coding},
    codec::{Corrupt, Encoded, Encoder, NO_ACCESSES},
    index::Index,
    number,
    raw::{OTHERS, entries_part, others, raw_bytes},
    words::{AccessWords, DATA_BYTES, PLAIN_BYTES, has_data},
};
use crate::{
    EntryType,
    bytes::{ByteReader, put_varint, unzigzag, zigzag},
};

/// Accesses, by prediction.
#[derive(Debug)]
pub(crate) struct LiveEncoder;

/// Without data the last column is left out.
const COLUMNS: usize = 9;

const IP_SECOND: u8 = 1;
const IP_KNOWN: u8 = 2;
const IP_NEW: u8 = 3;
const STEP: u8 = 1 << 2;
const SHAPE: u8 = 1 << 3;
const ADDR_SHIFT: u32 = 4;
const ADDR_STRIDE: u8 = 0;
const ADDR_LAST: u8 = 1;
const ADDR_RELATION: u8 = 2;
const ADDR_1: u8 = 3;
const ADDR_2: u8 = 4;
const ADDR_4: u8 = 5;
const ADDR_8: u8 = 6;
const ADDR_MASK: u8 = 7;
/// The value is not the one that was at the address last.
const VALUE: u8 = 1 << 7;

/// What is known of one instruction: exactly a cache line.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Instruction {
    ip: u64,
    last: u64,
    stride: u64,
    relation: u64,
    /// Size in the low half, kind above: the last 8 bytes of an entry.
    shape: u64,
    next: [u32; 2],
    /// Steps longer than 32 bits are never predicted.
    step: [u32; 2],
}

const _: () = assert!(size_of::<Instruction>() == 64);

/// What is remembered from entry to entry.
struct LiveModel {
    instructions: Vec<Instruction>,
    previous: usize,
    cycle: u64,
    ip: u64,
    addr: u64,
    /// The last values by address, where there is data.
    values: Vec<u64>,
    /// Whether an entry had more in its shape than an access has.
    foreign: bool,
}

const VALUES_BITS: u32 = 14;

impl LiveModel {
    fn new(data: bool) -> Self {
        let values = if data { vec![0; 1 << VALUES_BITS] } else { Vec::new() };
        Self {
            instructions: vec![Instruction::default()],
            previous: 0,
            cycle: 0,
            ip: 0,
            addr: 0,
            values,
            foreign: false,
        }
    }

    #[inline]
    fn value(&mut self, addr: u64) -> &mut u64 {
        let place = addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - VALUES_BITS);
        &mut self.values[place as usize]
    }
}

/// Bytes of a shape: size, kind, and with data the bytes of the value.
fn shape_bytes(data: bool) -> usize {
    5 + usize::from(data)
}

fn encode_all<const BYTES: usize>(entries: &[u8]) -> Vec<Attribute> {
    let data = BYTES == DATA_BYTES;
    let mut columns: [Vec<u8>; COLUMNS] = Default::default();
    columns[0].reserve_exact(entries.len() / BYTES);
    let mut model = LiveModel::new(data);
    let mut numbers = Index::new();
    for entry in entries.as_chunks::<BYTES>().0 {
        encode_one(&mut model, &mut numbers, &mut columns, entry);
    }
    if model.foreign {
        return others(entries);
    }
    let columns = &columns[..COLUMNS - usize::from(!data)];
    let mut bytes = Vec::with_capacity(columns.iter().map(|column| column.len() + 8).sum::<usize>());
    for column in columns {
        bytes.extend((column.len() as u64).to_le_bytes());
    }
    for column in columns {
        bytes.extend_from_slice(column);
    }
    vec![Attribute { kind: 0, coding: Coding::Zstd, bytes }]
}

impl Encoder for LiveEncoder {
    fn id(&self) -> u32 {
        number::LIVE
    }

    fn name(&self) -> &'static str {
        number::name_of(number::LIVE)
    }

    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute> {
        match entry_type.entry_bytes as usize {
            PLAIN_BYTES => encode_all::<PLAIN_BYTES>(entries),
            DATA_BYTES => encode_all::<DATA_BYTES>(entries),
            _ => others(entries),
        }
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        if let [Attribute { kind: OTHERS, bytes, .. }] = encoded.parts {
            return raw_bytes(encoded, bytes, out);
        }
        let data = has_data(encoded.entry_type);
        decode_all(encoded, |entry| {
            entry.put(data, out);
            Some(())
        })
    }

    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        _end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        if let [Attribute { kind: OTHERS, .. }] = encoded.parts {
            return Err(NO_ACCESSES);
        }
        decode_all(encoded, |entry| {
            out.push(entry.access()?);
            Some(())
        })
    }
}

/// Gives each entry to `emit`, which may refuse it.
fn decode_all(encoded: &Encoded<'_>, mut emit: impl FnMut(AccessWords) -> Option<()>) -> Result<(), Corrupt> {
    const SHORT: Corrupt = Corrupt("a column is too short");
    let data = has_data(encoded.entry_type);
    let mut reader = ByteReader::new(entries_part(encoded.parts)?);
    let used = COLUMNS - usize::from(!data);
    let mut lens = [0; COLUMNS];
    for len in &mut lens[..used] {
        *len = reader.u64().and_then(|len| usize::try_from(len).ok()).ok_or(SHORT)?;
    }
    let mut columns: [&[u8]; COLUMNS] = Default::default();
    for (column, len) in columns.iter_mut().zip(lens) {
        *column = reader.take(len).ok_or(SHORT)?;
    }
    let [codes, rest @ ..] = columns;
    if codes.len() != encoded.count || !reader.is_empty() {
        return Err(Corrupt("the columns do not have the length that the header says"));
    }
    let mut rest = rest.map(ByteReader::new);
    let mut model = LiveModel::new(data);
    for &code in codes {
        let words = decode_one(&mut model, data, code, &mut rest)
            .ok_or(Corrupt("a column is too short, or has a code that stands for nothing"))?;
        emit(words).ok_or(Corrupt("an entry has a number that stands for nothing"))?;
    }
    if rest.iter().all(ByteReader::is_empty) { Ok(()) } else { Err(Corrupt("a column is too long")) }
}

#[inline]
fn encode_one<const BYTES: usize>(
    model: &mut LiveModel,
    numbers: &mut Index,
    columns: &mut [Vec<u8>; COLUMNS],
    entry: &[u8; BYTES],
) {
    let data = BYTES == DATA_BYTES;
    let AccessWords { cycle, ip, addr, shape, value } = AccessWords::of(entry);
    let step = cycle.wrapping_sub(model.cycle);
    let [_, new, known, steps, shapes, by_1, by_2, by_4, values] = columns;
    let previous = model.instructions[model.previous];
    let is = |number: u32| number != 0 && model.instructions[number as usize].ip == ip;
    let (mut code, number, predicted);
    if is(previous.next[0]) {
        (code, number, predicted) = (0, previous.next[0], previous.step[0]);
    } else if is(previous.next[1]) {
        (code, number, predicted) = (IP_SECOND, previous.next[1], previous.step[1]);
    } else {
        let fresh = model.instructions.len() as u32;
        number = numbers.find_or_insert(ip, fresh);
        predicted = 0;
        if number == fresh {
            code = IP_NEW;
            model.instructions.push(Instruction { ip, ..Default::default() });
            put_varint(new, zigzag(ip.wrapping_sub(model.ip)));
        } else {
            code = IP_KNOWN;
            known.extend_from_slice(&number.to_le_bytes());
        }
    }
    if u64::from(predicted) != step {
        code |= STEP;
        put_varint(steps, step);
    }
    follow(&mut model.instructions[model.previous], code, number, step);
    let state = &mut model.instructions[number as usize];
    if state.shape != shape {
        code |= SHAPE;
        shapes.extend_from_slice(&shape.to_le_bytes()[..shape_bytes(data)]);
        model.foreign |= shape >> (8 * shape_bytes(data)) != 0;
    }
    let difference = addr.wrapping_sub(state.last);
    let addr_code = if difference == state.stride {
        ADDR_STRIDE
    } else if difference == 0 {
        ADDR_LAST
    } else if addr.wrapping_sub(model.addr) == state.relation {
        ADDR_RELATION
    } else {
        let value = zigzag(difference);
        match value {
            0..=0xff => {
                by_1.push(value as u8);
                ADDR_1
            }
            0x100..=0xffff => {
                by_2.extend_from_slice(&(value as u16).to_le_bytes());
                ADDR_2
            }
            0x1_0000..=0xffff_ffff => {
                by_4.extend_from_slice(&(value as u32).to_le_bytes());
                ADDR_4
            }
            _ => {
                by_4.extend_from_slice(&value.to_le_bytes());
                ADDR_8
            }
        }
    };
    settle(state, addr, model.addr, shape);
    if data {
        let known = model.value(addr);
        if *known != value {
            *known = value;
            code |= VALUE;
            put_varint(values, value);
        }
    }
    columns[0].push(code | addr_code << ADDR_SHIFT);
    (model.previous, model.cycle, model.ip, model.addr) = (number as usize, cycle, ip, addr);
}

/// Moves the model on by one entry.
#[inline]
fn decode_one(
    model: &mut LiveModel,
    data: bool,
    code: u8,
    columns: &mut [ByteReader<'_>; COLUMNS - 1],
) -> Option<AccessWords> {
    let [new, known, steps, shapes, by_1, by_2, by_4, values] = columns;
    let previous = model.instructions.get(model.previous)?;
    let (number, predicted) = match code & 3 {
        0 => (previous.next[0], previous.step[0]),
        IP_SECOND => (previous.next[1], previous.step[1]),
        IP_KNOWN => (known.u32()?, 0),
        _ => {
            let ip = model.ip.wrapping_add(unzigzag(new.varint()?));
            model.instructions.push(Instruction { ip, ..Default::default() });
            ((model.instructions.len() - 1) as u32, 0)
        }
    };
    let step = if code & STEP == 0 { predicted.into() } else { steps.varint()? };
    follow(model.instructions.get_mut(model.previous)?, code, number, step);
    let state = model.instructions.get_mut(number as usize).filter(|_| number != 0)?;
    let shape = if code & SHAPE == 0 { state.shape } else { little(shapes.take(shape_bytes(data))?) };
    let addr = match code >> ADDR_SHIFT & ADDR_MASK {
        ADDR_STRIDE => state.last.wrapping_add(state.stride),
        ADDR_LAST => state.last,
        ADDR_RELATION => model.addr.wrapping_add(state.relation),
        by => {
            let value = match by {
                ADDR_1 => by_1.u8()?.into(),
                ADDR_2 => by_2.u16()?.into(),
                ADDR_4 => by_4.u32()?.into(),
                ADDR_8 => by_4.u64()?,
                _ => return None,
            };
            state.last.wrapping_add(unzigzag(value))
        }
    };
    let cycle = model.cycle.wrapping_add(step);
    let ip = state.ip;
    settle(state, addr, model.addr, shape);
    (model.previous, model.cycle, model.ip, model.addr) = (number as usize, cycle, ip, addr);
    let mut value = 0;
    if data {
        let known = model.value(addr);
        if code & VALUE != 0 {
            *known = values.varint()?;
        }
        value = *known;
    } else if code & VALUE != 0 {
        return None;
    }
    Some(AccessWords { cycle, ip, addr, shape, value })
}

/// A number of at most 8 bytes.
#[inline]
fn little(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Enters what came after an instruction.
#[inline]
fn follow(instruction: &mut Instruction, code: u8, number: u32, step: u64) {
    if code & 3 != 0 {
        instruction.next = [number, instruction.next[0]];
        instruction.step[1] = instruction.step[0];
    }
    instruction.step[0] = u32::try_from(step).unwrap_or(0);
}

/// Enters what an instruction did.
#[inline]
fn settle(instruction: &mut Instruction, addr: u64, previous_addr: u64, shape: u64) {
    instruction.stride = addr.wrapping_sub(instruction.last);
    instruction.relation = addr.wrapping_sub(previous_addr);
    instruction.last = addr;
    instruction.shape = shape;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use memref::{AccessKind, VirtAddr};

    use super::*;
    use crate::{
        DataAccess, StreamKind,
        entry::{REFERENCE, StreamEntry},
    };

    fn round_trip(accesses: &[Access]) -> usize {
        let mut entries = Vec::new();
        accesses.iter().for_each(|access| access.put(&mut entries));
        let entry_type = StreamKind::Accesses.entry_type();
        let parts = LiveEncoder.encode(&entry_type, &entries);
        let encoded = Encoded { entry_type: &entry_type, count: accesses.len(), parts: &parts, blocks: &[] };
        let mut decoded = Vec::new();
        assert_eq!(LiveEncoder.decode(&encoded, &mut decoded), Ok(()));
        assert!(decoded == entries);
        let mut direct = Vec::new();
        assert_eq!(LiveEncoder.decode_accesses(&encoded, None, &mut direct), Ok(()));
        assert!(direct == accesses);
        parts[0].bytes.len() - 8 * (COLUMNS - 1) - accesses.len()
    }

    prop_compose! {
        fn access()(cycle: u64, ip in prop_oneof![0..9_u64, any::<u64>()], addr in prop_oneof![0..99_u64, 0..1_u64 << 34, any::<u64>()], size: u32, kind in prop::sample::select(AccessKind::ALL)) -> Access {
            Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size, kind }
        }
    }

    proptest! {
        #[test]
        fn any_accesses_round_trip(accesses in prop::collection::vec(access(), 1..200)) {
            round_trip(&accesses);
        }

        #[test]
        fn any_data_round_trips(
            accesses in prop::collection::vec((access(), prop_oneof![0..3_u64, any::<u64>()], prop_oneof![0..=8_u8, Just(REFERENCE)]), 1..200)
        ) {
            let mut entries = Vec::new();
            for (access, value, value_bytes) in accesses {
                DataAccess { access, value, value_bytes }.put(&mut entries);
            }
            let entry_type = StreamKind::DataAccesses.entry_type();
            let parts = LiveEncoder.encode(&entry_type, &entries);
            let (mut decoded, mut direct) = (Vec::new(), Vec::new());
            let count = entries.len() / DATA_BYTES;
            let encoded = Encoded { entry_type: &entry_type, count, parts: &parts, blocks: &[] };
            prop_assert_eq!(LiveEncoder.decode(&encoded, &mut decoded), Ok(()));
            prop_assert!(decoded == entries);
            prop_assert_eq!(LiveEncoder.decode_accesses(&encoded, None, &mut direct), Ok(()));
            prop_assert_eq!(direct.len(), count);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(
            columns in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 0..40), COLUMNS)
        ) {
            for (kind, used) in [(StreamKind::Accesses, COLUMNS - 1), (StreamKind::DataAccesses, COLUMNS)] {
                let columns = &columns[..used];
                let mut bytes: Vec<u8> = columns.iter().flat_map(|column| (column.len() as u64).to_le_bytes()).collect();
                columns.iter().for_each(|column| bytes.extend(column));
                let parts = [Attribute { kind: 0, coding: Coding::Stored, bytes }];
                let encoded = Encoded { entry_type: &kind.entry_type(), count: columns[0].len(), parts: &parts, blocks: &[] };
                let _ = LiveEncoder.decode(&encoded, &mut Vec::new());
            }
        }
    }

    #[test]
    fn what_is_no_access_comes_back() {
        for entry_bytes in [20, 32, 40] {
            let entry_type = EntryType { entry_bytes, ..StreamKind::Accesses.entry_type() };
            let entries: Vec<u8> = (1..=entry_bytes as u8 * 3).map(|byte| byte | 1).collect();
            let parts = LiveEncoder.encode(&entry_type, &entries);
            let encoded = Encoded { entry_type: &entry_type, count: 3, parts: &parts, blocks: &[] };
            let mut decoded = Vec::new();
            assert_eq!(LiveEncoder.decode(&encoded, &mut decoded), Ok(()));
            assert_eq!(decoded, entries);
            assert_eq!(LiveEncoder.decode_accesses(&encoded, None, &mut Vec::new()), Err(NO_ACCESSES));
        }
    }

    #[test]
    fn many_instructions_keep_their_numbers() {
        let of = |i: u64| Access {
            cycle: i,
            ip: VirtAddr(i * 7 % 9973),
            addr: VirtAddr(i * i),
            size: 4,
            kind: AccessKind::Load,
        };
        round_trip(&(0..40_000).map(of).collect::<Vec<_>>());
    }

    #[test]
    fn a_loop_costs_nothing_but_its_first_rounds() {
        let of = |i: u64| Access {
            cycle: i * 3,
            ip: VirtAddr(0x1000 + i % 5 * 4),
            addr: VirtAddr(0x8000 + i / 5 * 8),
            size: 8,
            kind: AccessKind::Store,
        };
        let short = round_trip(&(0..50).map(of).collect::<Vec<_>>());
        let long = round_trip(&(0..5000).map(of).collect::<Vec<_>>());
        assert_eq!(short, long);
    }
}
