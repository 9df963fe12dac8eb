//! What /proc reports about a process: whether it can be attached to, where its C library is mapped, and where its threads are.

use crate::Error;
use elf::ElfHeader;
use object::{Object, ObjectSymbol};
use proc_files::{Mapping, TaskActivity, TaskStat, TaskStatus};
use std::{
    fs, io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// A mapping with its file.
#[derive(Clone, Debug)]
pub(crate) struct MappedFile {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) offset: u64,
    pub(crate) executable: bool,
    pub(crate) path: String,
}

/// Checks whether process `pid` can be attached to.
///
/// # Errors
/// Where it can't: the process is left alone.
pub fn check(pid: u32) -> Result<(), Error> {
    young(|| check_now(pid))
}

/// Asks again for a moment where there is no loader: a process that has just begun has none yet, one that is about to end
/// has none any more.
pub(crate) fn young<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..10 {
        match ask() {
            Err(Error::Static(_) | Error::NoLoader(_)) => std::thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
    ask()
}

pub(crate) fn check_now(pid: u32) -> Result<(), Error> {
    if pid == std::process::id() {
        return Err(Error::Own(pid));
    }
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| Error::NoProcess(pid))?;
    let status = TaskStatus(&text);
    // A thread's number opens the same files as its process's.
    if status.field("Tgid") != pid.to_string() {
        return Err(Error::NoProcess(pid));
    }
    if !has_program(status) {
        return Err(Error::NoProgram(pid));
    }
    if status.field("State").starts_with('T') {
        return Err(Error::StoppedBySignal(pid));
    }
    if let Ok(tracer @ 1..) = status.field("TracerPid").parse() {
        return Err(Error::Traced { pid, tracer });
    }
    let program = fs::File::open(format!("/proc/{pid}/exe")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => permission(pid),
        _ => Error::NoProgram(pid),
    })?;
    let mut head = [0; ElfHeader::BYTES];
    let is_ours = program.read_exact_at(&mut head, 0).is_ok() && ElfHeader::parse(&head).is_ok();
    if !is_ours {
        return Err(Error::Architecture(pid));
    }
    if status.signals("SigIgn") & 1 << (libc::SIGSEGV - 1) != 0 {
        return Err(Error::IgnoresSegv(pid));
    }
    let mapped = mappings(pid)?;
    if !mapped.iter().any(|m| file_name(&m.path).starts_with("ld-")) {
        return Err(Error::Static(pid));
    }
    Ok(())
}

/// Whether the process has memory; one that has ended has given it back.
fn has_program(status: TaskStatus<'_>) -> bool {
    !status.field("State").starts_with(['Z', 'X']) && !status.field("VmSize").is_empty()
}

/// The refusal of a debugger's rights, with what the system says about them. What is left of a process that has ended is root's.
pub(crate) fn permission(pid: u32) -> Error {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    if !status.is_ok_and(|text| has_program(TaskStatus(&text))) {
        return Error::Ended(pid);
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map(|now| format!(" (it is {})", now.trim()))
        .unwrap_or_default();
    Error::Permission { pid, scope }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The mappings of the process.
pub(crate) fn mappings(pid: u32) -> Result<Vec<MappedFile>, Error> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => permission(pid),
        io::ErrorKind::NotFound => Error::Ended(pid),
        _ => Error::System { pid, what: "its mappings cannot be read", source: error },
    })?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<MappedFile> {
    let mapping = Mapping::parse(line.as_bytes())?;
    Some(MappedFile {
        start: mapping.start as usize,
        end: mapping.end as usize,
        offset: mapping.offset,
        executable: mapping.is_executable(),
        path: String::from_utf8_lossy(mapping.name).into_owned(),
    })
}

/// The path of a file of process `pid` as this one sees it, whatever root the other has.
#[must_use]
pub fn path_here(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{path}"))
}

/// Whether process `pid` sees the same file at `path` as this one.
#[must_use]
pub fn sees(pid: u32, path: &Path) -> bool {
    let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::metadata(path), fs::metadata(path_here(pid, &path.to_string_lossy()))) {
        (Ok(here), Ok(there)) => same(&here, &there),
        _ => false,
    }
}

/// Addresses of exported functions of a mapped library; `None` where it lacks one.
pub(crate) fn functions<const N: usize>(
    pid: u32,
    mapped: &[MappedFile],
    is_file: impl Fn(&str) -> bool,
    names: [&str; N],
) -> Option<[usize; N]> {
    let first = mapped.iter().find(|m| is_file(&m.path) && m.offset == 0)?;
    let bytes = fs::read(path_here(pid, &first.path)).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let start = file.relative_address_base() as usize;
    let mut found = [None; N];
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
        for (place, name) in found.iter_mut().zip(names) {
            if place.is_none() && symbol.name() == Ok(name) {
                *place = Some(first.start - start + symbol.address() as usize);
            }
        }
    }
    found.iter().all(Option::is_some).then(|| found.map(Option::unwrap_or_default))
}

