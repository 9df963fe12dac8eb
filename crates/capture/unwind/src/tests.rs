//! Compares the tables of this machine's C library and of the test itself with gimli, and unwinds a hand-built stack.

use std::vec;
use std::vec::Vec;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection};

use super::*;

/// The rows of a file, read by both. Returns how many were compared.
fn compare(path: &str) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = |name: &str| {
        let section = file.section_by_name(name).unwrap();
        (section.address(), section.data().unwrap().to_vec())
    };
    let ((list, head), (frames_at, frames)) = (section(".eh_frame_hdr"), section(".eh_frame"));
    // One stretch, as it is in memory.
    let mut whole = head;
    whole.resize((frames_at - list) as usize, 0);
    whole.extend_from_slice(&frames);
    let table = FrameTable::new(&whole, list, list);
    let eh = EhFrame::new(&frames, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(frames_at);
    let mut entries = eh.entries(&bases);
    let mut context = UnwindContext::new();
    let mut count = 0;
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        let mut rows = fde.rows(&eh, &bases, &mut context).unwrap();
        while let Some(row) = rows.next_row().unwrap() {
            for ip in [row.start_address(), row.end_address() - 1] {
                if row.start_address() >= row.end_address() || !fde.contains(ip) {
                    continue;
                }
                let ours = table.row(ip).unwrap_or_else(|| panic!("{path}: no row for {ip:#x}"));
                let slice = |expression: gimli::UnwindExpression<usize>| {
                    expression.get(&eh).unwrap().0.slice().to_vec()
                };
                let same = match (ours.cfa, row.cfa()) {
                    (
                        Cfa::Register(register, offset),
                        CfaRule::RegisterAndOffset { register: r, offset: o },
                    ) => (register, offset) == (u64::from(r.0), *o),
                    (Cfa::Expression(bytes), CfaRule::Expression(theirs)) => *bytes == slice(*theirs),
                    _ => false,
                };
                assert!(same, "{path}: {ip:#x}: {:?} is not {:?}", ours.cfa, row.cfa());
                for (number, rule) in ours.rules.iter().enumerate() {
                    let theirs = row.register(Register(number as u16));
                    let same = match (*rule, theirs.clone()) {
                        (Rule::Same, RegisterRule::SameValue) => true,
                        // gimli has one word for what nothing was said of and for what is nowhere.
                        (Rule::Same | Rule::Undefined, RegisterRule::Undefined) => true,
                        (Rule::Offset(offset), RegisterRule::Offset(o)) => offset == o,
                        (Rule::ValueOffset(offset), RegisterRule::ValOffset(o)) => offset == o,
                        (Rule::Register(other), RegisterRule::Register(r)) => other == u64::from(r.0),
                        (Rule::Expression(bytes), RegisterRule::Expression(e)) => *bytes == slice(e),
                        (Rule::ValueExpression(bytes), RegisterRule::ValExpression(e)) => *bytes == slice(e),
                        _ => false,
                    };
                    assert!(same, "{path}: {ip:#x}, register {number}: {rule:?} is not {theirs:?}");
                }
                count += 1;
            }
        }
    }
    count
}

#[test]
fn every_row_of_the_c_library_and_of_this_program_is_as_gimli_has_it() {
    let libraries = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library =
        libraries.lines().find_map(|line| line.split_whitespace().nth(5).filter(|p| p.contains("libc.so")));
    assert!(compare(library.expect("this program has a C library")) > 10_000);
    assert!(compare(std::env::current_exe().unwrap().to_str().unwrap()) > 1000);
}

#[test]
fn damaged_tables_are_read_to_no_end_but_their_own() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".eh_frame_hdr").unwrap();
    let frames = file.section_by_name(".eh_frame").unwrap();
    let mut whole = section.data().unwrap().to_vec();
    whole.resize((frames.address() - section.address()) as usize, 0);
    whole.extend_from_slice(frames.data().unwrap());
    let ip = file.entry() + 4;
    let list = section.address();
    assert!(FrameTable::new(&whole, list, list).row(ip).is_some());
    // A generator of Knuth's: the same bytes each time.
    let mut random = 1u64;
    for _ in 0..2000 {
        let mut damaged = whole.clone();
        for _ in 0..64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % damaged.len().min(1 << 14);
            damaged[at] = (random >> 24) as u8;
        }
        damaged.truncate((random >> 40) as usize % damaged.len());
        let _ = FrameTable::new(&damaged, list, list).row(ip);
        if random >> 60 != 0 {
            // Most of the work is the copy: the same damage at other instructions.
            for at in (0..4096).step_by(64) {
                let _ = FrameTable::new(&damaged, list, list).row(ip + at);
            }
        }
    }
}

/// A stack of words from 0x1000 on, and no tables.
struct StackWords(Vec<u64>);

impl UnwindSource for StackWords {
    fn word(&mut self, addr: u64) -> Option<u64> {
        self.0.get(usize::try_from(addr.checked_sub(0x1000)? / 8).ok()?).copied()
    }

    fn table(&mut self, _: u64) -> Option<FrameTable<'_>> {
        None
    }
}

fn frame(rip: u64, rsp: u64, rbp: u64) -> StackFrame {
    let mut registers = [0; 17];
    (registers[RIP], registers[RSP], registers[RBP]) = (rip, rsp, rbp);
    StackFrame::new(registers)
}

#[test]
fn frame_records_lead_where_there_are_no_tables() {
    // Two records; the second one leads down, as no stack does.
    let mut words = StackWords(vec![7, 0x1018, 0xaaa1, 0x1000, 0xbbb1, 0x1000]);
    let mut seen = Vec::new();
    unwind(&mut Cache::new(), &mut words, frame(0xccc0, 0x1000, 0x1008), |place, frame| {
        seen.push((place, frame.sp()));
        true
    });
    assert_eq!(seen, [(0xccc0, 0x1000), (0xaaa0, 0x1018), (0xbbb0, 0x1028)]);
    // As many as are wanted.
    let mut count = 0;
    unwind(&mut Cache::new(), &mut words, frame(0xccc0, 0x1000, 0x1008), |_, _| {
        count += 1;
        count < 2
    });
    assert_eq!(count, 2);
}

#[test]
fn expressions_compute() {
    let check = |bytes: &[u8], expect| {
        let mut words = StackWords(vec![41]);
        assert_eq!(
            expression::evaluate(bytes, &frame(0x1b, 0x1000, 0), &mut |addr| words.word(addr), None),
            expect,
            "{bytes:x?}"
        );
    };
    // breg7+0, deref, lit1, plus
    check(&[0x77, 0, 0x06, 0x31, 0x22], Some(42));
    // What a procedure linkage table has: 8 beyond the stack pointer, and 8 more after the eleventh byte of an entry.
    check(&[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22], Some(0x1010));
    check(&[0x06], None);
    check(&[0x08], None);
    check(&[0x77, 0, 0x34, 0x1c, 0x06], None);
}
