//! Predicts one number of an access (its address or its value) from the
//! history of its instruction and from what other instructions just did.
//!
//! Each instruction has a [`Bank`]. One of its predictors is *active*, at the cost of one comparison per access. The
//! others are consulted and trained only when it fails. State shared by the banks of a field is in a [`NumberPredictor`].

use super::{
    coder::{Coder, Probability},
    control::class,
};
use crate::bytes::{unzigzag, zigzag};

/// The last number again.
const LAST: u8 = 3;
/// What another recent number plus a constant gives: two of those.
const RELATION: [u8; 2] = [1, 2];
/// What followed the last number when it came last time.
const AFTER: u8 = 4;
/// The last number plus the last difference.
const STRIDE: u8 = 5;
/// What the scene knows at once, if anything.
const HOME: u8 = 0;
const PREDICTORS: usize = 6;
/// The symbol after a failed prediction that says: none of the others either.
const LITERAL: usize = 7;

/// What an instruction's numbers were like.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bank {
    last: u64,
    stride: u64,
    offsets: [u64; 2],
    slots: [u8; 2],
    active: u8,
    run: u8,
    scores: [u8; PREDICTORS],
    /// The form of the last literal.
    form: u8,
    /// The symbol of the last failure.
    failure: u8,
    /// Where the differences of the last failure are, plus 1.
    learned: u32,
}

const _: () = assert!(size_of::<Bank>() == 48);

impl Bank {
    pub(super) fn new(active: u8) -> Self {
        Self { active, ..Self::default() }
    }

    /// Whether the scene's own prediction is active.
    #[inline]
    pub(super) fn at_home(&self) -> bool {
        self.active == HOME
    }

    /// How sure the active predictor is: 0 to 7.
    #[inline]
    pub(super) fn sureness(&self) -> usize {
        class(self.run)
    }
}

/// What numbers there are to relate to.
pub(super) trait Scene {
    /// Whether `home` is what came when `near` was the same.
    const BESIDE: bool;

    /// The number in a slot.
    fn slot(&self, slot: usize) -> u64;

    /// The scene's own prediction.
    fn home(&self) -> u64;

    /// What absolute literals are relative to, and whether literals of the third kind are relative to `home`.
    fn near(&self) -> u64;

    /// The bits that predictions may have.
    fn mask(&self) -> u64;
}

/// What the banks of a field share.
#[derive(Debug)]
pub(super) struct NumberPredictor<const SLOTS: usize> {
    after: Vec<u64>,
    /// What came when the scene's nearest number was the same.
    beside: Vec<u64>,
    shift: u32,
    differences: Vec<[u32; SLOTS]>,
    right: [Probability; 8 * 8],
    failures: Vec<[Probability; 8]>,
    forms: Vec<[Probability; 32]>,
    first_column: usize,
}

impl<const SLOTS: usize> NumberPredictor<SLOTS> {
    /// `first_column` is the first of the eight columns of literal bytes; the table has `2^bits` places.
    pub(super) fn new(first_column: usize, bits: u32) -> Self {
        Self {
            after: vec![0; 1 << bits],
            beside: vec![0; 1 << bits],
            shift: 64 - bits,
            differences: Vec::new(),
            right: [Probability::EVEN; 64],
            failures: vec![[Probability::EVEN; 8]; 64],
            forms: vec![[Probability::EVEN; 32]; 32],
            first_column,
        }
    }

