//! The encoder of accesses, with and without data: everything about an access is predicted, and usually
//! a single answer, "all as predicted", is all that is written (docs/format.md, *Encoders*, 3).
//!
//! `control.rs` predicts which instruction is next, `bank.rs` the address and the value,
//! `shadow.rs` remembers what memory holds, and `coder.rs` writes answers and literal bytes.

mod bank;
mod coder;
mod control;
mod shadow;

use memref::Access;

use super::{
    attribute::Attribute,
    codec::{Corrupt, Encoded, Encoder, NO_ACCESSES},
    index::Index,
    number,
    raw::{raw, raw_decode},
    words::{AccessWords, DATA_BYTES, PLAIN_BYTES, kind},
};
use crate::{EntryType, entry::REFERENCE};
use bank::{Bank, NumberPredictor, Scene};
use coder::{Coder, Probability, RangeDecoder, RangeEncoder};
use control::{Expected, FlowPredictor, NONE};
use shadow::ShadowMemory;

/// Literal bytes: of addresses, of values, of instructions, of steps, of shapes.
const COLUMNS: usize = 19;
const ADDRESSES: usize = 0;
const VALUES: usize = 8;
const INSTRUCTIONS: usize = 16;
const STEPS: usize = 17;
const SHAPES: usize = 18;

/// Accesses, by prediction.
#[derive(Debug)]
pub(crate) struct AccessEncoder {
    /// Whether literal bytes go through the range coder as well: smaller, slower.
    pub(crate) archive: bool,
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    ip: u64,
    shape: u64,
    addr: Bank,
}

/// As many as slots ask for: the last 16 addresses.
const RECENT: usize = 16;

/// What the last accesses were, newest first from `at` on.
#[derive(Debug)]
struct Recent {
    addrs: [u64; RECENT],
    values: [u64; RECENT],
    at: usize,
}

impl Recent {
    #[inline]
    fn push(&mut self, addr: u64, value: u64) {
        self.at = self.at.wrapping_sub(1) % RECENT;
        self.addrs[self.at] = addr;
        self.values[self.at] = value;
    }

    #[inline]
    fn addr(&self, back: usize) -> u64 {
        self.addrs[(self.at + back) % RECENT]
    }

    #[inline]
    fn value(&self, back: usize) -> u64 {
        self.values[(self.at + back) % RECENT]
    }
}

const PLAIN_SLOTS: usize = 16;
const DATA_SLOTS: usize = 40;
const VALUE_SLOTS: usize = 18;

/// Where an address may come from.
struct AddressScene<'a, const DATA: bool>(&'a Recent);

impl<const DATA: bool> Scene for AddressScene<'_, DATA> {
    const BESIDE: bool = true;

    #[inline]
    fn slot(&self, slot: usize) -> u64 {
        match slot {
            0..16 => self.0.addr(slot),
            16..28 => self.0.value(slot - 16),
            _ => self.0.value((slot - 28) / 3) << ((slot - 28) % 3 + 1),
        }
    }

    fn home(&self) -> u64 {
        0
    }

    fn near(&self) -> u64 {
        self.0.addr(0)
    }

    fn mask(&self) -> u64 {
        u64::MAX
    }
}

/// Where a value may come from.
struct ValueScene<'a> {
    recent: &'a Recent,
    /// What memory holds; none where values are references.
    memory: Option<&'a ShadowMemory>,
    reference: u64,
    addr: u64,
    known: u64,
    mask: u64,
}

impl Scene for ValueScene<'_> {
    const BESIDE: bool = false;

    #[inline]
    fn slot(&self, slot: usize) -> u64 {
        match slot {
            0 => self.home(),
            1 => self.addr,
            2..12 => self.recent.value(slot - 2),
            _ => self.recent.addr(slot - 12),
        }
    }

    #[inline]
    fn home(&self) -> u64 {
        self.memory.map_or(self.reference, |memory| memory.load(self.addr) & self.known)
    }

    fn near(&self) -> u64 {
        0
    }

    fn mask(&self) -> u64 {
        self.mask
    }
}

