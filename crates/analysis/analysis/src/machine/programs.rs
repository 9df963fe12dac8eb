//! Where program and library files were mapped in the guest's processes, so that accesses can be attributed to their code.
//!
//! A relocatable file is mapped at a different address in each process, and nothing in a trace tells where. But a page
//! of code in memory is a page of code of the file. Only for the right page of the file does every instruction that made
//! an access correspond to an instruction at the same offset that makes such an access. Therefore every page of the file
//! is tried against a page that executed. A match is accepted if everything that executed there agrees, no other place
//! agrees, and the number of accesses rules out coincidence. This needs no help from the guest's kernel or its loader.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memref::{Access, AccessKind, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{LinkAddr, Module};
use trace_format::Trace;
use x86::{Examiner, Instruction};

use super::process::{GuestMode, ImageId, OwnedBy, walk_owned};
use crate::Error;

const PAGE: u64 = VirtAddr::PAGE_BYTES;
/// Instructions whose accesses are at hand.
const NEAR: usize = 1 << 16;
/// How often a place may be believed that is none: once in so many, as a natural logarithm (10^9).
const LN_DOUBT: f64 = 20.7;
/// Places in a file's code that are looked at to know how much of it makes such accesses.
const SAMPLES: usize = 1 << 12;
/// More than an instruction has.
const INSTRUCTION_BYTES: usize = 15;
/// An executable segment.
const EXECUTE: u8 = 4;

/// A program or library of the guest whose file is at hand.
#[derive(Debug)]
pub struct GuestProgram {
    module: Module,
    code: Vec<Code>,
}

/// A segment with code.
#[derive(Debug)]
struct Code {
    first: LinkAddr,
    bytes: Vec<u8>,
}

impl GuestProgram {
    /// Reads the code of a module's file.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn new(module: Module) -> io::Result<Self> {
        let mut code = Vec::new();
        if let Some(path) = module.file() {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            for segment in module.segments().iter().filter(|segment| segment.rights & EXECUTE != 0) {
                // Headers of a damaged file say anything.
                if segment.file_offset.checked_add(segment.file_bytes).is_none_or(|end| end > len) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let mut bytes = vec![0; segment.file_bytes as usize];
                file.read_exact_at(&mut bytes, segment.file_offset)?;
                code.push(Code { first: segment.address, bytes });
            }
        }
        Ok(Self { module, code })
    }

    /// The file.
    pub fn module(&self) -> &Module {
        &self.module
    }
}

/// Where programs lay.
#[derive(Debug)]
pub struct ProgramPlaces<'a> {
    programs: &'a [GuestProgram],
    /// By image, in the order of addresses.
    images: FxHashMap<ImageId, Vec<Place>>,
}

/// Where a program lay in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    addrs: Range<VirtAddr>,
    /// What was added to the addresses of the file.
    base: u64,
    program: usize,
}

impl<'a> ProgramPlaces<'a> {
    /// Finds them, which takes one reading of the trace. Without programs it takes none.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn find(trace: &Trace, programs: &'a [GuestProgram]) -> Result<Self, Error> {
        let mut images = FxHashMap::default();
        if programs.is_empty() {
            return Ok(Self { programs, images });
        }
        let mut seen = SeenCode::default();
        walk_owned(trace, |by, access| seen.access(by, access))?;
        let mut finders: Vec<Finder<'_>> = programs.iter().map(Finder::new).collect();
        for (image, code) in seen.by_image() {
            let mut places = Vec::new();
            for (program, finder) in finders.iter_mut().enumerate() {
                let addrs = |base: u64| {
                    let extent = programs[program].module.extent();
                    VirtAddr(extent.start.0.wrapping_add(base))..VirtAddr(extent.end.0.wrapping_add(base))
                };
                let bases = finder.bases(&code).into_iter();
                places.extend(bases.map(|base| Place { addrs: addrs(base), base, program }));
            }
            places.sort_by_key(|place| place.addrs.start);
            // Two files with the same code: which of them it was nothing says.
            let clash = |a: &Place, b: &Place| a.addrs.start < b.addrs.end && b.addrs.start < a.addrs.end;
            let all = places.clone();
            places.retain(|place| !all.iter().any(|other| other != place && clash(place, other)));
            images.insert(image, places);
        }
        Ok(Self { programs, images })
    }

    /// Those of which no process executed enough to tell where they lay.
    pub fn unplaced(&self) -> impl Iterator<Item = &'a GuestProgram> {
        let is_placed = |number| self.images.values().flatten().any(|place| place.program == number);
        self.programs
            .iter()
            .enumerate()
            .filter(move |(number, _)| !is_placed(*number))
            .map(|(_, program)| program)
    }

    /// The file that an address of an image belongs to, and the address in it.
    pub(super) fn at(&self, image: ImageId, addr: VirtAddr) -> Option<(&'a Module, LinkAddr)> {
        let place = self.images.get(&image)?.iter().find(|place| place.addrs.contains(&addr))?;
        Some((&self.programs[place.program].module, LinkAddr(addr.0.wrapping_sub(place.base))))
    }
}

