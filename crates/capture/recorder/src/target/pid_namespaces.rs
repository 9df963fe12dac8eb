//! Processes that may be in other PID namespaces than the recorder (containers): a process that did not connect from there knows
//! only its id in its own namespace. The kernel shows all ids of each process in `/proc/PID/status`, and which memory it has mapped.

use std::fs;
use std::os::fd::AsFd;

use buffers::ProcessSlot;
use buffers_host::OwnedPool;
use proc_files::{Mapping, TaskStatus};

/// The id of a process in the recorder's name space; `None` where it is dead.
pub(crate) fn pid_of(slot: &ProcessSlot, pool: &OwnedPool) -> Option<u32> {
    match slot.pid() {
        0 => find(slot.own_pid(), pool),
        pid => Some(pid),
    }
}

/// Looks for a process that has that id in its own name space and the pool mapped.
fn find(own_pid: u32, pool: &OwnedPool) -> Option<u32> {
    let inode = inode_of(pool)?;
    processes().find(|&pid| has_own_pid(pid, own_pid) && maps(pid, inode))
}

/// The processes that have the pool mapped, but for the recorder itself.
pub(crate) fn holders(pool: &OwnedPool) -> Vec<u32> {
    let Some(inode) = inode_of(pool) else { return Vec::new() };
    processes().filter(|&pid| pid != std::process::id() && maps(pid, inode)).collect()
}

/// The program that a process executes; empty where that is not known.
pub(crate) fn executable(pid: u32) -> String {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().to_string_lossy().into_owned()
}

fn inode_of(pool: &OwnedPool) -> Option<u64> {
    Some(rustix::fs::fstat(pool.as_fd()).ok()?.st_ino)
}

/// All processes, as the recorder's name space numbers them.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The id of a thread in its own name space; the recorder's where it has just ended.
pub(crate) fn own_tid(pid: u32, tid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    innermost(TaskStatus(&status).field("NSpid")).unwrap_or(tid)
}

/// The last of a list of ids.
fn innermost(ids: &str) -> Option<i32> {
    ids.split_whitespace().next_back()?.parse().ok()
}

fn has_own_pid(pid: u32, own_pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    is_own(TaskStatus(&status).field("NSpid"), own_pid)
}

/// Whether a list of ids, the outermost first, is that of a process which has that id in its own name space.
fn is_own(ids: &str, own_pid: u32) -> bool {
    innermost(ids).is_some_and(|last| u32::try_from(last) == Ok(own_pid))
}

fn maps(pid: u32, inode: u64) -> bool {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut lines = maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse);
    lines.any(|mapping| mapping.inode == inode && mapping.name.starts_with(b"/memfd:memtap"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_id_counts() {
        assert!(is_own("4711\t1", 1));
        assert!(is_own("4711 12 7", 7));
        assert!(!is_own("4711 12 7", 12));
        assert!(is_own("4711", 4711));
        assert!(!is_own("", 0));
    }

    #[test]
    fn who_has_the_pool_mapped_is_found() {
        let pool = OwnedPool::create().expect("memory");
        let inode = rustix::fs::fstat(pool.as_fd()).expect("a file").st_ino;
        assert!(maps(std::process::id(), inode));
        assert!(!maps(std::process::id(), inode + 1) && !maps(1, inode));
    }
}
