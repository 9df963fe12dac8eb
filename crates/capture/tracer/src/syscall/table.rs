//! Which arguments of a system call are pointers, and what they point to.
//!
//! The kernel can't read or write closed pages, so every pointer into a page with a second view is redirected to that view.
//! What the kernel then reads and writes is recorded: as a fetch (it reads) or a fill (it writes). For a call that is not in
//! the table, every argument that points into memory with a second view is treated as a pointer, and nothing is recorded.

use libc::c_long;
use tracee::frame::SigInfo;

use Arg::{
    Any, Both, Elements, In, InBytes, InMessage, InMessages, InResult, InVectors, Mask, MaskPair, OutBytes,
    OutElements, OutMessage, OutMessages, OutResult, OutVectors, Path, Value,
};
use Manner::{Open, Quick, Waits};

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    /// A number, or an address that the kernel does not follow.
    Value,
    /// A pointer of which no more is known.
    Any,
    /// A string that the kernel reads.
    Path,
    /// The kernel reads as many bytes as the argument of that index says.
    In(u8),
    /// The kernel reads as many bytes as it returns; at most argument of that index.
    InResult,
    /// The kernel writes as many bytes as it returns.
    OutResult,
    /// The kernel reads that many bytes.
    InBytes(u16),
    /// The kernel writes that many bytes, where the call succeeds.
    OutBytes(u16),
    /// The kernel reads, then writes that many bytes.
    Both(u16),
    /// iovecs, as many as the argument of that index says, that the kernel reads from.
    InVectors(u8),
    /// iovecs, as many as the argument of that index says, that the kernel writes to.
    OutVectors(u8),
    /// A msghdr that the kernel reads from, or writes to.
    InMessage,
    OutMessage,
    /// mmsghdrs, as many as the argument of that index says.
    InMessages(u8),
    OutMessages(u8),
    /// Elements of that many bytes, as many as the argument of that index says, written back.
    Elements(u8, u8),
    /// Elements of that many bytes, written, as many as the call returns.
    OutElements(u8),
    /// A signal mask: what we live on is taken out of it.
    Mask,
    /// pselect6's pair of a mask and its size.
    MaskPair,
}

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It returns soon; the program's signals wait.
    Quick,
    /// It may wait, and signals may interrupt it.
    Waits,
    /// It has pointers to pointers that we don't know: closed memory is opened meanwhile.
    Open,
}

/// Structures of the kernel, by the C library's types.
const STAT: Arg = OutBytes(bytes_of::<libc::stat>());
const STATX: Arg = OutBytes(bytes_of::<libc::statx>());
const STATFS: Arg = OutBytes(bytes_of::<libc::statfs>());
const TIME: Arg = InBytes(bytes_of::<libc::timespec>());
const TIME_OUT: Arg = OutBytes(bytes_of::<libc::timespec>());
const TIME_BOTH: Arg = Both(bytes_of::<libc::timespec>());
const TIMEVAL_OUT: Arg = OutBytes(bytes_of::<libc::timeval>());
const TIMEVAL_BOTH: Arg = Both(bytes_of::<libc::timeval>());
const SECONDS_OUT: Arg = OutBytes(bytes_of::<libc::time_t>());
const TICKS_OUT: Arg = OutBytes(bytes_of::<libc::tms>());
const NAMES_OUT: Arg = OutBytes(bytes_of::<libc::utsname>());
const SYSTEM_OUT: Arg = OutBytes(bytes_of::<libc::sysinfo>());
const LIMIT: Arg = InBytes(bytes_of::<libc::rlimit64>());
const LIMIT_OUT: Arg = OutBytes(bytes_of::<libc::rlimit64>());
const USAGE_OUT: Arg = OutBytes(bytes_of::<libc::rusage>());
const STATUS_OUT: Arg = OutBytes(bytes_of::<libc::c_int>());
const SIGNAL: Arg = InBytes(bytes_of::<SigInfo>());
const SIGNAL_OUT: Arg = OutBytes(bytes_of::<SigInfo>());
const SIGNALS: Arg = InBytes(bytes_of::<SignalSet>());
const SIGNALS_OUT: Arg = OutBytes(bytes_of::<SignalSet>());
const DESCRIPTORS_OUT: Arg = OutBytes(bytes_of::<[libc::c_int; 2]>());
const EPOLL_EVENT: Arg = InBytes(bytes_of::<libc::epoll_event>());
const EPOLL_EVENTS: Arg = OutElements(size_of::<libc::epoll_event>() as u8);
const POLLED: Arg = Elements(size_of::<libc::pollfd>() as u8, 1);

