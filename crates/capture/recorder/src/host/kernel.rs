//! What the kernel's files report about this machine.

use super::HostFinding;

/// Mappings that a program under page protection may need: each change of rights may split one.
const MAPPINGS: u64 = 65_530;
/// Address space that a process under page protection reserves, in GiB; none of it is used before it is written. A translated one
/// makes do with what it gets.
const RESERVED_GIB: u64 = 32;
/// The capability to trace any process of the same user namespace (linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;

/// A file of the kernel; empty where it has none of that name.
fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

pub(super) fn findings() -> Vec<HostFinding> {
    let status = text("/proc/self/status");
    let status = proc_files::TaskStatus(&status);
    vec![
        release(&text("/proc/sys/kernel/osrelease")),
        seccomp(status.field("Seccomp")),
        tracing_others(&text("/proc/sys/kernel/yama/ptrace_scope"), status.field("CapEff")),
        mappings(&text("/proc/sys/vm/max_map_count")),
        address_space(
            &text("/proc/sys/vm/overcommit_memory"),
            rustix::process::getrlimit(rustix::process::Resource::As).current,
        ),
    ]
}

/// Syscall user dispatch, with which system calls of code that is not translated are seen, came with 5.11.
fn release(release: &str) -> HostFinding {
    const NAME: &str = "kernel";
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 11) {
        return HostFinding::fine(NAME, format!("Linux {release}"));
    }
    HostFinding::missing(
        NAME,
        format!("Linux {release}"),
        "memtap needs Linux 5.11 or newer (syscall user dispatch)",
    )
}

fn seccomp(mode: &str) -> HostFinding {
    const NAME: &str = "seccomp";
    match mode {
        "" | "0" => HostFinding::fine(NAME, "no filter"),
        _ => HostFinding::worse(
            NAME,
            "system calls are filtered here (a container?)",
            "where a recording fails below, allow process_vm_readv, ptrace and prctl: `docker run --security-opt seccomp=unconfined`",
        ),
    }
}

fn tracing_others(scope: &str, capabilities: &str) -> HostFinding {
    const NAME: &str = "ptrace scope";
    let all = u64::from_str_radix(capabilities, 16).unwrap_or(0);
    match scope {
        "" | "0" => HostFinding::fine(NAME, "processes of the same user can be attached to"),
        "1" | "2" if all >> CAP_SYS_PTRACE & 1 == 1 => {
            HostFinding::fine(NAME, format!("{scope}, and this user has the right to attach to any process"))
        }
        "3" => HostFinding::worse(
            NAME,
            "3: nothing can be attached to until the machine is started again",
            "record --pid and probe --pid need kernel.yama.ptrace_scope=0; programs that memtap starts need nothing",
        ),
        _ => HostFinding::worse(
            NAME,
            format!("{scope}: running processes can't be attached to"),
            "for record --pid and probe --pid: sudo sysctl kernel.yama.ptrace_scope=0, or run memtap as root",
        )
        .with_fix("sudo sysctl kernel.yama.ptrace_scope=0"),
    }
}

fn mappings(limit: &str) -> HostFinding {
    const NAME: &str = "mappings";
    match limit.parse::<u64>() {
        Ok(limit) if limit < MAPPINGS => HostFinding::worse(
            NAME,
            format!("{limit} a process"),
            format!(
                "programs with many mappings may fail under memtap: sudo sysctl vm.max_map_count={MAPPINGS}"
            ),
        )
        .with_fix(format!("sudo sysctl vm.max_map_count={MAPPINGS}")),
        Ok(limit) => HostFinding::fine(NAME, format!("{limit} a process")),
        Err(_) => HostFinding::fine(NAME, "no limit that is told"),
    }
}

fn address_space(overcommit: &str, limit: Option<u64>) -> HostFinding {
    const NAME: &str = "address space";
    if let Some(bytes) = limit.filter(|bytes| bytes >> 30 < 2 * RESERVED_GIB) {
        return HostFinding::worse(
            NAME,
            format!("limited to {} MiB (ulimit -v)", bytes >> 20),
            format!(
                "page protection reserves {RESERVED_GIB} GiB of addresses, without using them: ulimit -v unlimited"
            ),
        )
        .with_fix("ulimit -v unlimited");
    }
    match overcommit {
        "2" => HostFinding::worse(
            NAME,
            "the kernel promises no more memory than it has (vm.overcommit_memory=2)",
            format!(
                "where a recording fails below, the {RESERVED_GIB} GiB of addresses that page protection reserves are too much: sudo sysctl vm.overcommit_memory=0"
            ),
        )
        .with_fix("sudo sysctl vm.overcommit_memory=0"),
        _ => HostFinding::fine(NAME, "unlimited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostState::{self, Fine, Missing, Worse};

    fn check(finding: &HostFinding, state: HostState) {
        assert_eq!(finding.state, state, "{finding:?}");
        assert_eq!(finding.advice.is_empty(), state == Fine, "{finding:?}");
        // What is fine needs no command, and what a command mends the advice names.
        let is_told = finding.fix.is_empty() || finding.advice.contains(&finding.fix);
        assert!(is_told, "{finding:?}");
    }

    #[test]
    fn old_kernels_are_told_what_they_lack() {
        check(&release("6.18.0-rc1+deb13-amd64"), Fine);
        check(&release("5.11.22"), Fine);
        check(&release("5.10.0-30-amd64"), Missing);
        check(&release("4.18"), Missing);
        check(&release(""), Missing);
    }

    #[test]
    fn rights_to_attach_follow_scope_and_capability() {
        check(&tracing_others("", "0"), Fine);
        check(&tracing_others("0", "0000000000000000"), Fine);
        check(&tracing_others("1", "0000000000000000"), Worse);
        check(&tracing_others("1", "000001ffffffffff"), Fine);
        check(&tracing_others("2", "0000000000080000"), Fine);
        check(&tracing_others("3", "000001ffffffffff"), Worse);
    }

    #[test]
    fn limits_are_told() {
        check(&mappings("65530"), Fine);
        check(&mappings("1000"), Worse);
        check(&mappings(""), Fine);
        check(&address_space("0", None), Fine);
        check(&address_space("2", None), Worse);
        check(&address_space("0", Some(4 << 30)), Worse);
        check(&seccomp("0"), Fine);
        check(&seccomp("2"), Worse);
    }
}
