//! DWARF expressions, as far as compilers and libraries use them in call frame information: for
//! entries of procedure linkage tables, functions that align their stack, and signal frames.

use crate::bytes::TableBytes;
use crate::frame::StackFrame;

const DEPTH: usize = 16;
/// Operations of one expression: none that is used has a loop, and none gets one here.
const MOST: u32 = 256;

struct Stack {
    values: [u64; DEPTH],
    len: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.len += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        self.values.get(self.len).copied()
    }

    fn peek(&self, depth: usize) -> Option<u64> {
        self.values.get(self.len.checked_sub(depth + 1)?).copied()
    }
}

/// The value of an expression in a frame; `first` lies on the stack when it begins. `word` reads eight bytes of memory.
pub(crate) fn evaluate(
    expression: &[u8],
    frame: &StackFrame,
    word: &mut impl FnMut(u64) -> Option<u64>,
    first: Option<u64>,
) -> Option<u64> {
    let mut stack = Stack { values: [0; DEPTH], len: 0 };
    if let Some(first) = first {
        stack.push(first)?;
    }
    let mut bytes = TableBytes::new(expression, 0);
    let mut count = 0;
    while !bytes.is_empty() {
        count += 1;
        if count > MOST {
            return None;
        }
        let code = bytes.u8()?;
        let value = match code {
            // DW_OP_addr, const1u .. consts
            0x03 | 0x0e | 0x0f => bytes.u64()?,
            0x08 => bytes.u8()?.into(),
            0x09 => i64::from(bytes.u8()? as i8) as u64,
            0x0a => bytes.u16()?.into(),
            0x0b => i64::from(bytes.u16()? as i16) as u64,
            0x0c => bytes.u32()?.into(),
            0x0d => i64::from(bytes.u32()? as i32) as u64,
            0x10 => bytes.uleb()?,
            0x11 => bytes.sleb()? as u64,
            // deref
            0x06 => {
                let addr = stack.pop()?;
                word(addr)?
            }
            // dup, over, pick
            0x12 => stack.peek(0)?,
            0x14 => stack.peek(1)?,
            0x15 => stack.peek(bytes.u8()?.into())?,
            // drop
            0x13 => {
                stack.pop()?;
                continue;
            }
            // neg, not
            0x1f => stack.pop()?.wrapping_neg(),
            0x20 => !stack.pop()?,
            // plus_uconst
            0x23 => stack.pop()?.wrapping_add(bytes.uleb()?),
            0x1a | 0x1c | 0x1e | 0x21 | 0x22 | 0x24..=0x27 | 0x29..=0x2e => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                let (signed_left, signed_right) = (left as i64, right as i64);
                let shift = u32::try_from(right).unwrap_or(u32::MAX);
                match code {
                    0x1a => left & right,
                    0x1c => left.wrapping_sub(right),
                    0x1e => left.wrapping_mul(right),
                    0x21 => left | right,
                    0x22 => left.wrapping_add(right),
                    0x24 => left.checked_shl(shift).unwrap_or(0),
                    0x25 => left.checked_shr(shift).unwrap_or(0),
                    0x26 => (signed_left >> shift.min(63)) as u64,
                    0x27 => left ^ right,
                    0x29 => u64::from(left == right),
                    0x2a => u64::from(signed_left >= signed_right),
                    0x2b => u64::from(signed_left > signed_right),
                    0x2c => u64::from(signed_left <= signed_right),
                    0x2d => u64::from(signed_left < signed_right),
                    _ => u64::from(left != right),
                }
            }
            // lit0 .. lit31, breg0 .. breg31
            0x30..=0x4f => u64::from(code - 0x30),
            0x70..=0x8f => {
                let register = frame.get(usize::from(code - 0x70))?;
                register.wrapping_add(bytes.sleb()? as u64)
            }
            // nop
            0x96 => continue,
            _ => return None,
        };
        stack.push(value)?;
    }
    stack.pop()
}
