//! Compares what was recorded in a stretch of the run with what single-stepping
//! saw in it (`record --verify`; in the tracer, `translate::verify`).

use memref::{Access, VirtAddr};

use crate::Verified;

/// Differences that are shown.
const SHOWN: usize = 10;

/// A stretch of a thread that is being read.
#[derive(Debug)]
pub(super) struct SteppedStretch {
    /// The thread's cycle where it begins.
    from: u64,
    recorded: Vec<Seen>,
    expected: Vec<Seen>,
}

/// An access, and what it read or wrote: empty where that is not known.
#[derive(Debug)]
struct Seen {
    access: Access,
    bytes: Vec<u8>,
}

impl SteppedStretch {
    pub(super) fn new(from: u64) -> Self {
        Self { from, recorded: Vec::new(), expected: Vec::new() }
    }

    /// Accesses that the thread recorded.
    pub(super) fn record<'a>(&mut self, accesses: impl Iterator<Item = (Access, &'a [u8])>) {
        self.recorded.extend(accesses.map(|(access, bytes)| Seen { access, bytes: bytes.to_vec() }));
    }

    /// An access that stepping saw, after that many instructions, and its bytes, if they are to be compared.
    pub(super) fn expect(&mut self, access: Access, bytes: &[u8]) {
        let access = Access { cycle: access.cycle + self.from, ..access };
        self.expected.push(Seen { access, bytes: bytes.to_vec() });
    }

    /// Compares, an instruction at a time. It ends at `until`; stepping counted `executed` instructions.
    pub(super) fn compare(&self, until: u64, executed: u64, verified: &mut Verified) {
        verified.instructions += executed;
        verified.accesses += self.expected.len() as u64;
        if let Some(count) = &mut verified.with_bytes {
            *count += self.expected.iter().filter(|seen| !seen.bytes.is_empty()).count() as u64;
        }
        let (mut recorded, mut expected) = (&self.recorded[..], &self.expected[..]);
        while let Some(first) =
            recorded.first().into_iter().chain(expected.first()).map(|seen| seen.access.cycle).min()
        {
            let (mine, theirs) = (take(&mut recorded, first), take(&mut expected, first));
            if let Some((was, saw)) = difference(mine, theirs) {
                let ip = theirs.first().or(mine.first()).map_or(VirtAddr(0), |seen| seen.access.ip);
                let number = first - self.from;
                verified.note(format!(
                    "instruction {ip} (number {number} of its stretch): stepping saw {saw}, recorded was {was}"
                ));
            }
        }
        let counted = until.wrapping_sub(self.from);
        if counted != executed {
            verified.note(format!(
                "a stretch of {executed} instructions was recorded as {counted}{}",
                self.expected
                    .first()
                    .map_or_else(String::new, |seen| format!(", from {} on", seen.access.ip))
            ));
        }
    }
}

/// The accesses at the front that one instruction made.
fn take<'a>(accesses: &mut &'a [Seen], cycle: u64) -> &'a [Seen] {
    let count = accesses.iter().take_while(|seen| seen.access.cycle == cycle).count();
    let (own, rest) = accesses.split_at(count);
    *accesses = rest;
    own
}

/// How an instruction's accesses differ: as recorded, and as stepping saw them.
fn difference(mine: &[Seen], theirs: &[Seen]) -> Option<(String, String)> {
    if mine.len() != theirs.len()
        || mine.iter().zip(theirs).any(|(mine, theirs)| mine.access != theirs.access)
    {
        return Some((words(mine), words(theirs)));
    }
    let (mine, theirs) = mine
        .iter()
        .zip(theirs)
        .find(|(mine, theirs)| !theirs.bytes.is_empty() && mine.bytes != theirs.bytes)?;
    Some((number(&mine.bytes), format!("{} with {}", word(theirs), number(&theirs.bytes))))
}

fn word(Seen { access, .. }: &Seen) -> String {
    format!("{} of {} bytes at {} by {}", access.kind.name(), access.size, access.addr, access.ip)
}

