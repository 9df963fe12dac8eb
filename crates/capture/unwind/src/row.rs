//! A table row for one instruction: where the caller's registers are.

use crate::expression::evaluate;
use crate::frame::{REGISTERS, RIP, RSP, StackFrame};

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
pub(crate) struct TableRow<'a> {
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
    cfa: KeptCfa,
    rules: [KeptRule; REGISTERS],
}

/// Where an expression is among the bytes that are kept.
#[derive(Clone, Copy)]
struct ByteSpan {
    start: usize,
    end: usize,
}

/// [`Cfa`], with its expression kept.
#[derive(Clone, Copy)]
enum KeptCfa {
    Register(u64, i64),
    Expression(ByteSpan),
}

#[derive(Clone, Copy)]
enum KeptRule {
    Plain(Rule<'static>),
    Expression(ByteSpan),
    ValueExpression(ByteSpan),
}

impl TableRow<'_> {
    pub(crate) const NONE: Self =
        Self { cfa: Cfa::Register(RSP as u64, 8), rules: [Rule::Same; REGISTERS], signal: false };

    /// A copy that refers to nothing; `None` where its expressions are longer than any that is known.
    pub(crate) fn keep(&self) -> Option<Whole> {
        let mut bytes = [0; KEPT_BYTES];
        let mut len = 0usize;
        let mut put = |expression: &[u8]| {
            let span = ByteSpan { start: len, end: len.checked_add(expression.len())? };
            bytes.get_mut(span.start..span.end)?.copy_from_slice(expression);
            len = span.end;
            Some(span)
        };
        let cfa = match self.cfa {
            Cfa::Register(register, offset) => KeptCfa::Register(register, offset),
            Cfa::Expression(expression) => KeptCfa::Expression(put(expression)?),
        };
        let mut rules = [KeptRule::Plain(Rule::Same); REGISTERS];
        for (kept, rule) in rules.iter_mut().zip(&self.rules) {
            *kept = match *rule {
                Rule::Same => KeptRule::Plain(Rule::Same),
                Rule::Undefined => KeptRule::Plain(Rule::Undefined),
                Rule::Offset(offset) => KeptRule::Plain(Rule::Offset(offset)),
                Rule::ValueOffset(offset) => KeptRule::Plain(Rule::ValueOffset(offset)),
                Rule::Register(register) => KeptRule::Plain(Rule::Register(register)),
                Rule::Expression(expression) => put(expression).map(KeptRule::Expression)?,
                Rule::ValueExpression(expression) => put(expression).map(KeptRule::ValueExpression)?,
            };
        }
        Some(Whole { bytes, cfa, rules })
    }
}

impl Whole {
    /// The caller's frame.
    pub(crate) fn step(
        &self,
        frame: &StackFrame,
        word: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Option<StackFrame> {
        let part = |span: ByteSpan| self.bytes.get(span.start..span.end);
        let cfa = match self.cfa {
            KeptCfa::Register(register, offset) => {
                frame.get(usize::try_from(register).ok()?)?.wrapping_add(offset as u64)
            }
            KeptCfa::Expression(expression) => evaluate(part(expression)?, frame, word, None)?,
        };
        let mut caller = *frame;
        caller.set(RSP, cfa);
        for (register, rule) in self.rules.iter().enumerate() {
            let value = match *rule {
                KeptRule::Plain(Rule::Same) if register == RIP => return None,
                KeptRule::Plain(Rule::Undefined) if register == RIP => return None,
                KeptRule::Plain(Rule::Offset(offset)) => word(cfa.wrapping_add(offset as u64))?,
                KeptRule::Plain(Rule::ValueOffset(offset)) => cfa.wrapping_add(offset as u64),
                KeptRule::Plain(Rule::Register(other)) => frame.get(usize::try_from(other).ok()?)?,
                KeptRule::Plain(_) => continue,
                KeptRule::Expression(span) => {
                    let at = evaluate(part(span)?, frame, word, Some(cfa))?;
                    word(at)?
                }
                KeptRule::ValueExpression(span) => evaluate(part(span)?, frame, word, Some(cfa))?,
            };
            caller.set(register, value);
        }
        Some(caller)
    }
}
