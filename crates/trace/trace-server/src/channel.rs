//! Byte streams that carry messages: Unix sockets, which also carry descriptors, and TLS.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, sockopt,
};

/// How long bytes may be on their way until a connection is given up, and how often a silent one is looked at.
const SILENCE_MS: u32 = 10_000;
const PROBE_AFTER: Duration = Duration::from_secs(5);

/// One side of a channel.
pub(crate) trait Channel: Read + Write + Send {
    /// Sends bytes, with a descriptor on the first one if the channel can carry any.
    fn send(&mut self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()>;

    /// The descriptor that came first and was not taken yet.
    fn descriptor(&mut self) -> Option<OwnedFd>;

    /// How long reading and writing may take.
    fn limit(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()>;
}

/// A Unix socket.
#[derive(Debug)]
pub(crate) struct UnixChannel {
    stream: UnixStream,
    /// Whether descriptors are accepted.
    accepts: bool,
    descriptors: VecDeque<OwnedFd>,
}

impl UnixChannel {
    pub(crate) fn new(stream: UnixStream, accepts: bool) -> Self {
        Self { stream, accepts, descriptors: VecDeque::new() }
    }
}

impl Read for UnixChannel {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if !self.accepts {
            return self.stream.read(bytes);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        Ok(received.bytes)
    }
}

impl Write for UnixChannel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Channel for UnixChannel {
    fn send(&mut self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let Some(descriptor) = descriptor else { return self.stream.write_all(bytes) };
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = loop {
            let flags = SendFlags::NOSIGNAL;
            match rustix::net::sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, flags) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        self.stream.write_all(bytes.get(sent..).unwrap_or(&[]))
    }

    fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    fn limit(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(read)?;
        self.stream.set_write_timeout(write)
    }
}

impl AsFd for UnixChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Has the kernel say that the other side can't be reached any more, also where nothing is said for long.
pub(crate) fn notice_cuts(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_AFTER)?;
    sockopt::set_tcp_user_timeout(stream, SILENCE_MS)?;
    Ok(())
}
