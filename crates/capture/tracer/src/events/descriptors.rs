//! Pipes, sockets and eventfds order threads: a write comes before whatever follows the read of what was written.
//!
//! Writing releases, before the call; reading acquires, after it. The synchronisation object is the object behind
//! the descriptor, which all duplicates and both ends share: the inode of a pipe, the two names of a connection.
//! Eventfds have no inode of their own, and the ends of a socketpair have different ones. These are numbered when
//! they are created, and a table maps descriptors to the numbers. Other reads and writes order nothing.
//!
//! POSIX message queues are descriptors, too. Message queues and semaphores of System V have numbers of their own.
//!
//! Waits that end without a read (epoll, select) are left out. Objects of which only the kind is known (sockets without
//! names, eventfds that existed before the tracer) are treated as one object: a race may be missed, but none is invented.

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use buffers::Record;
use memref::{SyncFunction, SyncKind, VirtAddr};
use tracee::sys;

use crate::emit::recorder;
use crate::memory::program_memory;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// Descriptors that the table has room for; programs have few others.
const KNOWN: usize = 4096;
/// What the table says of a descriptor, where it is no object: not looked at yet, orders nothing, a socket, whose names may change, a
/// signalfd.
const UNKNOWN: u64 = 0;
const NOTHING: u64 = 1;
const SOCKET: u64 = 2;
const SIGNALS: u64 = 3;
/// Objects are no addresses: these have this bit.
const OBJECT: u64 = 1 << 63;

/// By descriptor. Written by whichever thread makes, duplicates, looks at or closes it: the last one is right, because a number
/// is only given again after it was closed.
static TABLE: [AtomicU64; KNOWN] = [const { AtomicU64::new(UNKNOWN) }; KNOWN];
/// Eventfds and socketpairs so far.
static MADE: AtomicU64 = AtomicU64::new(0);
/// The process has had a second thread.
static THREADED: AtomicBool = AtomicBool::new(false);

/// What objects are made of: kinds that have numbers of their own.
#[derive(Clone, Copy)]
pub(super) enum Sort {
    Inode,
    Made,
    Eventfd,
    Port,
    Connection,
    UnixName,
    UnixNoName,
    Filtered,
    Signal,
    MessageQueue,
    Semaphores,
}

/// The object that a sort and two numbers stand for.
pub(super) fn object(sort: Sort, a: u64, b: u64) -> u64 {
    let mut hash = 0u64;
    for word in [sort as u64, a, b] {
        // SplitMix64: neighbours become far from each other.
        hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash | OBJECT
}

fn place(fd: usize) -> Option<&'static AtomicU64> {
    TABLE.get(fd as u32 as usize)
}

fn set(fd: usize, what: u64) {
    if let Some(place) = place(fd) {
        place.store(what, Ordering::Relaxed);
    }
}

fn get(fd: usize) -> u64 {
    place(fd).map_or(UNKNOWN, |place| place.load(Ordering::Relaxed))
}

/// What a descriptor is, by the table or by asking.
fn look_up(fd: usize) -> u64 {
    let known = get(fd);
    if known != UNKNOWN {
        return known;
    }
    if program_memory::is_filtered() {
        return object(Sort::Filtered, 0, 0);
    }
    let Some(status) = sys::status(fd as i32) else { return NOTHING };
    let what = match status.st_mode & libc::S_IFMT {
        libc::S_IFIFO => object(Sort::Inode, status.st_dev, status.st_ino),
        libc::S_IFSOCK => SOCKET,
        // No file: an eventfd, or one of those that nobody writes.
        0 => object(Sort::Eventfd, 0, 0),
        _ => NOTHING,
    };
    set(fd, what);
    what
}

/// A socket's name, or that of the socket that it is connected with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SocketName {
    None,
    Port(u64),
    /// By a number made of the path.
    Unix(u64),
    /// Of a family that orders nothing.
    Other,
}

/// The longest name that is looked at.
type NameBytes = [u8; size_of::<libc::sockaddr_un>()];
const PORT_AT: usize = offset_of!(libc::sockaddr_in, sin_port);
const PATH_AT: usize = offset_of!(libc::sockaddr_un, sun_path);
const _: () = assert!(offset_of!(libc::sockaddr_in6, sin6_port) == PORT_AT);

