//! Limits that a translated program sets for its own memory: on address space
//! (RLIMIT_AS), on data (RLIMIT_DATA), and on new executable mappings (PR_SET_MDWE).
//!
//! The kernel would count the tracer's memory too, and keep the code cache from growing. It is therefore not told: the program's
//! calls are answered here, and its mappings are measured against its own limits, without the tracer's memory. The next program
//! gets the limits through a variable, or, if it is not traced, through the kernel. The growth of stacks is not measured.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tracee::text::Text;
use tracee::{maps, sys};

use crate::memory::{pages, program_memory, program_writes};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;

/// What a program is told of the limits that the former one of its process had set.
pub(crate) const VARIABLE: &[u8] = b"MEMTAP_LIMITS=";

const SET_MDWE: usize = 65;
const GET_MDWE: usize = 66;
/// Nothing gets the right to execute that has not had it.
const REFUSE_EXEC_GAIN: u64 = 1;
/// Forked children are free of that.
const NO_INHERIT: u64 = 2;
/// The right to pass limits of others (capabilities(7)), in the first of the words that capget writes.
const CAP_SYS_RESOURCE: u64 = 1 << 24;
const CAPABILITY_VERSION: u64 = 0x2008_0522;
const LIMIT_BYTES: u64 = size_of::<[u64; 2]>() as u64;

/// A limit that the kernel does not know.
struct OwnLimit {
    resource: u32,
    is_set: AtomicBool,
    soft: AtomicU64,
    hard: AtomicU64,
}

impl OwnLimit {
    const fn of(resource: u32) -> Self {
        Self {
            resource,
            is_set: AtomicBool::new(false),
            soft: AtomicU64::new(u64::MAX),
            hard: AtomicU64::new(u64::MAX),
        }
    }

    fn get(&self) -> Option<[u64; 2]> {
        let both = || [&self.soft, &self.hard].map(|word| word.load(Ordering::Relaxed));
        self.is_set.load(Ordering::Relaxed).then(both)
    }

    fn set(&self, [soft, hard]: [u64; 2]) {
        self.soft.store(soft, Ordering::Relaxed);
        self.hard.store(hard, Ordering::Relaxed);
        self.is_set.store(true, Ordering::Relaxed);
        ANY.store(true, Ordering::Release);
    }
}

static ADDRESS_SPACE: OwnLimit = OwnLimit::of(libc::RLIMIT_AS);
static DATA: OwnLimit = OwnLimit::of(libc::RLIMIT_DATA);
/// As prctl has it.
static MDWE: AtomicU64 = AtomicU64::new(0);
/// The program has set one of them.
static ANY: AtomicBool = AtomicBool::new(false);

fn limits() -> [&'static OwnLimit; 2] {
    [&ADDRESS_SPACE, &DATA]
}

fn limit_of(resource: usize) -> Option<&'static OwnLimit> {
    limits().into_iter().find(|limit| limit.resource as usize == resource)
}

/// What the kernel has.
fn kernels(resource: u32) -> [u64; 2] {
    let mut limit = [u64::MAX; 2];
    let args = [0, resource as usize, 0, limit.as_mut_ptr() as usize, 0, 0];
    // SAFETY: the kernel writes both words.
    unsafe { sys::syscall(libc::SYS_prlimit64 as usize, args) };
    limit
}

