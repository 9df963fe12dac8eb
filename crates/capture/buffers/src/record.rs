//! The records inside a buffer.
//!
//! A record is a sequence of 16-byte slots. The first one is laid out as follows, little-endian:
//!
//! ```text
//! word 0   bits 0..48  address of the instruction      bits 48..64  access: bytes accessed; others: slots of the record
//! word 1   bits 0..48  address of the data             bits 48..56  code (kind)   bits 56..64  tag, never 0
//! ```
//! Addresses are sign-extended from bit 47, as the hardware does. The slots that follow are described at [`encode`].
//! A name is stored as its length in bytes (one word), an unused word, and its bytes, zero-padded to whole slots.
//!
//! An access is one slot: two stores. Cycles are not stored in the buffer. Each record counts one event of its thread, except
//! `Order`, `Region`, `Counter`, `Executed`, `ThreadBase`, those of stepping, and those of the life of processes and threads.

use memref::{
    Access, AccessKind, AllocationFunction, AllocationKind, BlockFunction, BlockKind, GapReason, MarkerKind,
    RegionChange, RegionKind, SyncFunction, SyncKind, VirtAddr,
};

use crate::record_room::{Out, RecordRoom};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 16;
/// The longest name that a record carries; longer ones are cut.
pub const MAX_NAME_BYTES: usize = 4096;
/// The longest record.
pub(crate) const MAX_RECORD_BYTES: usize = 8 * SLOT_BYTES + MAX_NAME_BYTES;

