//! Calls that change the environment of the tracer, and of tracers in programs started later: paths,
//! networks, process ids, which calls are allowed. Whatever will become unreachable is opened beforehand.

use crate::memory::program_memory;
use crate::process::{connect, library_path, namespaces};

/// The flags of clone and unshare with which others are found.
const NEW_SURROUNDINGS: u64 =
    (libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWPID | libc::CLONE_NEWUSER) as u64;

/// The program is about to make that call.
#[inline]
pub(crate) fn before(number: libc::c_long, args: &[usize; 6]) {
    match number {
        libc::SYS_unshare => {
            before_unshare(args[0] as u64);
            namespaces::on_change(args[0] as u64);
        }
        libc::SYS_setns => {
            before_unshare(NEW_SURROUNDINGS);
            namespaces::on_change(args[1] as u64);
        }
        libc::SYS_chroot
        | libc::SYS_pivot_root
        | libc::SYS_mount
        | libc::SYS_umount2
        | libc::SYS_move_mount => library_path::keep(),
        libc::SYS_seccomp => before_filter(),
        libc::SYS_prctl if args[0] == libc::PR_SET_SECCOMP as usize => before_filter(),
        _ => {}
    }
}

/// The program is about to give itself or a child surroundings of its own, by these flags.
pub(crate) fn before_unshare(flags: u64) {
    if flags & NEW_SURROUNDINGS != 0 {
        library_path::keep();
        connect::keep();
    }
}

fn before_filter() {
    connect::keep();
    program_memory::on_filter();
}
