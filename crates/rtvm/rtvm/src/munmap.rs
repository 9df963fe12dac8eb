//! The cost of Linux's own munmap on this machine: the third curve of Figure 6.
#![allow(unsafe_code)]

use std::io;
use std::ptr::null_mut;
use std::time::Instant;

use crate::HOST_PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Nanoseconds that one munmap of `bytes` bytes takes, all of whose pages were written: the middle of `rounds` rounds.
///
/// # Errors
/// Where the kernel gives no such mapping.
pub fn munmap_ns(bytes: usize, rounds: usize) -> io::Result<f64> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds.max(1) {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice; nothing else lies there.
        let base =
            unsafe { mmap_anonymous(null_mut(), bytes, rights, MapFlags::PRIVATE | MapFlags::NORESERVE) }?;
        for offset in (0..bytes).step_by(HOST_PAGE_BYTES) {
            // SAFETY: `offset` lies in the mapping, which is writable and which only this function knows.
            unsafe { base.cast::<u8>().add(offset).write_volatile(1) };
        }
        let start = Instant::now();
        // SAFETY: exactly the mapping from above; no pointer to it is used after this.
        unsafe { munmap(base, bytes) }?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    #[test]
    fn mappings_come_and_go() {
        assert!(super::munmap_ns(1 << 20, 3).unwrap() > 0.0);
        assert!(super::munmap_ns(0, 1).is_err());
    }
}
