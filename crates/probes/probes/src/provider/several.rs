//! Functions whose first instruction is too short for a jump, and where no punned one has a place to land: the first few
//! instructions are displaced together.
//!
//! A thread could stand between them, so that is done only before the program begins, while it has one thread. Later nothing is changed
//! there any more: the jump stays, and the probe is switched where it leads to. A jump of the function to any but the first of them
//! would end in the middle of ours; the function, and the part of it that the compiler keeps elsewhere (`.cold`), are searched for one.

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
