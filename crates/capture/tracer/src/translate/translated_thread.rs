//! Threads of a translated program: how they get their words in shared
//! memory, which their code reaches through gs, and how they are released.

use core::sync::atomic::{AtomicBool, Ordering};

use buffers::Record;
use buffers::flow::Live;
use code_cache::FS_SPILL;
use memref::{GapReason, VirtAddr};
use tracee::{sys, tls};

use crate::emit::thread_buffers;
use crate::memory::pages::PAGE_BYTES;
use crate::memory::program_writes;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::ThreadTranslation;
use crate::translate::{context, gate, verify};
use crate::watch::watchpoints;

/// There is a thread whose state is not reached by its gs base.
static HAS_UNKNOWN: AtomicBool = AtomicBool::new(false);
const _: () = assert!(tls::GS_AT == buffers::flow::THREAD_AT);

/// Gives the calling thread its words in shared memory.
pub(crate) fn begin_thread(thread: &mut TracedThread) -> bool {
    thread.translation = ThreadTranslation::NONE;
    let Some(pool) = PROCESS.pool() else { return false };
    let live = pool.take_live(thread.process);
    let words = match live {
        Some(live) => &raw const *live,
        None => {
            pool.control().refuse();
            HAS_UNKNOWN.store(true, Ordering::Relaxed);
            // Where the pointer to a thread's state is reached by gs, it needs a place all the same.
            let own = tls::by_gs().then(|| sys::map_anonymous(PAGE_BYTES, sys::PROT_READ | sys::PROT_WRITE));
            let Some(words) = own.flatten() else { return false };
            words.cast::<Live>().cast_const()
        }
    };
    // SAFETY: a slot of the pool, or fresh memory of which every content is one.
    let words = unsafe { &*words };
    words.set_thread(&raw const *thread as u64);
    // SAFETY: gs is nobody's in 64-bit programs; a thread that uses it itself is not translated.
    unsafe {
        let args = [sys::ARCH_SET_GS, &raw const *words as usize, 0, 0, 0, 0];
        sys::syscall(libc::SYS_arch_prctl as usize, args);
    }
    let Some(live) = live else { return false };
    live.forget(thread_buffers::nowhere());
    live.set_spill(FS_SPILL, tls::fs_base());
    live.set_gate(gate::memtap_gate as *const () as u64, gate::gate_stack(thread));
    thread.translation.live = live;
    verify::arm(thread);
    true
}

/// A thread of a process that is attached to goes on at `rip`: the address in the cache.
pub(crate) fn begin_running(thread: &mut TracedThread, rip: u64) -> u64 {
    thread.translation.running = true;
    if PROCESS.live_threads.load(Ordering::Relaxed) > 1 {
        begin_sharing(thread);
    }
    tell_base(thread);
    context::resume_address(thread, rip)
}

/// A thread of such a process goes on natively. Its state was found before.
pub(crate) fn end_running(thread: &mut TracedThread) {
    thread_buffers::settle(thread);
    thread.submit();
    if let Some(live) = thread.translation.live() {
        live.release();
    }
    thread.translation = ThreadTranslation::NONE;
}

/// Whether arch_prctl writes a base to where its argument points.
pub(crate) fn gets_base(what: u64) -> bool {
    [sys::ARCH_GET_FS as u64, sys::ARCH_GET_GS as u64].contains(&what)
}

