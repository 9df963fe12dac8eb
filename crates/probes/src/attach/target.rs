//! What /proc says of the process: whether it can be attached to, where its C library is, where its threads stand.

use super::AttachError;
use object::{Object, ObjectSymbol};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A mapping with its file.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) offset: u64,
    pub(super) executable: bool,
    pub(super) path: String,
}

/// Whether the process can be attached to at all.
pub(super) fn check(pid: u32) -> Result<(), AttachError> {
    if pid == std::process::id() {
        return Err(AttachError::Own(pid));
    }
    let status =
        fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| AttachError::NoProcess(pid))?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim)
    };
    // A thread's number opens the same files as its process's.
    if field("Tgid") != pid.to_string() {
        return Err(AttachError::NoProcess(pid));
    }
    let state = field("State");
    if state.starts_with(['Z', 'X']) || field("VmSize").is_empty() {
        return Err(AttachError::NoProgram(pid));
    }
    if state.starts_with('T') {
        return Err(AttachError::StoppedBySignal(pid));
    }
    if let Ok(tracer @ 1..) = field("TracerPid").parse() {
        return Err(AttachError::Traced { pid, tracer });
    }
    let program = match fs::read(format!("/proc/{pid}/exe")) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(permission(pid)),
        Err(_) => return Err(AttachError::NoProgram(pid)),
    };
    let file = object::File::parse(&*program).map_err(|_| AttachError::Architecture(pid))?;
    if file.architecture() != object::Architecture::X86_64 || !file.is_64() {
        return Err(AttachError::Architecture(pid));
    }
    let ignored = u64::from_str_radix(field("SigIgn"), 16).unwrap_or(0);
    if ignored & 1 << (libc::SIGSEGV - 1) != 0 {
        return Err(AttachError::IgnoresSegv(pid));
    }
    let mapped = mappings(pid)?;
    if !mapped.iter().any(|m| file_name(&m.path).starts_with("ld-")) {
        return Err(AttachError::Static(pid));
    }
    Ok(())
}

/// The refusal of a debugger's rights, with what the system says about them.
pub(super) fn permission(pid: u32) -> AttachError {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map(|now| format!(" (it is {})", now.trim()))
        .unwrap_or_default();
    AttachError::Permission { pid, scope }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The mappings of the process.
pub(super) fn mappings(pid: u32) -> Result<Vec<Mapping>, AttachError> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => permission(pid),
        io::ErrorKind::NotFound => AttachError::Ended(pid),
        _ => AttachError::System { pid, what: "its mappings cannot be read", source: error },
    })?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let path = words.nth(2).unwrap_or("").trim();
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        executable: rights.contains('x'),
        path: path.to_owned(),
    })
}

/// The path of a file as this process sees it, whatever root the other has.
pub(super) fn seen_from_here(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{path}"))
}

/// Whether the process sees the same file at this path.
pub(super) fn sees(pid: u32, path: &Path) -> bool {
    let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::metadata(path), fs::metadata(seen_from_here(pid, &path.to_string_lossy()))) {
        (Ok(here), Ok(there)) => same(&here, &there),
        _ => false,
    }
}

/// Address of an exported function of a mapped library.
pub(super) fn function(
    pid: u32,
    mapped: &[Mapping],
    is_file: impl Fn(&str) -> bool,
    name: &str,
) -> Option<usize> {
    let first = mapped.iter().find(|m| is_file(&m.path) && m.offset == 0)?;
    let bytes = fs::read(seen_from_here(pid, &first.path)).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let symbol = file.dynamic_symbols().find(|s| s.is_definition() && s.name() == Ok(name))?;
    let start = file.relative_address_base() as usize;
    Some(first.start - start + symbol.address() as usize)
}

/// The C library's loader function of this name: in libc since glibc 2.34, in libdl before.
pub(super) fn loader_function(pid: u32, mapped: &[Mapping], name: &str) -> Option<usize> {
    ["libc.so.6", "libc-2.", "libdl.so.2", "libdl-2."]
        .iter()
        .find_map(|library| function(pid, mapped, |path| file_name(path).starts_with(library), name))
}

/// The threads of the process.
pub(super) fn threads(pid: u32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
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
pub(super) fn is_safe_place(registers: &libc::user_regs_struct, mapped: &[Mapping]) -> bool {
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
pub(super) fn waits(pid: u32, tid: i32) -> bool {
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
        let mapping = |start, path: &str| Mapping {
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
