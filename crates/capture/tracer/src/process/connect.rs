//! Connects to the recorder through its socket. Where a program can't reach the socket
//! (another network, sockets that are refused), a connection made earlier is used.
//!
//! The recorder answers a connection with one message, and closes it. A kept connection is
//! one whose message was never consumed: each program peeks at it and leaves it in place.

use buffers::{CONFIG_BYTES, Config, POOL_BYTES, Pool};
use tracee::sys;

use crate::process::kept_descriptor::KeptDescriptor;
use crate::state::process::PROCESS;

static CONNECTION: KeptDescriptor = KeptDescriptor::none();

/// The program is about to do what may keep others from connecting.
pub(crate) fn keep() {
    let settings = PROCESS.settings();
    if CONNECTION.number().is_none()
        && let Some(socket) = open(settings.channel.get(..settings.channel_len).unwrap_or(&[]))
    {
        CONNECTION.keep(&socket);
    }
}

/// The connection that was kept, for the next program.
pub(crate) fn for_exec() -> Option<i32> {
    CONNECTION.for_exec()
}

/// There was no next program.
pub(crate) fn after_failed_exec() {
    CONNECTION.after_failed_exec();
}

/// What the recorder answers.
pub(crate) struct Answer {
    pub(crate) pool: Pool,
    pub(crate) config: Config,
    /// It is about this process, and not about the one that made the connection.
    pub(crate) is_own: bool,
}

/// Gets the pool and the settings, by the connection of that number where the recorder can't be reached.
pub(crate) fn connect(channel: &[u8], kept: Option<i32>) -> Option<Answer> {
    if let Some(kept) = kept {
        CONNECTION.adopt(kept);
    }
    if let Some(socket) = open(channel) {
        let (pool, config) = receive(&socket, 0)?;
        return Some(Answer { pool, config, is_own: true });
    }
    let socket = sys::Fd(CONNECTION.number()?);
    let received = receive(&socket, libc::MSG_PEEK);
    // It stays open.
    core::mem::forget(socket);
    let (pool, config) = received?;
    Some(Answer { pool, config, is_own: false })
}

fn call(number: libc::c_long, args: [usize; 6]) -> isize {
    // SAFETY: each call below gets pointers to locals of the right size.
    unsafe { sys::syscall(number as usize, args) }
}

/// A connection to the recorder.
fn open(channel: &[u8]) -> Option<sys::Fd> {
    let socket_type = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    let socket = call(libc::SYS_socket, [libc::AF_UNIX as usize, socket_type, 0, 0, 0, 0]);
    if sys::failed(socket) {
        return None;
    }
    let socket = sys::Fd(socket as i32);
    // sockaddr_un: family, and a path with a zero byte behind it, or an abstract name with one before it.
    let mut address = [0u8; 110];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let at = if channel.first() == Some(&b'/') { 2 } else { 3 };
    address.get_mut(at..at + channel.len())?.copy_from_slice(channel);
    let connected =
        call(libc::SYS_connect, [socket.0 as usize, address.as_ptr() as usize, 3 + channel.len(), 0, 0, 0]);
    (!sys::failed(connected)).then_some(socket)
}

/// The recorder's message.
fn receive(socket: &sys::Fd, flags: i32) -> Option<(Pool, Config)> {
    let mut bytes = [0u8; CONFIG_BYTES];
    let vector = [bytes.as_mut_ptr() as usize, bytes.len()];
    // One descriptor: cmsghdr (length, level, type) and the number, padded.
    let mut control = [0u64; 4];
    let mut header = [0usize; 7];
    header[2] = vector.as_ptr() as usize;
    header[3] = 1;
    header[4] = control.as_mut_ptr() as usize;
    header[5] = size_of_val(&control);
    let flags = (libc::MSG_CMSG_CLOEXEC | flags) as usize;
    let received = call(libc::SYS_recvmsg, [socket.0 as usize, header.as_mut_ptr() as usize, flags, 0, 0, 0]);
    if received != CONFIG_BYTES as isize || control[0] < 20 {
        return None;
    }
    let memory = sys::Fd(control[2] as i32);
    let config = Config::decode(&bytes)?;
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    // SAFETY: a new mapping replaces nothing.
    let base = unsafe { sys::mmap(0, POOL_BYTES as u64, rw, sys::MAP_SHARED, memory.0, 0) };
    if sys::failed(base) {
        return None;
    }
    // SAFETY: the recorder's memory has that size, and it stays mapped.
    Some((unsafe { Pool::new(base as *mut u8) }, config))
}
