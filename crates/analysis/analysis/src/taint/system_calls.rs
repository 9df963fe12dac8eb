//! System calls whose arguments decide.

/// How many registers a system call takes, and its name. Those whose arguments decide most.
pub(super) fn arguments_of(number: u64) -> (usize, &'static str) {
    match number {
        0 => (3, "read"),
        1 => (3, "write"),
        2 => (3, "open"),
        3 => (1, "close"),
        8 => (3, "lseek"),
        9 => (6, "mmap"),
        10 => (3, "mprotect"),
        11 => (2, "munmap"),
        12 => (1, "brk"),
        16 => (3, "ioctl"),
        17 => (4, "pread64"),
        18 => (4, "pwrite64"),
        19 => (3, "readv"),
        20 => (3, "writev"),
        33 => (3, "dup2"),
        41 => (3, "socket"),
        42 => (3, "connect"),
        44 => (6, "sendto"),
        45 => (6, "recvfrom"),
        49 => (3, "bind"),
        59 => (3, "execve"),
        60 => (1, "exit"),
        62 => (2, "kill"),
        77 => (2, "ftruncate"),
        87 => (1, "unlink"),
        90 => (2, "chmod"),
        105 => (1, "setuid"),
        231 => (1, "exit_group"),
        257 => (4, "openat"),
        262 => (4, "newfstatat"),
        322 => (5, "execveat"),
        _ => (0, "a system call"),
    }
}
