//! Unwinds a stack from inside its own process: allocates no memory, takes no lock, and never panics.
//!
//! [`unwind`] goes from a frame to its caller by the call frame information that comes with the code (`.eh_frame`, as the System
//! V ABI and the Linux Standard Base describe it), and where there is none by the frame record that the frame pointer points to.
//! The table's answer for an instruction is kept ([`Cache`]): the second time, a frame costs a look-up and a few reads.
//!
//! This is our own implementation, although gimli reads these tables: the libraries that need it
//! are without std, and cargo builds a single gimli for the whole workspace, with std. The tests
//! compare every row with gimli's. This crate deals only in addresses and resolves no names.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;
mod expression;
mod frame;
mod row;
mod table;

use frame::{RBP, RBX, RIP, RSP};
use row::{Cfa, Rule, TableRow};

pub use frame::StackFrame;
pub use table::FrameTable;

/// Those that a function keeps for its caller, and what it returns to.
const KEPT: [usize; 7] = [RBX, RBP, 12, 13, 14, 15, RIP];

/// The process, as the unwinder sees it.
pub trait UnwindSource {
    /// Eight bytes of memory, if they can be read.
    fn word(&mut self, addr: u64) -> Option<u64>;

    /// The tables of the module that holds an instruction.
    fn table(&mut self, ip: u64) -> Option<FrameTable<'_>>;
}

/// What a table says of one instruction, where that is as simple as it nearly always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quick {
    ip: u64,
    cfa_offset: i32,
    cfa_register: u8,
    /// Whether the frame was interrupted by a signal, so that its caller is at an instruction and not after a call.
    signal: bool,
    /// Where each of [`KEPT`] is, from the CFA.
    kept: [i16; KEPT.len()],
}

/// The caller has it.
const SAME: i16 = i16::MAX;
/// There is none: the outermost frame.
const NONE: i16 = i16::MAX - 1;

impl Quick {
    const EMPTY: Self =
        Self { ip: 0, cfa_offset: 0, cfa_register: 0, signal: false, kept: [SAME; KEPT.len()] };

    fn of(ip: u64, row: &TableRow<'_>) -> Option<Self> {
        let Cfa::Register(register, offset) = row.cfa else { return None };
        let mut quick = Self {
            ip,
            cfa_offset: i32::try_from(offset).ok()?,
            cfa_register: u8::try_from(register).ok()?,
            signal: row.signal,
            ..Self::EMPTY
        };
        for (number, rule) in row.rules.iter().enumerate() {
            let place = KEPT.iter().position(|&kept| kept == number);
            let value = match *rule {
                Rule::Same => SAME,
                Rule::Undefined => NONE,
                Rule::Offset(offset) => i16::try_from(offset).ok().filter(|&offset| offset < NONE)?,
                _ => return None,
            };
            match place.and_then(|place| quick.kept.get_mut(place)) {
                Some(place) => *place = value,
                None if value == SAME || value == NONE => {}
                None => return None,
            }
        }
        Some(quick)
    }

    /// The caller's frame; `None` where there is none or its memory can't be read.
    fn step(&self, frame: &StackFrame, process: &mut impl UnwindSource) -> Option<StackFrame> {
        let cfa = frame.get(self.cfa_register.into())?.wrapping_add(i64::from(self.cfa_offset) as u64);
        let mut caller = *frame;
        for (&register, &kept) in KEPT.iter().zip(&self.kept) {
            match kept {
                SAME if register == RIP => return None,
                SAME => {}
                NONE if register == RIP => return None,
                NONE => caller.set(register, 0),
                offset => caller.set(register, process.word(cfa.wrapping_add(i64::from(offset) as u64))?),
            }
        }
        caller.set(RSP, cfa);
        Some(caller)
    }
}

const SLOTS: usize = 2048;

/// Rows of tables that were needed, by their instruction.
#[derive(Debug)]
pub struct Cache {
    slots: [Quick; SLOTS],
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// An empty one: all zeros but for a pattern that no instruction matches.
    pub const fn new() -> Self {
        Self { slots: [Quick::EMPTY; SLOTS] }
    }

    /// Forgets all: code was unmapped, so other code may come to lie there.
    pub fn clear(&mut self) {
        self.slots.fill(Quick::EMPTY);
    }

    fn slot(ip: u64) -> usize {
        // Neighbouring instructions in neighbouring slots, modules apart.
        (ip ^ ip >> 11 ^ ip >> 22) as usize % SLOTS
    }

    fn get(&self, ip: u64) -> Option<&Quick> {
        self.slots.get(Self::slot(ip)).filter(|quick| quick.ip == ip)
    }

    fn put(&mut self, quick: Quick) {
        if let Some(place) = self.slots.get_mut(Self::slot(quick.ip)) {
            *place = quick;
        }
    }
}

/// Visits the frames from `frame` outwards, each with the address that names its place: the instruction itself in the first
/// frame and in frames that a signal interrupted, the last byte of the call in all others. Ends when `visit` says so
/// (`false`), at the outermost frame, and where the way on is not known.
pub fn unwind(
    cache: &mut Cache,
    process: &mut impl UnwindSource,
    frame: StackFrame,
    mut visit: impl FnMut(u64, &StackFrame) -> bool,
) {
    let mut frame = frame;
    // Whether the frame's instruction is one that was being executed, and not the one after a call.
    let mut exact = true;
    loop {
        let place = if exact { frame.ip() } else { frame.ip().wrapping_sub(1) };
        if !visit(place, &frame) {
            return;
        }
        let (caller, signal) = match cache.get(place).copied() {
            Some(quick) => (quick.step(&frame, process), quick.signal),
            None => step(cache, process, &frame, place),
        };
        let Some(caller) = caller else { return };
        // Upwards, but for a frame that a signal interrupted: a handler may have a stack of its own.
        let is_upwards = caller.sp() > frame.sp() || signal;
        if !is_upwards || caller.ip() == 0 {
            return;
        }
        (frame, exact) = (caller, signal);
    }
}

/// As [`unwind`] does it for one frame of which nothing is kept. Also whether a signal interrupted the caller.
fn step(
    cache: &mut Cache,
    process: &mut impl UnwindSource,
    frame: &StackFrame,
    place: u64,
) -> (Option<StackFrame>, bool) {
    // The table's bytes are the process's, and so is the memory that its rules are applied to: a row is taken out of the
    // one before the other is read.
    let quick = match process.table(place).and_then(|table| table.row(place)) {
        None => return (by_frame_record(frame, process), false),
        Some(row) => match Quick::of(place, &row) {
            Some(quick) => quick,
            None => {
                let (whole, signal) = (row.keep(), row.signal);
                return (whole.and_then(|row| row.step(frame, &mut |addr| process.word(addr))), signal);
            }
        },
    };
    cache.put(quick);
    (quick.step(frame, process), quick.signal)
}

/// By the frame record: the caller's frame pointer, and above it the return address.
fn by_frame_record(frame: &StackFrame, process: &mut impl UnwindSource) -> Option<StackFrame> {
    let record = frame.get(RBP).filter(|&record| record >= frame.sp() && record & 7 == 0)?;
    let mut caller = *frame;
    caller.set(RBP, process.word(record)?);
    caller.set(RIP, process.word(record.wrapping_add(8))?);
    caller.set(RSP, record.wrapping_add(16));
    Some(caller)
}

#[cfg(test)]
mod tests;