/// One record. `Name` is `&[u8]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A single access; its cycle is not carried.
    Access {
        /// The instruction.
        ip: VirtAddr,
        /// The first byte accessed.
        addr: VirtAddr,
        /// Bytes accessed.
        size: u16,
        /// What is done to them.
        kind: AccessKind,
    },
    /// A single access, with what it read or wrote.
    Data {
        /// The instruction.
        ip: VirtAddr,
        /// The first byte accessed.
        addr: VirtAddr,
        /// What is done.
        kind: AccessKind,
        /// Bytes accessed.
        size: u16,
        /// What they were, or after a store or modify are; empty where that is not known.
        bytes: &'a [u8],
    },
    /// A block operation.
    Block {
        /// The call.
        ip: VirtAddr,
        /// What is done.
        kind: BlockKind,
        /// By which call.
        function: BlockFunction,
        /// As in [`memref::BlockOp`].
        dst: VirtAddr,
        /// As in [`memref::BlockOp`].
        src: VirtAddr,
        /// Bytes.
        len: u64,
    },
    /// An allocation or release.
    Allocation {
        /// Its place in the session.
        order: u64,
        /// The call.
        ip: VirtAddr,
        /// What it does.
        kind: AllocationKind,
        /// By which call.
        function: AllocationFunction,
        /// The block.
        addr: VirtAddr,
        /// Bytes.
        len: u64,
        /// The block that is replaced, or zero.
        old_addr: VirtAddr,
        /// Bytes of the mapping that is replaced, or zero.
        old_len: u64,
    },
    /// What follows comes after that order.
    Order {
        /// The last order that the thread saw.
        order: u64,
    },
    /// A change of the process's regions.
    Region {
        /// Its place in the session.
        order: u64,
        /// What happens.
        change: RegionChange,
        /// What the region is for.
        kind: RegionKind,
        /// Bit 0 read, bit 1 write, bit 2 execute.
        rights: u8,
        /// Whether accesses to it are recorded.
        traced: bool,
        /// First byte.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// Offset in the file.
        file_offset: u64,
        /// Path or bracketed name.
        name: &'a [u8],
    },
    /// A named point.
    Marker {
        /// Its place in the session.
        order: u64,
        /// The call.
        ip: VirtAddr,
        /// What it marks.
        kind: MarkerKind,
        /// Its name.
        name: &'a [u8],
    },
    /// Synchronisation.
    Sync {
        /// Its place in the session.
        order: u64,
        /// The call.
        ip: VirtAddr,
        /// What it orders.
        kind: SyncKind,
        /// By what kind of call.
        function: SyncFunction,
        /// What about.
        object: VirtAddr,
        /// As in [`memref::Sync`].
        value: u64,
    },
    /// An access to watched bytes.
    Hit {
        /// Its place in the session.
        order: u64,
        /// The instruction, or the call that accessed a block.
        ip: VirtAddr,
        /// What is done to the bytes.
        kind: AccessKind,
        /// The first of them that is watched.
        addr: VirtAddr,
        /// How many of those are watched.
        len: u64,
        /// The number of what was asked for.
        watch: u32,
        /// Whether the process stops until it is continued.
        stops: bool,
        /// What the first eight bytes held before, where that is known.
        old: Option<u64>,
        /// What they hold now.
        new: u64,
        /// The addresses of the stack's frames, the innermost first, eight bytes each.
        stack: &'a [u8],
    },
    /// Missing events.
    Gap {
        /// Why.
        reason: GapReason,
        /// How many, at least one.
        count: u64,
        /// The instruction or mapping concerned, or zero.
        addr: VirtAddr,
        /// What is concerned (a program's path), or nothing.
        name: &'a [u8],
    },
    /// An instruction that the tracer executed itself, where every block is written: one by itself.
    Executed {
        /// The instruction.
        ip: VirtAddr,
        /// Its bytes.
        len: u8,
    },
    /// Instructions that took the slow path, by instruction.
    Counter {
        /// The instruction.
        ip: VirtAddr,
        /// How often since the last such record.
        count: u64,
        /// What the instruction is.
        name: &'a [u8],
    },
    /// What the process runs.
    Program {
        /// Path of the executable.
        name: &'a [u8],
    },
    /// The process is about to execute a program in which the tracer is expected.
    Exec {
        /// Under which number the program is announced.
        announcement: u32,
        /// The process's id in its own name space.
        own_pid: u32,
        /// The program's path as it was named.
        name: &'a [u8],
    },
    /// That program was not executed: the kernel refused.
    ExecFailed {
        /// Under which number it was announced.
        announcement: u32,
    },
    /// A part of the process's command line, as long as a name can be; the parts follow each other.
    Arguments {
        /// Where it is in memory.
        addr: VirtAddr,
        /// Its bytes: each argument with a zero after it.
        name: &'a [u8],
    },
    /// The thread's fs base, from here on: where its thread-local variables are.
    ThreadBase {
        /// The address.
        addr: VirtAddr,
    },
    /// From here on the thread is stepped: what it records is compared with what follows before [`Record::StepEnd`].
    StepBegin {
        /// Whether a window begins, or goes on after something that is not stepped.
        first: bool,
    },
    /// An access that stepping saw.
    Expected {
        /// The instruction.
        ip: VirtAddr,
        /// The first byte accessed.
        addr: VirtAddr,
        /// What is done to them.
        kind: AccessKind,
        /// Bytes accessed.
        size: u16,
        /// Instructions that were stepped before it.
        executed: u64,
        /// What they were, or after a store or modify are; empty where that is not compared.
        bytes: &'a [u8],
    },
    /// The thread is no longer stepped.
    StepEnd {
        /// Instructions that were stepped; `None`: what they accessed is not known.
        executed: Option<u64>,
    },
    /// A signal ends the process, unless somebody else comes first.
    Death {
        /// The instruction of the program that faulted, or the call by which the thread sends it.
        ip: VirtAddr,
        /// What was accessed or executed, where it is a fault.
        addr: VirtAddr,
        /// Its number.
        signal: u8,
        /// Why it came (siginfo's `si_code`).
        code: i32,
    },
    /// The thread has no more to say.
    ThreadEnd,
    /// The process has no more to say; its exit status where it named one (exec: none).
    ProcessEnd {
        /// As given to exit, or `None` when another program takes over.
        status: Option<u8>,
    },
}

/// A buffer's bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where in the buffer.
    pub offset: usize,
}