impl<'a> ValueScene<'a> {
    #[inline]
    fn new(
        recent: &'a Recent,
        memory: Option<&'a ShadowMemory>,
        reference: u64,
        addr: u64,
        shape: u64,
    ) -> Self {
        let bytes = value_bytes(shape);
        let memory = memory.filter(|_| bytes != u32::from(REFERENCE));
        let (known, mask) = (shadow::mask(bytes.min(shape as u32)), shadow::mask(bytes));
        Self { recent, memory, reference, addr, known, mask }
    }
}

const WRITERS_BITS: u32 = 14;

/// Everything that is learned from entry to entry of a segment.
struct AccessModel<const DATA: bool, const SLOTS: usize> {
    control: FlowPredictor,
    instructions: Vec<Instruction>,
    /// By instruction, where there is data.
    values: Vec<Bank>,
    by_ip: Index,
    shapes: Vec<u64>,
    recent: Recent,
    shadow: Option<ShadowMemory>,
    /// The token that wrote a word last, where there is no data.
    writers: Vec<u32>,
    addr_field: NumberPredictor<SLOTS>,
    value_field: NumberPredictor<VALUE_SLOTS>,
    previous: AccessWords,
    /// The reference that the next value too long for its entry will have.
    next_reference: u64,
    all: Vec<Probability>,
    token_right: [Probability; FlowPredictor::SURENESS],
    ip_lens: [Probability; 8],
    known_shape: Probability,
    shape_numbers: Vec<Probability>,
    steps: Vec<[Probability; 32]>,
}

impl<const DATA: bool, const SLOTS: usize> AccessModel<DATA, SLOTS> {
    /// For a segment of `entries`: short ones have small tables.
    fn new(entries: usize) -> Self {
        let bits = (entries.max(1).ilog2() + 2).clamp(8, 16);
        Self {
            control: FlowPredictor::new(bits),
            instructions: vec![Instruction { ip: 0, shape: 0, addr: Bank::default() }],
            values: vec![Bank::default()],
            by_ip: Index::new(),
            shapes: Vec::new(),
            recent: Recent { addrs: [0; RECENT], values: [0; RECENT], at: 0 },
            shadow: DATA.then(|| ShadowMemory::new(entries.max(1).ilog2().clamp(8, 20))),
            writers: if DATA { Vec::new() } else { vec![0; 1 << WRITERS_BITS] },
            addr_field: NumberPredictor::new(ADDRESSES, bits),
            value_field: NumberPredictor::new(VALUES, if DATA { bits } else { 1 }),
            previous: AccessWords::default(),
            next_reference: 0,
            all: vec![Probability::EVEN; FlowPredictor::SURENESS * 64],
            token_right: [Probability::EVEN; FlowPredictor::SURENESS],
            ip_lens: [Probability::EVEN; 8],
            known_shape: Probability::EVEN,
            shape_numbers: vec![Probability::EVEN; 64],
            steps: vec![[Probability::EVEN; 32]; 2],
        }
    }

    fn writer(addr: u64) -> usize {
        ((addr >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - WRITERS_BITS)) as usize
    }

    /// What the access before says about where the program goes.
    #[inline]
    fn clue(&self) -> u64 {
        if DATA {
            self.previous.value
        } else if kind(self.previous.shape) == 0 {
            self.writers[Self::writer(self.previous.addr)].into()
        } else {
            0
        }
    }