/// Bytes as `dump` shows them.
fn number(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn words(accesses: &[Seen]) -> String {
    match accesses {
        [] => "nothing".to_owned(),
        [first] => word(first),
        [first, rest @ ..] => format!("{} and {} more", word(first), rest.len()),
    }
}

impl Verified {
    fn note(&mut self, words: String) {
        self.mismatches += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memref::AccessKind;

    fn access(cycle: u64, ip: u64, addr: u64) -> Access {
        Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size: 8, kind: AccessKind::Load }
    }

    fn check(recorded: &[Access], expected: &[Access], until: u64, executed: u64) -> Verified {
        let mut stretch = SteppedStretch::new(100);
        stretch.record(recorded.iter().map(|access| (*access, &[][..])));
        expected.iter().for_each(|&access| stretch.expect(access, &[]));
        let mut verified = Verified::default();
        stretch.compare(until, executed, &mut verified);
        verified
    }

    /// Two accesses of one instruction and one of the next, with these bytes each.
    fn check_bytes(recorded: [&[u8]; 3], expected: [&[u8]; 3]) -> Verified {
        let accesses = [access(0, 1, 10), access(0, 1, 20), access(1, 2, 30)];
        let mut stretch = SteppedStretch::new(100);
        let moved = accesses.map(|access| Access { cycle: access.cycle + 100, ..access });
        stretch.record(moved.into_iter().zip(recorded));
        accesses.into_iter().zip(expected).for_each(|(access, bytes)| stretch.expect(access, bytes));
        let mut verified = Verified { with_bytes: Some(0), ..Verified::default() };
        stretch.compare(102, 2, &mut verified);
        verified
    }

    #[test]
    fn the_same_bytes_are_counted_and_no_mismatch() {
        let verified = check_bytes([&[1; 8], &[2; 8], &[3; 8]], [&[1; 8], &[2; 8], &[3; 8]]);
        assert_eq!((verified.with_bytes, verified.mismatches, verified.shown), (Some(3), 0, vec![]));
    }

    #[test]
    fn bytes_that_stepping_does_not_know_are_not_compared() {
        let verified = check_bytes([&[1; 8], &[], &[3; 8]], [&[1; 8], &[], &[]]);
        assert_eq!((verified.with_bytes, verified.mismatches, verified.shown), (Some(1), 0, vec![]));
        assert_eq!(check(&[], &[], 100, 0).with_bytes, None);
    }

    #[test]
    fn other_bytes_and_missing_ones_are_found() {
        let verified = check_bytes(
            [&[1; 8], &[2, 2, 2, 2, 2, 2, 2, 9], &[]],
            [&[1; 8], &[2; 8], &[0x34, 0x12, 0, 0, 0, 0, 0, 0xff]],
        );
        assert_eq!(
            verified.shown,
            [
                "instruction 0x1 (number 0 of its stretch): stepping saw load of 8 bytes at 0x14 by 0x1 \
                 with 0x0202020202020202, recorded was 0x0902020202020202",
                "instruction 0x2 (number 1 of its stretch): stepping saw load of 8 bytes at 0x1e by 0x2 \
                 with 0xff00000000001234, recorded was nothing",
            ]
        );
        assert_eq!((verified.with_bytes, verified.mismatches), (Some(3), 2));
    }

    #[test]
    fn what_is_the_same_is_no_mismatch() {
        let recorded = [access(100, 1, 10), access(100, 1, 20), access(103, 4, 30)];
        let expected = [access(0, 1, 10), access(0, 1, 20), access(3, 4, 30)];
        let verified = check(&recorded, &expected, 105, 5);
        assert_eq!((verified.instructions, verified.accesses, verified.mismatches), (5, 3, 0));
    }

    #[test]
    fn each_difference_is_one_of_its_instruction() {
        let expected = [access(0, 1, 10), access(1, 2, 20), access(3, 4, 30)];
        // An address, a missing access, one that nobody made, a size.
        let recorded = [access(100, 1, 11), access(102, 3, 5), Access { size: 4, ..access(103, 4, 30) }];
        let verified = check(&recorded, &expected, 104, 4);
        assert_eq!(verified.mismatches, 4);
        assert_eq!(
            verified.shown[0],
            "instruction 0x1 (number 0 of its stretch): stepping saw load of 8 bytes at 0xa by 0x1, \
             recorded was load of 8 bytes at 0xb by 0x1"
        );
        assert!(verified.shown[1].ends_with("recorded was nothing"), "{}", verified.shown[1]);
    }

    #[test]
    fn instructions_that_were_not_counted_are_found() {
        let verified = check(&[], &[], 104, 5);
        assert_eq!(verified.shown, ["a stretch of 5 instructions was recorded as 4"]);
    }
}

/// The comparison at its place: a thread's buffer, read with the blocks that its process defined.
#[cfg(test)]
mod reading {
    use super::super::gathered::HeldBuffer;
    use super::super::{Contents, Sink};
    use super::Verified;
    use crate::store::memory_plan::MemoryPlan;
    use blocks::{BlockAccess, Extent, MAX_DEFINITION_BYTES, RecordedValues, encode_definition};
    use buffers::flow::{EMBED, FIRST_BLOCK, ID_BITS, PAD};
    use buffers::{Content, Record, RecordRoom, encode};
    use memref::{AccessKind, VirtAddr};
    use trace_format::{CreateOptions, TraceWriter};

    const CODE: u64 = 0x40_1000;

    fn embed(bytes: &mut Vec<u8>, record: &Record<'_>) {
        let mut room = RecordRoom::new();
        let record = encode(record, &mut room);
        bytes.extend_from_slice(&(EMBED | (record.len() as u64 / 8) << ID_BITS).to_le_bytes());
        bytes.extend_from_slice(record);
        bytes.extend_from_slice(&PAD.to_le_bytes());
    }

    /// The thread handed over a buffer.
    fn take(sink: &mut Sink<'_>, bytes: &[u8]) {
        sink.take(0, 0, 1, 0, Content::Flow, HeldBuffer::of(bytes)).unwrap();
    }

    /// A block of three instructions, of which the second one loads from what rdi points to, was executed with rdi 0x5000.
    /// `defined` is the block's access as the tracer defined it.
    fn check(defined: BlockAccess, instructions: u16) -> Verified {
        let dir = tempfile::tempdir().unwrap();
        let trace = TraceWriter::create(dir.path().join("t.memtap"), CreateOptions::default()).unwrap();
        let mut sink = Sink::new(
            trace,
            Contents { regions: u32::MAX, data: false, flow: false, verify: true },
            None,
            MemoryPlan::new(None, 1),
            None,
        );
        sink.add_process(0, std::process::id(), None, 0).unwrap();
        let mut definition = [0; MAX_DEFINITION_BYTES];
        let (extent, values) = (Extent::of(VirtAddr(CODE), instructions), RecordedValues::plain(1));
        let len = encode_definition(FIRST_BLOCK, extent, values, &[defined], &mut definition);
        sink.blocks.add(0, 0, &definition[..len], None).unwrap();
        let mut bytes = PAD.to_le_bytes().to_vec();
        embed(&mut bytes, &Record::StepBegin { first: true });
        bytes.extend_from_slice(&u64::from(FIRST_BLOCK).to_le_bytes());
        bytes.extend_from_slice(&0x5000u64.to_le_bytes());
        let (ip, addr) = (VirtAddr(CODE + 4), VirtAddr(0x5008));
        let kind = AccessKind::Load;
        embed(&mut bytes, &Record::Expected { ip, addr, kind, size: 8, executed: 1, bytes: &[] });
        embed(&mut bytes, &Record::StepEnd { executed: Some(3) });
        take(&mut sink, &bytes);
        sink.verified().clone()
    }

    /// A block whose one instruction loads from what rdi points to, with its bytes, and then an instruction that the tracer
    /// executed, which stores `stored`. Stepping saw 0x1122334455667788 and 0x77.
    fn check_bytes(loaded: u64, data: u8, stored: &[u8]) -> Verified {
        let dir = tempfile::tempdir().unwrap();
        let options = CreateOptions { data: true, ..CreateOptions::default() };
        let trace = TraceWriter::create(dir.path().join("t.memtap"), options).unwrap();
        let mut sink = Sink::new(
            trace,
            Contents { regions: u32::MAX, data: true, flow: false, verify: true },
            None,
            MemoryPlan::new(None, 1),
            None,
        );
        sink.add_process(0, std::process::id(), None, 0).unwrap();
        let mut definition = [0; MAX_DEFINITION_BYTES];
        let defined = BlockAccess { size: 8, base: 0, data, ..BlockAccess::NONE };
        let len = encode_definition(
            FIRST_BLOCK,
            Extent::of(VirtAddr(CODE), 1),
            RecordedValues::plain(2),
            &[defined],
            &mut definition,
        );
        sink.blocks.add(0, 0, &definition[..len], None).unwrap();
        let mut bytes = PAD.to_le_bytes().to_vec();
        embed(&mut bytes, &Record::StepBegin { first: true });
        for word in [u64::from(FIRST_BLOCK), 0x5008, loaded] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let (ip, addr, kind) = (VirtAddr(CODE + 4), VirtAddr(0x6000), AccessKind::Store);
        embed(&mut bytes, &Record::Data { ip, addr, kind, size: 1, bytes: stored });
        let expected = Record::Expected { ip, addr, kind, size: 1, executed: 1, bytes: &[0x77] };
        let (ip, addr, kind) = (VirtAddr(CODE), VirtAddr(0x5008), AccessKind::Load);
        let seen = 0x1122_3344_5566_7788_u64.to_le_bytes();
        embed(&mut bytes, &Record::Expected { ip, addr, kind, size: 8, executed: 0, bytes: &seen });
        embed(&mut bytes, &expected);
        embed(&mut bytes, &Record::StepEnd { executed: Some(1) });
        take(&mut sink, &bytes);
        sink.verified().clone()
    }

    #[test]
    fn bytes_of_blocks_and_of_single_records_are_compared() {
        let verified = check_bytes(0x1122_3344_5566_7788, 1, &[0x77]);
        assert_eq!((verified.accesses, verified.with_bytes, verified.shown), (2, Some(2), vec![]));
        let check = |loaded, data, stored: &[u8], expect: &[&str]| {
            let verified = check_bytes(loaded, data, stored);
            let shown: Vec<_> =
                verified.shown.iter().filter_map(|words| words.split("stepping saw ").nth(1)).collect();
            assert_eq!(shown, expect);
        };
        let load = "load of 8 bytes at 0x5008 by 0x401000 with 0x1122334455667788, recorded was ";
        let store = "store of 1 bytes at 0x6000 by 0x401004 with 0x77, recorded was ";
        check(0x1122_3344_5566_7789, 1, &[0x77], &[&format!("{load}0x1122334455667789")]);
        check(0x1122_3344_5566_7788, 0, &[0x76], &[&format!("{load}nothing"), &format!("{store}0x76")]);
        check(0x1122_3344_5566_7788, 1, &[], &[&format!("{store}nothing")]);
    }

    const RIGHT: BlockAccess =
        BlockAccess { instruction: 1, offset: 4, size: 8, base: 0, displacement: 8, ..BlockAccess::NONE };

    #[test]
    fn a_block_as_it_was_executed_is_no_mismatch() {
        let verified = check(RIGHT, 3);
        assert_eq!((verified.windows, verified.instructions, verified.accesses), (1, 3, 1));
        assert_eq!((verified.mismatches, verified.shown), (0, vec![]));
    }

    #[test]
    fn a_block_that_is_defined_wrongly_is_found() {
        let wrong = [
            BlockAccess { displacement: 0, ..RIGHT },
            BlockAccess { size: 4, ..RIGHT },
            BlockAccess { kind: AccessKind::Modify, ..RIGHT },
            BlockAccess { offset: 5, ..RIGHT },
            BlockAccess { fs: true, short: true, displacement: -0x6000, ..RIGHT },
        ];
        for defined in wrong {
            let verified = check(defined, 3);
            assert_eq!(verified.mismatches, 1, "{defined:?}");
            assert!(
                verified.shown[0]
                    .contains("0x401004 (number 1 of its stretch): stepping saw load of 8 bytes at 0x5008"),
                "{verified:?}"
            );
        }
        // The access of another instruction: one too many there, one too few here.
        assert_eq!(check(BlockAccess { instruction: 2, ..RIGHT }, 3).mismatches, 2);
        // Instructions that were not counted.
        let verified = check(RIGHT, 2);
        assert_eq!(verified.shown, ["a stretch of 3 instructions was recorded as 2, from 0x401004 on"]);
    }
}
