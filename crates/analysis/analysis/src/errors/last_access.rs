//! What each instruction accessed last. Most accesses are of the variable that their instruction accessed before, by an instruction that
//! needs no closer look; then nothing has to be found out.

use std::ops::Range;

use memref::{Access, VirtAddr};
use symbols::{CodeId, DataVersion, Resolver};

/// An instruction's last access, where the instruction needs no closer look.
#[derive(Clone, Copy, Debug)]
struct LastAccess<C> {
    start: VirtAddr,
    end: VirtAddr,
    /// When this range belonged to one variable.
    version: DataVersion,
    /// What is to be done for an access to it.
    class: C,
}

/// The last accesses of all instructions.
#[derive(Debug)]
pub(super) struct LastAccesses<C> {
    /// By the instruction's number.
    all: Vec<Option<LastAccess<C>>>,
}

impl<C> Default for LastAccesses<C> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

impl<C: Copy> LastAccesses<C> {
    /// The class of what the instruction accessed last, where this access is within the same variable.
    #[inline]
    pub(super) fn class(&self, resolver: &Resolver, code: CodeId, access: &Access) -> Option<C> {
        let last = self.all.get(code.0 as usize)?.as_ref()?;
        let end = access.addr.0.checked_add(access.size.into())?;
        let is_there = last.start <= access.addr && end <= last.end.0;
        (is_there && resolver.holds_since(last.start..last.end, last.version)).then_some(last.class)
    }

    /// The instruction has accessed a variable of that class, which these addresses belong to now.
    pub(super) fn note(&mut self, resolver: &Resolver, code: CodeId, range: Range<VirtAddr>, class: C) {
        let index = code.0 as usize;
        if index >= self.all.len() {
            self.all.resize_with(index + 1, || None);
        }
        let version = resolver.data_version();
        self.all[index] = Some(LastAccess { start: range.start, end: range.end, version, class });
    }
}
