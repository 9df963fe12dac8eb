//! The program's instructions, decoded from the files that it ran: where each leads, and whether it accesses memory.

use std::collections::HashMap;
use std::sync::Arc;

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};
use memref::VirtAddr;
use rustc_hash::FxHashMap;
use symbols::Resolver;

use super::step::{Manner, manner};

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Jump(u64),
    Branch(u64),
    Call(u64),
    IndirectJump,
    IndirectCall,
    Return,
    /// A system call goes on behind it.
    Syscall,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub(super) instruction: Instruction,
    pub(super) info: InstructionInfo,
    pub(super) flow: Flow,
    /// How it moves labels.
    pub(super) manner: Manner,
    /// Whether it can be executed without an access that the trace would have.
    pub(super) can_be_silent: bool,
}

impl Decoded {
    /// The address behind it.
    pub(super) fn next(&self) -> u64 {
        self.instruction.next_ip()
    }
}

/// The code of one process.
pub(super) struct Code {
    known: FxHashMap<u64, Option<u32>>,
    all: Vec<Arc<Decoded>>,
    files: HashMap<String, Option<Arc<Vec<u8>>>>,
    factory: InstructionInfoFactory,
}

impl Default for Code {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            all: Vec::new(),
            files: HashMap::new(),
            factory: InstructionInfoFactory::new(),
        }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("instructions", &self.all.len()).finish_non_exhaustive()
    }
}

/// The longest instruction.
const MAX_BYTES: usize = 15;

impl Code {
    /// The instruction at an address; `None` where there is no file with it.
    pub(super) fn at(&mut self, resolver: &Resolver, ip: u64) -> Option<Arc<Decoded>> {
        let index = match self.known.get(&ip) {
            Some(&index) => index,
            None => {
                let decoded = self.decode(resolver, ip);
                let index = decoded.map(|decoded| {
                    self.all.push(Arc::new(decoded));
                    self.all.len() as u32 - 1
                });
                self.known.insert(ip, index);
                index
            }
        };
        self.all.get(index? as usize).map(Arc::clone)
    }

    /// The addresses of instructions that follow each other: `count` of them behind the first `skipped` from `start` on. Fewer
    /// where the code is not known.
    pub(super) fn row(&mut self, resolver: &Resolver, start: u64, skipped: u64, count: u64) -> Vec<u64> {
        let mut row = Vec::with_capacity(count as usize);
        let mut ip = start;
        for index in 0..skipped + count {
            let Some(decoded) = self.at(resolver, ip) else { break };
            if index >= skipped {
                row.push(ip);
            }
            ip = decoded.next();
        }
        row
    }

    fn decode(&mut self, resolver: &Resolver, ip: u64) -> Option<Decoded> {
        let (_, instance) = resolver.image().instance_at(VirtAddr(ip))?;
        let address = ip.wrapping_sub(instance.bias);
        let segment =
            instance.module.segments().iter().find(|segment| {
                address >= segment.address && address - segment.address < segment.file_bytes
            })?;
        let at = usize::try_from(segment.file_offset + (address - segment.address)).ok()?;
        let path = instance.module.path();
        let content = self
            .files
            .entry(path.to_string_lossy().into_owned())
            .or_insert_with(|| std::fs::read(path).ok().map(Arc::new));
        let rest = content.as_ref()?.get(at..)?;
        let bytes = rest.get(..rest.len().min(MAX_BYTES))?;
        let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return None;
        }
        let info = self.factory.info(&instruction).clone();
        Some(Decoded {
            flow: flow(&instruction),
            manner: manner(&instruction),
            can_be_silent: can_be_silent(&instruction, &info),
            info,
            instruction,
        })
    }
}

fn flow(instruction: &Instruction) -> Flow {
    let near = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    let target = instruction.near_branch_target();
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch if near => Flow::Jump(target),
        FlowControl::ConditionalBranch if near => Flow::Branch(target),
        FlowControl::Call if instruction.code() == Opcode::Syscall => Flow::Syscall,
        FlowControl::Call if near => Flow::Call(target),
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return => Flow::Return,
        _ => Flow::Next,
    }
}

fn can_be_silent(instruction: &Instruction, info: &InstructionInfo) -> bool {
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return true;
    }
    // A count of zero, lanes that are all off.
    if instruction.has_rep_prefix() || instruction.has_repne_prefix() || instruction.is_vsib() {
        return true;
    }
    let some = |access: OpAccess| !matches!(access, OpAccess::None | OpAccess::NoMemAccess);
    !info.used_memory().iter().any(|memory| some(memory.access()))
        || info.used_memory().iter().all(|memory| {
            matches!(memory.access(), OpAccess::CondRead | OpAccess::CondWrite | OpAccess::ReadCondWrite)
        })
        || instruction.op_mask() != iced_x86::Register::None
}
