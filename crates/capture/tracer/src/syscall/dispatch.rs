//! The program's system calls: each comes here as SIGSYS, and is made for the program with pointers that the kernel can
//! follow.

use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{
    AccessKind, AllocationFunction, AllocationKind, BlockFunction, BlockKind, GapReason, RegionChange,
    RegionKind, VirtAddr,
};
use tracee::frame::{SigInfo, UContext};
use tracee::sys;
use tracee::text::Text;

use crate::control::registers;
use crate::emit::next_order;
use crate::memory::{self, Range, close_all, open_address, page};
use crate::pointers::{Arg, Manner, describe, is_flat_ioctl};
use crate::process;
use crate::rseq;
use crate::signals::{self, NOT_MADE};
use crate::state::{PROCESS, Thread};
use crate::translate;
use crate::watchpoints::{self, Origin, Touched};

/// Bytes of a `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;
const ERROR_UNKNOWN: isize = -(sys::ENOSYS as isize);

/// Makes the system call that a context stands behind.
///
/// # Safety
/// `context` is that of a SIGSYS which system call dispatch raised.
pub(crate) unsafe fn on_system_call(thread: &mut Thread, context: &mut UContext) {
    let gregs = context.gregs;
    let number = gregs.rax as libc::c_long;
    let args =
        [gregs.rdi, gregs.rsi, gregs.rdx, gregs.r10, gregs.r8, gregs.r9].map(|register| register as usize);
    // The instruction leaves these two behind.
    context.gregs.rcx = gregs.rip;
    context.gregs.r11 = gregs.rflags;
    let call = Call { number, args, ip: gregs.rip.wrapping_sub(SYSCALL_BYTES) };
    if number == libc::SYS_futex {
        thread.tell_futex(call.ip, &args, None);
    }
    if watchpoints::is_active() {
        thread.before = *registers(context);
    }
    if number != libc::SYS_rt_sigreturn {
        translate::note_progress(thread);
    }
    thread.calling.store(context, Ordering::Release);
    // SAFETY: our caller's promise; the program vouches for its own arguments as it would to the kernel.
    let result = unsafe { call.make(thread, context) };
    // Before it is looked what kind of code comes next: see `translate::kick_others`.
    thread.calling.swap(core::ptr::null_mut(), Ordering::SeqCst);
    if thread.flow.take_interrupted() {
        call.tell_rest();
    }
    let Some(result) = result else { return };
    if number == libc::SYS_futex {
        thread.tell_futex(call.ip, &args, Some(result));
    }
    if result == NOT_MADE {
        context.gregs.rip = call.ip;
        context.gregs.rax = number as u64;
    } else {
        context.gregs.rax = result as u64;
    }
    // SAFETY: as above.
    unsafe { signals::deliver_pending(thread, context) };
    thread.wait_mask = None;
}

/// One system call of the program.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) number: libc::c_long,
    pub(crate) args: [usize; 6],
    pub(crate) ip: u64,
}