/// Kinds and lengths of accesses, a bit each: loads of 1, 2, 4, 8 and other numbers of bytes, and stores of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Forms(u16);

impl Forms {
    const LOADS: u16 = 0x1f;
    const STORES: u16 = 0x1f << 5;
    const ALL: Self = Self(Self::LOADS | Self::STORES);
    /// No access: a mark.
    const KNOWN: Self = Self(1 << 15);

    fn of(kind: AccessKind, bytes: u32) -> Self {
        let size = match bytes {
            1 | 2 | 4 | 8 => 1 << bytes.trailing_zeros(),
            _ => 1 << 4,
        };
        Self(if kind.reads() { size } else { 0 } | if kind.writes() { size << 5 } else { 0 })
    }

    /// Those that an instruction may make; none where there is no instruction. What is longer than 8 bytes may be made in parts.
    fn that_may_be(examiner: &mut Examiner, bytes: &[u8], addr: u64) -> Self {
        let Some(instruction) = Instruction::decode(bytes, addr) else { return Self::default() };
        if !instruction.has_known_accesses() {
            return Self::ALL;
        }
        let of = |kind, bytes: u16| match bytes {
            1 | 2 | 4 | 8 => Self::of(kind, bytes.into()),
            _ => Self(
                if kind.reads() { Self::LOADS } else { 0 } | if kind.writes() { Self::STORES } else { 0 },
            ),
        };
        let effects = examiner.examine(&instruction);
        let operands = effects.operands().filter(|operand| operand.kind != AccessKind::Prefetch);
        operands.fold(Self::default(), |all, operand| Self(all.0 | of(operand.kind, operand.len_bytes).0))
    }

    const fn holds(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// An instruction that made accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenInstruction {
    ip: VirtAddr,
    forms: Forms,
}

/// What executed in user mode.
struct SeenCode {
    all: FxHashMap<(ImageId, VirtAddr), Forms>,
    near: Box<[(ImageId, SeenInstruction)]>,
}

impl Default for SeenCode {
    fn default() -> Self {
        let none = SeenInstruction { ip: VirtAddr(0), forms: Forms::default() };
        Self { all: FxHashMap::default(), near: vec![(ImageId::NONE, none); NEAR].into_boxed_slice() }
    }
}

impl SeenCode {
    #[inline]
    fn access(&mut self, by: OwnedBy<'_>, access: &Access) {
        // What the processor pushes for the kernel is not the instruction's.
        if by.mode != GuestMode::User || access.addr.is_of_kernel() {
            return;
        }
        let forms = Forms::of(access.kind, access.size);
        let near = &mut self.near[(access.ip.0 ^ u64::from(by.image.0) << 4) as usize % NEAR];
        if near.0 == by.image && near.1.ip == access.ip && near.1.forms.holds(forms) {
            return;
        }
        let all = self.all.entry((by.image, access.ip)).or_default();
        all.0 |= forms.0;
        *near = (by.image, SeenInstruction { ip: access.ip, forms: *all });
    }

    /// By image, in the order of addresses.
    fn by_image(self) -> FxHashMap<ImageId, Vec<SeenInstruction>> {
        let mut images: FxHashMap<ImageId, Vec<SeenInstruction>> = FxHashMap::default();
        for ((image, ip), forms) in self.all {
            images.entry(image).or_default().push(SeenInstruction { ip, forms });
        }
        images.values_mut().for_each(|code| code.sort_unstable_by_key(|seen| seen.ip));
        images
    }
}

/// Finds where one program lies.
struct Finder<'a> {
    program: &'a GuestProgram,
    examiner: Examiner,
    /// Of each segment with code and each byte of it, what an instruction there may do, with [`Forms::KNOWN`] once it was asked for.
    known: Vec<Vec<Forms>>,
    /// How much of the code fits an access of a kind and length that is often made.
    ln_chance: f64,
}

