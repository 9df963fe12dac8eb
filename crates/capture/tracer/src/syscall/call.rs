//! One system call of the program, and how it is recorded.

use core::mem::offset_of;

use buffers::Record;
use memref::{AccessKind, AllocationFunction, AllocationKind, BlockFunction, BlockKind, VirtAddr};
use tracee::sys;

use crate::memory::program_memory;
use crate::signal::stubs::SYSCALL_BYTES;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::touched::Touched;
use crate::syscall::scratch::{IOVEC_BYTES, MMSGHDR_BYTES, MSGHDR_BYTES};
use crate::syscall::table::Arg;
use crate::watch::hits::{self, Origin};

/// Arguments of a program that is executed of which it is recorded that the kernel reads them.
const MOST_ARGUMENTS: u64 = 4096;

/// One system call of the program.
#[derive(Clone, Copy)]
pub(crate) struct SystemCall {
    pub(crate) number: libc::c_long,
    pub(crate) args: [usize; 6],
    pub(crate) ip: u64,
}

impl SystemCall {
    /// That of an instruction which these registers are at, and which ends at that address.
    pub(crate) fn of(gregs: &x86::Registers, end: u64) -> Self {
        let args = [gregs.rdi, gregs.rsi, gregs.rdx, gregs.r10, gregs.r8, gregs.r9];
        Self {
            number: gregs.rax as libc::c_long,
            args: args.map(|word| word as usize),
            ip: end.wrapping_sub(SYSCALL_BYTES),
        }
    }

    /// Records that a call that succeeded took up one setting and gave back the one before, where the program asked.
    pub(crate) fn exchanged(
        &self,
        thread: &mut TracedThread,
        result: isize,
        new: u64,
        old: u64,
        bytes: u64,
    ) -> isize {
        if PROCESS.is_recording() && thread.calls.silent == 0 && !sys::failed(result) {
            for (kind, addr) in [(BlockKind::Fetch, new), (BlockKind::Fill, old)] {
                if addr != 0 {
                    self.block(thread, kind, addr, bytes);
                }
            }
        }
        result
    }

    /// Records what the kernel read or wrote.
    pub(crate) fn log(&self, thread: &mut TracedThread, kind: Arg, arg: u64, result: isize) {
        // Of a bad pointer nothing was read, and of the others nobody knows.
        if result == -(sys::EFAULT as isize) && kind != Arg::Path {
            return;
        }
        let returned = if sys::failed(result) { 0 } else { result as u64 };
        let count = |index: u8| self.args.get(usize::from(index)).map_or(0, |&count| count as u64);
        match kind {
            Arg::Path => {
                if let Some(len) = program_memory::string_len(arg, libc::PATH_MAX as u64) {
                    self.block(thread, BlockKind::Fetch, arg, len + 1);
                }
            }
            Arg::In(index) => self.block(thread, BlockKind::Fetch, arg, count(index)),
            Arg::InBytes(bytes) => self.block(thread, BlockKind::Fetch, arg, bytes.into()),
            Arg::InResult => self.block(thread, BlockKind::Fetch, arg, returned),
            Arg::OutResult => self.block(thread, BlockKind::Fill, arg, returned),
            Arg::OutBytes(bytes) if !sys::failed(result) => {
                self.block(thread, BlockKind::Fill, arg, bytes.into())
            }
            Arg::Both(bytes) => {
                self.block(thread, BlockKind::Fetch, arg, bytes.into());
                self.block(thread, BlockKind::Fill, arg, bytes.into());
            }
            Arg::Elements(bytes, index) => {
                self.block(thread, BlockKind::Fetch, arg, count(index) * u64::from(bytes));
                if returned > 0 {
                    self.block(thread, BlockKind::Fill, arg, count(index) * u64::from(bytes));
                }
            }
            Arg::OutElements(bytes) => self.block(thread, BlockKind::Fill, arg, returned * u64::from(bytes)),
            Arg::InVectors(index) => self.vectors(thread, BlockKind::Fetch, arg, count(index), returned),
            Arg::OutVectors(index) => self.vectors(thread, BlockKind::Fill, arg, count(index), returned),
            Arg::InMessage | Arg::OutMessage => {
                let (at, len) = program_memory::message_vectors(arg);
                let kind = if kind == Arg::InMessage { BlockKind::Fetch } else { BlockKind::Fill };
                self.vectors(thread, kind, at, len, returned);
            }
            Arg::InMessages(_) | Arg::OutMessages(_) => {
                let block =
                    if matches!(kind, Arg::InMessages(_)) { BlockKind::Fetch } else { BlockKind::Fill };
                for index in 0..returned {
                    let header = arg.wrapping_add(index * MMSGHDR_BYTES);
                    let (at, len) = program_memory::message_vectors(header);
                    let bytes = program_memory::word_behind(header, MSGHDR_BYTES as usize) & 0xffff_ffff;
                    self.vectors(thread, block, at, len, bytes);
                }
            }
            Arg::Value | Arg::Any | Arg::Mask | Arg::MaskPair | Arg::OutBytes(_) => {}
        }
    }