impl SocketName {
    fn of(bytes: &[u8]) -> Self {
        let half = |at: usize| {
            let bytes = [bytes.get(at).copied().unwrap_or(0), bytes.get(at + 1).copied().unwrap_or(0)];
            u16::from_ne_bytes(bytes)
        };
        match i32::from(half(0)) {
            libc::AF_INET | libc::AF_INET6 => match half(PORT_AT) {
                0 => Self::None,
                port => Self::Port(u16::from_be(port).into()),
            },
            libc::AF_UNIX => {
                let path = bytes.get(PATH_AT..).unwrap_or_default();
                let len = path.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                if len == 0 {
                    return Self::None;
                }
                // FNV-1a.
                let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                Self::Unix(path.iter().take(len).fold(0xcbf2_9ce4_8422_2325, step))
            }
            _ => Self::Other,
        }
    }

    /// The name that the kernel gives for a socket. `None`: there is none.
    fn asked(call: libc::c_long, fd: usize) -> Option<Self> {
        let mut bytes: NameBytes = [0; size_of::<NameBytes>()];
        let mut len = bytes.len() as libc::socklen_t;
        let args = [fd, bytes.as_mut_ptr() as usize, &raw mut len as usize, 0, 0, 0];
        // SAFETY: the kernel writes at most as many bytes as it is told, and the length.
        let result = unsafe { sys::syscall(call as usize, args) };
        (!sys::failed(result)).then(|| Self::of(bytes.get(..len as usize).unwrap_or(&bytes)))
    }

    /// A name that the program gives.
    fn given(addr: u64, len: u64) -> Self {
        let mut bytes: NameBytes = [0; size_of::<NameBytes>()];
        let len = bytes.len().min(len as usize);
        let Some(room) = bytes.get_mut(..len).filter(|room| addr != 0 && !room.is_empty()) else {
            return Self::None;
        };
        if program_memory::read(addr, room) { Self::of(room) } else { Self::None }
    }

    /// What is given up to whoever listens under this name, or receives.
    fn object(self) -> Option<u64> {
        match self {
            Self::Port(port) => Some(object(Sort::Port, port, 0)),
            Self::Unix(path) => Some(object(Sort::UnixName, path, 0)),
            Self::None | Self::Other => None,
        }
    }
}

/// Whether a socket keeps messages apart, or passes on a stream of bytes.
fn is_datagram(fd: usize) -> bool {
    let mut kind = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    let [level, option] = [libc::SOL_SOCKET, libc::SO_TYPE].map(|number| number as usize);
    let args = [fd, level, option, &raw mut kind as usize, &raw mut len as usize, 0];
    // SAFETY: the kernel writes the number and its length.
    let result = unsafe { sys::syscall(libc::SYS_getsockopt as usize, args) };
    !sys::failed(result) && kind == libc::SOCK_DGRAM
}

/// What is given up where a socket sends, or taken up where it receives.
fn socket_object(fd: usize, sends: bool) -> Option<u64> {
    let own = SocketName::asked(libc::SYS_getsockname, fd)?;
    let peer = SocketName::asked(libc::SYS_getpeername, fd);
    let (to, from) =
        if sends { (peer.unwrap_or(SocketName::None), own) } else { (own, peer.unwrap_or(SocketName::None)) };
    match (to, from) {
        (SocketName::Other, _) | (_, SocketName::Other) => None,
        // A connection has a name of its own, each way.
        (SocketName::Port(to), SocketName::Port(from)) if !is_datagram(fd) => {
            Some(object(Sort::Connection, to, from))
        }
        (SocketName::Port(_), _) => to.object(),
        // Nobody receives what is sent nowhere.
        (_, SocketName::Port(_)) => None,
        // One of the two ends has a name, or neither.
        (SocketName::Unix(_), _) => to.object(),
        (_, SocketName::Unix(_)) => from.object(),
        (SocketName::None, SocketName::None) => Some(object(Sort::UnixNoName, 0, 0)),
    }
}

/// The object that is written or read there.
fn object_of(fd: usize, sends: bool) -> Option<u64> {
    match look_up(fd) {
        UNKNOWN | NOTHING | SIGNALS => None,
        SOCKET if program_memory::is_filtered() => Some(object(Sort::Filtered, 0, 0)),
        SOCKET => socket_object(fd, sends),
        object => Some(object),
    }
}

/// The object of a call that is about no descriptor: what System V has numbers for.
fn numbered(number: libc::c_long, id: usize) -> Option<u64> {
    let sort = match number {
        libc::SYS_msgsnd | libc::SYS_msgrcv => Sort::MessageQueue,
        libc::SYS_semop | libc::SYS_semtimedop => Sort::Semaphores,
        _ => return None,
    };
    Some(object(sort, id as u64, 0))
}

