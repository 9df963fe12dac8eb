//! Allocator calls that never return because the process ends in them.

use memref::AllocationKind;

use crate::emit::recorder;
use crate::events::allocation_event::AllocationEvent;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::Hook;

/// The process ends in a call: what realloc was given is told, as it is of free, which may be why.
pub(crate) fn end(thread: &mut TracedThread) {
    let depth = thread.translation.depth;
    let is_realloc = |hook: &&Hook| hook.old != 0 && matches!(hook.event, Some((AllocationKind::Realloc, _)));
    let hook = thread.translation.hooks.iter().take(depth).find(is_realloc).copied();
    let Some(Hook { event: Some((_, function)), old, return_to, .. }) = hook else { return };
    if !PROCESS.is_recording() {
        return;
    }
    let (kind, order) = (AllocationKind::Free, recorder::next_order());
    AllocationEvent { kind, function, order, addr: old, len: 0, old: 0, return_to }.tell_as(thread);
}