/// arch_prctl by the program: the bases of fs and gs.
pub(crate) fn arch_prctl(thread: &mut TracedThread, what: u64, addr: u64) -> isize {
    let is_ours = thread.translation.live().is_some() || tls::by_gs();
    if gets_base(what) {
        let mut base = 0u64;
        if !is_ours || what == sys::ARCH_GET_FS as u64 {
            let args = [what as usize, &raw mut base as usize, 0, 0, 0, 0];
            // SAFETY: the kernel writes the word.
            unsafe { sys::syscall(libc::SYS_arch_prctl as usize, args) };
        }
        // SAFETY: the program's own word, if it can be written.
        let is_written = unsafe { program_writes::set_value(addr, &base) };
        return if is_written { 0 } else { -(sys::EFAULT as isize) };
    }
    if is_ours && what == sys::ARCH_SET_GS as u64 {
        if addr == 0 {
            // As it is for the program.
            return 0;
        }
        if tls::by_gs() {
            return -(libc::EPERM as isize);
        }
        lose_thread(thread, b"sets its own gs base");
    }
    let args = [what as usize, addr as usize, 0, 0, 0, 0];
    // SAFETY: the program's own call; our pointer does not depend on the base that it changes.
    let result = unsafe { sys::syscall(libc::SYS_arch_prctl as usize, args) };
    if what == sys::ARCH_SET_FS as u64 && thread.translation.live().is_some() {
        tell_base(thread);
    }
    result
}

/// A thread is about to be made that has the fs base of its creator: from now on threads are told apart by their gs base.
/// `false`: some have none.
pub(crate) fn tell_apart_by_gs(thread: &TracedThread) -> bool {
    if thread.translation.live().is_none() || HAS_UNKNOWN.load(Ordering::Relaxed) {
        return false;
    }
    tls::use_gs();
    true
}

/// The thread goes on natively, from its next instruction on.
pub(crate) fn lose_thread(thread: &mut TracedThread, why: &[u8]) {
    HAS_UNKNOWN.store(true, Ordering::Relaxed);
    thread_buffers::settle(thread);
    thread.emit_gap(GapReason::LostControl, 1, 0, why);
    thread.submit();
    if let Some(live) = thread.translation.live() {
        live.release();
    }
    thread.writer.go_on(thread.translation.sequence);
    thread.translation = ThreadTranslation::NONE;
}

/// In a new thread of a translated program, or a forked child, before it runs.
pub(crate) fn begin_child(thread: &mut TracedThread) {
    let running = thread.translation.running;
    let (hooks, depth, locals) =
        (thread.translation.hooks, thread.translation.depth, thread.translation.locals);
    thread.translation.running = begin_thread(thread) && running;
    (thread.translation.hooks, thread.translation.depth, thread.translation.locals) = (hooks, depth, locals);
}

/// A thread ends.
pub(crate) fn end_thread(thread: &mut TracedThread) {
    if let Some(live) = thread.translation.live() {
        if let Some(base) = thread.translation.locals {
            watchpoints::end_locals(base);
        }
        thread.submit();
        live.release();
        thread.translation = ThreadTranslation::NONE;
    }
}

/// A new thread of a translated program begins to run where its creator's code is.
pub(crate) fn inherit(thread: &mut TracedThread) {
    let Some(_) = PROCESS.settings().translate.then_some(()) else { return };
    begin_thread(thread);
    thread.translation.running = thread.translation.live().is_some();
    begin_sharing(thread);
    tell_base(thread);
    begin_locals(thread);
}

/// The thread is no longer alone: its locked instructions are brought into an order with those of others.
pub(crate) fn begin_sharing(thread: &TracedThread) {
    if let (Some(live), Some(pool)) = (thread.translation.live(), PROCESS.pool()) {
        live.set_order(pool.control().order_word() as *const _ as u64);
    }
}

/// Where the thread's own variables are, which its code does not say.
pub(crate) fn tell_base(thread: &mut TracedThread) {
    if let Some(live) = thread.translation.live() {
        live.set_spill(FS_SPILL, tls::fs_base());
    }
    thread.emit(&Record::ThreadBase { addr: VirtAddr(tls::fs_base()) });
}

/// Watches the thread-local variables of the calling thread.
pub(crate) fn begin_locals(thread: &mut TracedThread) {
    let base = tls::fs_base();
    if thread.translation.live().is_some() && watchpoints::begin_locals(base) {
        thread.translation.locals = Some(base);
    }
}
