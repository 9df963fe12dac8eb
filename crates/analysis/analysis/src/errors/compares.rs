//! Loads on which a decision depends. The instruction compares the value it loads, or moves it to a
//! register that a comparison before the next jump uses; in both cases a jump follows the comparison.
//! A comparison whose result becomes a number does not count, because that number may be masked
//! later: compilers compare the contents of an `Option` before they know whether it holds anything.

use memref::VirtAddr;
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use x86::{ByteRule, ByteSource, ByteTarget, Examiner, Instruction, RegisterKind, Transfer};

use crate::Owner;
use crate::code_files::CodeFiles;

/// Instructions after a load that are looked at.
const MOST_AFTER: usize = 12;

/// Knows which instructions compare what they load.
#[derive(Default)]
pub(super) struct ComparingLoads {
    files: CodeFiles,
    examiner: Examiner,
    known: FxHashMap<CodeId, bool>,
}

impl std::fmt::Debug for ComparingLoads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComparingLoads").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl ComparingLoads {
    /// Whether the program decides by what that instruction of it loads.
    pub(super) fn decides(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> bool {
        let code = resolver.resolve_code(ip);
        if let Some(known) = self.known.get(&code) {
            return *known;
        }
        let name = resolver.names().code(code);
        let module = name.as_deref().and_then(|name| name.module.as_deref());
        // String functions of the C library compare what they then mask away.
        let is_own = module.is_some_and(|module| Owner::of_module(module) == Owner::Program);
        let decides = is_own && self.look(resolver, ip).unwrap_or(false);
        self.known.insert(code, decides);
        decides
    }

    fn look(&mut self, resolver: &Resolver, ip: VirtAddr) -> Option<bool> {
        let load = self.files.instruction(resolver, ip)?;
        if is_comparison(&load) {
            return Some(load.names_memory() && self.is_branch(resolver, VirtAddr(load.next())));
        }
        let register = self.loaded(&load)?;
        let mut at = VirtAddr(load.next());
        for _ in 0..MOST_AFTER {
            let next = self.files.instruction(resolver, at)?;
            let registers = self.examiner.examine(&next).registers();
            at = VirtAddr(next.next());
            if is_comparison(&next) && registers.used >> register & 1 == 1 {
                return Some(self.is_branch(resolver, at));
            }
            if registers.written >> register & 1 == 1 || next.transfer() != Transfer::Next {
                return Some(false);
            }
        }
        Some(false)
    }

    /// Whether a conditional jump is there.
    fn is_branch(&mut self, resolver: &Resolver, at: VirtAddr) -> bool {
        let instruction = self.files.instruction(resolver, at);
        instruction.is_some_and(|one| matches!(one.transfer(), Transfer::Branch(..)))
    }

    /// The register that an instruction moves to what it loads.
    fn loaded(&mut self, load: &Instruction) -> Option<u8> {
        let effects = self.examiner.examine(load);
        effects.data_flow().assignments.iter().find_map(|assignment| {
            match (assignment.target, assignment.rule) {
                (
                    ByteTarget::Register(target, _),
                    ByteRule::Move(ByteSource::Memory(_)) | ByteRule::SignExtend(ByteSource::Memory(_)),
                ) => match target.register {
                    RegisterKind::General(number) if target.first == 0 => Some(number),
                    _ => None,
                },
                _ => None,
            }
        })
    }
}

fn is_comparison(instruction: &Instruction) -> bool {
    matches!(format!("{:?}", instruction.name()).as_str(), "Cmp" | "Test")
}
