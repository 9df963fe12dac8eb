//! A descriptor of the tracer in the program's table. This is rare, because programs may see
//! it and close it. It has a high number, and exec closes it unless the next program needs it.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use tracee::sys;

/// Numbers that programs rarely have.
const HIGH: usize = 700;

/// A descriptor, or none.
pub(crate) struct KeptDescriptor {
    number: AtomicI32,
    /// What it stands for: the program may have closed it, and opened something else under its number.
    inode: AtomicU64,
}

impl KeptDescriptor {
    pub(crate) const fn none() -> Self {
        Self { number: AtomicI32::new(-1), inode: AtomicU64::new(0) }
    }

    /// Its number, where it is still the tracer's.
    pub(crate) fn number(&self) -> Option<i32> {
        let number = self.number.load(Ordering::Relaxed);
        (number >= 0 && inode(number) == Some(self.inode.load(Ordering::Relaxed))).then_some(number)
    }

    /// Keeps a copy of that one.
    pub(crate) fn keep(&self, file: &sys::Fd) {
        let high = control(file.0, libc::F_DUPFD_CLOEXEC, HIGH);
        if !sys::failed(high) {
            self.note(high as i32);
        }
    }

    /// The program that was executed in this process has left it open.
    pub(crate) fn adopt(&self, number: i32) {
        control(number, libc::F_SETFD, libc::FD_CLOEXEC as usize);
        self.note(number);
    }

    fn note(&self, number: i32) {
        if let Some(inode) = inode(number) {
            self.inode.store(inode, Ordering::Relaxed);
            self.number.store(number, Ordering::Relaxed);
        }
    }

    /// The next program gets it. Its number.
    pub(crate) fn for_exec(&self) -> Option<i32> {
        let number = self.number()?;
        control(number, libc::F_SETFD, 0);
        Some(number)
    }

    /// There was no next program.
    pub(crate) fn after_failed_exec(&self) {
        if let Some(number) = self.number() {
            control(number, libc::F_SETFD, libc::FD_CLOEXEC as usize);
        }
    }
}

fn inode(fd: i32) -> Option<u64> {
    sys::status(fd).map(|status| status.st_ino)
}

fn control(fd: i32, command: i32, value: usize) -> isize {
    // SAFETY: changes a descriptor of our own; no pointers.
    unsafe { sys::syscall(libc::SYS_fcntl as usize, [fd as usize, command as usize, value, 0, 0, 0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_the_program_closed_is_none() {
        let kept = KeptDescriptor::none();
        assert_eq!(kept.number(), None);
        kept.keep(&sys::open_read(c"/proc/self/exe").unwrap());
        let number = kept.number().unwrap();
        assert!(number >= HIGH as i32);
        assert_eq!(kept.for_exec(), Some(number));
        kept.after_failed_exec();
        drop(sys::Fd(number));
        assert_eq!(kept.number(), None);
    }
}