    /// Records what the kernel reads of a program that is about to be executed: its path and, where there is a file, its arguments.
    pub(crate) fn log_exec(&self, thread: &mut TracedThread, has_file: bool) {
        if !PROCESS.is_recording() || thread.calls.silent != 0 {
            return;
        }
        let [a, b, c, ..] = self.args.map(|arg| arg as u64);
        let (path, argv) = if self.number == libc::SYS_execveat { (b, c) } else { (a, b) };
        self.log(thread, Arg::Path, path, 0);
        for index in 0..if argv == 0 || !has_file { 0 } else { MOST_ARGUMENTS } {
            match program_memory::value_behind(argv, index * 8) {
                Some(0) | None => break,
                Some(argument) => self.log(thread, Arg::Path, argument, 0),
            }
        }
    }

    pub(crate) fn vectors(
        &self,
        thread: &mut TracedThread,
        kind: BlockKind,
        at: u64,
        count: u64,
        mut bytes: u64,
    ) {
        for index in 0..count {
            if bytes == 0 {
                return;
            }
            let vector = at.wrapping_add(index.wrapping_mul(IOVEC_BYTES));
            let base = program_memory::word(vector);
            let len = program_memory::word_behind(vector, offset_of!(libc::iovec, iov_len));
            let part = len.min(bytes);
            self.block(thread, kind, base, part);
            bytes -= part;
        }
    }

    pub(crate) fn block(&self, thread: &mut TracedThread, kind: BlockKind, addr: u64, len: u64) {
        if len == 0 {
            return;
        }
        let function = match self.number {
            libc::SYS_read => BlockFunction::Read,
            libc::SYS_pread64 => BlockFunction::Pread,
            libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => BlockFunction::Readv,
            libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg => BlockFunction::Recv,
            libc::SYS_write => BlockFunction::Write,
            libc::SYS_pwrite64 => BlockFunction::Pwrite,
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => BlockFunction::Writev,
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => BlockFunction::Send,
            _ => BlockFunction::Syscall,
        };
        let (dst, src) = if kind == BlockKind::Fill { (addr, 0) } else { (0, addr) };
        if PROCESS.is_watched() {
            let before = thread.watch.before;
            let mut touched = Touched::new();
            if kind == BlockKind::Fill {
                touched.note(addr, len, AccessKind::Store, false);
            }
            let origin = Origin::Instruction(&before);
            hits::block(
                thread,
                &mut touched,
                self.ip,
                kind,
                hits::BlockBytes { dst, src, len: len as usize },
                &origin,
            );
            return;
        }
        let record = Record::Block {
            ip: VirtAddr(self.ip),
            kind,
            function,
            dst: VirtAddr(dst),
            src: VirtAddr(src),
            len,
        };
        thread.emit(&record);
    }

    /// Records a change of the address space, where it is the program's own wish and not part of malloc.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn allocation(
        &self,
        thread: &mut TracedThread,
        order: u64,
        kind: AllocationKind,
        function: AllocationFunction,
        addr: u64,
        len: u64,
        old_addr: u64,
        old_len: u64,
    ) {
        let site = core::mem::take(&mut thread.words.site);
        if !PROCESS.is_recording() || thread.calls.silent != 0 {
            return;
        }
        thread.emit(&Record::Allocation {
            order,
            ip: VirtAddr(if site != 0 { site } else { self.ip }),
            kind,
            function,
            addr: VirtAddr(addr),
            len,
            old_addr: VirtAddr(old_addr),
            old_len,
        });
    }
}
