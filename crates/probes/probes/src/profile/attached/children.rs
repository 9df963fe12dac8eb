//! The children that a process forks while it is attached to. They are probed like their parent, and each writes a profile of its own.
//! When the attachment ends they have to be notified, and waited for, or what they counted since their last snapshot would be missing.
//!
//! They all share a page with the process: one word says that the attachment is over, and each profiling child has a slot with its
//! number. A child takes its slot before it reads the word, and the thread that ends the attachment writes the word before it reads
//! the slots, so no child is overlooked. Children that are killed leave their slot as it is: they are gone when their memory is.
//!
//! A child that ends by `_exit` runs no exit handlers. The C library's function gets a probe that has the profile written.

use crate::{
    module,
    profile::{helper, settings},
    provider::entry::{self, Traps},
};
use patch::sys;
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

const SLOTS: usize = 8191;

/// What the process and its children share.
#[repr(C)]
struct Family {
    /// Not 0: the attachment is over.
    over: AtomicU32,
    /// Children that profile; 0: nobody.
    slots: [AtomicU32; SLOTS],
}

/// The mapping; 0: none. Written while no other thread looks: by who begins and settles an attachment.
static FAMILY: AtomicUsize = AtomicUsize::new(0);
/// This process's slot, plus one; 0: it has none. Written by the only thread of a fork's child, and at its end.
static OWN_SLOT: AtomicUsize = AtomicUsize::new(0);
/// Whether this process was forked since the attachment began. Written as [`OWN_SLOT`] is.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// How long children may take to write their profiles.
const PATIENCE: Duration = Duration::from_secs(20);

fn family() -> Option<&'static Family> {
    let at = FAMILY.load(Ordering::Acquire);
    // SAFETY: the mapping of `begin`, which stays until `settle`, when no thread looks; it is aligned and was zeros.
    (at != 0).then(|| unsafe { &*(at as *const Family) })
}

/// Makes what this process shares with the children that it is going to fork. Without it children are not waited for.
pub(super) fn begin() {
    end();
    IS_CHILD.store(false, Ordering::Relaxed);
    OWN_SLOT.store(0, Ordering::Relaxed);
    // SAFETY: a new mapping where the kernel likes.
    let at = unsafe {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(null_mut(), size_of::<Family>(), rights, kind, -1, 0)
    };
    if at != libc::MAP_FAILED {
        FAMILY.store(at as usize, Ordering::Release);
    }
}

/// Gives it back. Neither waits nor allocates.
pub(super) fn end() {
    let at = FAMILY.swap(0, Ordering::AcqRel);
    if at != 0 {
        // SAFETY: the mapping of `begin`, which nobody looks at any more.
        unsafe { libc::munmap(at as *mut libc::c_void, size_of::<Family>()) };
    }
}

/// To be called in a fork's child that goes on profiling, before it does.
pub fn join() {
    IS_CHILD.store(true, Ordering::Relaxed);
    OWN_SLOT.store(0, Ordering::Relaxed);
    let Some(family) = family() else { return };
    let own = std::process::id();
    let taken = family.slots.iter().position(|slot| {
        slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    });
    OWN_SLOT.store(taken.map_or(0, |slot| slot + 1), Ordering::Relaxed);
}

/// To be called by a child that has written its last profile.
fn leave() {
    let own = OWN_SLOT.swap(0, Ordering::Relaxed);
    if let Some((family, slot)) = family().zip(own.checked_sub(1)) {
        family.slots[slot].store(0, Ordering::SeqCst);
    }
}

/// Whether the attachment is over, for this child.
pub(super) fn is_over() -> bool {
    family().is_some_and(|family| family.over.load(Ordering::SeqCst) != 0)
}

/// Tells all others that it is over.
pub(super) fn tell() {
    if let Some(family) = family() {
        family.over.store(1, Ordering::SeqCst);
    }
}

/// In a child: it has written its last profile. In the process that was attached to: waits until each child has, or is gone; how
/// many did neither.
pub(super) fn leave_or_wait() -> u32 {
    if IS_CHILD.load(Ordering::Relaxed) {
        leave();
        return 0;
    }
    let Some(family) = family() else { return 0 };
    let begin = Instant::now();
    loop {
        let is_waited_for = |slot: &&AtomicU32| match slot.load(Ordering::SeqCst) {
            0 => false,
            child => sys::has_memory(child),
        };
        let waited = family.slots.iter().filter(is_waited_for).count();
        if waited == 0 || begin.elapsed() > PATIENCE {
            return waited as u32;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes the last profile of a process that ends.
pub fn write_last() {
    helper::write_profile();
    leave();
}

extern "C" fn before_exit(_id: u32, _frame: *mut usize) {
    // The probe stays in a child that outlives the attachment: its profile is nobody's.
    if super::is_profiling() {
        write_last();
    }
}

/// The C library's names of one function.
const EXIT: [&str; 2] = ["_exit", "_Exit"];

/// Whether the function of this name gets, or would get, a probe of this file's.
pub(in crate::profile) fn watches(name: &str) -> bool {
    settings::is_attached() && EXIT.contains(&name)
}

/// Has the C library's `_exit` watched, if this module is it. The module must be loaded.
pub(in crate::profile) fn watch(index: u32) {
    let Some(module) = module::module(index).filter(|m| settings::is_attached() && m.is_c_library()) else {
        return;
    };
    let is_exit = |name: &str| EXIT.contains(&name);
    if let Some(at) = module.symbols().iter().position(|symbol| is_exit(&symbol.name)) {
        // Without it children that end so leave what was counted until their last snapshot.
        let _ = entry::watch(module, at, &entry::executable(), Traps::Forbidden, before_exit);
    }
}
