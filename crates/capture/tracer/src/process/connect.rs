//! Reaching the recorder.

use buffers::{CONFIG_BYTES, Config, POOL_BYTES, Pool};
use tracee::sys;

/// Connects to the recorder; gets the pool and the settings.
pub(crate) fn connect(channel: &[u8]) -> Option<(Pool, Config)> {
    let call = |number: libc::c_long, args: [usize; 6]| {
        // SAFETY: each call below gets pointers to locals of the right size.
        unsafe { sys::syscall(number as usize, args) }
    };
    let socket_type = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    let socket = call(libc::SYS_socket, [libc::AF_UNIX as usize, socket_type, 0, 0, 0, 0]);
    if sys::failed(socket) {
        return None;
    }
    let socket = sys::Fd(socket as i32);
    // sockaddr_un of an abstract name: family, a zero byte, the name.
    let mut address = [0u8; 110];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    address.get_mut(3..3 + channel.len())?.copy_from_slice(channel);
    let connected =
        call(libc::SYS_connect, [socket.0 as usize, address.as_ptr() as usize, 3 + channel.len(), 0, 0, 0]);
    if sys::failed(connected) {
        return None;
    }
    let mut bytes = [0u8; CONFIG_BYTES];
    let vector = [bytes.as_mut_ptr() as usize, bytes.len()];
    // One descriptor: cmsghdr (length, level, type) and the number, padded.
    let mut control = [0u64; 4];
    let mut header = [0usize; 7];
    header[2] = vector.as_ptr() as usize;
    header[3] = 1;
    header[4] = control.as_mut_ptr() as usize;
    header[5] = size_of_val(&control);
    let cloexec = libc::MSG_CMSG_CLOEXEC as usize;
    let received =
        call(libc::SYS_recvmsg, [socket.0 as usize, header.as_mut_ptr() as usize, cloexec, 0, 0, 0]);
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