/// Whether calls are looked at, and for whom: not before there is a second thread.
pub(super) fn is_looked_at() -> bool {
    if THREADED.load(Ordering::Relaxed) {
        return true;
    }
    let threaded = PROCESS.is_threaded();
    if threaded {
        THREADED.store(true, Ordering::Relaxed);
    }
    threaded
}

/// Two descriptors that the kernel has written.
fn pair(addr: u64) -> [usize; 2] {
    let word = program_memory::word(addr);
    [word as u32 as usize, (word >> 32) as usize]
}

/// A number for what has none.
fn next_made() -> u64 {
    object(Sort::Made, MADE.fetch_add(1, Ordering::Relaxed), 0)
}

/// Of the events that poll was asked for: something can be read, or the other end was closed.
const READABLE: u16 = (libc::POLLIN | libc::POLLPRI | libc::POLLRDHUP | libc::POLLHUP) as u16;
/// Descriptors of one call that are looked at.
const MOST_POLLED: u64 = 64;

impl TracedThread {
    fn tell_descriptor(&mut self, kind: SyncKind, ip: u64, object: Option<u64>) {
        if let Some(object) = object {
            self.tell_object(SyncFunction::Descriptor, kind, ip, object);
        }
    }

    pub(super) fn tell_object(&mut self, function: SyncFunction, kind: SyncKind, ip: u64, object: u64) {
        let order = recorder::next_order();
        let object = VirtAddr(object);
        self.emit(&Record::Sync { order, ip: VirtAddr(ip), kind, function, object, value: 0 });
    }

    /// A call is about to be made: what it writes to is given up.
    #[inline]
    pub(crate) fn before_descriptors(&mut self, number: libc::c_long, ip: u64, args: &[usize; 6]) {
        let fd = match number {
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwritev2
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_vmsplice
            | libc::SYS_sendfile
            | libc::SYS_shutdown
            | libc::SYS_close
            | libc::SYS_timerfd_settime
            | libc::SYS_mq_timedsend
            | libc::SYS_msgsnd
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_connect => args[0],
            libc::SYS_tee | libc::SYS_dup2 | libc::SYS_dup3 => args[1],
            libc::SYS_splice => args[2],
            _ => return,
        };
        self.give_descriptor(number, ip, args, fd);
    }

    #[cold]
    fn give_descriptor(&mut self, number: libc::c_long, ip: u64, args: &[usize; 6], fd: usize) {
        if !is_looked_at() || PROCESS.is_vfork_child() {
            return;
        }
        let [_, b, c, _, e, f] = args.map(|arg| arg as u64);
        let name = match number {
            libc::SYS_connect => SocketName::given(b, c),
            libc::SYS_sendto => SocketName::given(e, f),
            libc::SYS_sendmsg => SocketName::given(
                program_memory::word_behind(b, offset_of!(libc::msghdr, msg_name)),
                program_memory::word_behind(b, offset_of!(libc::msghdr, msg_namelen)) & 0xffff_ffff,
            ),
            _ => SocketName::None,
        };
        if matches!(number, libc::SYS_dup2 | libc::SYS_dup3) && args[0] == fd {
            // Nothing is closed.
            return;
        }
        let object = name.object().or_else(|| numbered(number, fd)).or_else(|| object_of(fd, true));
        self.tell_descriptor(SyncKind::Release, ip, object);
        // What the kernel reads it reads for those who take it up.
        self.calls.keeps_order = object.is_some();
    }

    /// What a call did is recorded: the order goes on.
    #[inline]
    pub(crate) fn leave_descriptors(&mut self) {
        if core::mem::take(&mut self.calls.keeps_order)
            && let Some(pool) = PROCESS.pool()
        {
            self.note_order_now(&pool);
        }
    }

    /// A call was made: what it read from is taken up, and what it did to the table of descriptors is noted.
    #[inline]
    pub(crate) fn after_descriptors(
        &mut self,
        number: libc::c_long,
        ip: u64,
        args: &[usize; 6],
        result: isize,
    ) {
        let fd = match number {
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_preadv2
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_splice
            | libc::SYS_tee
            | libc::SYS_mq_timedreceive
            | libc::SYS_msgrcv
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_accept
            | libc::SYS_accept4 => args[0],
            libc::SYS_poll | libc::SYS_ppoll => args[0],
            libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_mq_open
            | libc::SYS_socketpair
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_close
            | libc::SYS_close_range => return self.note_descriptors(number, args, result),
            _ => return,
        };
        if !sys::failed(result) {
            self.take_descriptor(number, ip, args, fd, result);
        }
    }