    fn place(&self, last: u64, instruction: u32) -> usize {
        let word = last ^ u64::from(instruction).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// What the active predictor says.
    #[inline(always)]
    pub(super) fn expect<S: Scene>(&self, bank: &Bank, instruction: u32, scene: &S) -> u64 {
        self.predict(bank, bank.active, instruction, scene)
    }

    #[inline(always)]
    fn predict<S: Scene>(&self, bank: &Bank, predictor: u8, instruction: u32, scene: &S) -> u64 {
        scene.mask()
            & match predictor {
                HOME if S::BESIDE => self.beside[self.place(scene.near(), instruction)],
                HOME => scene.home(),
                LAST => bank.last,
                AFTER => self.after[self.place(bank.last, instruction)],
                STRIDE => bank.last.wrapping_add(bank.stride),
                1 => scene.slot(bank.slots[0].into()).wrapping_add(bank.offsets[0]),
                _ => scene.slot(bank.slots[1].into()).wrapping_add(bank.offsets[1]),
            }
    }

    /// The active predictor was right.
    #[inline]
    pub(super) fn hit(&self, bank: &mut Bank, actual: u64) {
        bank.run = bank.run.saturating_add(1);
        bank.last = actual;
    }

    /// Codes a number; `wrong` says that the active predictor is known to have failed.
    pub(super) fn code<C: Coder, S: Scene>(
        &mut self,
        coder: &mut C,
        bank: &mut Bank,
        instruction: u32,
        scene: &S,
        wrong: bool,
        actual: u64,
    ) -> u64 {
        let expected = self.expect(bank, instruction, scene);
        if !wrong {
            let p = &mut self.right[usize::from(bank.active) * 8 + class(bank.run)];
            if coder.bit(p, expected == actual) {
                self.hit(bank, expected);
                return expected;
            }
        }
        let predictions: [u64; PREDICTORS] =
            std::array::from_fn(|predictor| self.predict(bank, predictor as u8, instruction, scene));
        let mut symbol = LITERAL;
        if C::ENCODES {
            let mut best = 0;
            for (predictor, &prediction) in predictions.iter().enumerate() {
                let score = u16::from(bank.scores[predictor]) + 1;
                if prediction == actual && score > best {
                    (symbol, best) = (predictor, score);
                }
            }
        }
        let failures = &mut self.failures[usize::from(bank.active * 8 + bank.failure)];
        let symbol = coder.symbol(failures, symbol);
        bank.failure = symbol as u8;
        let actual = match predictions.get(symbol) {
            Some(&prediction) => prediction,
            None => self.literal(coder, bank, scene, &predictions, actual),
        };
        self.learn(bank, instruction, scene, &predictions, actual, symbol == LITERAL);
        actual
    }

    fn literal<C: Coder, S: Scene>(
        &mut self,
        coder: &mut C,
        bank: &mut Bank,
        scene: &S,
        predictions: &[u64; PREDICTORS],
        actual: u64,
    ) -> u64 {
        let bases = [bank.last, scene.near(), predictions[usize::from(RELATION[0])], predictions[0]];
        let mut form = 0;
        let mut rest = 0;
        if C::ENCODES {
            let lens = bases.map(|base| zigzag(actual.wrapping_sub(base)).leading_zeros() / 8);
            let kind = (0..4).rev().max_by_key(|&kind| lens[kind]).expect("four kinds");
            rest = zigzag(actual.wrapping_sub(bases[kind]));
            form = kind * 8 + 7 - lens[kind].min(7) as usize;
        }
        let form = coder.symbol(&mut self.forms[usize::from(bank.form)], form);
        bank.form = form as u8;
        let len = form % 8 + 1;
        let mut word = 0;
        let mut context = form as u32;
        for place in (0..len).rev() {
            let byte = coder.byte(self.first_column + place, context, (rest >> (place * 8)) as u8);
            word |= u64::from(byte) << (place * 8);
            context = form as u32 | u32::from(byte) << 5;
        }
        bases[form / 8].wrapping_add(unzigzag(word))
    }

    fn learn<S: Scene>(
        &mut self,
        bank: &mut Bank,
        instruction: u32,
        scene: &S,
        predictions: &[u64; PREDICTORS],
        actual: u64,
        literal: bool,
    ) {
        bank.run >>= 1;
        for (score, &prediction) in bank.scores.iter_mut().zip(predictions) {
            if prediction == actual {
                *score += (255 - *score) >> 2;
            } else {
                *score -= score.div_ceil(4);
            }
        }
        let related = RELATION.iter().any(|&relation| predictions[usize::from(relation)] == actual);
        if !related && literal {
            self.relate(bank, scene, actual);
        }
        let place = self.place(bank.last, instruction);
        self.after[place] = actual;
        if S::BESIDE {
            let place = self.place(scene.near(), instruction);
            self.beside[place] = actual;
        }
        bank.stride = actual.wrapping_sub(bank.last);
        bank.last = actual;
        let mut active = bank.active;
        for (predictor, &score) in bank.scores.iter().enumerate() {
            if score > bank.scores[usize::from(active)] {
                active = predictor as u8;
            }
        }
        bank.active = active;
    }

    /// Looks for a slot whose difference is the same as at the failure before.
    fn relate<S: Scene>(&mut self, bank: &mut Bank, scene: &S, actual: u64) {
        let differences: [u32; SLOTS] =
            std::array::from_fn(|slot| actual.wrapping_sub(scene.slot(slot)) as u32);
        let Some(place) = (bank.learned as usize).checked_sub(1) else {
            self.differences.push(differences);
            bank.learned = self.differences.len() as u32;
            return;
        };
        let before = &mut self.differences[place];
        let found = before.iter().zip(&differences).position(|(old, new)| old == new);
        if let Some(slot) = found {
            bank.slots = [slot as u8, bank.slots[0]];
            let offset = actual.wrapping_sub(scene.slot(slot));
            bank.offsets = [offset, bank.offsets[0]];
            let old = bank.scores[usize::from(RELATION[0])];
            bank.scores[usize::from(RELATION[1])] = old;
            bank.scores[usize::from(RELATION[0])] = old.max(64);
        }
        *before = differences;
    }
}
