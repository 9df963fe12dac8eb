//! The indirect branch look-up: from a target in rcx to its block (see `table`).
//!
//! The branch jumps through a *way*, whose number it finds by the low 16 bits of its target. Each way serves
//! one target: it compares all of rcx with that target, and goes to the target's block on a match, or else to
//! the *search*, which is way 0. The search looks through the pairs of the table, and leaves the cache if none
//! matches. Comparisons are sums that become zero, tested with lea and jrcxz, so the flags are preserved.

use buffers::flow::TARGET_AT;

use super::stubs::leave;
use crate::assembler::Assembler;
use crate::exit_reason::EXIT_MISS;
use crate::mode::Mode;
use crate::register::Gpr;
use crate::slot::{SPILL_RAX, SPILL_RCX};

/// The way to one target of indirect branches, from the target that is in rcx: to the code `to` if that is the one it is for, else
/// to the search, through the word at `probe`. rcx and rdx are spilled; a block's entry loads rdx again.
pub(crate) fn emit_way(at: u64, target: u64, to: u64, probe: u64) -> Assembler {
    let mut code = Assembler::new(at);
    code.number(Gpr::RDX, target.wrapping_neg());
    code.add_to_rcx(Gpr::RDX);
    let is_it = code.jump_if_rcx_is_zero();
    code.number(Gpr::RDX, target);
    code.add_to_rcx(Gpr::RDX);
    code.jump_by_word(probe);
    code.land(is_it);
    code.load_gs(Gpr::RCX, SPILL_RCX);
    code.jump_to(to);
    code
}

/// The search for a target whose way is another one's, or not there yet: through its places in the table, and out of the cache
/// at an empty one. rcx and rdx are spilled.
pub(crate) fn emit_probe(at: u64, table: u64, mode: Mode) -> Assembler {
    let mut code = Assembler::new(at);
    code.store_gs(SPILL_RAX, Gpr::RAX);
    code.store_gs(TARGET_AT, Gpr::RCX);
    // Zero, the most frequent of wrong targets, would be the sum with an empty pair.
    let nowhere = code.jump_if_rcx_is_zero();
    code.low_half_of_rcx();
    // Two words a pair.
    code.double_edx();
    let again = code.here();
    // The pair's first word is the negated target, or zero where the search ends.
    code.load_rax_from(table);
    code.add_to_rcx(Gpr::RAX);
    let hit = code.jump_if_rcx_is_zero();
    code.copy(Gpr::RCX, Gpr::RAX);
    let miss = code.jump_if_rcx_is_zero();
    code.add_two_to_edx();
    code.load_gs(Gpr::RCX, TARGET_AT);
    code.jump_to(again);
    code.land(hit);
    code.load_gs(Gpr::RCX, SPILL_RCX);
    code.load_gs(Gpr::RAX, SPILL_RAX);
    code.jump_by_table(table + 8);
    code.land(miss);
    code.land(nowhere);
    leave(&mut code, EXIT_MISS | mode as u32, false);
    code
}