impl Call {
    /// Makes it. `None`: the context says how to go on.
    unsafe fn make(&self, thread: &mut Thread, context: &mut UContext) -> Option<isize> {
        let [a, b, c, d, ..] = self.args.map(|arg| arg as u64);
        // SAFETY: each call gets the program's own arguments, pointers replaced by addresses of the same memory.
        unsafe {
            match self.number {
                libc::SYS_rt_sigreturn => {
                    signals::sigreturn(thread, context);
                    None
                }
                libc::SYS_rt_sigaction => {
                    let result = signals::sigaction(a as i32, open_address(b), open_address(c), d as usize);
                    Some(self.exchanged(thread, result, b, c, ACTION_BYTES))
                }
                libc::SYS_rt_sigprocmask => {
                    let (new, old) = (open_address(b), open_address(c));
                    let result = signals::sigprocmask(thread, context, a as i32, new, old);
                    Some(self.exchanged(thread, result, b, c, MASK_BYTES))
                }
                libc::SYS_sigaltstack => {
                    let rsp = context.gregs.rsp;
                    let result = signals::sigaltstack(thread, open_address(a), open_address(b), rsp);
                    Some(self.exchanged(thread, result, a, b, ALTSTACK_BYTES))
                }
                libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
                    process::clone(thread, context, self)
                }
                libc::SYS_execve | libc::SYS_execveat => Some(process::exec(thread, context, self)),
                libc::SYS_exit => {
                    process::exit_thread(thread, a as u8);
                    context.gregs.rip = signals::redirect_entry();
                    None
                }
                libc::SYS_exit_group => {
                    process::exit(thread, a as u8);
                    sys::exit_group(a as i32)
                }
                libc::SYS_mmap => Some(self.mmap(thread)),
                libc::SYS_munmap => Some(self.munmap(thread)),
                libc::SYS_mremap => Some(self.mremap(thread)),
                libc::SYS_brk => Some(self.brk(thread)),
                libc::SYS_mprotect => {
                    let result = memory::protect(a, b, c as i32);
                    if !sys::failed(result) {
                        translate::on_protect(a, b, c as i32);
                    }
                    Some(result)
                }
                libc::SYS_madvise
                    if matches!(c as i32, libc::MADV_DONTNEED | libc::MADV_FREE) && a & 4095 == 0 =>
                {
                    let result = memory::discard(a, b, c as usize);
                    translate::on_discard(a, b);
                    Some(result)
                }
                libc::SYS_madvise => {
                    let result = sys::syscall(self.number as usize, self.args);
                    if c as i32 == libc::MADV_REMOVE {
                        translate::on_discard(a, b);
                    }
                    Some(result)
                }
                libc::SYS_shmat => Some(self.shmat(thread)),
                libc::SYS_shmdt => {
                    translate::on_detach(a);
                    Some(sys::syscall(self.number as usize, self.args))
                }
                libc::SYS_remap_file_pages => Some(sys::syscall(self.number as usize, self.args)),
                libc::SYS_pkey_mprotect => {
                    let result = sys::syscall(self.number as usize, self.args);
                    if !sys::failed(result) {
                        translate::on_protect(a, b, c as i32);
                    }
                    Some(result)
                }
                libc::SYS_rt_sigpending => {
                    let result = self.make_described(thread, context);
                    let kept = signals::kept(thread);
                    if result == 0 && kept != 0 {
                        let place = open_address(a) as *mut u64;
                        // SAFETY: the kernel has just written a mask there.
                        place.write_unaligned(place.read_unaligned() | kept);
                    }
                    Some(result)
                }
                libc::SYS_rt_sigtimedwait => Some(self.sigtimedwait(thread, context)),
                // Shared rings would carry pointers that nobody sees. Programs fall back to plain calls.
                libc::SYS_io_uring_setup => Some(ERROR_UNKNOWN),
                libc::SYS_rseq if PROCESS.settings().attached => Some(rseq::register(thread, &self.args)),
                // The kernel restarts sequences by native addresses, and ends programs whose sequences lie on closed pages.
                // Programs have another way where there is no rseq.
                libc::SYS_rseq => Some(ERROR_UNKNOWN),
                // A second dispatcher.
                libc::SYS_prctl if a == 59 => Some(-(sys::EINVAL as isize)),
                libc::SYS_arch_prctl => Some(translate::arch_prctl(thread, a, b)),
                libc::SYS_readlink if is_own_link(a) => Some(read_own_link(b, c)),
                libc::SYS_readlinkat if is_own_link(b) => Some(read_own_link(c, d)),
                libc::SYS_ioctl if !is_flat_ioctl(b as usize) && memory::is_viewed(c, 1) => {
                    Some(self.make_open(thread, context))
                }
                libc::SYS_ioctl => {
                    let mut args = self.args;
                    args[2] = open_address(c) as usize;
                    Some(signals::wait(self.number as usize, &args, context.mask))
                }
                _ => Some(self.make_described(thread, context)),
            }
        }
    }

    /// A sleep that was interrupted as soon as it began: all of it remains.
    fn tell_rest(&self) {
        let (wanted, rest) = match self.number {
            libc::SYS_nanosleep => (self.args[0], self.args[1]),
            libc::SYS_clock_nanosleep if self.args[1] as i32 & libc::TIMER_ABSTIME == 0 => {
                (self.args[2], self.args[3])
            }
            _ => return,
        };
        if rest == 0 {
            return;
        }
        let mut time = [0u64; 2];
        let local = [time.as_mut_ptr() as usize, 16];
        for (number, at) in [(libc::SYS_process_vm_readv, wanted), (libc::SYS_process_vm_writev, rest)] {
            let remote = [open_address(at as u64) as usize, 16];
            let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
            // SAFETY: the kernel copies between our words and the program's, as far as these are there.
            unsafe { sys::syscall(number as usize, args) };
        }
    }

    /// A wait for signals, some of which may be here already (`signals::kept`).
    unsafe fn sigtimedwait(&self, thread: &mut Thread, context: &mut UContext) -> isize {
        let [set, info, _, size, ..] = self.args.map(|arg| arg as u64);
        if signals::kept(thread) != 0 && size == MASK_BYTES {
            // SAFETY: the program's own set, which the kernel would read.
            let set = unsafe { read_word(set) };
            if let Some(kept) = signals::take_kept(thread, set) {
                if info != 0 {
                    // SAFETY: the program's own structure, which the kernel would write.
                    unsafe { (open_address(info) as *mut SigInfo).write_unaligned(kept.info) };
                    self.block(thread, BlockKind::Fill, info, size_of::<SigInfo>() as u64);
                }
                return kept.signal as isize;
            }
        }
        // SAFETY: as `make`.
        unsafe { self.make_described(thread, context) }
    }

    /// A call whose pointers the table knows.
    unsafe fn make_described(&self, thread: &mut Thread, context: &mut UContext) -> isize {
        let (manner, kinds) = describe(self.number);
        // Where code is translated, memory is open at any time.
        if manner == Manner::Open && !PROCESS.settings().translate {
            // SAFETY: as `make`.
            return unsafe { self.make_open(thread, context) };
        }
        let mut args = self.args;
        let mut scratch = Scratch::new(thread);
        for (index, kind) in kinds.iter().enumerate() {
            let Some(arg) = args.get_mut(index) else { break };
            if *kind == Arg::Value || *arg == 0 {
                continue;
            }
            // SAFETY: the program's pointers, followed as the kernel would, through the open view.
            match unsafe { scratch.translate(*kind, *arg as u64, &self.args) } {
                Some(opened) => *arg = opened as usize,
                None => return -(sys::EFAULT as isize),
            }
        }
        thread.wait_mask = scratch.mask;
        if let Some(mask) = scratch.mask
            && signals::kept(thread) & !mask != 0
        {
            signals::put_off_kept(thread, mask);
            return -(libc::EINTR as isize);
        }
        self.open_code(&kinds);
        // A bad pointer must be an error of the call, not a fault of ours: `translate` reads only viewed memory, and
        // leaves other pointers to the kernel.
        let call = || match manner {
            // SAFETY: as `make`.
            Manner::Quick => unsafe { sys::syscall(self.number as usize, args) },
            _ => signals::wait(self.number as usize, &args, context.mask),
        };
        let mut result = call();
        // Written through pointers that the table does not show, such as lists of buffers: the call had no effect.
        if result == -(sys::EFAULT as isize) && translate::on_write_for_program(0, u64::MAX) {
            result = call();
        }
        scratch.copy_back();
        if PROCESS.is_recording() && result != NOT_MADE && thread.silent == 0 {
            for (index, kind) in kinds.iter().enumerate() {
                let Some(&arg) = self.args.get(index) else { break };
                if *kind != Arg::Value && arg != 0 {
                    // SAFETY: as above.
                    unsafe { self.log(thread, *kind, arg as u64, result) };
                }
            }
        }
        result
    }

    /// Code that the program can write is kept from being written: the kernel may, where the call says so.
    fn open_code(&self, kinds: &[Arg; 6]) {
        if !PROCESS.settings().translate {
            return;
        }
        for (index, kind) in kinds.iter().enumerate() {
            let arg = |index: usize| self.args.get(index).map_or(0, |&arg| arg as u64);
            let len = match *kind {
                Arg::OutBytes(len) | Arg::Both(len) => len.into(),
                // Its length is the next argument.
                Arg::OutResult => arg(index + 1),
                _ => continue,
            };
            translate::on_write_for_program(arg(index), len);
        }
    }

    /// A call with pointers that we can't find: all memory is open while it runs.
    unsafe fn make_open(&self, thread: &mut Thread, context: &mut UContext) -> isize {
        let recording = PROCESS.recording.swap(false, Ordering::AcqRel);
        close_all(false);
        let result = signals::wait(self.number as usize, &self.args, context.mask);
        if recording {
            PROCESS.recording.store(true, Ordering::Release);
            close_all(true);
            if signals::is_threaded() {
                thread.emit_gap(GapReason::OpenForSyscall, 1, self.ip, b"");
            }
        }
        result
    }

    /// Records that a call that succeeded took up one setting and gave back the one before, where the program asked.
    fn exchanged(&self, thread: &mut Thread, result: isize, new: u64, old: u64, bytes: u64) -> isize {
        if PROCESS.is_recording() && thread.silent == 0 && !sys::failed(result) {
            for (kind, addr) in [(BlockKind::Fetch, new), (BlockKind::Fill, old)] {
                if addr != 0 {
                    self.block(thread, kind, addr, bytes);
                }
            }
        }
        result
    }

    /// Records what the kernel read or wrote.
    unsafe fn log(&self, thread: &mut Thread, kind: Arg, arg: u64, result: isize) {
        let returned = if sys::failed(result) { 0 } else { result as u64 };
        let count = |index: u8| self.args.get(usize::from(index)).map_or(0, |&count| count as u64);
        // SAFETY: the kernel has just read the same strings and structures.
        unsafe {
            match kind {
                Arg::Path => {
                    let len = string_len(arg) + 1;
                    self.block(thread, BlockKind::Fetch, arg, len);
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
                Arg::OutElements(bytes) => {
                    self.block(thread, BlockKind::Fill, arg, returned * u64::from(bytes))
                }
                Arg::InVectors(index) => self.vectors(thread, BlockKind::Fetch, arg, count(index), returned),
                Arg::OutVectors(index) => self.vectors(thread, BlockKind::Fill, arg, count(index), returned),
                Arg::InMessage | Arg::OutMessage => {
                    let (at, len) = message_vectors(arg);
                    let kind = if kind == Arg::InMessage { BlockKind::Fetch } else { BlockKind::Fill };
                    self.vectors(thread, kind, at, len, returned);
                }
                Arg::InMessages(_) | Arg::OutMessages(_) => {
                    let block =
                        if matches!(kind, Arg::InMessages(_)) { BlockKind::Fetch } else { BlockKind::Fill };
                    for index in 0..returned {
                        let header = arg + index * MMSGHDR_BYTES;
                        let (at, len) = message_vectors(header);
                        let bytes = read_word(header + MSGHDR_BYTES) & 0xffff_ffff;
                        self.vectors(thread, block, at, len, bytes);
                    }
                }
                Arg::Value | Arg::Any | Arg::Mask | Arg::MaskPair | Arg::OutBytes(_) => {}
            }
        }
    }

    unsafe fn vectors(&self, thread: &mut Thread, kind: BlockKind, at: u64, count: u64, mut bytes: u64) {
        for index in 0..count {
            // SAFETY: the kernel has just read the same vectors.
            let (base, len) = unsafe { (read_word(at + index * 16), read_word(at + index * 16 + 8)) };
            let part = len.min(bytes);
            self.block(thread, kind, base, part);
            bytes -= part;
        }
    }

    fn block(&self, thread: &mut Thread, kind: BlockKind, addr: u64, len: u64) {
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
        if watchpoints::is_active() {
            let before = thread.before;
            let mut touched = Touched::new();
            if kind == BlockKind::Fill {
                touched.note(addr, len, AccessKind::Store, false);
            }
            let origin = Origin::Instruction(&before);
            watchpoints::block(thread, &mut touched, self.ip, kind, (dst, src, len), &origin);
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
    fn allocation(
        &self,
        thread: &mut Thread,
        order: u64,
        kind: AllocationKind,
        function: AllocationFunction,
        addr: u64,
        len: u64,
        old_addr: u64,
        old_len: u64,
    ) {
        let site = core::mem::take(&mut thread.site);
        if !PROCESS.is_recording() || thread.silent != 0 {
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

    unsafe fn mmap(&self, thread: &mut Thread) -> isize {
        const MAP_DENYWRITE: i32 = 0x800;
        const MAP_STACK: i32 = 0x2_0000;
        const MAP_GROWSDOWN: i32 = 0x100;
        let [addr, len, prot, flags, fd, offset] = self.args;
        let (prot, flags) = (prot as i32, flags as i32);
        let bytes = memory::whole_pages(len as u64);
        if flags & sys::MAP_FIXED != 0 && addr & 4095 == 0 && len != 0 {
            memory::drop_views(addr as u64, (addr as u64).saturating_add(bytes));
        }
        // SAFETY: the program's own call.
        let result = unsafe { sys::syscall(libc::SYS_mmap as usize, self.args) };
        if sys::failed(result) {
            return result;
        }
        let start = result as u64;
        let anonymous = flags & sys::MAP_ANONYMOUS != 0;
        let is_shared = flags & (sys::MAP_SHARED | sys::MAP_PRIVATE) != sys::MAP_PRIVATE;
        let file = if anonymous { -1 } else { fd as i32 };
        translate::on_map(start, bytes, prot, is_shared, file, offset as u64);
        let of_loader = flags & MAP_DENYWRITE != 0;
        let writable = prot & sys::PROT_WRITE != 0;
        let after_data = page(start.wrapping_sub(1)) & memory::PAGE_VIEWED != 0
            && PROCESS
                .ranges
                .lock()
                .find(start.wrapping_sub(1))
                .is_some_and(|range| range.kind == RegionKind::Data);
        let kind = if prot & sys::PROT_EXEC != 0 {
            RegionKind::Text
        } else if flags & (MAP_STACK | MAP_GROWSDOWN) != 0 {
            RegionKind::Stack
        } else if anonymous && flags & sys::MAP_FIXED != 0 && after_data {
            RegionKind::Bss
        } else if anonymous {
            RegionKind::Anonymous
        } else if of_loader && writable {
            RegionKind::Data
        } else if of_loader {
            RegionKind::Rodata
        } else {
            RegionKind::File
        };
        let traced = matches!(kind, RegionKind::Bss | RegionKind::Anonymous | RegionKind::Data);
        let range = Range {
            start,
            end: start + bytes,
            prot,
            kind,
            traced,
            shared: flags & sys::MAP_SHARED == sys::MAP_SHARED,
        };
        let mut name = Text::<1024>::new();
        if !anonymous {
            path_of_descriptor(fd as i32, &mut name);
        }
        memory::follow(thread, range, kind == RegionKind::Data, offset as u64, name.as_bytes());
        if !of_loader && kind != RegionKind::Stack && kind != RegionKind::Bss {
            let order = next_order();
            self.allocation(
                thread,
                order,
                AllocationKind::Mmap,
                AllocationFunction::Mmap,
                start,
                len as u64,
                0,
                0,
            );
        }
        result
    }

    unsafe fn munmap(&self, thread: &mut Thread) -> isize {
        let [addr, len, ..] = self.args.map(|arg| arg as u64);
        let bytes = memory::whole_pages(len);
        // Drawn before: as soon as the memory is gone, another thread may get the same addresses.
        let order = next_order();
        if addr & 4095 == 0 && len != 0 {
            memory::drop_views(addr, addr.saturating_add(bytes));
            translate::on_unmap(addr, bytes);
        }
        // SAFETY: the program's own call.
        let result = unsafe { sys::syscall(libc::SYS_munmap as usize, self.args) };
        if !sys::failed(result) {
            self.allocation(
                thread,
                order,
                AllocationKind::Munmap,
                AllocationFunction::Munmap,
                addr,
                len,
                0,
                0,
            );
            let range = Range {
                start: addr,
                end: addr + bytes,
                prot: 0,
                kind: RegionKind::Anonymous,
                traced: false,
                shared: false,
            };
            memory::tell(thread, RegionChange::Unmap, &range, 0, b"");
        }
        result
    }

    /// mremap of viewed memory: the kernel can't move or grow both views as one, so the bytes are copied.
    unsafe fn mremap(&self, thread: &mut Thread) -> isize {
        let [old, old_len, new_len, flags, new, _] = self.args.map(|arg| arg as u64);
        translate::before_move(old, old_len);
        let flags = flags as i32;
        let range = PROCESS.ranges.lock().find(old);
        let (old_bytes, new_bytes) = (memory::whole_pages(old_len), memory::whole_pages(new_len));
        let fixed = flags & sys::MREMAP_FIXED != 0;
        let (Some(range), true) = (range, new_bytes != 0 && old & 4095 == 0) else {
            if fixed {
                memory::drop_views(new, new.saturating_add(new_bytes));
            }
            // SAFETY: the program's own call on memory that we leave alone.
            let result = unsafe { sys::syscall(libc::SYS_mremap as usize, self.args) };
            if !sys::failed(result) {
                let keeps = flags & libc::MREMAP_DONTUNMAP != 0;
                translate::on_move(old, old_len, result as u64, new_len, keeps);
                let order = next_order();
                let (kind, function) = (AllocationKind::Mremap, AllocationFunction::Mremap);
                self.allocation(thread, order, kind, function, result as u64, new_len, old, old_len);
            }
            return result;
        };
        if range.end < old.saturating_add(old_bytes) {
            return -(sys::EFAULT as isize);
        }
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let anonymous = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        let order;
        let start;
        if !fixed && new_bytes <= old_bytes {
            start = old;
            order = next_order();
            if new_bytes < old_bytes {
                memory::drop_views(old + new_bytes, old + old_bytes);
                // SAFETY: the tail that the program gives up.
                unsafe { sys::munmap(old + new_bytes, old_bytes - new_bytes) };
            }
        } else {
            let grown = if fixed {
                -(sys::ENOMEM as isize)
            } else {
                let flags = anonymous | sys::MAP_FIXED_NOREPLACE;
                // SAFETY: NOREPLACE replaces nothing.
                unsafe { sys::mmap(old + old_bytes, new_bytes - old_bytes, rw, flags, -1, 0) }
            };
            if grown as u64 == old + old_bytes {
                start = old;
                order = next_order();
                memory::adopt(Range { start: old + old_bytes, end: old + new_bytes, ..range }, false);
            } else if flags & sys::MREMAP_MAYMOVE == 0 {
                return -(sys::ENOMEM as isize);
            } else {
                if fixed {
                    memory::drop_views(new, new.saturating_add(new_bytes));
                }
                let place = if fixed { anonymous | sys::MAP_FIXED } else { anonymous };
                // SAFETY: a new place, or the one that the program wants replaced.
                let moved = unsafe { sys::mmap(new, new_bytes, rw, place, -1, 0) };
                if sys::failed(moved) {
                    return moved;
                }
                start = moved as u64;
                order = next_order();
                let target = Range { start, end: start + new_bytes, ..range };
                if !memory::adopt(target, false) {
                    memory::tell(thread, RegionChange::Map, &Range { traced: false, ..target }, 0, b"");
                }
                // SAFETY: both ranges are the program's; we read and write them through views that are open.
                unsafe {
                    let shorter = old_bytes.min(new_bytes);
                    memory::copy_pages(open_address(old), open_address(start), shorter);
                    if flags & 4 == 0 {
                        memory::drop_views(old, old + old_bytes);
                        sys::munmap(old, old_bytes);
                    }
                }
            }
        }
        let (kind, function) = (AllocationKind::Mremap, AllocationFunction::Mremap);
        self.allocation(thread, order, kind, function, start, new_len, old, old_len);
        if start != old {
            let gone = Range { start: old, end: old + old_bytes, ..range };
            memory::tell(thread, RegionChange::Unmap, &gone, 0, b"");
        }
        memory::tell(thread, RegionChange::Map, &Range { start, end: start + new_bytes, ..range }, 0, b"");
        start as isize
    }

    unsafe fn brk(&self, thread: &mut Thread) -> isize {
        // SAFETY: asking for the present end changes nothing.
        let before = unsafe { sys::syscall(libc::SYS_brk as usize, [0; 6]) } as u64;
        let wanted = self.args[0] as u64;
        let old_end = before.next_multiple_of(4096);
        if wanted != 0 && wanted < before {
            memory::drop_views(wanted.next_multiple_of(4096), old_end);
        }
        // SAFETY: the program's own call.
        let after = unsafe { sys::syscall(libc::SYS_brk as usize, self.args) } as u64;
        let new_end = after.next_multiple_of(4096);
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let range = Range {
            start: old_end.min(new_end),
            end: old_end.max(new_end),
            prot: rw,
            kind: RegionKind::Heap,
            traced: true,
            shared: false,
        };
        if new_end > old_end {
            memory::follow(thread, range, false, 0, b"[heap]");
        } else if new_end < old_end {
            memory::tell(thread, RegionChange::Unmap, &range, 0, b"[heap]");
        }
        if after != before {
            let order = next_order();
            let (kind, function) = (AllocationKind::Brk, AllocationFunction::Brk);
            self.allocation(thread, order, kind, function, after, after.abs_diff(before), before, 0);
        }
        after as isize
    }

    unsafe fn shmat(&self, thread: &mut Thread) -> isize {
        // SAFETY: the program's own call. System V memory is shared with others that we may not see: it stays open.
        let result = unsafe { sys::syscall(libc::SYS_shmat as usize, self.args) };
        if sys::failed(result) {
            return result;
        }
        translate::on_attach(result as u64);
        if !PROCESS.settings().translate {
            thread.emit_gap(GapReason::UntracedMapping, 1, result as u64, b"shmat");
        }
        result
    }
}

/// What the kernel's calls about signals exchange.
const ACTION_BYTES: u64 = 32;
const MASK_BYTES: u64 = 8;
const ALTSTACK_BYTES: u64 = 24;
const MSGHDR_BYTES: u64 = 56;
const MMSGHDR_BYTES: u64 = 64;

/// A word of the program's memory, wherever it is open.
unsafe fn read_word(addr: u64) -> u64 {
    // SAFETY: the caller knows that the program's memory is there.
    unsafe { (open_address(addr) as *const u64).read_unaligned() }
}

/// Address and number of a msghdr's vectors.
unsafe fn message_vectors(header: u64) -> (u64, u64) {
    // SAFETY: the caller knows that the structure is there.
    unsafe { (read_word(header + 16), read_word(header + 24)) }
}

/// Bytes of a string of the program that the kernel has accepted; longer than any path where it did not.
pub(crate) unsafe fn string_len(addr: u64) -> u64 {
    let mut len = 0;
    // SAFETY: the caller knows that the string is there.
    while len < 4096 && unsafe { (open_address(addr + len) as *const u8).read_volatile() } != 0 {
        len += 1;
    }
    len
}

/// Whether a path names the program of this process, where the kernel would name another one.
pub(crate) fn is_own_link(path: u64) -> bool {
    const LINK: &[u8] = b"/proc/self/exe\0";
    PROCESS.settings().image().is_some() && {
        let mut bytes = [0u8; LINK.len()];
        let local = [bytes.as_mut_ptr() as usize, bytes.len()];
        let remote = [path as usize, bytes.len()];
        let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
        // SAFETY: the kernel writes at most the array; a path that can't be read is no match.
        unsafe { sys::syscall(libc::SYS_process_vm_readv as usize, args) };
        bytes == LINK
    }
}

/// What that link leads to.
fn read_own_link(into: u64, len: u64) -> isize {
    let Some(image) = PROCESS.settings().image() else { return -(sys::EINVAL as isize) };
    let count = image.len().min(len as usize);
    if count == 0 {
        return -(sys::EINVAL as isize);
    }
    let local = [image.as_ptr() as usize, count];
    let remote = [into as usize, count];
    let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    // SAFETY: the kernel writes into the program's own array, as far as it can be written.
    unsafe { sys::syscall(libc::SYS_process_vm_writev as usize, args) }
}

/// The path behind a descriptor, as /proc tells it.
pub(crate) fn path_of_descriptor(fd: i32, into: &mut Text<1024>) {
    use core::fmt::Write;
    let mut link = Text::<64>::new();
    let mut path = [0u8; 1024];
    if write!(link, "/proc/self/fd/{fd}\0").is_err() {
        return;
    }
    let args = [link.as_bytes().as_ptr() as usize, path.as_mut_ptr() as usize, path.len(), 0, 0, 0];
    // SAFETY: the link's name ends with a zero byte, and the kernel writes at most the array.
    let len = unsafe { sys::syscall(libc::SYS_readlink as usize, args) };
    if !sys::failed(len) {
        into.push(path.get(..len as usize).unwrap_or(&[]));
    }
}

/// Copies of structures that hold pointers, for the time of one call.
struct Scratch {
    next: *mut u8,
    end: *mut u8,
    /// Message headers to copy back: the copy, the program's, and bytes.
    back: [(u64, u64, u64); 4],
    backs: usize,
    /// The signals that are blocked while the call waits, where it says so.
    mask: Option<u64>,
}

/// Room for vectors: UIO_MAXIOV of them, twice, and some headers.
const SCRATCH_BYTES: usize = 256 << 10;

impl Scratch {
    fn new(thread: &mut Thread) -> Self {
        let start = thread.scratch(SCRATCH_BYTES);
        let end = if start.is_null() { start } else { start.wrapping_add(SCRATCH_BYTES) };
        Self { next: start, end, back: [(0, 0, 0); 4], backs: 0, mask: None }
    }

    /// Copies bytes of the program; `None` where there is no room or nothing to read.
    fn copy(&mut self, from: u64, len: u64) -> Option<u64> {
        let place = self.next;
        let room = self.end as u64 - place as u64;
        let padded = len.checked_next_multiple_of(16)?;
        if padded > room {
            return None;
        }
        self.next = place.wrapping_add(padded as usize);
        // The kernel copies: where the program's pointer is bad, that is an error and not a fault.
        let mut done = 0;
        while done < len {
            let at = from + done;
            let part = (4096 - (at & 4095)).min(len - done);
            let local = [place as u64 + done, part];
            let remote = [open_address(at), part];
            let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
            // SAFETY: `place` has room for `len` bytes.
            let copied = unsafe { sys::syscall(libc::SYS_process_vm_readv as usize, args) };
            if copied != part as isize {
                return None;
            }
            done += part;
        }
        Some(place as u64)
    }

    /// The address to give to the kernel for an argument.
    unsafe fn translate(&mut self, kind: Arg, arg: u64, args: &[usize; 6]) -> Option<u64> {
        let count = |index: u8| args.get(usize::from(index)).map_or(0, |&count| count as u64);
        // SAFETY: structures with pointers in them are read as the kernel would read them.
        unsafe {
            match kind {
                Arg::InVectors(index) | Arg::OutVectors(index) => self.vectors(arg, count(index)),
                Arg::InMessage | Arg::OutMessage => {
                    let copy = self.message(arg)?;
                    if kind == Arg::OutMessage {
                        self.remember(copy, arg, MSGHDR_BYTES);
                    }
                    Some(copy)
                }
                Arg::InMessages(index) | Arg::OutMessages(index) => {
                    let count = count(index).min(1024);
                    let copy = self.copy(arg, count * MMSGHDR_BYTES)?;
                    for index in 0..count {
                        self.open_message(copy + index * MMSGHDR_BYTES)?;
                    }
                    self.remember(copy, arg, count * MMSGHDR_BYTES);
                    Some(copy)
                }
                Arg::Mask => {
                    let copy = self.copy(arg, 8)?;
                    self.mask = Some(*(copy as *const u64));
                    *(copy as *mut u64) &= !signals::OURS;
                    Some(copy)
                }
                Arg::MaskPair => {
                    let copy = self.copy(arg, 16)?;
                    let mask = *(copy as *const u64);
                    if mask != 0 {
                        let own = self.copy(mask, 8)?;
                        self.mask = Some(*(own as *const u64));
                        *(own as *mut u64) &= !signals::OURS;
                        *(copy as *mut u64) = own;
                    }
                    Some(copy)
                }
                _ => Some(open_address(arg)),
            }
        }
    }

    /// A copy of iovecs whose bases are open.
    unsafe fn vectors(&mut self, at: u64, count: u64) -> Option<u64> {
        if count > 1024 || count == 0 {
            // The kernel's own error, or nothing to read.
            return Some(open_address(at));
        }
        // SAFETY: the caller's promise; the copy is ours to change.
        unsafe {
            let copy = self.copy(at, count * 16)?;
            for index in 0..count {
                let base = (copy + index * 16) as *mut u64;
                base.write(open_address(base.read()));
            }
            Some(copy)
        }
    }

    unsafe fn message(&mut self, at: u64) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            let copy = self.copy(at, MSGHDR_BYTES)?;
            self.open_message(copy)?;
            Some(copy)
        }
    }

    /// Opens the pointers of a msghdr that was copied: name, vectors, control.
    unsafe fn open_message(&mut self, copy: u64) -> Option<()> {
        let field = |offset: u64| (copy + offset) as *mut u64;
        // SAFETY: `copy` is a whole msghdr in our own memory.
        unsafe {
            field(0).write(open_address(field(0).read()));
            let vectors = self.vectors(field(16).read(), field(24).read())?;
            field(16).write(vectors);
            field(32).write(open_address(field(32).read()));
        }
        Some(())
    }

    fn remember(&mut self, copy: u64, original: u64, len: u64) {
        if let Some(place) = self.back.get_mut(self.backs) {
            *place = (copy, original, len);
            self.backs += 1;
        }
    }

    /// What the kernel wrote into message headers, but for the pointers: lengths and flags.
    fn copy_back(&self) {
        for &(copy, original, len) in self.back.iter().take(self.backs) {
            let stride = if len == MSGHDR_BYTES { MSGHDR_BYTES } else { MMSGHDR_BYTES };
            for header in (0..len).step_by(stride as usize) {
                // msg_namelen, msg_controllen, msg_flags, and msg_len behind the header of a mmsghdr.
                for (offset, bytes) in [(8, 4), (40, 8), (48, 4), (MSGHDR_BYTES, 4)] {
                    if offset >= stride {
                        continue;
                    }
                    for byte in 0..bytes {
                        let at = header + offset + byte;
                        // SAFETY: both headers are whole: the kernel has just accepted the copy, made from the original.
                        unsafe {
                            let value = ((copy + at) as *const u8).read();
                            (open_address(original + at) as *mut u8).write(value);
                        }
                    }
                }
            }
        }
    }
}
