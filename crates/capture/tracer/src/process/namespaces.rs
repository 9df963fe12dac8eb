//! Processes whose ids differ from those that the recorder sees, because they are in another PID namespace.
//!
//! A program that connects is told its id in the recorder's namespace, because the kernel translates it. A
//! forked child does not connect: if it may be in another namespace it says so, and the recorder looks for it.

use core::sync::atomic::{AtomicBool, Ordering};

use buffers::Arrival;
use tracee::sys;
use tracee::text::Text;

/// This process has another id where the recorder lives. Written by the constructor, and in forked children.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);
/// The children that it makes from now on may. Written by the constructor, and by calls of the program.
static CHILDREN_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// The flag of clone and unshare.
const NEW_IDS: u64 = libc::CLONE_NEWPID as u64;

/// The process has that id in the recorder's name space.
pub(crate) fn note_own(pid: u32) {
    let is_elsewhere = pid != sys::getpid();
    ELSEWHERE.store(is_elsewhere, Ordering::Relaxed);
    // Who made a name space for its children alone and then executed this program.
    let [own, children] = [c"/proc/self/ns/pid", c"/proc/self/ns/pid_for_children"].map(target);
    let differs = own.as_bytes() != children.as_bytes();
    CHILDREN_ELSEWHERE.store(is_elsewhere || differs, Ordering::Relaxed);
}

/// Whether this process has another id where the recorder lives: the recorder's id leads nowhere here.
pub(crate) fn is_elsewhere() -> bool {
    ELSEWHERE.load(Ordering::Relaxed)
}

fn target(link: &core::ffi::CStr) -> Text<64> {
    let mut bytes = [0u8; 64];
    let args = [link.as_ptr() as usize, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: a terminated name; the kernel writes at most the array.
    let len = unsafe { sys::syscall(libc::SYS_readlink as usize, args) };
    let mut text = Text::new();
    if !sys::failed(len) {
        text.push(bytes.get(..len as usize).unwrap_or(&[]));
    }
    text
}

/// The program calls unshare or setns with these flags; where the kernel refuses, the recorder looks for children all the same.
pub(crate) fn on_change(flags: u64) {
    // setns takes a descriptor of any name space where no flag is given.
    if flags == 0 || flags & NEW_IDS != 0 {
        CHILDREN_ELSEWHERE.store(true, Ordering::Relaxed);
    }
}

/// In a child that was made with these flags.
pub(crate) fn be_child(flags: u64) {
    if CHILDREN_ELSEWHERE.load(Ordering::Relaxed) || flags & NEW_IDS != 0 {
        ELSEWHERE.store(true, Ordering::Relaxed);
        CHILDREN_ELSEWHERE.store(true, Ordering::Relaxed);
    }
}

/// What a process that was made by that one says of itself. A child that shares its parent's memory has the parent's words here.
pub(crate) fn arrival_of_child(parent: u32) -> Arrival {
    let own_pid = sys::getpid();
    let is_elsewhere = ELSEWHERE.load(Ordering::Relaxed) || CHILDREN_ELSEWHERE.load(Ordering::Relaxed);
    let pid = if is_elsewhere { 0 } else { own_pid };
    Arrival { pid, own_pid, parent: Some(parent), announcement: None, start_ns: sys::realtime_ns() }
}
