//! Calls of the replaced functions by translated code: what is reported when they begin, and when they return.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use buffers::Record;
use code_cache::Mode;
use memref::{AllocationKind, BlockKind, GapReason, MarkerKind, VirtAddr};
use tracee::sys;
use tracee::text::Text;

use crate::calls::allocators::{self, AllocatorCall, Bytes};
use crate::emit::{recorder, thread_buffers};
use crate::events::allocation_event::AllocationEvent;
use crate::events::call_site::call_site;
use crate::recording::control;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::{Hook, OwnCall, StreamCall};
use crate::translate::engine::{self, Around, ENGINE};
use crate::translate::entry_table::{self, EntryKind};
use crate::translate::sync;
use crate::watch::hits::{self, Origin};

fn word(addr: u64) -> u64 {
    // SAFETY: the top of the program's stack, which it has just pushed.
    unsafe { (addr as *const u64).read_unaligned() }
}

/// The program calls a function of ours, or one that is an entry itself. `false`: its address says where in the cache it
/// goes on, or that it goes on natively.
pub(crate) fn call(thread: &mut TracedThread, regs: &mut x86::Registers, addr: u64) -> bool {
    let Some(entry) = entry_table::find(addr) else { return true };
    let return_to = word(regs.rsp);
    match entry.kind {
        EntryKind::Control(what) => {
            regs.rip = return_to;
            regs.rsp += 8;
            let site = call_site(return_to);
            match what {
                0 => control::start(thread, site, MarkerKind::Start),
                1 => control::stop(thread, site),
                _ => {
                    let mut name = Text::<256>::new();
                    if regs.rdi != 0 {
                        // SAFETY: the program's own string.
                        name.push(unsafe { CStr::from_ptr(regs.rdi as *const _) }.to_bytes());
                    }
                    let order = recorder::next_order();
                    let kind = MarkerKind::Mark;
                    thread.emit(&Record::Marker { order, ip: VirtAddr(site), kind, name: name.as_bytes() });
                }
            }
            return true;
        }
        EntryKind::Note(code) => {
            // One form of operator new calls another, or goes on in it: the note of the program's own call stays.
            let is_own =
                return_to.abs_diff(entry_table::real_of(entry)) <= 1 << 20 && entry.real != entry.addr;
            if !is_own && !is_noted(thread, regs.rsp) {
                thread.words.site = return_to;
                thread.words.site_function = code.into();
                thread.translation.noted_at = regs.rsp;
            }
        }
        EntryKind::Allocator(call) => hook(thread, regs, call, return_to),
        EntryKind::Raises => raised(thread),
        EntryKind::Sync(action) if thread.mode() == Mode::Record => {
            for stop in sync::call(thread, regs, action, return_to) {
                if stop != 0 {
                    engine::intercept(thread, stop, Mode::Record);
                }
            }
        }
        EntryKind::Block(function, _) if thread.mode() == Mode::Record => {
            // SAFETY: one of ours, which gets the program's arguments; the thread runs in the cache.
            unsafe { call_in_place(thread, regs, function, entry_table::real_of(entry), return_to) };
            return true;
        }
        EntryKind::Stream(kind) if thread.mode() == Mode::Record => stream(thread, regs, kind, return_to),
        EntryKind::Block(..) | EntryKind::Stream(_) | EntryKind::Sync(_) | EntryKind::Plain => {}
    }
    regs.rip = entry_table::real_of(entry);
    if regs.rip == 0 {
        sys::complain(b"memtap: no library has a function named ");
        sys::complain(entry.name.to_bytes());
        sys::complain(b"; the program can't go on\n");
        sys::exit_group(127);
    }
    let mode = thread.mode();
    if entry.real != entry.addr || mode != Mode::Record && !matches!(entry.kind, EntryKind::Raises) {
        return true;
    }
    let code = ENGINE.lock().code_after(addr, mode, &mut Around { mode });
    match code {
        Ok(code) => regs.rip = code,
        Err(_) => thread.emit_gap(GapReason::LostControl, 1, addr, b"no room for translated code"),
    }
    false
}

