//! System calls by number, and wrappers for the few that a tracer makes itself.
//!
//! Results are the kernel's: a non-negative value, or a negative errno.

use core::arch::asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub use libc::{
    CLONE_PARENT_SETTID, CLONE_SETTLS, CLONE_THREAD, CLONE_VFORK, CLONE_VM, EAGAIN, EBADF, EEXIST, EFAULT,
    EINTR, EINVAL, ENOMEM, ENOSYS, EPERM, ESRCH, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE,
    MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_EXEC, PROT_NONE, PROT_READ,
    PROT_WRITE,
};

/// prctl's switch of system call user dispatch, off and on.
pub const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
/// Calls are made as ever.
pub const PR_SYS_DISPATCH_OFF: usize = 0;
/// Calls from outside of a range raise SIGSYS.
pub const PR_SYS_DISPATCH_ON: usize = 1;
/// si_code of that SIGSYS.
pub const SYS_USER_DISPATCH: i32 = 2;

/// What arch_prctl sets and gets: the bases of gs and fs.
pub const ARCH_SET_GS: usize = 0x1001;
/// The base of fs is set.
pub const ARCH_SET_FS: usize = 0x1002;
/// The base of fs is written to an address.
pub const ARCH_GET_FS: usize = 0x1003;
/// The base of gs is written to an address.
pub const ARCH_GET_GS: usize = 0x1004;

/// Whether a result is an error.
pub const fn failed(result: isize) -> bool {
    result < 0 && result >= -4095
}

/// Any system call.
///
/// # Safety
/// The call must be sound with these arguments: the kernel reads and writes what they point to.
#[inline(always)]
pub unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction clobbers rcx and r11 and what the caller vouched for; it uses no stack.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    result
}

macro_rules! call {
    ($number:expr $(, $arg:expr)*) => {{
        let list = [$($arg as usize),*];
        let mut args = [0usize; 6];
        let mut index = 0;
        while index < list.len() {
            args[index] = list[index];
            index += 1;
        }
        syscall($number as usize, args)
    }};
}

/// mmap.
///
/// # Safety
/// With MAP_FIXED the range must be the caller's to replace.
pub unsafe fn mmap(addr: u64, len: u64, prot: i32, flags: i32, fd: i32, offset: u64) -> isize {
    // SAFETY: the caller vouches for the range.
    unsafe { call!(libc::SYS_mmap, addr, len, prot, flags, fd as isize, offset) }
}

/// Whether [`populate`] asks the kernel.
static MAY_POPULATE: AtomicBool = AtomicBool::new(true);

/// From now on pages are taken by a fault each: a filter of the program's calls would end it.
pub fn forbid_populating() {
    MAY_POPULATE.store(false, Ordering::Relaxed);
}

/// Takes the pages of a range of writable memory now, in one call, and not by a fault each. Only a matter of speed.
///
/// # Safety
/// The range is the caller's, and mapped.
pub unsafe fn populate(start: u64, len: u64) {
    if !MAY_POPULATE.load(Ordering::Relaxed) {
        return;
    }
    let from = start & !0xfff;
    // SAFETY: the caller vouches for the range; what is in it stays. Older kernels refuse it.
    unsafe { call!(libc::SYS_madvise, from, start + len - from, libc::MADV_POPULATE_WRITE) };
}

/// Fresh private memory, anywhere, or `None`.
pub fn map_anonymous(len: u64, prot: i32) -> Option<*mut u8> {
    // SAFETY: a new mapping replaces nothing.
    let result = unsafe { mmap(0, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) };
    if failed(result) {
        return None;
    }
    note_own(result as u64, len);
    Some(result as *mut u8)
}

/// The tracer's own memory: first byte and length. More of it than there is room for counts as the program's.
static OWN: [[AtomicU64; 2]; 8192] = [const { [const { AtomicU64::new(0) }; 2] }; 8192];
/// How many places of it have ever been used.
static OWN_USED: AtomicUsize = AtomicUsize::new(0);

fn own() -> impl Iterator<Item = &'static [AtomicU64; 2]> {
    OWN.iter().take(OWN_USED.load(Ordering::Acquire))
}

/// Notes memory as the tracer's own, until it is unmapped from its first byte on.
pub fn note_own(start: u64, len: u64) {
    let free = |[place, bytes]: &[AtomicU64; 2]| {
        let taken = place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if taken {
            bytes.store(len, Ordering::Release);
        }
        taken
    };
    if own().any(free) {
        return;
    }
    if let Some(next) = OWN.get(OWN_USED.fetch_add(1, Ordering::AcqRel)) {
        free(next);
    }
}

/// Whether a part of the range is the tracer's own.
pub fn is_own(start: u64, end: u64) -> bool {
    own().any(|[place, bytes]| {
        let from = place.load(Ordering::Acquire);
        from != 0 && from < end && start < from + bytes.load(Ordering::Acquire)
    })
}

/// Bytes of the range that are the tracer's own.
pub fn own_bytes(start: u64, end: u64) -> u64 {
    let parts = own().map(|[place, bytes]| {
        let from = place.load(Ordering::Acquire);
        let to = from + bytes.load(Ordering::Acquire);
        if from == 0 { 0 } else { to.min(end).saturating_sub(from.max(start)) }
    });
    parts.sum()
}