    /// Codes one entry. `actual` is only looked at by a coder that encodes.
    #[inline(always)]
    fn step<C: Coder>(&mut self, coder: &mut C, actual: &AccessWords) -> AccessWords {
        let expected = self.control.expect(|| self.clue());
        let token = expected.token;
        if token == NONE {
            return self.surprise(coder, &expected, actual);
        }
        let known = self.control.tokens[token as usize];
        let instruction = &self.instructions[known.instruction as usize];
        let scene = AddressScene::<DATA>(&self.recent);
        let addr = self.addr_field.expect(&instruction.addr, known.instruction, &scene);
        let (mut value, mut sureness, mut kept) = (0, 0, false);
        if DATA {
            let bank = &self.values[known.instruction as usize];
            let (memory, reference) = (self.shadow.as_ref(), self.next_reference);
            let scene = ValueScene::new(&self.recent, memory, reference, addr, instruction.shape);
            value = self.value_field.expect(bank, known.instruction, &scene);
            sureness = bank.sureness();
            kept = bank.at_home();
        }
        let context = (expected.sureness * 8 + instruction.addr.sureness()) * 8 + sureness;
        let words = AccessWords {
            cycle: self.previous.cycle.wrapping_add(known.step),
            ip: instruction.ip,
            addr,
            shape: instruction.shape,
            value,
        };
        if !coder.bit(&mut self.all[context], words == *actual) {
            return self.surprise(coder, &expected, actual);
        }
        self.addr_field.hit(&mut self.instructions[known.instruction as usize].addr, addr);
        if DATA {
            self.value_field.hit(&mut self.values[known.instruction as usize], value);
        }
        self.control.advance(&expected, token);
        self.leave(token, words, kept);
        words
    }

    /// Codes an entry that is not all as predicted.
    #[inline(never)]
    fn surprise<C: Coder>(
        &mut self,
        coder: &mut C,
        expected: &Expected,
        actual: &AccessWords,
    ) -> AccessWords {
        let mut token = expected.token;
        let mut token_right = false;
        if token != NONE {
            let known = &self.control.tokens[token as usize];
            let instruction = &self.instructions[known.instruction as usize];
            let cycle = self.previous.cycle.wrapping_add(known.step);
            let right =
                instruction.ip == actual.ip && instruction.shape == actual.shape && cycle == actual.cycle;
            token_right = coder.bit(&mut self.token_right[expected.sureness], right);
        }
        if !token_right {
            token = self.code_token(coder, actual, token);
        }
        let known = self.control.tokens[token as usize];
        let number = known.instruction;
        let instruction = &mut self.instructions[number as usize];
        let scene = AddressScene::<DATA>(&self.recent);
        let wrong = token_right && !DATA;
        let expected_addr = if DATA { self.addr_field.expect(&instruction.addr, number, &scene) } else { 0 };
        let addr = self.addr_field.code(coder, &mut instruction.addr, number, &scene, wrong, actual.addr);
        let (ip, shape) = (instruction.ip, instruction.shape);
        let mut value = 0;
        if DATA {
            let wrong = token_right && addr == expected_addr;
            let (memory, reference) = (self.shadow.as_ref(), self.next_reference);
            let scene = ValueScene::new(&self.recent, memory, reference, addr, shape);
            let bank = &mut self.values[number as usize];
            value = self.value_field.code(coder, bank, number, &scene, wrong, actual.value);
        }
        self.control.advance(expected, token);
        let cycle = self.previous.cycle.wrapping_add(known.step);
        let words = AccessWords { cycle, ip, addr, shape, value };
        self.leave(token, words, false);
        words
    }

    /// Remembers an access that was coded; `kept` says that its value is what memory held anyway.
    #[inline(always)]
    fn leave(&mut self, token: u32, words: AccessWords, kept: bool) {
        self.recent.push(words.addr, words.value);
        if let Some(shadow) = &mut self.shadow {
            let bytes = value_bytes(words.shape);
            if bytes == u32::from(REFERENCE) {
                let blocks = (words.shape as u32).div_ceil(62).max(1);
                self.next_reference = words.value.wrapping_add(blocks.into());
            } else if !kept {
                shadow.store(words.addr, bytes.min(words.shape as u32).min(8), words.value);
            }
        }
        if !DATA && kind(words.shape) != 0 {
            self.writers[Self::writer(words.addr)] = token;
        }
        self.previous = words;
    }