/// The kernel's set of signals; the C library's is longer.
pub(crate) type SignalSet = u64;

const fn bytes_of<T>() -> u16 {
    size_of::<T>() as u16
}

const _: () = {
    assert!(size_of::<libc::statx>() == 256 && size_of::<libc::stat>() == 144);
    // Packed on this processor.
    assert!(size_of::<libc::epoll_event>() == 12);
    assert!(size_of::<libc::utsname>() == 390 && size_of::<libc::sysinfo>() == 112);
};

/// The table.
pub(crate) fn describe(number: c_long) -> (Manner, [Arg; 6]) {
    let (manner, args): (Manner, &[Arg]) = match number {
        libc::SYS_read => (Waits, &[Value, OutResult, Value]),
        // What the kernel goes on with after a stop, such as a sleep.
        libc::SYS_restart_syscall => (Waits, &[Value; 6]),
        libc::SYS_pread64 => (Waits, &[Value, OutResult, Value, Value]),
        libc::SYS_write => (Waits, &[Value, InResult, Value]),
        libc::SYS_pwrite64 => (Waits, &[Value, InResult, Value, Value]),
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => {
            (Waits, &[Value, OutVectors(2), Value, Value, Value, Value])
        }
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            (Waits, &[Value, InVectors(2), Value, Value, Value, Value])
        }
        libc::SYS_vmsplice => (Waits, &[Value, InVectors(2), Value, Value]),
        libc::SYS_recvfrom => (Waits, &[Value, OutResult, Value, Value, Any, Any]),
        libc::SYS_sendto => (Waits, &[Value, InResult, Value, Value, In(5), Value]),
        libc::SYS_recvmsg => (Waits, &[Value, OutMessage, Value]),
        libc::SYS_sendmsg => (Waits, &[Value, InMessage, Value]),
        libc::SYS_recvmmsg => (Waits, &[Value, OutMessages(2), Value, Value, Any]),
        libc::SYS_sendmmsg => (Waits, &[Value, InMessages(2), Value, Value]),
        libc::SYS_open => (Waits, &[Path, Value, Value]),
        libc::SYS_openat => (Waits, &[Value, Path, Value, Value]),
        libc::SYS_openat2 => (Waits, &[Value, Path, In(3), Value]),
        libc::SYS_creat => (Waits, &[Path, Value]),
        libc::SYS_stat | libc::SYS_lstat => (Quick, &[Path, STAT]),
        libc::SYS_fstat => (Quick, &[Value, STAT]),
        libc::SYS_newfstatat => (Quick, &[Value, Path, STAT, Value]),
        libc::SYS_statx => (Quick, &[Value, Path, Value, Value, STATX]),
        libc::SYS_statfs => (Quick, &[Path, STATFS]),
        libc::SYS_fstatfs => (Quick, &[Value, STATFS]),
        libc::SYS_access | libc::SYS_chmod | libc::SYS_truncate | libc::SYS_mkdir => (Quick, &[Path, Value]),
        libc::SYS_mknod | libc::SYS_chown | libc::SYS_lchown => (Quick, &[Path, Value, Value]),
        libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_fchmodat => (Quick, &[Value, Path, Value, Value]),
        libc::SYS_fchownat | libc::SYS_mknodat => (Quick, &[Value, Path, Value, Value, Value]),
        libc::SYS_chdir | libc::SYS_rmdir | libc::SYS_unlink | libc::SYS_chroot => (Quick, &[Path]),
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => (Quick, &[Path, Path]),
        libc::SYS_renameat | libc::SYS_linkat | libc::SYS_renameat2 => {
            (Quick, &[Value, Path, Value, Path, Value])
        }
        libc::SYS_symlinkat => (Quick, &[Path, Value, Path]),
        libc::SYS_readlink => (Quick, &[Path, OutResult, Value]),
        libc::SYS_readlinkat => (Quick, &[Value, Path, OutResult, Value]),
        libc::SYS_getcwd => (Quick, &[OutResult, Value]),
        libc::SYS_getdents | libc::SYS_getdents64 => (Quick, &[Value, OutResult, Value]),
        libc::SYS_timer_settime => (Quick, &[Value, Value, Any, Any]),
        libc::SYS_timer_gettime => (Quick, &[Value, Any]),
        libc::SYS_timer_create => (Quick, &[Value, Any, Any]),
        libc::SYS_timer_delete | libc::SYS_timer_getoverrun => (Quick, &[Value]),
        libc::SYS_setitimer => (Quick, &[Value, Any, Any]),
        libc::SYS_getitimer => (Quick, &[Value, Any]),
        libc::SYS_getrandom => (Waits, &[OutResult, Value, Value]),
        libc::SYS_pipe => (Quick, &[DESCRIPTORS_OUT]),
        libc::SYS_pipe2 => (Quick, &[DESCRIPTORS_OUT, Value]),
        libc::SYS_socketpair => (Quick, &[Value, Value, Value, DESCRIPTORS_OUT]),
        libc::SYS_connect => (Waits, &[Value, In(2), Value]),
        libc::SYS_bind => (Quick, &[Value, In(2), Value]),
        libc::SYS_accept | libc::SYS_accept4 => (Waits, &[Value, Any, Any, Value]),
        libc::SYS_getsockname | libc::SYS_getpeername => (Quick, &[Value, Any, Any]),
        libc::SYS_setsockopt => (Quick, &[Value, Value, Value, In(4), Value]),
        libc::SYS_getsockopt => (Quick, &[Value, Value, Value, Any, Any]),
        libc::SYS_poll => (Waits, &[POLLED, Value, Value]),
        libc::SYS_ppoll => (Waits, &[POLLED, Value, TIME_BOTH, Mask, Value]),
        libc::SYS_select => (Waits, &[Value, Any, Any, Any, TIMEVAL_BOTH]),
        libc::SYS_pselect6 => (Waits, &[Value, Any, Any, Any, TIME_BOTH, MaskPair]),
        libc::SYS_epoll_ctl => (Quick, &[Value, Value, Value, EPOLL_EVENT]),
        libc::SYS_epoll_wait => (Waits, &[Value, EPOLL_EVENTS, Value, Value]),
        libc::SYS_epoll_pwait => (Waits, &[Value, EPOLL_EVENTS, Value, Value, Mask, Value]),
        libc::SYS_epoll_pwait2 => (Waits, &[Value, EPOLL_EVENTS, Value, TIME, Mask, Value]),
        libc::SYS_nanosleep => (Waits, &[TIME, TIME_OUT]),
        libc::SYS_clock_nanosleep => (Waits, &[Value, Value, TIME, Any]),
        libc::SYS_clock_gettime | libc::SYS_clock_getres => (Quick, &[Value, TIME_OUT]),
        libc::SYS_clock_settime => (Quick, &[Value, TIME]),
        libc::SYS_gettimeofday => (Quick, &[TIMEVAL_OUT, Any]),
        libc::SYS_time => (Quick, &[SECONDS_OUT]),
        libc::SYS_times => (Quick, &[TICKS_OUT]),
        libc::SYS_uname => (Quick, &[NAMES_OUT]),
        libc::SYS_sysinfo => (Quick, &[SYSTEM_OUT]),
        libc::SYS_getrlimit => (Quick, &[Value, LIMIT_OUT]),
        libc::SYS_setrlimit => (Quick, &[Value, LIMIT]),
        libc::SYS_prlimit64 => (Quick, &[Value, Value, LIMIT, LIMIT_OUT]),
        libc::SYS_getrusage => (Quick, &[Value, USAGE_OUT]),
        libc::SYS_wait4 => (Waits, &[Value, STATUS_OUT, Value, Any]),
        libc::SYS_waitid => (Waits, &[Value, Value, SIGNAL_OUT, Value, Any]),
        libc::SYS_futex => (Waits, &[Any, Value, Value, Any, Any, Value]),
        // The other vectors are of memory that may be this process's own.
        libc::SYS_process_vm_readv => (Open, &[Value, OutVectors(2), Value, Value, Value, Value]),
        libc::SYS_process_vm_writev => (Open, &[Value, InVectors(2), Value, Value, Value, Value]),
        libc::SYS_futex_waitv => (Open, &[]),
        libc::SYS_rt_sigtimedwait => (Waits, &[SIGNALS, SIGNAL_OUT, TIME, Value]),
        libc::SYS_rt_sigsuspend => (Waits, &[Mask, Value]),
        libc::SYS_rt_sigpending => (Quick, &[SIGNALS_OUT, Value]),
        libc::SYS_rt_sigqueueinfo => (Quick, &[Value, Value, SIGNAL]),
        libc::SYS_rt_tgsigqueueinfo => (Quick, &[Value, Value, Value, SIGNAL]),
        libc::SYS_signalfd | libc::SYS_signalfd4 => (Quick, &[Value, SIGNALS, Value, Value]),
        libc::SYS_pause => (Waits, &[]),
        libc::SYS_flock | libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_close => (Waits, &[Value, Value]),
        libc::SYS_fcntl => (Waits, &[Value, Value, Any]),
        libc::SYS_sendfile => (Waits, &[Value, Value, Any, Value]),
        libc::SYS_splice | libc::SYS_copy_file_range => (Waits, &[Value, Any, Value, Any, Value, Value]),
        libc::SYS_tee => (Waits, &[Value, Value, Value, Value]),
        libc::SYS_semop => (Waits, &[Value, In(2), Value]),
        libc::SYS_semtimedop => (Waits, &[Value, Any, Value, TIME]),
        libc::SYS_msgsnd | libc::SYS_msgrcv => (Waits, &[Value, Any, Value, Value, Value]),
        libc::SYS_mq_timedsend | libc::SYS_mq_timedreceive => (Waits, &[Value, Any, Value, Any, Any]),
        libc::SYS_getpid
        | libc::SYS_getppid
        | libc::SYS_gettid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_getpgid
        | libc::SYS_setpgid
        | libc::SYS_getpgrp
        | libc::SYS_getsid
        | libc::SYS_setsid
        | libc::SYS_sched_yield
        | libc::SYS_lseek
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fadvise64
        | libc::SYS_readahead
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_close_range
        | libc::SYS_socket
        | libc::SYS_listen
        | libc::SYS_shutdown
        | libc::SYS_umask
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_fchdir
        | libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_tgkill
        | libc::SYS_alarm
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init1
        | libc::SYS_sync
        | libc::SYS_syncfs
        | libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_getscheduler
        | libc::SYS_getpriority
        | libc::SYS_setpriority
        | libc::SYS_pidfd_open
        | libc::SYS_personality
        | libc::SYS_membarrier
        | libc::SYS_shmget
        | libc::SYS_semget
        | libc::SYS_msgget
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list => (Quick, &[Value; 6]),
        // A lookup of addresses, which our view answers as well.
        libc::SYS_mlock | libc::SYS_munlock | libc::SYS_msync | libc::SYS_mlock2 => {
            (Quick, &[Any, Value, Value])
        }
        libc::SYS_mincore => (Quick, &[Any, Value, Any]),
        libc::SYS_io_submit
        | libc::SYS_io_setup
        | libc::SYS_io_getevents
        | libc::SYS_ptrace
        | libc::SYS_bpf
        | libc::SYS_perf_event_open
        | libc::SYS_keyctl
        | libc::SYS_move_pages
        | libc::SYS_process_madvise
        | libc::SYS_seccomp
        | libc::SYS_quotactl
        | libc::SYS_mount => (Open, &[]),
        _ => (Waits, &[Any; 6]),
    };
    let mut all = [Value; 6];
    for (to, from) in all.iter_mut().zip(args) {
        *to = *from;
    }
    (manner, all)
}

