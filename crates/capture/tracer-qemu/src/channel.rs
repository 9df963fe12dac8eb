//! The connection to the recorder: its pool of buffers.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;

use buffers::{CONFIG_BYTES, POOL_BYTES, Pool};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use rustix::thread::futex;

/// Connects to the recorder of that name and maps its pool, for ever.
pub(crate) fn connect(name: &str) -> Option<Pool> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .ok()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?).ok()?;
    let mut bytes = [0; CONFIG_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let vectors = &mut [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(&socket, vectors, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    if received.bytes != CONFIG_BYTES {
        return None;
    }
    let memory = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })?;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping replaces nothing.
    let base =
        unsafe { rustix::mm::mmap(core::ptr::null_mut(), POOL_BYTES, prot, MapFlags::SHARED, &memory, 0) }
            .ok()?;
    // SAFETY: the recorder's memory has that size and can't shrink, and it stays mapped.
    let pool = unsafe { Pool::new(base.cast()) };
    pool.control().is_valid().then_some(pool)
}

/// Tells the recorder that there is something to read.
pub(crate) fn wake_recorder(pool: &Pool) {
    let _ = futex::wake(pool.control().submitted_word(), futex::Flags::empty(), i32::MAX as u32);
}

/// Waits for a buffer to become free, a while at most; `seen` is the word's value before the last try.
pub(crate) fn wait_for_free(pool: &Pool, seen: u32) {
    let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    // Woken, changed before we slept, timed out, interrupted: the caller looks again.
    let _ = futex::wait(pool.control().freed_word(), futex::Flags::empty(), seen, Some(&timeout));
}
