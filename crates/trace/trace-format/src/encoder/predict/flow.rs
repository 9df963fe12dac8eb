//! The encoder of a block stream: which basic block was executed, and the values from which its addresses follow. What a
//! block is stands elsewhere, so nothing about instructions has to be predicted (docs/format.md, *Encoders*, 7).
//!
//! Entries are words. An execution is a head - block 22 bits, number of values 6 bits, instructions that follow without an
//! access 36 bits - and then its values. Words that are no whole execution are kept as they are.

use super::{
    AddressScene, PLAIN_SLOTS, RECENT, Recent,
    bank::{Bank, Field},
    coder::{Coder, FIRST_COLUMN, Probability, RangeDecoder, RangeEncoder},
    control::{Control, NONE},
};
use crate::{
    EntryType, Guid,
    encoder::{Coding, Corrupt, Encoded, Encoder, FLOW, Part, raw, raw_decode},
};

/// Bytes of an entry.
const WORD: usize = 8;
const VALUES_AT: u32 = 22;
const MAX_VALUES: usize = 63;
/// Literal bytes: of values, of heads.
const COLUMNS: usize = 9;
const VALUES: usize = 0;
const HEADS: usize = 8;
/// Attribute type of the words behind the last whole execution.
const REST: u16 = FIRST_COLUMN + COLUMNS as u16;

/// Executions of basic blocks.
#[derive(Debug)]
pub(crate) struct Flow;

impl EntryType {
    /// The words of a block stream; see docs/format.md, *Entry types*.
    pub fn flow() -> Self {
        Self { guid: Guid::of_type(17), name: "flow".into(), entry_bytes: WORD as u32, fields: Vec::new() }
    }
}

/// The head of an execution of `block` with `values` values and `quiet` instructions behind it; `None` where one of them does
/// not fit.
pub fn flow_head(block: u32, values: usize, quiet: u64) -> Option<u64> {
    let fits = block >> VALUES_AT == 0 && values <= MAX_VALUES && quiet >> 36 == 0;
    fits.then(|| u64::from(block) | (values as u64) << VALUES_AT | quiet << 28)
}

fn values_of(head: u64) -> usize {
    (head >> VALUES_AT) as usize & MAX_VALUES
}

/// State of a segment. Tokens of the control flow are heads, numbered by `instruction`.
struct Model {
    control: Control,
    /// Heads by token, and where the banks of their values begin.
    heads: Vec<(u64, u32)>,
    banks: Vec<Bank>,
    recent: Recent,
    field: Field<PLAIN_SLOTS>,
    all: Vec<Probability>,
    head_right: [Probability; Control::SURENESS],
}

impl Model {
    fn new(words: usize) -> Self {
        let bits = (words.max(1).ilog2() + 1).clamp(8, 16);
        Self {
            control: Control::new(bits),
            heads: vec![(0, 0)],
            banks: Vec::new(),
            recent: Recent { addrs: [0; RECENT], values: [0; RECENT], at: 0 },
            field: Field::new(VALUES, bits),
            all: vec![Probability::EVEN; Control::SURENESS * 8],
            head_right: [Probability::EVEN; Control::SURENESS],
        }
    }

    /// Codes one execution. `execution` is its words, of which a decoder fills in what it reads; returns how many there are.
    #[inline(always)]
    fn step<C: Coder>(&mut self, coder: &mut C, execution: &mut [u64; MAX_VALUES + 1]) -> usize {
        let recent = &self.recent;
        let expected = self.control.expect(|| recent.addr(0));
        let mut token = expected.token;
        let (head, first) = self.heads[token as usize];
        let count = values_of(head);
        if token != NONE {
            let mut right = !C::ENCODES || execution[0] == head;
            // A value that a later one relates to must be in its place, so what is predicted is entered at once, and taken
            // back where it was wrong.
            let before = self.recent.at;
            let mut sureness = 7;
            let mut predicted = [0; MAX_VALUES];
            if right {
                for place in 0..count {
                    let number = first + place as u32;
                    let bank = &self.banks[number as usize];
                    sureness = sureness.min(bank.sureness());
                    let value = self.field.expect(bank, number, &AddressScene::<false>(&self.recent));
                    if C::ENCODES && execution[1 + place] != value {
                        right = false;
                        // The context of the answer needs all banks.
                        let rest = &self.banks[(number + 1) as usize..first as usize + count];
                        sureness = rest.iter().fold(sureness, |least, bank| least.min(bank.sureness()));
                        break;
                    }
                    predicted[place] = value;
                    self.recent.push(value, 0);
                }
            } else {
                let banks = &self.banks[first as usize..first as usize + count];
                sureness = banks.iter().fold(sureness, |least, bank| least.min(bank.sureness()));
            }
            let context = expected.sureness * 8 + sureness;
            if coder.bit(&mut self.all[context], right) {
                execution[0] = head;
                for (place, &value) in predicted[..count].iter().enumerate() {
                    self.field.hit(&mut self.banks[first as usize + place], value);
                    execution[1 + place] = value;
                }
                self.control.advance(&expected, token);
                return 1 + count;
            }
            self.recent.rewind(before);
            let known = coder.bit(&mut self.head_right[expected.sureness], execution[0] == head);
            if !known {
                token = NONE;
            }
        }
        if token == NONE {
            token = self.code_head(coder, execution[0], expected.token);
        }
        let (head, first) = self.heads[token as usize];
        execution[0] = head;
        let count = values_of(head);
        for place in 0..count {
            let number = first + place as u32;
            let scene = AddressScene::<false>(&self.recent);
            let bank = &mut self.banks[number as usize];
            let value = self.field.code(coder, bank, number, &scene, false, execution[1 + place]);
            self.recent.push(value, 0);
            execution[1 + place] = value;
        }
        self.control.advance(&expected, token);
        1 + count
    }

