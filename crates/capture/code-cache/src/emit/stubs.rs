//! The ways out of a block: links to other blocks, their exit stubs, and the context switch to the tracer.
//!
//! A link is a jump whose displacement is patched while threads run through it. Until its target is translated, it leads to
//! its exit stub. A stub jumps through a word, so that even a target out of the jump's range can be linked by one store.

use buffers::flow::GATE_AT;

use super::{BlockEmitter, PushedWord};
use crate::assembler::{Assembler, JumpWhen};
use crate::exit_reason::EXIT_LINK;
use crate::mode::Mode;
use crate::register::Gpr;
use crate::slot::SPILL_RAX;

/// Bytes of a stub's jump, before its word.
const STUB_JUMP_BYTES: u64 = 6;

/// A jump that leads to code that may not exist yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) target: u64,
    pub(crate) mode: Mode,
    /// Address of the jump's distance.
    pub(crate) distance: u64,
    /// Address of the word that its stub jumps through.
    pub(crate) slot: u64,
    /// The exit stub, and the address after its word: where it leaves the cache.
    pub(crate) stub: u64,
    pub(crate) way_out: u64,
}

impl BlockEmitter<'_> {
    /// A jump that leads to its stub until its target exists.
    pub(super) fn link(&mut self, when: JumpWhen, target: u64) {
        let distance = self.code.patchable_jump(when);
        self.links.push(Link { target, mode: self.around.mode, distance, slot: 0, stub: 0, way_out: 0 });
    }

    /// As [`Self::link`], in any case.
    pub(super) fn link_to(&mut self, target: u64) {
        self.link(JumpWhen::Always, target);
    }

    /// What a call pushes, and the exit stubs of all links: a jump through a word, the word, and the way out that the word points
    /// to at first.
    pub(super) fn stubs(&mut self) {
        for PushedWord { address, distance } in core::mem::take(&mut self.pushed) {
            self.code.align(8, 0);
            self.code.set_distance(distance, self.code.here());
            self.code.word(address);
        }
        let mut links = core::mem::take(&mut self.links);
        for (index, link) in links.iter_mut().enumerate() {
            // The word is aligned, so that it changes in one store.
            self.code.align(8, STUB_JUMP_BYTES);
            link.stub = self.code.here();
            let word = self.code.jump_by_near_word();
            link.slot = self.code.here();
            self.code.set_distance(word, link.slot);
            link.way_out = link.slot + 8;
            self.code.word(link.way_out);
            leave(&mut self.code, EXIT_LINK | (self.around.next_link + index as u32), true);
            self.code.set_distance(link.distance, link.stub);
        }
        self.links = links;
    }
}

/// Leaves the cache by the tracer's gate, with a reason in rax, which is spilled before unless it is already.
pub(super) fn leave(code: &mut Assembler, reason: u32, spill: bool) {
    if spill {
        code.store_gs(SPILL_RAX, Gpr::RAX);
    }
    code.short_number(Gpr::RAX, reason);
    code.jump_gs(GATE_AT);
}