/// Runs a function of ours as the one that the program calls: it returns to the program.
///
/// # Safety
/// The function is an implementation of an entry point, and the registers are those of a call of it.
unsafe fn call_in_place(
    thread: *mut TracedThread,
    regs: &mut x86::Registers,
    function: unsafe extern "C" fn(),
    real: u64,
    return_to: u64,
) {
    type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
    // SAFETY: the caller's thread. It is used by the function, too, which finds it by itself: not while we do.
    unsafe {
        let (silent, allocating) = ((*thread).calls.silent, (*thread).calls.allocating);
        (*thread).watch.before = *regs;
        // The address of a call's last byte, with the stack as it was before.
        (*thread).watch.before.rip = return_to.wrapping_sub(1);
        (*thread).watch.before.rsp = regs.rsp + 8;
        let call = OwnCall { gregs: x86::Registers { rip: real, ..*regs }, silent, allocating };
        (*thread).translation.own_call = Some(call);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        let function: Function = core::mem::transmute(function);
        let result = function(regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, return_to);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        (*thread).translation.own_call = None;
        (regs.rax, regs.rip, regs.rsp) = (result, return_to, regs.rsp + 8);
    }
}

/// The program reads or writes items of a stream. One call at a time is told as a whole: one that a signal's handler makes
/// meanwhile is told by its accesses.
fn stream(thread: &mut TracedThread, regs: &x86::Registers, kind: BlockKind, return_to: u64) {
    leave_lost(thread, regs.rsp);
    if thread.translation.hooks.iter().take(thread.translation.depth).any(|hook| hook.stream.is_some()) {
        return;
    }
    let (addr, size) = (regs.rdi, regs.rsi);
    thread.watch.streamed.clear();
    if kind == BlockKind::Fill {
        thread.watch.streamed.note_write(addr, size.saturating_mul(regs.rdx) as usize);
    }
    let stream = Some(StreamCall { kind, addr, item_bytes: size });
    push(thread, Hook { return_to, rsp: regs.rsp + 8, stream, ..Hook::NONE });
}

/// Whether the call that left the last note has not returned: its return address is where it was, and the stack has not shrunk.
fn is_noted(thread: &TracedThread, rsp: u64) -> bool {
    let (site, at) = (thread.words.site, thread.translation.noted_at);
    site != 0 && rsp <= at && word(at) == site
}

/// The last call that has begun ends, or is left.
fn pop(thread: &mut TracedThread) -> Option<Hook> {
    let top = thread.translation.depth.checked_sub(1)?;
    let hook = thread.translation.hooks.get(top).copied()?;
    thread.translation.depth = top;
    let counter = if hook.is_above { &mut thread.calls.allocating } else { &mut thread.calls.silent };
    *counter = counter.saturating_sub(1);
    Some(hook)
}

/// The last call that has begun.
fn last(thread: &TracedThread) -> Option<&Hook> {
    thread.translation.depth.checked_sub(1).and_then(|top| thread.translation.hooks.get(top))
}

/// Forgets calls whose frames are gone: they were left by a longjmp.
fn leave_lost(thread: &mut TracedThread, rsp: u64) {
    while last(thread).is_some_and(|hook| hook.rsp <= rsp) {
        pop(thread);
    }
}

/// The C++ library leaves an operator of an allocator's that has no block to give: what follows is the program's.
fn raised(thread: &mut TracedThread) {
    while last(thread).is_some_and(|hook| hook.stream.is_none()) {
        pop(thread);
        // Nor was the program's call one that gave a block.
        thread.words.site = 0;
    }
    thread_buffers::settle(thread);
}

/// The call that begins leaves the cache when it returns, and does not record until then, unless it stands above allocators.
fn push(thread: &mut TracedThread, hook: Hook) {
    let depth = thread.translation.depth;
    if let Some(place) = thread.translation.hooks.get_mut(depth) {
        *place = hook;
        thread.translation.depth += 1;
        let mode = if hook.is_above {
            thread.calls.allocating += 1;
            Mode::Record
        } else {
            thread.calls.silent += 1;
            Mode::Silent
        };
        engine::intercept(thread, hook.return_to, mode);
    }
}

