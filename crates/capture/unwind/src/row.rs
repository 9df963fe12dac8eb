//! What a table says of one instruction: where the caller's registers are.

use crate::expression::evaluate;
use crate::frame::{Frame, REGISTERS, RIP, RSP};

/// The canonical frame address: the stack pointer of the caller before it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa<'a> {
    /// A register and a distance.
    Register(u64, i64),
    /// What an expression says.
    Expression(&'a [u8]),
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule<'a> {
    /// Where it was.
    Same,
    /// Nowhere.
    Undefined,
    /// In memory, so far from the CFA.
    Offset(i64),
    /// It is the CFA and this.
    ValueOffset(i64),
    /// In another register.
    Register(u64),
    /// In memory, where the expression says.
    Expression(&'a [u8]),
    /// It is what the expression says.
    ValueExpression(&'a [u8]),
}

/// All of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) cfa: Cfa<'a>,
    pub(crate) rules: [Rule<'a>; REGISTERS],
    /// The frame is one that the kernel made for a signal.
    pub(crate) signal: bool,
}

/// Bytes of expressions that a row is kept with: the frame of a signal has 17 of them, each three or four bytes.
const KEPT_BYTES: usize = 256;

/// A row with its expressions in its own memory.
pub(crate) struct Whole {
    bytes: [u8; KEPT_BYTES],
    cfa: Result<(u64, i64), (usize, usize)>,
    rules: [Kept; REGISTERS],
}

#[derive(Clone, Copy)]
enum Kept {
    Plain(Rule<'static>),
    Expression(usize, usize),
    ValueExpression(usize, usize),
}

impl Row<'_> {
    pub(crate) const NONE: Self =
        Self { cfa: Cfa::Register(RSP as u64, 8), rules: [Rule::Same; REGISTERS], signal: false };

    /// A copy that refers to nothing; `None` where its expressions are longer than any that is known.
    pub(crate) fn keep(&self) -> Option<Whole> {
        let mut bytes = [0; KEPT_BYTES];
        let mut len = 0usize;
        let mut put = |expression: &[u8]| {
            let place = (len, len.checked_add(expression.len())?);
            bytes.get_mut(place.0..place.1)?.copy_from_slice(expression);
            len = place.1;
            Some(place)
        };
        let cfa = match self.cfa {
            Cfa::Register(register, offset) => Ok((register, offset)),
            Cfa::Expression(expression) => Err(put(expression)?),
        };
        let mut rules = [Kept::Plain(Rule::Same); REGISTERS];
        for (kept, rule) in rules.iter_mut().zip(&self.rules) {
            *kept = match *rule {
                Rule::Same => Kept::Plain(Rule::Same),
                Rule::Undefined => Kept::Plain(Rule::Undefined),
                Rule::Offset(offset) => Kept::Plain(Rule::Offset(offset)),
                Rule::ValueOffset(offset) => Kept::Plain(Rule::ValueOffset(offset)),
                Rule::Register(register) => Kept::Plain(Rule::Register(register)),
                Rule::Expression(expression) => put(expression).map(|(a, b)| Kept::Expression(a, b))?,
                Rule::ValueExpression(expression) => {
                    put(expression).map(|(a, b)| Kept::ValueExpression(a, b))?
                }
            };
        }
        Some(Whole { bytes, cfa, rules })
    }
}

impl Whole {
    /// The caller's frame.
    pub(crate) fn step(&self, frame: &Frame, word: &mut impl FnMut(u64) -> Option<u64>) -> Option<Frame> {
        let part = |(start, end): (usize, usize)| self.bytes.get(start..end);
        let cfa = match self.cfa {
            Ok((register, offset)) => frame.get(usize::try_from(register).ok()?)?.wrapping_add(offset as u64),
            Err(expression) => evaluate(part(expression)?, frame, word, None)?,
        };
        let mut caller = *frame;
        caller.set(RSP, cfa);
        for (register, rule) in self.rules.iter().enumerate() {
            let value = match *rule {
                Kept::Plain(Rule::Same) if register == RIP => return None,
                Kept::Plain(Rule::Undefined) if register == RIP => return None,
                Kept::Plain(Rule::Offset(offset)) => word(cfa.wrapping_add(offset as u64))?,
                Kept::Plain(Rule::ValueOffset(offset)) => cfa.wrapping_add(offset as u64),
                Kept::Plain(Rule::Register(other)) => frame.get(usize::try_from(other).ok()?)?,
                Kept::Plain(_) => continue,
                Kept::Expression(start, end) => {
                    let at = evaluate(part((start, end))?, frame, word, Some(cfa))?;
                    word(at)?
                }
                Kept::ValueExpression(start, end) => evaluate(part((start, end))?, frame, word, Some(cfa))?,
            };
            caller.set(register, value);
        }
        Some(caller)
    }
}
