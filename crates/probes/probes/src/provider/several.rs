//! Functions whose first instruction is too short for a jump, and for which a punned
//! jump has no landing place: their first few instructions are displaced together.
//!
//! A thread could be between these instructions, so this is done only before the program begins, while it has one
//! thread. Nothing is changed there later: the jump stays, and the probe is switched at the jump's target. A jump
//! of the function to any of these instructions except the first would end in the middle of our jump. The function
//! is therefore searched for such jumps, including the part that the compiler places elsewhere (`.cold`).

use crate::module::Module;
use patch::CodeAddr;
use x86::{Disassembler, Instruction, Transfer};

/// The bytes of a jump.
const JUMP_BYTES: usize = 5;

/// The first instructions of the module's function with this index that a jump takes the place of; `None` where they have to stay.
pub(super) fn first_instructions(module: &Module, index: usize) -> Option<Vec<Instruction>> {
    let symbol = &module.symbols()[index];
    let addr = (module.bias + symbol.offset) as u64;
    let mut displaced = Vec::new();
    let mut len_bytes = 0;
    for instruction in instructions(module, index) {
        if len_bytes >= JUMP_BYTES {
            break;
        }
        len_bytes += instruction.len_bytes();
        // A call returns to where it stood, behind the jump, and so must be the last.
        let is_displaceable = match instruction.transfer() {
            Transfer::Next => true,
            Transfer::Call(_) | Transfer::CallIndirect => len_bytes >= JUMP_BYTES,
            _ => false,
        };
        if !instruction.is_valid() || !is_displaceable {
            return None;
        }
        displaced.push(instruction);
    }
    if len_bytes < JUMP_BYTES {
        return None;
    }
    let cold = format!("{}.cold", symbol.name);
    let is_part = |name: &str| name.strip_prefix(cold.as_str()).is_some_and(|rest| !rest.starts_with('_'));
    let parts = module.symbols().iter().enumerate().filter(|(_, s)| is_part(&s.name)).map(|(at, _)| at);
    let inside = addr + 1..addr + len_bytes as u64;
    let is_entered = [index].into_iter().chain(parts).any(|part| {
        instructions(module, part).any(|instruction| {
            !instruction.is_valid() || instruction.transfer().target().is_some_and(|to| inside.contains(&to))
        })
    });
    (!is_entered).then_some(displaced)
}

/// The instructions of a function, up to its end or to what is none.
fn instructions(module: &Module, index: usize) -> Disassembler<'static> {
    let symbol = &module.symbols()[index];
    let addr = CodeAddr(module.bias + symbol.offset);
    // SAFETY: code of a module that is loaded, and stays so: only those from the program's start are asked about.
    let code = unsafe { std::slice::from_raw_parts(addr.0 as *const u8, symbol.len_bytes) };
    Disassembler::new(code, addr.0 as u64)
}
