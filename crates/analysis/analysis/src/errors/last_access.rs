//! What each instruction accessed last. Most accesses are of the variable that their instruction accessed before, by an instruction that
//! needs no closer look; then nothing has to be found out.

use std::ops::Range;

use memref::{Access, AccessKind, VirtAddr};
use symbols::{CodeId, DataVersion, Resolver};

use super::tool::{MemoryErrors, VariableClass};
use crate::Moment;
use crate::stack::CallPlace;
use crate::tally::slot;

/// An instruction's last access, where the instruction needs no closer look.
#[derive(Clone, Copy, Debug)]
struct LastAccess {
    start: VirtAddr,
    end: VirtAddr,
    /// When this range belonged to one variable.
    version: DataVersion,
    /// What is to be done for an access to it.
    class: VariableClass,
}

/// The last accesses of all instructions.
#[derive(Debug, Default)]
pub(super) struct LastAccesses {
    /// By the instruction's number.
    all: Vec<Option<LastAccess>>,
}

impl LastAccesses {
    /// The class of what the instruction accessed last, where this access is within the same variable.
    #[inline]
    fn class(&self, resolver: &Resolver, code: CodeId, access: &Access) -> Option<VariableClass> {
        let last = self.all.get(code.0 as usize)?.as_ref()?;
        let end = access.addr.0.checked_add(access.size.into())?;
        let is_there = last.start <= access.addr && end <= last.end.0;
        (is_there && resolver.holds_since(last.start..last.end, last.version)).then_some(last.class)
    }

    /// The instruction has accessed a variable of that class, which these addresses belong to now.
    fn note(&mut self, resolver: &Resolver, code: CodeId, range: Range<VirtAddr>, class: VariableClass) {
        let version = resolver.data_version();
        *slot(&mut self.all, code.0) =
            Some(LastAccess { start: range.start, end: range.end, version, class });
    }
}

impl MemoryErrors {
    /// Whether an access is to the variable that its instruction accessed before, and as right as that. What a block keeps of its
    /// accesses is noted then.
    pub(super) fn is_as_before(&mut self, at: &Moment<'_>, access: &Access, index: usize) -> bool {
        let Some(&place) = at.places.get(index) else { return false };
        let Some(class) = self.last.class(at.resolver, place.code, access) else { return false };
        let begins_frame = || at.cfas.get(index).copied().flatten().is_some() && self.arrays.keeps(at.thread);
        if self.copies.is_running() || begins_frame() {
            return false;
        }
        if let VariableClass::Live(number) = class {
            let (addr, len) = (access.addr, u64::from(access.size));
            let block = self.blocks.get(number);
            let is_load = access.kind == AccessKind::Load && self.unwritten.is_none();
            if block.is_overrun(addr, len) || is_load && len <= 8 && block.is_unwritten(addr, len) {
                return false;
            }
            block.accessed(Some(place));
            if access.kind.writes() {
                block.write(addr, len);
            }
        }
        true
    }

    /// An access was looked at: keeps what is known of its instruction for the next one, if that needs no closer look.
    pub(super) fn note_access(
        &mut self,
        at: &mut Moment<'_>,
        access: &Access,
        index: usize,
        class: VariableClass,
    ) {
        let Some(&CallPlace { code, .. }) = at.places.get(index) else { return };
        let is_plain = match class {
            VariableClass::Other | VariableClass::Static => true,
            VariableClass::Live(number) => !self.blocks.get(number).is_mapping,
            VariableClass::Gap | VariableClass::Released => false,
        };
        if !is_plain
            || !self.arrays.knows_of_none(code)
            || !self.instructions.goes_on(at.resolver, access.ip, code)
        {
            return;
        }
        let (variable, range) = at.resolver.data_range(access.addr);
        // A block whose allocation comes next is not known to be one yet.
        if matches!(self.classes.get(variable.0 as usize), Some(&Some(known)) if known == class) {
            self.last.note(at.resolver, code, range, class);
        }
    }
}
