//! System calls whose arguments count as decisions.

use memref::VirtAddr;
use symbols::Resolver;
use x86::{Examiner, RegisterSum};

use super::code::ProgramCode;

/// The register of a system call's number: rax.
pub(crate) const CALL_NUMBER: u8 = 0;
/// Those of its arguments: rdi, rsi, rdx, r10, r8, r9.
pub(crate) const SYSCALL_ARGUMENTS: [u8; 6] = [7, 6, 2, 10, 8, 9];

/// The number of a system call, which is mostly a constant before it.
pub(crate) fn call_number(code: &mut ProgramCode, resolver: &mut Resolver, ip: VirtAddr) -> Option<u64> {
    let name = resolver.code_name(ip)?;
    let is_near = name.function.is_some() && name.offset < 4096;
    let start = ip.0.checked_sub(name.offset).filter(|_| is_near)?;
    let mut examiner = Examiner::new();
    let mut number = None;
    let mut addr = VirtAddr(start);
    while addr < ip {
        let decoded = code.at(resolver, addr)?;
        // The last number that is moved there; an address is none.
        let sets = |sum: &RegisterSum| sum.register == CALL_NUMBER && sum.base.is_none();
        if let Some(sum) = examiner.examine(&decoded.instruction).sums().find(sets)
            && decoded.instruction.rip_relative().is_none()
        {
            number = Some(sum.number as u64);
        }
        addr = decoded.next();
    }
    number
}

/// How many registers a system call takes, and its name. Those whose arguments decide most.
pub(crate) fn arguments_of(number: u64) -> (usize, &'static str) {
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
        // Calls that are known by their name alone.
        4 => (0, "stat"),
        6 => (0, "lstat"),
        21 => (0, "access"),
        76 => (0, "truncate"),
        80 => (0, "chdir"),
        82 => (0, "rename"),
        83 => (0, "mkdir"),
        84 => (0, "rmdir"),
        85 => (0, "creat"),
        86 => (0, "link"),
        88 => (0, "symlink"),
        89 => (0, "readlink"),
        92 => (0, "chown"),
        94 => (0, "lchown"),
        161 => (0, "chroot"),
        258 => (0, "mkdirat"),
        260 => (0, "fchownat"),
        263 => (0, "unlinkat"),
        264 => (0, "renameat"),
        265 => (0, "linkat"),
        266 => (0, "symlinkat"),
        267 => (0, "readlinkat"),
        268 => (0, "fchmodat"),
        269 => (0, "faccessat"),
        316 => (0, "renameat2"),
        332 => (0, "statx"),
        439 => (0, "faccessat2"),
        _ => (0, "a system call"),
    }
}