    #[cold]
    fn take_descriptor(
        &mut self,
        number: libc::c_long,
        ip: u64,
        args: &[usize; 6],
        fd: usize,
        result: isize,
    ) {
        if !is_looked_at() || PROCESS.is_vfork_child() {
            return;
        }
        match number {
            libc::SYS_poll | libc::SYS_ppoll => {}
            libc::SYS_read if get(fd) == SIGNALS => {
                return self.take_read_signals(ip, args[1] as u64, result as u64);
            }
            libc::SYS_readv if get(fd) == SIGNALS => {
                // The first buffer: who reads signals has one.
                let at = program_memory::word(args[1] as u64);
                return self.take_read_signals(ip, at, result as u64);
            }
            _ => {
                let object = numbered(number, fd).or_else(|| object_of(fd, false));
                return self.tell_descriptor(SyncKind::Acquire, ip, object);
            }
        }
        for index in 0..MOST_POLLED.min(args[1] as u64) {
            let polled =
                program_memory::word_behind(args[0] as u64, index as usize * size_of::<libc::pollfd>());
            if (polled >> 48) as u16 & READABLE != 0 {
                self.tell_descriptor(SyncKind::Acquire, ip, object_of(polled as u32 as usize, false));
            }
        }
    }

    #[cold]
    fn note_descriptors(&mut self, number: libc::c_long, args: &[usize; 6], result: isize) {
        // A child of vfork has the memory of its parent, and a table of descriptors of its own.
        if PROCESS.is_vfork_child() || sys::failed(result) {
            return;
        }
        match number {
            libc::SYS_eventfd | libc::SYS_eventfd2 => set(result as usize, next_made()),
            libc::SYS_signalfd | libc::SYS_signalfd4 => set(result as usize, SIGNALS),
            // To fstat it is a file.
            libc::SYS_mq_open => {
                if let Some(status) = sys::status(result as i32) {
                    set(result as usize, object(Sort::Inode, status.st_dev, status.st_ino));
                }
            }
            libc::SYS_socketpair => {
                let made = next_made();
                for fd in pair(args[3] as u64) {
                    set(fd, made);
                }
            }
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => set(result as usize, get(args[0])),
            libc::SYS_fcntl if matches!(args[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                set(result as usize, get(args[0]));
            }
            libc::SYS_close => set(args[0], UNKNOWN),
            libc::SYS_close_range if args[2] as u32 & libc::CLOSE_RANGE_CLOEXEC == 0 => {
                for fd in args[0]..=args[1].min(KNOWN - 1) {
                    set(fd, UNKNOWN);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_no_addresses_and_differ() {
        let sorts = [Sort::Inode, Sort::Made, Sort::Eventfd, Sort::Port, Sort::Connection];
        let mut all: Vec<u64> = sorts
            .iter()
            .flat_map(|&sort| (0..10).flat_map(move |a| (0..10).map(move |b| object(sort, a, b))))
            .collect();
        assert!(all.iter().all(|object| object & OBJECT != 0));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 500);
    }

    #[test]
    fn both_ends_of_a_pipe_and_their_duplicates_are_one() {
        let mut ends = [0; 2];
        // SAFETY: two descriptors of this test.
        let duplicate = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::dup(ends[1])
        };
        let [read, write] = ends.map(|fd| object_of(fd as usize, true));
        assert!(read.is_some() && read == write && read == object_of(duplicate as usize, true));
        // SAFETY: closes what was opened here.
        let closed = unsafe { [ends[0], ends[1], duplicate].map(|fd| libc::close(fd)) };
        assert_eq!(closed, [0; 3]);
        for fd in [ends[0], ends[1], duplicate] {
            set(fd as usize, UNKNOWN);
        }
        assert_eq!(object_of(-1i32 as u32 as usize, true), None);
    }

    #[test]
    fn names_of_sockets() {
        let name = |family: i32, rest: &[u8]| {
            let mut bytes = (family as u16).to_ne_bytes().to_vec();
            bytes.extend(rest);
            SocketName::of(&bytes)
        };
        assert!(name(libc::AF_INET, &[0x1f, 0x90, 127, 0, 0, 1]) == SocketName::Port(8080));
        assert!(name(libc::AF_INET6, &[0x1f, 0x90]) == SocketName::Port(8080));
        assert!(name(libc::AF_UNIX, b"") == SocketName::None);
        assert!(name(libc::AF_UNIX, b"/run/a\0") == name(libc::AF_UNIX, b"/run/a"));
        assert!(name(libc::AF_UNIX, b"\0a") != name(libc::AF_UNIX, b"\0b"));
        assert!(name(libc::AF_NETLINK, b"") == SocketName::Other);
    }
}