    #[inline(never)]
    fn code_head<C: Coder>(&mut self, coder: &mut C, actual: u64, expected: u32) -> u32 {
        let mut rank = 15;
        if C::ENCODES
            && let Some(token) = self.control.find(0, actual)
            && token != expected
            && let Some(place) = self.control.rank(token)
        {
            rank = place;
        }
        let rank = coder.symbol(&mut self.control.ranks, rank);
        if rank < 15 {
            return self.control.at_rank(rank).unwrap_or(NONE);
        }
        let mut head = 0;
        for place in 0..WORD {
            let byte = coder.byte(HEADS, place as u32, (actual >> (8 * place)) as u8);
            head |= u64::from(byte) << (8 * place);
        }
        if let Some(token) = self.control.find(0, head) {
            return token;
        }
        let token = self.control.add(0, head);
        self.heads.push((head, self.banks.len() as u32));
        self.banks.resize(self.banks.len() + values_of(head), Bank::new(5));
        token
    }
}

impl Encoder for Flow {
    fn id(&self) -> u32 {
        FLOW
    }

    fn name(&self) -> &'static str {
        "flow"
    }

    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Part> {
        if entry_type.entry_bytes as usize != WORD {
            return raw(entries);
        }
        let words: Vec<u64> = entries.as_chunks().0.iter().copied().map(u64::from_le_bytes).collect();
        let mut coder = RangeEncoder::<COLUMNS>::new(false);
        let mut model = Model::new(words.len());
        let mut execution = [0; MAX_VALUES + 1];
        let mut at = 0;
        while let Some(&head) = words.get(at) {
            let Some(all) = words.get(at..at + 1 + values_of(head)) else { break };
            execution[..all.len()].copy_from_slice(all);
            model.step(&mut coder, &mut execution);
            at += all.len();
        }
        let mut parts = coder.finish();
        let rest = &entries[at * WORD..];
        if !rest.is_empty() {
            parts.push(Part { kind: REST, coding: Coding::Zstd, bytes: rest.to_vec() });
        }
        parts
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let &Encoded { entry_type, count, parts } = encoded;
        if entry_type.entry_bytes as usize != WORD {
            return raw_decode(encoded, out);
        }
        let rest = parts.iter().find(|part| part.kind == REST).map_or(&[][..], |part| &part.bytes);
        const LENGTH: Corrupt = Corrupt("the executions do not have the length that the header says");
        let coded = (count * WORD).checked_sub(rest.len()).ok_or(LENGTH)?;
        let coded_parts = parts.iter().filter(|part| part.kind != REST);
        let mut coder = RangeDecoder::<COLUMNS>::new(false, coded_parts)?;
        let mut model = Model::new(count);
        let mut execution = [0; MAX_VALUES + 1];
        let end = out.len() + coded;
        out.reserve(count * WORD);
        while out.len() < end {
            let words = model.step(&mut coder, &mut execution);
            if coder.exhausted() {
                return Err(Corrupt("a column is too short"));
            }
            for word in &execution[..words] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        if out.len() != end || !coder.finished() {
            return Err(LENGTH);
        }
        out.extend_from_slice(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(words: &[u64]) -> usize {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let parts = Flow.encode(&EntryType::flow(), &bytes);
        let encoded = Encoded { entry_type: &EntryType::flow(), count: words.len(), parts: &parts };
        let mut out = Vec::new();
        Flow.decode(&encoded, &mut out).unwrap();
        assert!(out == bytes);
        parts.iter().map(|part| part.store(3).1.len()).sum()
    }

    proptest! {
        #[test]
        fn any_words_come_back(words in prop::collection::vec(prop_oneof![any::<u64>(), 0..5_u64, Just(1 << 22)], 1..300)) {
            check(&words);
        }
    }

    #[test]
    fn loops_cost_next_to_nothing() {
        let mut words = Vec::new();
        for n in 0..20_000_u64 {
            words.extend([flow_head(16, 2, 3).unwrap(), 0x7000 + n * 8, 0x9000 + n * 16]);
            words.push(flow_head(if n % 10 == 0 { 17 } else { 18 }, 0, 0).unwrap());
        }
        let bytes = check(&words);
        assert!(bytes < 2_000, "{bytes}");
    }

    #[test]
    fn heads_hold_what_fits() {
        assert_eq!(flow_head(1 << 22, 0, 0), None);
        assert_eq!(flow_head(5, 64, 0), None);
        assert_eq!(flow_head(5, 63, 7), Some(5 | 63 << 22 | 7 << 28));
    }
}
