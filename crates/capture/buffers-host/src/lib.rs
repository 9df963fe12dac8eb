//! The recorder's side of the pool: creates it, hands it to processes that connect, and
//! waits for buffers. Also [`Region`], the memory shared with clients of the trace store.
//!
//! This is a separate crate because `buffers` is linked into traced processes and does without std. It does not parse records.

mod heap;
mod region;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use rustix::thread::futex;

use buffers::{BUFFER_BYTES, Buffer, Config, POOL_BYTES, Pool};

pub use heap::{give_back_freed_memory, share_heaps};
pub use region::Region;

/// A pool of our own, unmapped when dropped; traced processes keep theirs.
#[derive(Debug)]
pub struct OwnedPool {
    pool: Pool,
    memory: OwnedFd,
}

impl OwnedPool {
    /// Unmaps what was read of a buffer, which counts as this process's memory as long as it is mapped. It stays in the pool, and is mapped
    /// again by whoever reads it.
    pub fn unmap(&self, buffer: Buffer) {
        // SAFETY: the buffer is whole pages of a mapping of its pool, which is shared, so that what they hold is in the file, and the next
        // access finds it there.
        let unmapped = unsafe {
            rustix::mm::madvise(buffer.start().cast(), BUFFER_BYTES, rustix::mm::Advice::LinuxDontNeed)
        };
        // What stays mapped costs memory and nothing else.
        let _ = unmapped;
    }

    /// Makes an empty pool. Its pages are allocated as they are used.
    ///
    /// # Errors
    /// Where the kernel refuses the memory.
    pub fn create() -> io::Result<Self> {
        let memory = rustix::fs::memfd_create("memtap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, POOL_BYTES as u64)?;
        // A traced program that shrank it would kill us at the next read.
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::SEAL)?;
        // SAFETY: a new mapping of a file of this length, which can't become shorter.
        let base = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(core::ptr::null_mut(), POOL_BYTES, prot, MapFlags::SHARED, &memory, 0)?
        };
        // SAFETY: just mapped, page-aligned, and mapped until the drop.
        let pool = unsafe { Pool::new(base.cast()) };
        pool.control().init(std::process::id());
        Ok(Self { pool, memory })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits until a buffer is handed over, somebody calls [`OwnedPool::wake`], or the time is over. `seen` is what
    /// [`OwnedPool::submissions`] said before the buffers were looked through.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        let timeout = rustix::time::Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let control = self.pool.control();
        control.set_waiting(true);
        // Woken, changed before we slept, timed out, interrupted: in each case the caller looks again.
        let _ = futex::wait(control.submitted_word(), futex::Flags::empty(), seen, Some(&timeout));
        control.set_waiting(false);
    }

    /// How many buffers were handed over so far.
    pub fn submissions(&self) -> u32 {
        self.pool.control().submitted_word().load(core::sync::atomic::Ordering::Acquire)
    }

    /// Makes [`OwnedPool::wait`] return.
    pub fn wake(&self) {
        self.pool.control().submitted_word().fetch_add(1, core::sync::atomic::Ordering::Release);
        let _ = futex::wake(self.pool.control().submitted_word(), futex::Flags::empty(), i32::MAX as u32);
    }

    /// Tells waiting producers that buffers are free again, or that the pool is closed.
    pub fn wake_producers(&self) {
        let _ = futex::wake(self.pool.control().freed_word(), futex::Flags::empty(), i32::MAX as u32);
    }
}

impl AsFd for OwnedPool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for OwnedPool {
    fn drop(&mut self) {
        let (base, len) = self.pool.span();
        // SAFETY: mapped by `create`; the pool that we gave out borrows from us.
        let _ = unsafe { rustix::mm::munmap(base.cast(), len) };
    }
}

/// Where traced processes connect: an abstract Unix socket, so that no file is left over, or one with a file, which is there for processes
/// in other networks, too.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    name: String,
}

impl Listener {
    /// Listens under that name.
    ///
    /// # Errors
    /// Where the name is taken or sockets are refused.
    pub fn bind(name: String) -> io::Result<Self> {
        Self::bind_to(&SocketAddrUnix::new_abstract_name(name.as_bytes())?, name)
    }

    /// Listens at a file, which processes know by that name, a path. What was there is replaced; removing it is left to the caller.
    ///
    /// # Errors
    /// Where the file can't be made or sockets are refused.
    pub fn bind_file(path: &Path, name: String) -> io::Result<Self> {
        if std::fs::exists(path)? {
            std::fs::remove_file(path)?;
        }
        let listener = Self::bind_to(&SocketAddrUnix::new(path)?, name)?;
        // As those without a file, it is open to every user: what a program starts as another one is recorded, too.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        Ok(listener)
    }

    fn bind_to(address: &SocketAddrUnix, name: String) -> io::Result<Self> {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, address)?;
        rustix::net::listen(&socket, 128)?;
        Ok(Self { socket, name })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for one process, and gives it the pool and the settings, which may depend on its pid.
    ///
    /// # Errors
    /// Where the process is gone again, or the listener was shut down.
    pub fn serve_one(&self, pool: &OwnedPool, config: impl FnOnce(u32) -> Config) -> io::Result<()> {
        let peer = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        let pid = rustix::net::sockopt::socket_peercred(&peer)?.pid;
        let pid = pid.as_raw_nonzero().get().unsigned_abs();
        let bytes = Config { pid, ..config(pid) }.encode();
        let descriptors = [pool.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        rustix::net::sendmsg(&peer, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Ends a [`Listener::serve_one`] that waits in another thread, and all later ones.
    pub fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use buffers::Content;

    use super::*;

    #[test]
    fn a_buffer_that_was_unmapped_has_what_was_written() {
        let pool = OwnedPool::create().expect("memory");
        let buffer = pool.pool().take(0, 0, 0, 0, Content::Flow).expect("all are free");
        // SAFETY: the first bytes of a buffer that this test owns.
        unsafe { buffer.start().cast::<[u8; 4]>().write([1, 2, 3, 4]) };
        pool.unmap(buffer);
        let mut read = [0; BUFFER_BYTES];
        assert_eq!(buffer.read_first(4, &mut read), 4);
        assert_eq!(read[..5], [1, 2, 3, 4, 0]);
    }
}
