//! The unwind tables of a module: `.eh_frame_hdr`, a sorted list of functions, and `.eh_frame`, a small program for each
//! function that describes how its frame changes from instruction to instruction (DWARF 5, section 6.4; LSB Core, chapter 10.6).

use crate::bytes::{ABSOLUTE, OMITTED, TableBytes};
use crate::frame::{REGISTERS, RIP};
use crate::row::{Cfa, Rule, TableRow};

/// Relative to the list, four bytes with a sign: as every linker writes the list.
const SORTED: u8 = 0x3b;
/// States that are remembered at a time; compilers remember one.
const REMEMBERED: usize = 4;

/// The tables of one module: a stretch of its memory that holds both.
#[derive(Clone, Copy, Debug)]
pub struct FrameTable<'a> {
    bytes: TableBytes<'a>,
    list: u64,
}

/// What functions have in common.
struct Common<'a> {
    code_align: u64,
    data_align: i64,
    encoding: u8,
    has_lengths: bool,
    signal: bool,
    instructions: TableBytes<'a>,
}

impl<'a> FrameTable<'a> {
    /// The tables in `bytes`, which lie at address `start`; `list` is the address of `.eh_frame_hdr` (`PT_GNU_EH_FRAME`).
    pub fn new(bytes: &'a [u8], start: u64, list: u64) -> Self {
        Self { bytes: TableBytes::new(bytes, start), list }
    }

    /// The row of an instruction; `None` where the module says nothing of it.
    pub(crate) fn row(&self, ip: u64) -> Option<TableRow<'a>> {
        let mut entry = self.bytes.seek(self.function(ip)?)?;
        let len = entry.u32()?;
        if len == u32::MAX || len == 0 {
            // A table of more than four gigabytes, or its end.
            return None;
        }
        let mut entry = entry.split(len.into())?;
        let here = entry.addr();
        let back = entry.u32()?;
        let common = self.common(here.checked_sub(back.into())?)?;
        let first = entry.pointer(common.encoding)?;
        let bytes = entry.plain(common.encoding & 0xf)?;
        if ip < first || ip >= first.wrapping_add(bytes) {
            return None;
        }
        if common.has_lengths {
            let skip = entry.uleb()?;
            entry.split(skip)?;
        }
        let mut run = TableRun {
            row: TableRow { signal: common.signal, ..TableRow::NONE },
            initial: None,
            remembered: [TableRow::NONE; REMEMBERED],
            depth: 0,
            at: first,
        };
        run.execute(common.instructions, &common, u64::MAX)?;
        run.initial = Some(run.row.rules);
        run.execute(entry, &common, ip)?;
        Some(run.row)
    }

    /// Where the entry of the function that an instruction is in begins.
    fn function(&self, ip: u64) -> Option<u64> {
        let mut list = self.bytes.seek(self.list)?;
        let [version, frames, count, sorted] = [list.u8()?, list.u8()?, list.u8()?, list.u8()?];
        if version != 1 || sorted != SORTED || count == OMITTED {
            return None;
        }
        if frames != OMITTED {
            list.plain(frames)?;
        }
        let count = list.plain(count)?;
        let first = list.addr();
        let entry = |index: u64| {
            let mut pair = self.bytes.seek(first.checked_add(index.checked_mul(8)?)?)?;
            let mut relative = || Some(self.list.wrapping_add(i64::from(pair.u32()? as i32) as u64));
            Some((relative()?, relative()?))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle)?.0 <= ip {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(entry(low.checked_sub(1)?)?.1)
    }

    fn common(&self, addr: u64) -> Option<Common<'a>> {
        let mut entry = self.bytes.seek(addr)?;
        let len = entry.u32()?;
        let mut entry = entry.split(len.into())?;
        if entry.u32()? != 0 {
            return None;
        }
        let version = entry.u8()?;
        let mut letters = entry;
        let mut count = 0;
        while entry.u8()? != 0 {
            count += 1;
        }
        let code_align = entry.uleb()?;
        let data_align = entry.sleb()?;
        let return_to = if version == 1 { entry.u8()?.into() } else { entry.uleb()? };
        if return_to != RIP as u64 {
            return None;
        }
        let mut common = Common {
            code_align,
            data_align,
            encoding: ABSOLUTE,
            has_lengths: false,
            signal: false,
            instructions: entry,
        };
        for _ in 0..count {
            match letters.u8()? {
                b'z' => {
                    common.has_lengths = true;
                    let len = entry.uleb()?;
                    let mut after = entry;
                    after.split(len)?;
                    common.instructions = after;
                }
                b'R' => common.encoding = entry.u8()?,
                b'L' => _ = entry.u8()?,
                b'P' => {
                    let encoding = entry.u8()?;
                    entry.plain(encoding)?;
                }
                b'S' => common.signal = true,
                // Its length says where the instructions are, but what else it means is not known.
                _ if common.has_lengths => break,
                _ => return None,
            }
        }
        Some(common)
    }
}