/// The C library's loader functions of these names: in libc since glibc 2.34, in libdl before.
pub(crate) fn loader_functions<const N: usize>(
    pid: u32,
    mapped: &[MappedFile],
    names: [&str; N],
) -> Option<[usize; N]> {
    ["libc.so.6", "libc-2.", "libdl.so.2", "libdl-2."]
        .iter()
        .find_map(|library| functions(pid, mapped, |path| file_name(path).starts_with(library), names))
}

/// The threads of the process that have not ended.
pub(crate) fn threads(pid: u32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    tids.filter(|tid| !has_ended(*tid)).collect()
}

/// Whether a thread that is stopped will be told of a fault of its last instruction as soon as it goes on.
pub(crate) fn has_fault(tid: i32) -> bool {
    const FAULTS: [i32; 6] =
        [libc::SIGSEGV, libc::SIGTRAP, libc::SIGSYS, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
    let text = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let status = TaskStatus(&text);
    let waiting = status.signals("SigPnd") & !status.signals("SigBlk");
    FAULTS.iter().any(|signal| waiting & 1 << (signal - 1) != 0)
}

/// Whether a thread has ended: the first one is listed as long as there are others.
pub(crate) fn has_ended(tid: i32) -> bool {
    let line = fs::read(format!("/proc/{tid}/task/{tid}/stat")).unwrap_or_default();
    TaskStat::parse(&line).is_some_and(|stat| stat.activity == TaskActivity::Ended)
}

/// System calls that programs wait in, and that neither an allocator nor the loader makes while it holds a lock: `read`
/// to `accept` on descriptors, waiting for time, children, signals or futexes.
const WAITS: [i64; 24] = [
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_futex,
    libc::SYS_connect,
    libc::SYS_sched_yield,
];
/// Room that a call of the loader may need.
const STACK_BYTES: usize = 64 << 10;

/// Whether a thread with these registers may be borrowed for a call of the loader.
pub(crate) fn is_safe_place(registers: &libc::user_regs_struct, mapped: &[MappedFile]) -> bool {
    let at = |address: u64| mapped.iter().find(|m| (m.start..m.end).contains(&(address as usize)));
    let room = at(registers.rsp)
        .is_some_and(|m| m.path == "[stack]" || registers.rsp as usize - m.start >= STACK_BYTES);
    let Some(code) = at(registers.rip).filter(|m| m.executable && registers.cs == 0x33 && room) else {
        return false;
    };
    let name = file_name(&code.path);
    if name.starts_with("ld-") || name.starts_with("libmemtap") || name.starts_with("libgcc_s") {
        return false;
    }
    if name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("libpthread") {
        return WAITS.contains(&(registers.orig_rax as i64));
    }
    // An allocator of the program's own is the danger left: it stands in a library of its own, usually.
    !["malloc", "hoard"].iter().any(|allocator| name.contains(allocator))
}

/// Whether a thread waits in a system call, as far as can be told without stopping it.
pub(crate) fn waits(pid: u32, tid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).is_ok_and(|text| {
        text.split(' ').next().and_then(|n| n.parse().ok()).is_some_and(|number: i64| WAITS.contains(&number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_parsed() {
        let m = parse("7f00-7f10 r-xp 00001000 fe:00 123                        /usr/lib/a b.so").unwrap();
        assert_eq!((m.start, m.end, m.offset, m.executable), (0x7f00, 0x7f10, 0x1000, true));
        assert_eq!(m.path, "/usr/lib/a b.so");
        assert_eq!(parse("7f00-7f10 rw-p 00000000 00:00 0 ").unwrap().path, "");
    }

    #[test]
    fn threads_inside_the_c_library_or_on_small_stacks_are_not_borrowed() {
        let mapping = |start, path: &str| MappedFile {
            start,
            end: start + 0x10_0000,
            offset: 0,
            executable: true,
            path: path.to_owned(),
        };
        let mapped = [
            mapping(0x100_0000, "/usr/bin/program"),
            mapping(0x200_0000, "/lib/libc.so.6"),
            mapping(0x300_0000, ""),
        ];
        let check = |rip: u64, rsp: u64, call: i64, expect| {
            // SAFETY: all-zero is a valid value.
            let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
            (registers.rip, registers.rsp, registers.cs) = (rip, rsp, 0x33);
            registers.orig_rax = call as u64;
            assert_eq!(is_safe_place(&registers, &mapped), expect, "{rip:#x} {rsp:#x} {call}");
        };
        check(0x100_0010, 0x308_0000, -1, true);
        check(0x100_0010, 0x300_0100, -1, false);
        check(0x200_0010, 0x308_0000, -1, false);
        check(0x200_0010, 0x308_0000, libc::SYS_mmap, false);
        check(0x200_0010, 0x308_0000, libc::SYS_poll, true);
    }
}
