//! One event of the allocator: a block is allocated, released or moved.

use buffers::Record;
use memref::{AllocationFunction, AllocationKind, VirtAddr};

use crate::events::call_site::call_site;
use crate::state::thread::TracedThread;
use crate::watch::watchpoints;

/// One call that changes what blocks there are.
#[derive(Clone, Copy)]
pub(crate) struct AllocationEvent {
    pub(crate) kind: AllocationKind,
    pub(crate) function: AllocationFunction,
    pub(crate) order: u64,
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) old: u64,
    pub(crate) return_to: u64,
}

impl AllocationEvent {
    /// Records it as an event of that thread.
    pub(crate) fn tell_as(self, thread: &mut TracedThread) {
        // operator new and delete left a note: their callers are of interest, not they.
        let noted = core::mem::take(&mut thread.words.site);
        let (return_to, function) = if noted == 0 {
            (self.return_to, self.function)
        } else {
            let function =
                AllocationFunction::from_code(thread.words.site_function as u8).unwrap_or(self.function);
            (noted, function)
        };
        let ip = call_site(return_to);
        match self.kind {
            AllocationKind::Free => watchpoints::released(self.addr),
            _ => {
                if self.old != 0 {
                    watchpoints::released(self.old);
                }
                watchpoints::allocated(ip, self.addr, self.len as u64);
            }
        }
        thread.emit(&Record::Allocation {
            order: self.order,
            ip: VirtAddr(ip),
            kind: self.kind,
            function,
            addr: VirtAddr(self.addr),
            len: self.len as u64,
            old_addr: VirtAddr(self.old),
            old_len: 0,
        });
    }
}