    /// Codes a token that is not the expected one.
    fn code_token<C: Coder>(&mut self, coder: &mut C, actual: &AccessWords, expected: u32) -> u32 {
        let step = actual.cycle.wrapping_sub(self.previous.cycle);
        let mut rank = 15;
        if C::ENCODES
            && let Some(instruction) = self.find_instruction(actual.ip, actual.shape)
            && let Some(token) = self.control.find(instruction, step)
            && token != expected
            && let Some(place) = self.control.rank(token)
        {
            rank = place;
        }
        let rank = coder.symbol(&mut self.control.ranks, rank);
        if rank < 15 {
            // A rank that no edge has comes from content that no encoder writes.
            return self.control.at_rank(rank).unwrap_or(NONE);
        }
        let instruction = self.code_instruction(coder, actual);
        let small = coder.symbol(&mut self.steps[0], step.min(31) as usize);
        let step = if small < 31 { small as u64 } else { varint(coder, STEPS, step) };
        self.control.find(instruction, step).unwrap_or_else(|| self.control.add(instruction, step))
    }

    fn first_shape(&self, ip: u64) -> Option<u32> {
        self.by_ip.find(ip).filter(|&number| self.instructions[number as usize].ip == ip)
    }

    fn find_instruction(&self, ip: u64, shape: u64) -> Option<u32> {
        let number = self.first_shape(ip)?;
        if self.instructions[number as usize].shape == shape {
            return Some(number);
        }
        let number = self.by_ip.find(other_shape(ip, shape))?;
        let instruction = &self.instructions[number as usize];
        (instruction.ip == ip && instruction.shape == shape).then_some(number)
    }

    fn code_instruction<C: Coder>(&mut self, coder: &mut C, actual: &AccessWords) -> u32 {
        let difference = zigzag_bytes(actual.ip.wrapping_sub(self.previous.ip));
        let len = coder.symbol(&mut self.ip_lens, difference.1 - 1) + 1;
        let mut word = 0;
        for place in 0..len {
            let byte =
                coder.byte(INSTRUCTIONS, (len * 8 + place) as u32, (difference.0 >> (place * 8)) as u8);
            word |= u64::from(byte) << (place * 8);
        }
        let ip = self.previous.ip.wrapping_add(crate::bytes::unzigzag(word));
        let first = self.first_shape(ip);
        if let Some(number) = first {
            let shape = self.instructions[number as usize].shape;
            if coder.bit(&mut self.known_shape, shape == actual.shape) {
                return number;
            }
        }
        let shape = self.code_shape(coder, actual.shape);
        let other = other_shape(ip, shape);
        if first.is_some()
            && let Some(number) = self.by_ip.find(other)
        {
            let instruction = &self.instructions[number as usize];
            if instruction.ip == ip && instruction.shape == shape {
                return number;
            }
        }
        let number = self.instructions.len() as u32;
        self.instructions.push(Instruction { ip, shape, addr: Bank::new(5) });
        if DATA {
            self.values.push(Bank::new(if kind(shape) == 1 { 3 } else { 0 }));
        }
        self.by_ip.insert(if first.is_some() { other } else { ip }, number);
        number
    }

    fn code_shape<C: Coder>(&mut self, coder: &mut C, shape: u64) -> u64 {
        let known = self.shapes.iter().position(|&other| other == shape).unwrap_or(63);
        let number = coder.symbol(&mut self.shape_numbers, known);
        if let Some(&shape) = self.shapes.get(number) {
            return shape;
        }
        let mut word = 0;
        for place in 0..8 {
            let byte = coder.byte(SHAPES, place, (shape >> (place * 8)) as u8);
            word |= u64::from(byte) << (place * 8);
        }
        if self.shapes.len() < 63 {
            self.shapes.push(word);
        }
        word
    }
}