/// Whether an ioctl's argument is a flat structure, or none. The others may point on to more memory.
pub(crate) fn is_flat_ioctl(request: usize) -> bool {
    // Terminals (0x54..), files (FIONREAD and so on are 0x54 too), file systems ('f', 'X'), random ('R'), loop and block
    // devices without lists, and all that encode "no argument".
    matches!(request >> 8 & 0xff, 0x54 | 0x66 | 0x58 | 0x52 | 0x12)
        || request >> 30 == 0 && request >> 16 == 0 && request < 0x5000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_that_the_call_has() {
        for number in 0..1024 {
            let (manner, args) = describe(number);
            for (index, arg) in args.iter().enumerate() {
                let count = match *arg {
                    In(count) | InVectors(count) | OutVectors(count) | InMessages(count) => count,
                    OutMessages(count) | Elements(_, count) => count,
                    // Its length is the next argument.
                    OutResult => index as u8 + 1,
                    _ => continue,
                };
                assert_eq!(args.get(usize::from(count)), Some(&Value), "call {number}, argument {index}");
            }
            if manner == Open && args != [Value; 6] {
                assert!(args.iter().any(|arg| matches!(arg, InVectors(_) | OutVectors(_))), "call {number}");
            }
        }
    }

    #[test]
    fn a_call_that_is_not_known_may_have_a_pointer_anywhere() {
        assert_eq!(describe(1000), (Waits, [Any; 6]));
        assert_eq!(describe(libc::SYS_getpid), (Quick, [Value; 6]));
        assert_eq!(describe(libc::SYS_read).1[..3], [Value, OutResult, Value]);
    }

    #[test]
    fn lists_of_ioctls_are_not_flat() {
        let check =
            |request: u64, expect: bool| assert_eq!(is_flat_ioctl(request as usize), expect, "{request:#x}");
        check(libc::TCGETS, true);
        check(libc::FIONREAD, true);
        check(libc::TIOCGWINSZ, true);
        // A list of interfaces, by a pointer in the structure.
        check(0x8912, false);
    }
}