const TAG_ACCESS: u8 = 1;
const TAG_BLOCK: u8 = 2;
const TAG_ALLOCATION: u8 = 3;
const TAG_ORDER: u8 = 4;
const TAG_REGION: u8 = 5;
const TAG_MARKER: u8 = 6;
const TAG_GAP: u8 = 7;
const TAG_COUNTER: u8 = 8;
const TAG_PROGRAM: u8 = 9;
const TAG_THREAD_END: u8 = 10;
const TAG_PROCESS_END: u8 = 11;
const TAG_THREAD_BASE: u8 = 12;
const TAG_ARGUMENTS: u8 = 13;
const TAG_HIT: u8 = 14;
const TAG_DATA: u8 = 15;
const TAG_STEP_BEGIN: u8 = 16;
const TAG_EXPECTED: u8 = 17;
const TAG_STEP_END: u8 = 18;
const TAG_EXECUTED: u8 = 19;
const TAG_EXEC: u8 = 20;
const TAG_EXEC_FAILED: u8 = 21;
const TAG_DEATH: u8 = 22;

const TAG_SYNC: u8 = 32;

pub(crate) const LOW_48: u64 = (1 << 48) - 1;

/// The two words of an access: the hot case, which [`crate::Writer`] stores without anything else.
#[inline]
pub(crate) fn access_words(ip: VirtAddr, addr: VirtAddr, size: u16, kind: AccessKind) -> (u64, u64) {
    (
        ip.0 & LOW_48 | u64::from(size) << 48,
        addr.0 & LOW_48 | u64::from(kind.code()) << 48 | u64::from(TAG_ACCESS) << 56,
    )
}

/// Encodes a record, as whole slots.
pub fn encode<'r>(record: &Record<'_>, room: &'r mut RecordRoom) -> &'r [u8] {
    let none = VirtAddr(0);
    let mut out = Out::new(room);
    match *record {
        Record::Access { ip, addr, size, kind } => {
            let (first, second) = access_words(ip, addr, size, kind);
            out.word(first);
            out.word(second);
            return out.written();
        }
        Record::Data { ip, addr, kind, size, bytes } => {
            out.head(ip, addr, kind.code(), TAG_DATA);
            out.word(size.into());
            out.word(0);
            out.name(bytes);
        }
        Record::Block { ip, kind, function, dst, src, len } => {
            out.head(ip, dst, kind.code(), TAG_BLOCK);
            out.word(src.0);
            out.word(len);
            out.word(u64::from(function.code()));
            out.word(0);
        }
        Record::Allocation { order, ip, kind, function, addr, len, old_addr, old_len } => {
            out.head(ip, addr, kind.code(), TAG_ALLOCATION);
            out.word(order);
            out.word(len);
            out.word(old_addr.0);
            out.word(old_len);
            out.word(u64::from(function.code()));
            out.word(0);
        }
        Record::Order { order } => {
            out.head(none, none, 0, TAG_ORDER);
            out.word(order);
            out.word(0);
        }
        Record::Region { order, change, kind, rights, traced, start, len, file_offset, name } => {
            out.head(none, start, kind.code(), TAG_REGION);
            out.word(order);
            out.word(len);
            out.word(file_offset);
            out.word(u64::from(change.code()) | u64::from(rights) << 8 | u64::from(traced) << 16);
            out.name(name);
        }
        Record::Marker { order, ip, kind, name } => {
            out.head(ip, none, kind.code(), TAG_MARKER);
            out.word(order);
            out.word(0);
            out.name(name);
        }
        Record::Sync { order, ip, kind, function, object, value } => {
            out.head(ip, object, kind.code(), TAG_SYNC);
            out.word(order);
            out.word(value);
            out.word(u64::from(function.code()));
            out.word(0);
        }
        Record::Hit { order, ip, kind, addr, len, watch, stops, old, new, stack } => {
            out.head(ip, addr, kind.code(), TAG_HIT);
            out.word(order);
            out.word(len);
            out.word(u64::from(watch) | u64::from(stops) << 32 | u64::from(old.is_some()) << 33);
            out.word(old.unwrap_or(0));
            out.word(new);
            out.word(0);
            out.name(stack);
        }
        Record::Gap { reason, count, addr, name } => {
            out.head(none, addr, reason.code(), TAG_GAP);
            out.word(count);
            out.word(0);
            out.name(name);
        }
        Record::Executed { ip, len } => out.head(ip, none, len, TAG_EXECUTED),
        Record::Counter { ip, count, name } => {
            out.head(ip, none, 0, TAG_COUNTER);
            out.word(count);
            out.word(0);
            out.name(name);
        }
        Record::Program { name } => {
            out.head(none, none, 0, TAG_PROGRAM);
            out.name(name);
        }
        Record::Arguments { addr, name } => {
            out.head(none, addr, 0, TAG_ARGUMENTS);
            out.name(name);
        }
        Record::Exec { announcement, own_pid, name } => {
            out.head(none, none, 0, TAG_EXEC);
            out.word(announcement.into());
            out.word(own_pid.into());
            out.name(name);
        }
        Record::ExecFailed { announcement } => {
            out.head(none, none, 0, TAG_EXEC_FAILED);
            out.word(announcement.into());
            out.word(0);
        }
        Record::ThreadBase { addr } => out.head(none, addr, 0, TAG_THREAD_BASE),
        Record::StepBegin { first } => out.head(none, none, first.into(), TAG_STEP_BEGIN),
        Record::Expected { ip, addr, kind, size, executed, bytes } => {
            // Their length stands beside the size: without them it is two slots.
            let bytes = bytes.get(..MAX_NAME_BYTES).unwrap_or(bytes);
            out.head(ip, addr, kind.code(), TAG_EXPECTED);
            out.word(u64::from(size) | (bytes.len() as u64) << 16);
            out.word(executed);
            out.padded(bytes);
        }
        Record::StepEnd { executed } => {
            out.head(none, none, executed.is_some().into(), TAG_STEP_END);
            out.word(executed.unwrap_or(0));
            out.word(0);
        }
        Record::Death { ip, addr, signal, code } => {
            out.head(ip, none, signal, TAG_DEATH);
            out.word(addr.0);
            out.word(u64::from(code as u32));
        }
        Record::ThreadEnd => out.head(none, none, 0, TAG_THREAD_END),
        Record::ProcessEnd { status } => {
            out.head(none, none, 0, TAG_PROCESS_END);
            out.word(u64::from(status.is_some()));
            out.word(u64::from(status.unwrap_or(0)));
        }
    }
    out.finish()
}

