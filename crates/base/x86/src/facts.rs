//! What an instruction is about to access, without executing it: for instructions that run natively.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedMemory,
};
use memref::AccessKind;

use crate::decode::number;
use crate::operand::Operand;
use crate::registers::{NONE, Registers};
use crate::state_area;

/// Calls `each` with the accesses of the instruction at `regs.rip`, in the order in which the architecture names them.
/// Elements of gathers and bytes under a mask are not told apart: vector registers are not looked at.
///
/// # Safety
/// The code at rip must be readable.
pub unsafe fn accesses(regs: &Registers, fs_base: u64, gs_base: u64, mut each: impl FnMut(Operand)) {
    // SAFETY: the caller's promise.
    let Some(instruction) = (unsafe { instruction_at(regs.rip) }) else { return };
    let mut factory = InstructionInfoFactory::new();
    for used in factory.info(&instruction).used_memory() {
        let kind = match kind_of(used.access()) {
            None | Some(AccessKind::Prefetch) => continue,
            Some(kind) => kind,
        };
        let addr = used.virtual_address(0, |register, _, _| match register {
            Register::FS => Some(fs_base),
            Register::GS => Some(gs_base),
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            register => {
                Some(number(register)).filter(|&number| number != NONE).map(|number| regs.get(number))
            }
        });
        if let Some(addr) = addr {
            let len = state_area::bytes(&instruction, regs)
                .unwrap_or_else(|| used.memory_size().size().max(1) as u32);
            each(Operand { addr, len, kind });
        }
    }
}

/// What is done to memory; of what names it and accesses nothing, a prefetch.
pub fn kind_of(access: OpAccess) -> Option<AccessKind> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(AccessKind::Load),
        OpAccess::Write | OpAccess::CondWrite => Some(AccessKind::Store),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(AccessKind::Modify),
        OpAccess::NoMemAccess => Some(AccessKind::Prefetch),
        OpAccess::None => None,
    }
}

/// Writes the name of the instruction at `ip`.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn mnemonic(ip: u64, into: &mut impl core::fmt::Write) {
    // SAFETY: the caller's promise.
    if let Some(instruction) = unsafe { instruction_at(ip) } {
        // A name that does not fit is cut by the writer.
        let _ = write!(into, "{:?}", instruction.mnemonic());
    }
}

/// Whether it is a string instruction with a prefix that repeats it.
pub fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// As [`repeats`], of the instruction at `ip`.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn is_repeated(ip: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { instruction_at(ip) }.is_some_and(|instruction| repeats(&instruction))
}

/// Whether the instruction at `ip` has a lock prefix.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn is_locked(ip: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { instruction_at(ip) }.is_some_and(|instruction| instruction.has_lock_prefix())
}

/// Bytes of the instruction at `ip`; zero where it is none.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn length(ip: u64) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { instruction_at(ip) }.map_or(0, |instruction| instruction.len() as u8)
}

/// What a prefetch names: the decoder's list of memory leaves it out, because nothing is accessed. `None` for others.
pub fn prefetched(instruction: &Instruction) -> Option<UsedMemory> {
    let is_prefetch = matches!(
        instruction.mnemonic(),
        Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
    );
    let base = match instruction.memory_base() {
        Register::RIP | Register::EIP => Register::None,
        base => base,
    };
    is_prefetch.then(|| {
        UsedMemory::new(
            instruction.memory_segment(),
            base,
            instruction.memory_index(),
            instruction.memory_index_scale(),
            instruction.memory_displacement64(),
            instruction.memory_size(),
            OpAccess::NoMemAccess,
        )
    })
}

pub(crate) unsafe fn instruction_at(ip: u64) -> Option<Instruction> {
    let mut bytes = [0u8; 15];
    let on_page = (4096 - (ip & 4095)) as usize;
    for limit in [on_page.min(15), 15] {
        for (index, byte) in bytes.iter_mut().enumerate().take(limit) {
            // SAFETY: bytes of the page that rip is in, or of the next one where the instruction goes on there.
            *byte = unsafe { (ip as *const u8).add(index).read_volatile() };
        }
        let instruction = Decoder::with_ip(64, bytes.get(..limit)?, ip, DecoderOptions::NONE).decode();
        if !instruction.is_invalid() {
            return Some(instruction);
        }
    }
    None
}