impl<'a> Finder<'a> {
    fn new(program: &'a GuestProgram) -> Self {
        let known = program.code.iter().map(|code| vec![Forms::default(); code.bytes.len()]).collect();
        let mut this = Self { program, examiner: Examiner::new(), known, ln_chance: 0.0 };
        this.ln_chance = this.chance().ln();
        this
    }

    /// The greatest part of the code's bytes at which an instruction could make an access of one kind and length.
    fn chance(&mut self) -> f64 {
        let total: usize = self.program.code.iter().map(|code| code.bytes.len()).sum();
        let step = (total / SAMPLES).max(1);
        let mut counts = [0_u32; 10];
        let mut all = 0_u32;
        for segment in 0..self.program.code.len() {
            for place in (0..self.program.code[segment].bytes.len()).step_by(step) {
                let forms = self.forms(segment, place);
                all += 1;
                counts
                    .iter_mut()
                    .enumerate()
                    .for_each(|(bit, count)| *count += u32::from(forms.0 >> bit & 1));
            }
        }
        let most = counts.into_iter().max().unwrap_or(0);
        // Never certain either way, however little code there is.
        f64::from(most + 1) / f64::from(all + 2)
    }

    fn forms(&mut self, segment: usize, place: usize) -> Forms {
        let known = self.known[segment][place];
        if known.holds(Forms::KNOWN) {
            return known;
        }
        let code = &self.program.code[segment];
        let bytes = &code.bytes[place..(place + INSTRUCTION_BYTES).min(code.bytes.len())];
        let forms = Forms::that_may_be(&mut self.examiner, bytes, code.first.0.wrapping_add(place as u64));
        self.known[segment][place] = Forms(forms.0 | Forms::KNOWN.0);
        forms
    }

    /// How many instructions must agree where there are so many places to try.
    fn enough(&self, places: u64) -> usize {
        ((LN_DOUBT + (places.max(1) as f64).ln()) / -self.ln_chance).ceil() as usize
    }

    /// Where the program lies among what executed in an image: what is to be added to its addresses. Once, or never, as a rule.
    fn bases(&mut self, code: &[SeenInstruction]) -> Vec<u64> {
        if self.program.module.is_fixed() {
            let found = self.agreeing(code, 0).is_some_and(|count| count >= self.enough(1));
            return if found { vec![0] } else { Vec::new() };
        }
        let pages: Vec<u64> = (self.program.code.iter())
            .flat_map(|code| (code.first.0 / PAGE)..(code.first.0 + code.bytes.len() as u64).div_ceil(PAGE))
            .collect();
        let enough = self.enough(pages.len() as u64);
        let mut bases: Vec<u64> = Vec::new();
        let mut done = VirtAddr(0);
        for seen in code {
            // One of each page, of those that lie in no place found.
            if seen.ip < done {
                continue;
            }
            done = VirtAddr((seen.ip.0 / PAGE + 1) * PAGE);
            let mut fits = Vec::new();
            for page in &pages {
                let base = (seen.ip.0 / PAGE).wrapping_sub(*page).wrapping_mul(PAGE);
                if self.agreeing(code, base).is_some_and(|count| count >= enough) {
                    fits.push(base);
                }
            }
            if let [base] = fits[..] {
                bases.push(base);
                done = VirtAddr(self.program.module.extent().end.0.wrapping_add(base)).max(done);
            }
        }
        bases
    }