/// Reads the records of a buffer one after the other. After an error it ends: what follows can't be found.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Records<'a> {
    /// The records in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    fn word(&self, index: usize) -> Option<u64> {
        let at = self.offset + index * 8;
        let bytes: [u8; 8] = self.bytes.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The name that starts at word `index`.
    fn name(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes_at(index + 2, self.word(index)?)
    }

    /// So many bytes from word `index` on.
    fn bytes_at(&self, index: usize, len: u64) -> Option<&'a [u8]> {
        let len = usize::try_from(len).ok().filter(|&len| len <= MAX_NAME_BYTES)?;
        let start = self.offset + index * 8;
        self.bytes.get(start..start + len)
    }

    fn decode(&self) -> Option<(Record<'a>, usize)> {
        let (first, second) = (self.word(0)?, self.word(1)?);
        let ip = sign_extend(first);
        let addr = sign_extend(second);
        let code = (second >> 48) as u8;
        let high = (first >> 48) as u16;
        if (second >> 56) as u8 == TAG_ACCESS {
            let record = Record::Access { ip, addr, size: high, kind: AccessKind::from_code(code)? };
            return Some((record, SLOT_BYTES));
        }
        let len = usize::from(high) * SLOT_BYTES;
        if len < SLOT_BYTES || self.offset + len > self.bytes.len() {
            return None;
        }
        let record = match (second >> 56) as u8 {
            TAG_DATA => Record::Data {
                ip,
                addr,
                kind: AccessKind::from_code(code)?,
                size: u16::try_from(self.word(2)?).ok()?,
                bytes: self.name(4)?,
            },
            TAG_BLOCK => Record::Block {
                ip,
                kind: BlockKind::from_code(code)?,
                dst: addr,
                src: VirtAddr(self.word(2)?),
                len: self.word(3)?,
                function: BlockFunction::from_code(u8::try_from(self.word(4)?).ok()?)?,
            },
            TAG_ALLOCATION => Record::Allocation {
                ip,
                kind: AllocationKind::from_code(code)?,
                addr,
                order: self.word(2)?,
                len: self.word(3)?,
                old_addr: VirtAddr(self.word(4)?),
                old_len: self.word(5)?,
                function: AllocationFunction::from_code(u8::try_from(self.word(6)?).ok()?)?,
            },
            TAG_ORDER => Record::Order { order: self.word(2)? },
            TAG_REGION => {
                let flags = self.word(5)?;
                Record::Region {
                    order: self.word(2)?,
                    change: RegionChange::from_code(flags as u8)?,
                    kind: RegionKind::from_code(code)?,
                    rights: (flags >> 8) as u8,
                    traced: flags >> 16 & 1 != 0,
                    start: addr,
                    len: self.word(3)?,
                    file_offset: self.word(4)?,
                    name: self.name(6)?,
                }
            }
            TAG_MARKER => Record::Marker {
                ip,
                kind: MarkerKind::from_code(code)?,
                order: self.word(2)?,
                name: self.name(4)?,
            },
            TAG_SYNC => Record::Sync {
                ip,
                kind: SyncKind::from_code(code)?,
                object: addr,
                order: self.word(2)?,
                value: self.word(3)?,
                function: SyncFunction::from_code(u8::try_from(self.word(4)?).ok()?)?,
            },
            TAG_HIT => {
                let flags = self.word(4)?;
                Record::Hit {
                    ip,
                    kind: AccessKind::from_code(code)?,
                    addr,
                    order: self.word(2)?,
                    len: self.word(3)?,
                    watch: flags as u32,
                    stops: flags >> 32 & 1 != 0,
                    old: if flags >> 33 & 1 != 0 { Some(self.word(5)?) } else { None },
                    new: self.word(6)?,
                    stack: self.name(8)?,
                }
            }
            TAG_GAP => Record::Gap {
                reason: GapReason::from_code(code)?,
                addr,
                count: self.word(2)?,
                name: self.name(4)?,
            },
            TAG_EXECUTED => Record::Executed { ip, len: code },
            TAG_COUNTER => Record::Counter { ip, count: self.word(2)?, name: self.name(4)? },
            TAG_PROGRAM => Record::Program { name: self.name(2)? },
            TAG_ARGUMENTS => Record::Arguments { addr, name: self.name(2)? },
            TAG_EXEC => Record::Exec {
                announcement: self.word(2)? as u32,
                own_pid: self.word(3)? as u32,
                name: self.name(4)?,
            },
            TAG_EXEC_FAILED => Record::ExecFailed { announcement: self.word(2)? as u32 },
            TAG_THREAD_BASE => Record::ThreadBase { addr },
            TAG_STEP_BEGIN => Record::StepBegin { first: code != 0 },
            TAG_EXPECTED => Record::Expected {
                ip,
                addr,
                kind: AccessKind::from_code(code)?,
                size: self.word(2)? as u16,
                executed: self.word(3)?,
                bytes: self.bytes_at(4, self.word(2)? >> 16)?,
            },
            TAG_STEP_END => {
                let executed = self.word(2)?;
                Record::StepEnd { executed: (code != 0).then_some(executed) }
            }
            TAG_DEATH => Record::Death {
                ip,
                addr: VirtAddr(self.word(2)?),
                signal: code,
                code: self.word(3)? as u32 as i32,
            },
            TAG_THREAD_END => Record::ThreadEnd,
            TAG_PROCESS_END => {
                Record::ProcessEnd { status: (self.word(2)? != 0).then_some(self.word(3)? as u8) }
            }
            _ => return None,
        };
        Some((record, len))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        match self.decode() {
            Some((record, len)) => {
                self.offset += len;
                Some(Ok(record))
            }
            None => {
                let offset = core::mem::replace(&mut self.offset, self.bytes.len());
                Some(Err(DecodeError { offset }))
            }
        }
    }
}