/// Whether the byte at `start` is the tracer's own, and up to where, `end` at most, the answer is the same: the kernel joins
/// mappings of the program and the tracer that lie side by side.
pub fn own_stretch(start: u64, end: u64) -> (bool, u64) {
    let mut next = end;
    for [place, bytes] in own() {
        let from = place.load(Ordering::Acquire);
        let until = from.saturating_add(bytes.load(Ordering::Acquire));
        if from == 0 || until <= start {
            continue;
        }
        if from <= start {
            return (true, until.min(end));
        }
        next = next.min(from);
    }
    (false, next)
}

/// munmap.
///
/// # Safety
/// Nothing may use the range afterwards.
pub unsafe fn munmap(addr: u64, len: u64) -> isize {
    if let Some([place, bytes]) = own().find(|own| own[0].load(Ordering::Relaxed) == addr && addr != 0) {
        bytes.store(0, Ordering::Release);
        place.store(0, Ordering::Release);
    }
    // SAFETY: the caller vouches for the range.
    unsafe { call!(libc::SYS_munmap, addr, len) }
}

/// mprotect.
///
/// # Safety
/// Code that uses the range must be able to live with the new rights.
pub unsafe fn mprotect(addr: u64, len: u64, prot: i32) -> isize {
    // SAFETY: the caller vouches for the range.
    unsafe { call!(libc::SYS_mprotect, addr, len, prot) }
}

/// mremap.
///
/// # Safety
/// As for munmap of the old range, and mmap of the new one.
pub unsafe fn mremap(old: u64, old_len: u64, new_len: u64, flags: i32, new: u64) -> isize {
    // SAFETY: the caller vouches for both ranges.
    unsafe { call!(libc::SYS_mremap, old, old_len, new_len, flags, new) }
}

/// Waits while `word` is `value`, at most `timeout_ns`.
pub fn futex_wait(word: *const u32, value: u32, timeout_ns: u64) {
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    // SAFETY: reads the word and the time; a bad address is an error result.
    unsafe { call!(libc::SYS_futex, word, libc::FUTEX_WAIT, value, timeout.as_ptr()) };
}

/// Wakes all that wait on `word`, in any process.
pub fn futex_wake(word: *const u32) {
    // SAFETY: touches no memory; a bad address is an error result.
    unsafe { call!(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
}

/// Whether there is a process of that id, in this name space.
pub fn is_process(pid: u32) -> bool {
    // SAFETY: no pointers, and signal 0 is none.
    let result = unsafe { call!(libc::SYS_kill, pid, 0) };
    result != -(ESRCH as isize)
}

/// This thread's id.
pub fn gettid() -> u32 {
    // SAFETY: no pointers.
    unsafe { call!(libc::SYS_gettid) as u32 }
}

/// This process's id.
pub fn getpid() -> u32 {
    // SAFETY: no pointers.
    unsafe { call!(libc::SYS_getpid) as u32 }
}

/// Nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes the two words.
    unsafe { call!(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, time.as_mut_ptr()) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Sets this thread's signal mask and returns the former one. Bit n-1 is signal n.
pub fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: the kernel reads one word and writes the other.
    unsafe { call!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut old, 8) };
    old
}

/// Files may be opened. Not where a filter of system calls would end the program for that.
static MAY_OPEN: AtomicBool = AtomicBool::new(true);

/// No file can be opened from now on.
pub fn forbid_files() {
    MAY_OPEN.store(false, Ordering::Relaxed);
}

/// Opens a file to read; `path` ends with a zero byte.
pub fn open_read(path: &core::ffi::CStr) -> Option<Fd> {
    if !MAY_OPEN.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the path is a terminated string.
    let fd = unsafe {
        call!(libc::SYS_openat, libc::AT_FDCWD as isize, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0)
    };
    (!failed(fd)).then_some(Fd(fd as i32))
}

/// What a descriptor stands for; `None` where it is none.
pub fn status(fd: i32) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes the structure, whose bytes are valid whatever they are.
    unsafe {
        let result = call!(libc::SYS_fstat, fd, status.as_mut_ptr());
        (!failed(result)).then(|| status.assume_init())
    }
}

/// Whether this process may execute that file.
pub fn can_execute(path: &core::ffi::CStr) -> bool {
    // SAFETY: the path is a terminated string.
    !failed(unsafe { call!(libc::SYS_access, path.as_ptr(), libc::X_OK) })
}

/// Whether this process may read that file.
pub fn can_read(path: &core::ffi::CStr) -> bool {
    // SAFETY: the path is a terminated string.
    !failed(unsafe { call!(libc::SYS_access, path.as_ptr(), libc::R_OK) })
}

/// An open file of the tracer, closed when dropped.
#[derive(Debug)]
pub struct Fd(pub i32);

impl Fd {
    /// Reads; zero at the end or on an error.
    pub fn read(&self, into: &mut [u8]) -> usize {
        // SAFETY: the kernel writes at most the slice.
        let result = unsafe { call!(libc::SYS_read, self.0, into.as_mut_ptr(), into.len()) };
        if failed(result) { 0 } else { result as usize }
    }

    /// Reads at an offset; zero at the end or on an error.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> usize {
        // SAFETY: the kernel writes at most the slice.
        let result = unsafe { call!(libc::SYS_pread64, self.0, into.as_mut_ptr(), into.len(), offset) };
        if failed(result) { 0 } else { result as usize }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and not used after this.
        unsafe { call!(libc::SYS_close, self.0) };
    }
}

/// Writes to standard error, for the one line before giving up.
pub fn complain(text: &[u8]) {
    // SAFETY: the kernel reads the slice.
    unsafe { call!(libc::SYS_write, 2, text.as_ptr(), text.len()) };
}

/// Ends the process.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: no pointers; does not return.
        unsafe { call!(libc::SYS_exit_group, status) };
    }
}