    /// How many instructions lie in the program's code if it lies there; `None` where one is not as in the file.
    fn agreeing(&mut self, code: &[SeenInstruction], base: u64) -> Option<usize> {
        let mut count = 0;
        for segment in 0..self.program.code.len() {
            let first = self.program.code[segment].first.0.wrapping_add(base);
            let len = self.program.code[segment].bytes.len() as u64;
            let from = code.partition_point(|seen| seen.ip.0 < first);
            for seen in code[from..].iter().take_while(|seen| seen.ip.0 - first < len) {
                if !self.forms(segment, (seen.ip.0 - first) as usize).holds(seen.forms) {
                    return None;
                }
                count += 1;
            }
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use symbols::{SearchPath, SymbolKind};

    use super::*;

    /// A program that can be moved, with more code than any test needs: this one.
    fn program() -> GuestProgram {
        let path = std::env::current_exe().expect("this program has a file");
        let module = Module::open(&path, None, &SearchPath::default()).expect("it can be read");
        assert!(!module.is_fixed());
        GuestProgram::new(module).expect("it can be read")
    }

    /// So many instructions of the program that make one access, each `step` functions further on, as if all of them had executed.
    fn executed(program: &GuestProgram, count: usize, step: usize, base: u64) -> Vec<SeenInstruction> {
        let mut examiner = Examiner::new();
        let mut code = Vec::new();
        let functions = program.module.symbols().filter(|symbol| symbol.kind == SymbolKind::Function);
        for function in functions.step_by(step) {
            let Some(part) = program.code.iter().find(|code| {
                code.first <= function.address && function.address.0 < code.first.0 + code.bytes.len() as u64
            }) else {
                continue;
            };
            let place = (function.address.0 - part.first.0) as usize;
            let end = (place + function.bytes as usize).min(part.bytes.len());
            let mut at = place;
            while let Some(instruction) = Instruction::decode(&part.bytes[at..end], part.first.0 + at as u64)
            {
                let effects = examiner.examine(&instruction);
                if let Some(operand) = effects.operands().find(|operand| operand.kind != AccessKind::Prefetch)
                {
                    let forms = Forms::of(operand.kind, operand.len_bytes.into());
                    let ip = VirtAddr((part.first.0 + at as u64).wrapping_add(base));
                    code.push(SeenInstruction { ip, forms });
                }
                at += instruction.len_bytes();
            }
            if code.len() >= count {
                break;
            }
        }
        code.truncate(count);
        code.sort_unstable_by_key(|seen| seen.ip);
        code.dedup_by_key(|seen| seen.ip);
        code
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_program_is_found_wherever_it_lies(page in 1u64 << 30..1 << 34, step in 1usize..40, noise in any::<u64>()) {
            let program = program();
            let base = page * PAGE;
            let mut code = executed(&program, 400, step, base);
            prop_assert_eq!(Finder::new(&program).bases(&code), [base]);
            // Code that is not the program's lies around it, and does what nobody knows.
            let end = program.module.extent().end.0 + base;
            let foreign = |number: u64| SeenInstruction {
                ip: VirtAddr(end + PAGE + noise.rotate_right(number as u32) % 999 + number * 1009),
                forms: Forms::of(AccessKind::Load, 1 << (noise.rotate_right(number as u32) & 3)),
            };
            code.extend((0..200).map(foreign));
            code.sort_unstable_by_key(|seen| seen.ip);
            prop_assert_eq!(Finder::new(&program).bases(&code), [base]);
        }
    }

    #[test]
    fn what_does_not_agree_or_is_too_little_has_no_place() {
        let program = program();
        let base = 0x5555_0000_0000;
        let mut finder = Finder::new(&program);
        let code = executed(&program, 400, 3, base);
        let enough = finder.enough(program.code.iter().map(|code| code.bytes.len() as u64 / PAGE).sum());
        assert!((5..40).contains(&enough), "{enough}");
        assert_eq!(finder.bases(&code[..enough / 2]), []);
        // Another build has another instruction somewhere.
        let mut other = code;
        let changed = other.iter_mut().find(|seen| {
            let addr = seen.ip.0 - base;
            let segment =
                program.code.iter().rposition(|code| code.first.0 <= addr).expect("code of the program");
            // Of some instructions anything may be expected.
            !finder.forms(segment, (addr - program.code[segment].first.0) as usize).holds(Forms::ALL)
        });
        changed.expect("most instructions only load or only store").forms = Forms::ALL;
        assert_eq!(finder.bases(&other), []);
    }

    /// Bytes that the header of a damaged file claims are not asked for.
    #[test]
    fn a_segment_that_the_file_has_not_is_refused() {
        let whole = std::env::current_exe().expect("this program has a file");
        let mut bytes = std::fs::read(whole).expect("it can be read");
        let word =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let headers = word(&bytes, 32) as usize;
        // Entries of 56 bytes: type and rights first, the bytes in the file at 32.
        let code = (headers..).step_by(56).find(|at| word(&bytes, *at) == 5 << 32 | 1).expect("it has code");
        bytes[code + 32..code + 40].copy_from_slice(&(1_u64 << 59).to_le_bytes());
        let damaged = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(damaged.path(), bytes).expect("it can be written");
        let module =
            Module::open(damaged.path(), None, &SearchPath::default()).expect("its symbols are whole");
        let refused = GuestProgram::new(module).map(drop).expect_err("it is not that long");
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
    }
}