/// Where a second shape of an instruction is found.
fn other_shape(ip: u64, shape: u64) -> u64 {
    ip ^ shape.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The zigzag form and its length in bytes.
fn zigzag_bytes(difference: u64) -> (u64, usize) {
    let word = crate::bytes::zigzag(difference);
    (word, 8 - (word.leading_zeros() as usize / 8).min(7))
}

fn varint<C: Coder>(coder: &mut C, column: usize, mut value: u64) -> u64 {
    let mut word = 0;
    for shift in (0..64).step_by(7) {
        let more = if value >= 0x80 { 0x80 } else { 0 };
        let byte = coder.byte(column, shift, value as u8 & 0x7f | more);
        word |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        value >>= 7;
    }
    word
}

#[inline]
fn value_bytes(shape: u64) -> u32 {
    u32::from((shape >> 40) as u8)
}

type Plain = AccessModel<false, PLAIN_SLOTS>;
type Data = AccessModel<true, DATA_SLOTS>;

impl AccessEncoder {
    fn decode_all<const DATA: bool, const SLOTS: usize>(
        &self,
        encoded: &Encoded<'_>,
        end: Option<u64>,
        mut emit: impl FnMut(&AccessWords) -> Option<()>,
    ) -> Result<(), Corrupt> {
        let count = encoded.count;
        let mut coder = RangeDecoder::<COLUMNS>::new(self.archive, encoded.parts)?;
        let mut model = AccessModel::<DATA, SLOTS>::new(count);
        let nothing = AccessWords::default();
        for _ in 0..count {
            let words = model.step(&mut coder, &nothing);
            if coder.exhausted() {
                return Err(Corrupt("a column is too short"));
            }
            emit(&words).ok_or(Corrupt("an entry has a number that stands for nothing"))?;
            if end.is_some_and(|end| words.cycle >= end) {
                return Ok(());
            }
        }
        if coder.finished() { Ok(()) } else { Err(Corrupt("a column is too long")) }
    }
}

impl Encoder for AccessEncoder {
    fn id(&self) -> u32 {
        if self.archive { number::ACCESS_ARCHIVE } else { number::ACCESS }
    }

    fn name(&self) -> &'static str {
        number::name_of(self.id())
    }

    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute> {
        let mut coder = RangeEncoder::<COLUMNS>::new(self.archive);
        match entry_type.entry_bytes as usize {
            PLAIN_BYTES => {
                let mut model = Plain::new(entries.len() / PLAIN_BYTES);
                for entry in entries.as_chunks::<PLAIN_BYTES>().0 {
                    model.step(&mut coder, &AccessWords::of(entry));
                }
            }
            DATA_BYTES => {
                let mut model = Data::new(entries.len() / DATA_BYTES);
                for entry in entries.as_chunks::<DATA_BYTES>().0 {
                    model.step(&mut coder, &AccessWords::of(entry));
                }
            }
            _ => return raw(entries),
        }
        coder.finish()
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let mut put = |words: &AccessWords, data: bool| {
            words.put(data, out);
            Some(())
        };
        match encoded.entry_type.entry_bytes as usize {
            PLAIN_BYTES => self.decode_all::<false, PLAIN_SLOTS>(encoded, None, |words| put(words, false)),
            DATA_BYTES => self.decode_all::<true, DATA_SLOTS>(encoded, None, |words| put(words, true)),
            _ => raw_decode(encoded, out),
        }
    }

    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        let put = |words: &AccessWords| {
            out.push(words.access()?);
            Some(())
        };
        match encoded.entry_type.entry_bytes as usize {
            PLAIN_BYTES => self.decode_all::<false, PLAIN_SLOTS>(encoded, end, put),
            DATA_BYTES => self.decode_all::<true, DATA_SLOTS>(encoded, end, put),
            _ => Err(NO_ACCESSES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the fuzz target `trace_encoders`.
    #[test]
    fn an_instruction_may_have_any_shapes() {
        let mut entries = Vec::new();
        for shape in [0, u64::MAX, 7, u64::MAX, u64::MAX - 1] {
            for word in [1u64, 2, 3, shape] {
                entries.extend(word.to_le_bytes());
            }
        }
        for archive in [false, true] {
            let encoder = AccessEncoder { archive };
            let parts = encoder.encode(&EntryType::accesses(), &entries);
            let encoded =
                Encoded { entry_type: &EntryType::accesses(), count: 5, parts: &parts, blocks: &[] };
            let mut decoded = Vec::new();
            assert_eq!(encoder.decode(&encoded, &mut decoded), Ok(()));
            assert!(decoded == entries);
        }
    }
}