fn set_kernels(resource: u32, limit: [u64; 2]) {
    let args = [0, resource as usize, limit.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel reads both words.
    unsafe { sys::syscall(libc::SYS_prlimit64 as usize, args) };
}

/// Whether a limit may be changed so.
fn judge([soft, hard]: [u64; 2], former_hard: u64, may_raise: impl Fn() -> bool) -> Result<(), isize> {
    if soft > hard {
        return Err(-(sys::EINVAL as isize));
    }
    if hard > former_hard && !may_raise() {
        return Err(-(sys::EPERM as isize));
    }
    Ok(())
}

/// Whether such a call is answered here. By page protection the kernel has the limits, and what the program comes to by one that it sets is
/// told before.
fn is_answered(sets_limit: bool) -> bool {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    // A child of vfork has this memory, but limits of its own.
    if PROCESS.is_vfork_child() {
        return false;
    }
    let is_answered = PROCESS.settings().translate;
    if !is_answered && sets_limit && !IS_TOLD.swap(true, Ordering::Relaxed) {
        sys::complain(
            b"memtap: the program limits its memory; by page protection memtap's counts to it, --tracer translate leaves that out\n",
        );
    }
    is_answered
}

fn may_raise() -> bool {
    let header = [CAPABILITY_VERSION];
    let mut words = [0u64; 3];
    // SAFETY: the kernel reads eight bytes and writes 24.
    let result = unsafe {
        sys::syscall(
            libc::SYS_capget as usize,
            [header.as_ptr() as usize, words.as_mut_ptr() as usize, 0, 0, 0, 0],
        )
    };
    !sys::failed(result) && words[0] & CAP_SYS_RESOURCE != 0
}

impl SystemCall {
    /// Makes a call about such a limit, or one that it forbids. `None`: it is another one, for the kernel.
    #[inline]
    pub(crate) fn limited_call(&self, thread: &mut TracedThread) -> Option<isize> {
        let [a, b, c, d, ..] = self.args;
        match self.number {
            libc::SYS_mmap | libc::SYS_mremap | libc::SYS_mprotect | libc::SYS_brk
                if ANY.load(Ordering::Relaxed) =>
            {
                self.refusal()
            }
            libc::SYS_getrlimit => self.limit(thread, 0, a, 0, b as u64),
            libc::SYS_setrlimit => self.limit(thread, 0, a, b as u64, 0),
            libc::SYS_prlimit64 => self.limit(thread, a as u32, b, c as u64, d as u64),
            libc::SYS_prctl if matches!(a, SET_MDWE | GET_MDWE) => self.mdwe(),
            _ => None,
        }
    }

    fn limit(
        &self,
        thread: &mut TracedThread,
        pid: u32,
        resource: usize,
        new: u64,
        old: u64,
    ) -> Option<isize> {
        let limit = limit_of(resource)?;
        let is_own = pid == 0 || pid == PROCESS.pid.load(Ordering::Relaxed);
        if !is_own || !is_answered(new != 0) {
            return None;
        }
        let former = limit.get();
        if new == 0 && former.is_none() {
            return None;
        }
        let former = former.unwrap_or_else(|| kernels(limit.resource));
        let wanted = if new == 0 { None } else { Some(program_memory::value::<[u64; 2]>(new)) };
        let result = match wanted {
            Some(None) => Err(-(sys::EFAULT as isize)),
            Some(Some(wanted)) => judge(wanted, former[1], may_raise).map(|()| limit.set(wanted)),
            None => Ok(()),
        };
        // SAFETY: the program's own structure, which the kernel would write.
        let result = result.err().unwrap_or_else(|| unsafe {
            match old == 0 || program_writes::set_value(old, &former) {
                true => 0,
                false => -(sys::EFAULT as isize),
            }
        });
        Some(self.exchanged(thread, result, new, old, LIMIT_BYTES))
    }

    fn mdwe(&self) -> Option<isize> {
        // SAFETY: no pointers.
        let kernels = unsafe { sys::syscall(libc::SYS_prctl as usize, [GET_MDWE, 0, 0, 0, 0, 0]) };
        if sys::failed(kernels) || !is_answered(self.args[0] == SET_MDWE) {
            return None;
        }
        let [number, bits, rest @ ..] = self.args.map(|arg| arg as u64);
        let former = MDWE.load(Ordering::Relaxed) | kernels as u64;
        let others = rest.iter().take(3).any(|&arg| arg != 0);
        if number == GET_MDWE as u64 {
            return Some(if bits != 0 || others { -(sys::EINVAL as isize) } else { former as isize });
        }
        let is_known = bits & !(REFUSE_EXEC_GAIN | NO_INHERIT) == 0 && bits != NO_INHERIT;
        if others || !is_known {
            return Some(-(sys::EINVAL as isize));
        }
        if former != 0 && former != bits {
            return Some(-(sys::EPERM as isize));
        }
        MDWE.store(bits, Ordering::Relaxed);
        ANY.store(true, Ordering::Release);
        Some(0)
    }

    /// What the kernel would answer where the call goes beyond a limit.
    fn refusal(&self) -> Option<isize> {
        let [a, b, c, d, ..] = self.args.map(|arg| arg as u64);
        match self.number {
            libc::SYS_mmap => {
                let (prot, flags) = (c as i32, d as i32);
                let is_data = prot & sys::PROT_WRITE != 0 && flags & sys::MAP_SHARED == 0;
                if forbids(prot) {
                    return Some(-(libc::EACCES as isize));
                }
                exceeds(b, is_data).then_some(-(sys::ENOMEM as isize))
            }
            libc::SYS_mremap if c > b => exceeds(c - b, true).then_some(-(sys::ENOMEM as isize)),
            libc::SYS_mprotect if is_gain(a, b, c as i32) => Some(-(libc::EACCES as isize)),
            libc::SYS_brk => {
                // SAFETY: asking for the present end changes nothing.
                let end = unsafe { sys::syscall(libc::SYS_brk as usize, [0; 6]) };
                (a > end as u64 && exceeds(a - end as u64, true)).then_some(end)
            }
            _ => None,
        }
    }
}

/// Whether memory that can be written must not be executed, and is asked for.
fn forbids(prot: i32) -> bool {
    let both = sys::PROT_WRITE | sys::PROT_EXEC;
    MDWE.load(Ordering::Relaxed) != 0 && prot & both == both
}

/// Whether memory would get the right to execute that it has not had.
fn is_gain(start: u64, len: u64, prot: i32) -> bool {
    if MDWE.load(Ordering::Relaxed) == 0 || prot & sys::PROT_EXEC == 0 {
        return false;
    }
    let end = start.saturating_add(pages::whole_pages(len));
    let mut is_gain = forbids(prot);
    maps::each(|mapping| {
        let is_there = mapping.start < end && start < mapping.end;
        is_gain |= is_there && mapping.prot & sys::PROT_EXEC == 0;
    });
    is_gain
}

/// Whether so much more memory goes beyond a limit.
fn exceeds(more: u64, is_data: bool) -> bool {
    let more = pages::whole_pages(more);
    let soft = |limit: &OwnLimit| limit.get().map_or(u64::MAX, |[soft, _]| soft);
    let (space, data) = (soft(&ADDRESS_SPACE), if is_data { soft(&DATA) } else { u64::MAX });
    if (space, data) == (u64::MAX, u64::MAX) {
        return false;
    }
    let used = UsedMemory::now();
    used.space.saturating_add(more) > space || used.data.saturating_add(more) > data
}

/// The program's memory, as the kernel would count it.
#[derive(Clone, Copy, Debug, Default)]
struct UsedMemory {
    space: u64,
    data: u64,
}

impl UsedMemory {
    fn now() -> Self {
        let library = PROCESS.settings().library.split(|&byte| byte == 0).next().unwrap_or(&[]);
        let mut used = Self::default();
        // Where the library ends: its data without initial values follows.
        let mut library_end = 0;
        maps::each(|mapping| {
            let is_library = !library.is_empty() && mapping.name == library
                || mapping.name.is_empty() && mapping.start == library_end;
            if is_library {
                library_end = mapping.end;
            }
            if is_library || mapping.name.starts_with(b"/memfd:memtap") || mapping.name == b"[vsyscall]" {
                return;
            }
            let bytes = mapping.end - mapping.start;
            let bytes = bytes.saturating_sub(sys::own_bytes(mapping.start, mapping.end));
            used.space += bytes;
            let is_data =
                mapping.prot & sys::PROT_WRITE != 0 && !mapping.shared && mapping.name != b"[stack]";
            used.data += if is_data { bytes } else { 0 };
        });
        used
    }
}

/// In a forked child.
pub(crate) fn be_child() {
    if MDWE.load(Ordering::Relaxed) & NO_INHERIT != 0 {
        MDWE.store(0, Ordering::Relaxed);
    }
}

/// The variable for the next program; empty where there are no limits.
pub(crate) fn variable() -> Text<160> {
    let mut text = Text::new();
    if !ANY.load(Ordering::Relaxed) || PROCESS.is_vfork_child() {
        return text;
    }
    text.push(VARIABLE);
    for limit in limits() {
        let [soft, hard] = limit.get().unwrap_or([u64::MAX; 2]);
        let is_set = u8::from(limit.get().is_some());
        let _ = write!(text, "{is_set},{soft},{hard},");
    }
    let _ = write!(text, "{}", MDWE.load(Ordering::Relaxed));
    text
}

/// What the variable says.
pub(crate) fn adopt(value: &CStr) {
    let mut rest = value.to_bytes();
    let mut number = || {
        let (number, after) = proc_files::number(rest, 10)?;
        rest = after.strip_prefix(b",").unwrap_or(after);
        Some(number)
    };
    for limit in limits() {
        if let (Some(is_set), Some(soft), Some(hard)) = (number(), number(), number())
            && is_set != 0
        {
            limit.set([soft, hard]);
        }
    }
    if let Some(bits @ 1..) = number() {
        MDWE.store(bits, Ordering::Relaxed);
        ANY.store(true, Ordering::Release);
    }
}

/// What comes next in this process is not traced: the kernel is told of the limits. With hard limits where it is for good.
pub(crate) fn give_back(for_good: bool) {
    if !ANY.load(Ordering::Relaxed) || PROCESS.is_vfork_child() {
        return;
    }
    for limit in limits() {
        if let Some([soft, hard]) = limit.get() {
            let hard = if for_good { hard } else { kernels(limit.resource)[1] };
            set_kernels(limit.resource, [soft.min(hard), hard]);
        }
    }
    let bits = MDWE.load(Ordering::Relaxed) as usize;
    if bits != 0 && for_good {
        // SAFETY: no pointers.
        unsafe { sys::syscall(libc::SYS_prctl as usize, [SET_MDWE, bits, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_changed_as_the_kernel_would() {
        let check = |wanted, former, privileged, expect| {
            assert_eq!(judge(wanted, former, || privileged).err().unwrap_or(0), expect);
        };
        check([5, 10], 10, false, 0);
        check([5, 10], 9, false, -(sys::EPERM as isize));
        check([5, 10], 9, true, 0);
        check([11, 10], 10, true, -(sys::EINVAL as isize));
    }

    /// In a process of its own: other tests map what counts as the tracer's, which a runner of threads would have in this one.
    #[test]
    fn the_kernel_counts_as_we_do_where_there_is_no_tracer() {
        const ALONE: &str = "MEMTAP_TEST_ALONE";
        const NAME: &str = "syscall::limits::tests::the_kernel_counts_as_we_do_where_there_is_no_tracer";
        if std::env::var_os(ALONE).is_none() {
            let own = std::env::current_exe().unwrap();
            let outcome =
                std::process::Command::new(own).args(["--exact", NAME]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&outcome.stdout);
            assert!(outcome.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let words: Vec<u64> = statm.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let used = UsedMemory::now();
        // The runner's own thread may map memory meanwhile.
        assert!(used.space.abs_diff(words[0] * 4096) < 64 << 20, "{used:?} {statm}");
        assert!(used.data <= words[5] * 4096 + (64 << 20), "{used:?} {statm}");
    }
}
