//! What was recorded of a stretch that was stepped, against what stepping saw (`record --verify`; tracer-protect, `verify`).

use memref::{Access, VirtAddr};

/// Differences that are shown.
const SHOWN: usize = 10;

/// A stretch of a thread that is being read.
#[derive(Debug)]
pub(super) struct Stretch {
    /// The thread's cycle where it begins.
    from: u64,
    recorded: Vec<Access>,
    expected: Vec<Access>,
}

/// What was compared, of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verified {
    /// Windows that were begun.
    pub(crate) windows: u64,
    /// Instructions that were compared.
    pub(crate) instructions: u64,
    /// Accesses that stepping saw.
    pub(crate) accesses: u64,
    /// Instructions whose accesses differ, and stretches whose number of instructions does.
    pub(crate) mismatches: u64,
    /// The first of them, in words.
    pub(crate) shown: Vec<String>,
}

impl Stretch {
    pub(super) fn new(from: u64) -> Self {
        Self { from, recorded: Vec::new(), expected: Vec::new() }
    }

    /// Accesses that the thread recorded.
    pub(super) fn record<'a>(&mut self, accesses: impl Iterator<Item = &'a Access>) {
        self.recorded.extend(accesses);
    }

    /// An access that stepping saw, behind that many instructions.
    pub(super) fn expect(&mut self, access: Access) {
        self.expected.push(Access { cycle: access.cycle + self.from, ..access });
    }

    /// Compares, an instruction at a time. It ends at `until`; stepping counted `executed` instructions.
    pub(super) fn compare(&self, until: u64, executed: u64, verified: &mut Verified) {
        verified.instructions += executed;
        verified.accesses += self.expected.len() as u64;
        let (mut recorded, mut expected) = (&self.recorded[..], &self.expected[..]);
        while let Some(first) = recorded.first().into_iter().chain(expected.first()).map(|a| a.cycle).min() {
            let (mine, theirs) = (take(&mut recorded, first), take(&mut expected, first));
            if mine != theirs {
                let ip = theirs.first().or(mine.first()).map_or(VirtAddr(0), |access| access.ip);
                let number = first - self.from;
                verified.note(format!(
                    "instruction {ip} (number {number} of its stretch): stepping saw {}, recorded was {}",
                    words(theirs),
                    words(mine)
                ));
            }
        }
        let counted = until.wrapping_sub(self.from);
        if counted != executed {
            verified.note(format!(
                "a stretch of {executed} instructions was recorded as {counted}{}",
                self.expected.first().map_or_else(String::new, |access| format!(", from {} on", access.ip))
            ));
        }
    }
}

/// The accesses at the front that one instruction made.
fn take<'a>(accesses: &mut &'a [Access], cycle: u64) -> &'a [Access] {
    let count = accesses.iter().take_while(|access| access.cycle == cycle).count();
    let (own, rest) = accesses.split_at(count);
    *accesses = rest;
    own
}

fn words(accesses: &[Access]) -> String {
    let word = |access: &Access| {
        format!("{} of {} bytes at {} by {}", access.kind.name(), access.size, access.addr, access.ip)
    };
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
        let mut stretch = Stretch::new(100);
        stretch.record(recorded.iter());
        expected.iter().for_each(|&access| stretch.expect(access));
        let mut verified = Verified::default();
        stretch.compare(until, executed, &mut verified);
        verified
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
    use super::super::{Kept, Sink};
    use super::Verified;
    use memref::{AccessKind, VirtAddr};
    use segment::flow::{
        BlockAccess, EMBED, Extent, FIRST_BLOCK, ID_BITS, MAX_DEFINITION_BYTES, PAD, Values,
        encode_definition,
    };
    use segment::{Content, MAX_RECORD_BYTES, Record, encode};
    use trace_format::{CreateOptions, TraceWriter};

    const CODE: u64 = 0x40_1000;

    fn embed(bytes: &mut Vec<u8>, record: &Record<'_>) {
        let mut room = [0; MAX_RECORD_BYTES];
        let len = encode(record, &mut room);
        bytes.extend_from_slice(&room[..len]);
        bytes.extend_from_slice(&(EMBED | (len as u64 / 8) << ID_BITS).to_le_bytes());
        bytes.extend_from_slice(&PAD.to_le_bytes());
    }

    /// A block of three instructions, of which the second one loads from what rdi points to, was executed with rdi 0x5000.
    /// `defined` is the block's access as the tracer defined it.
    fn check(defined: BlockAccess, instructions: u16) -> Verified {
        let dir = tempfile::tempdir().unwrap();
        let trace = TraceWriter::create(dir.path().join("t.memtap"), CreateOptions::default()).unwrap();
        let mut sink = Sink::new(trace, Kept { regions: u32::MAX, data: false, flow: false }, None);
        sink.add_process(0, std::process::id(), None, 0).unwrap();
        let mut definition = [0; MAX_DEFINITION_BYTES];
        let (extent, values) = (Extent::of(VirtAddr(CODE), instructions), Values::plain(1));
        let len = encode_definition(FIRST_BLOCK, extent, values, &[defined], &mut definition);
        sink.blocks.add(0, 0, &definition[..len], None).unwrap();
        let mut bytes = PAD.to_le_bytes().to_vec();
        embed(&mut bytes, &Record::StepBegin { first: true });
        bytes.extend_from_slice(&0x5000u64.to_le_bytes());
        bytes.extend_from_slice(&u64::from(FIRST_BLOCK).to_le_bytes());
        let (ip, addr) = (VirtAddr(CODE + 4), VirtAddr(0x5008));
        let expected = Record::Expected { ip, addr, kind: AccessKind::Load, size: 8, executed: 1 };
        embed(&mut bytes, &expected);
        embed(&mut bytes, &Record::StepEnd { executed: Some(3) });
        sink.take(0, 0, 1, 0, Content::Flow, &bytes).unwrap();
        sink.verified().clone()
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