fn sign_extend(word: u64) -> VirtAddr {
    VirtAddr(((word << 16) as i64 >> 16) as u64)
}

impl Record<'_> {
    /// The access as the vocabulary has it, at that cycle; `None` for other records.
    pub fn access(&self, cycle: u64) -> Option<Access> {
        match *self {
            Record::Access { ip, addr, size, kind } | Record::Data { ip, addr, size, kind, .. } => {
                Some(Access { cycle, ip, addr, size: size.into(), kind })
            }
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn addr() -> impl Strategy<Value = VirtAddr> {
        (0u64..1 << 47, any::<bool>()).prop_map(|(low, high)| VirtAddr(if high { !low } else { low }))
    }

    fn pick<T: Copy + core::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
        (0..all.len()).prop_map(|i| all[i])
    }

    fn check(records: &[Record<'_>]) {
        let mut bytes = Vec::new();
        for record in records {
            let mut room = RecordRoom::new();
            let one = encode(record, &mut room);
            assert_eq!(one.len() % SLOT_BYTES, 0);
            bytes.extend_from_slice(one);
        }
        let decoded: Vec<_> = Records::new(&bytes).map(|r| r.expect("a record")).collect();
        assert_eq!(decoded, records);
    }

    proptest! {
        #[test]
        fn records_come_back(
            ip in addr(), a in addr(), b in addr(), n in any::<u64>(), m in any::<u64>(), size in any::<u16>(), bits in any::<u8>(),
            access in pick(AccessKind::ALL), block in pick(BlockKind::ALL), function in pick(BlockFunction::ALL),
            alloc in pick(AllocationKind::ALL), call in pick(AllocationFunction::ALL), reason in pick(GapReason::ALL),
            change in pick(RegionChange::ALL), kind in pick(RegionKind::ALL), marker in pick(MarkerKind::ALL),
            name in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            check(&[
                Record::Access { ip, addr: a, size, kind: access },
                Record::Region { order: n, change, kind, rights: bits, traced: size % 2 == 0, start: a, len: m, file_offset: n, name: &name },
                Record::Data { ip, addr: a, kind: access, size, bytes: &name },
                Record::Block { ip, kind: block, function, dst: a, src: b, len: n },
                Record::Allocation { order: n, ip, kind: alloc, function: call, addr: a, len: m, old_addr: b, old_len: n },
                Record::Order { order: n },
                Record::Marker { order: n, ip, kind: marker, name: &name },
                Record::Gap { reason, count: n, addr: a, name: &name },
                Record::Executed { ip, len: bits },
                Record::Counter { ip, count: n, name: &name },
                Record::Hit {
                    order: n, ip, kind: access, addr: a, len: m, watch: n as u32, stops: bits > 99,
                    old: (size % 2 == 0).then_some(m), new: n, stack: &name,
                },
                Record::Program { name: &name },
                Record::Arguments { addr: a, name: &name },
                Record::Exec { announcement: n as u32, own_pid: m as u32, name: &name },
                Record::ExecFailed { announcement: n as u32 },
                Record::StepBegin { first: bits > 99 },
                Record::Expected { ip, addr: a, kind: access, size, executed: n, bytes: &name },
                Record::Expected { ip, addr: a, kind: access, size, executed: n, bytes: &[] },
                Record::StepEnd { executed: (size % 2 == 0).then_some(n) },
                Record::Death { ip, addr: VirtAddr(n), signal: bits, code: m as i32 },
                Record::ThreadEnd,
                Record::ThreadBase { addr: VirtAddr(0x7fff_0000_1740) },
                Record::ProcessEnd { status: (size % 3 == 0).then_some(bits) },
                Record::Access { ip: b, addr: ip, size, kind: access },
            ]);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let read = Records::new(&bytes).count();
            prop_assert!(read <= bytes.len() / SLOT_BYTES + 1);
        }
    }

    #[test]
    fn a_long_name_is_cut() {
        let name = [b'x'; MAX_NAME_BYTES + 1];
        let mut room = RecordRoom::new();
        assert_eq!(
            Records::new(encode(&Record::Program { name: &name }, &mut room)).next(),
            Some(Ok(Record::Program { name: &name[..MAX_NAME_BYTES] }))
        );
    }

    #[test]
    fn what_was_stepped_without_its_bytes_is_two_slots() {
        let none = VirtAddr(0);
        let kind = AccessKind::Load;
        let record = |bytes| Record::Expected { ip: none, addr: none, kind, size: 8, executed: 3, bytes };
        let mut room = RecordRoom::new();
        assert_eq!(encode(&record(&[7; 8]), &mut room).len(), 3 * SLOT_BYTES);
        assert_eq!(encode(&record(&[]), &mut room).len(), 2 * SLOT_BYTES);
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(Records::new(&[0; 32]).next(), Some(Err(DecodeError { offset: 0 })));
    }
}