/// The execution of such a program.
struct TableRun<'a> {
    row: TableRow<'a>,
    /// The rules before the function's own instructions.
    initial: Option<[Rule<'a>; REGISTERS]>,
    remembered: [TableRow<'a>; REMEMBERED],
    depth: usize,
    at: u64,
}

impl<'a> TableRun<'a> {
    fn set(&mut self, register: u64, rule: Rule<'a>) {
        // Registers that are not general ones are of no interest.
        if let Some(place) = usize::try_from(register).ok().and_then(|number| self.row.rules.get_mut(number))
        {
            *place = rule;
        }
    }

    fn restore(&mut self, register: u64) {
        let initial = usize::try_from(register)
            .ok()
            .and_then(|number| self.initial.and_then(|rules| rules.get(number).copied()));
        self.set(register, initial.unwrap_or(Rule::Same));
    }

    /// Runs until the row of an instruction is complete.
    fn execute(&mut self, mut code: TableBytes<'a>, common: &Common<'_>, ip: u64) -> Option<()> {
        let scaled = |offset: u64| (offset as i64).wrapping_mul(common.data_align);
        while !code.is_empty() {
            let byte = code.u8()?;
            let low = u64::from(byte & 0x3f);
            let step = match byte {
                0x40..=0x7f => Some(low),
                0x02 => Some(code.u8()?.into()),
                0x03 => Some(code.u16()?.into()),
                0x04 => Some(code.u32()?.into()),
                _ => None,
            };
            if let Some(step) = step {
                self.at = self.at.wrapping_add(step.wrapping_mul(common.code_align));
                if self.at > ip {
                    return Some(());
                }
                continue;
            }
            match byte {
                0x80..=0xbf => {
                    let offset = code.uleb()?;
                    self.set(low, Rule::Offset(scaled(offset)));
                }
                0xc0..=0xff => self.restore(low),
                0x00 => {}
                0x01 => {
                    self.at = code.pointer(common.encoding)?;
                    if self.at > ip {
                        return Some(());
                    }
                }
                0x05 => {
                    let (register, offset) = (code.uleb()?, code.uleb()?);
                    self.set(register, Rule::Offset(scaled(offset)));
                }
                0x06 => {
                    let register = code.uleb()?;
                    self.restore(register);
                }
                0x07 => {
                    let register = code.uleb()?;
                    self.set(register, Rule::Undefined);
                }
                0x08 => {
                    let register = code.uleb()?;
                    self.set(register, Rule::Same);
                }
                0x09 => {
                    let (register, other) = (code.uleb()?, code.uleb()?);
                    self.set(register, Rule::Register(other));
                }
                0x0a => {
                    *self.remembered.get_mut(self.depth)? = self.row;
                    self.depth += 1;
                }
                0x0b => {
                    self.depth = self.depth.checked_sub(1)?;
                    self.row = *self.remembered.get(self.depth)?;
                }
                0x0c => self.row.cfa = Cfa::Register(code.uleb()?, code.uleb()? as i64),
                0x0d => {
                    let Cfa::Register(_, offset) = self.row.cfa else { return None };
                    self.row.cfa = Cfa::Register(code.uleb()?, offset);
                }
                0x0e => {
                    let Cfa::Register(register, _) = self.row.cfa else { return None };
                    self.row.cfa = Cfa::Register(register, code.uleb()? as i64);
                }
                0x0f => self.row.cfa = Cfa::Expression(block(&mut code)?),
                0x10 => {
                    let register = code.uleb()?;
                    let expression = block(&mut code)?;
                    self.set(register, Rule::Expression(expression));
                }
                0x11 => {
                    let (register, offset) = (code.uleb()?, code.sleb()?);
                    self.set(register, Rule::Offset(scaled(offset as u64)));
                }
                0x12 => self.row.cfa = Cfa::Register(code.uleb()?, scaled(code.sleb()? as u64)),
                0x13 => {
                    let Cfa::Register(register, _) = self.row.cfa else { return None };
                    self.row.cfa = Cfa::Register(register, scaled(code.sleb()? as u64));
                }
                0x14 => {
                    let (register, offset) = (code.uleb()?, code.uleb()?);
                    self.set(register, Rule::ValueOffset(scaled(offset)));
                }
                0x15 => {
                    let (register, offset) = (code.uleb()?, code.sleb()?);
                    self.set(register, Rule::ValueOffset(scaled(offset as u64)));
                }
                0x16 => {
                    let register = code.uleb()?;
                    let expression = block(&mut code)?;
                    self.set(register, Rule::ValueExpression(expression));
                }
                // DW_CFA_GNU_args_size
                0x2e => _ = code.uleb()?,
                0x2f => {
                    let (register, offset) = (code.uleb()?, code.uleb()?);
                    self.set(register, Rule::Offset(scaled(offset).wrapping_neg()));
                }
                _ => return None,
            }
        }
        Some(())
    }
}

fn block<'a>(code: &mut TableBytes<'a>) -> Option<&'a [u8]> {
    let len = code.uleb()?;
    code.split(len).map(|part| part.rest())
}