fn hook(thread: &mut TracedThread, regs: &x86::Registers, call: AllocatorCall, return_to: u64) {
    if thread.mode() != Mode::Record {
        return;
    }
    leave_lost(thread, regs.rsp);
    if thread.words.site != 0 && !is_noted(thread, regs.rsp) {
        thread.words.site = 0;
    }
    let argument = |number: u8| match number {
        0 => regs.rdi,
        1 => regs.rsi,
        2 => regs.rdx,
        _ => regs.rcx,
    };
    let len = match call.len {
        Bytes::None => 0,
        Bytes::Argument(number) => argument(number),
        Bytes::Product(count, size) => argument(count).wrapping_mul(argument(size)),
    };
    let block = call.block.map_or(0, argument);
    let is_zeroed = call.flags.is_some_and(|flags| argument(flags) & allocators::ZEROED != 0);
    let kind = match call.kind {
        AllocationKind::Malloc if is_zeroed => AllocationKind::Calloc,
        kind => kind,
    };
    let function = call.function;
    let mut event = Some((kind, function));
    if thread.calls.allocating > 0 {
        // The call of what stands above is the event.
        event = None;
    } else if kind == AllocationKind::Free {
        event = None;
        if block != 0 {
            // Drawn before the call: as soon as the block is free, another thread may get it.
            let order = recorder::next_order();
            AllocationEvent { kind, function, order, addr: block, len: 0, old: 0, return_to }.tell_as(thread);
        } else {
            thread.words.site = 0;
        }
    }
    let (old, place, is_above) = (block, call.place.map_or(0, argument), call.is_above);
    push(thread, Hook { return_to, rsp: regs.rsp + 8, is_above, event, len, old, place, stream: None });
}

/// The return of a function that is one event, and of those that went on in it.
pub(crate) fn end_hook(thread: &mut TracedThread, regs: &x86::Registers) -> bool {
    let mut has_ended = false;
    while end_one(thread, regs) {
        has_ended = true;
    }
    has_ended
}

fn end_one(thread: &mut TracedThread, regs: &x86::Registers) -> bool {
    if !last(thread).is_some_and(|hook| hook.return_to == regs.rip && hook.rsp == regs.rsp) {
        return false;
    }
    let Some(hook) = pop(thread) else { return false };
    thread_buffers::settle(thread);
    let block = regs.rax;
    if let Some(StreamCall { kind, addr, item_bytes }) = hook.stream {
        let mut touched = thread.watch.streamed.take();
        if PROCESS.is_recording() && thread.calls.silent == 0 {
            thread.watch.before = x86::Registers { rip: hook.return_to.wrapping_sub(1), ..*regs };
            let (dst, src) = if kind == BlockKind::Fill { (addr, 0) } else { (0, addr) };
            let bytes = hits::BlockBytes { dst, src, len: block.wrapping_mul(item_bytes) as usize };
            let ip = call_site(hook.return_to);
            hits::block(thread, &mut touched, ip, kind, bytes, &Origin::Call);
        }
    }
    let Some((kind, function)) = hook.event else { return true };
    if !PROCESS.is_recording() || thread.calls.silent > 0 || thread.calls.allocating > 0 {
        return true;
    }
    let addr = match hook.place {
        0 => block,
        // SAFETY: the function succeeded, so the block's address is there.
        place if block == 0 => unsafe { (place as *const u64).read() },
        _ => 0,
    };
    // Drawn after the call: whoever freed this memory before has drawn already.
    let event = AllocationEvent {
        kind,
        function,
        order: recorder::next_order(),
        addr,
        len: hook.len as usize,
        old: hook.old,
        return_to: hook.return_to,
    };
    if addr != 0 {
        event.tell_as(thread);
    } else if kind == AllocationKind::Realloc && hook.len == 0 && hook.old != 0 {
        AllocationEvent { kind: AllocationKind::Free, addr: hook.old, old: 0, ..event }.tell_as(thread);
    } else {
        // Another call must not be taken for the one that was noted.
        thread.words.site = 0;
    }
    true
}
