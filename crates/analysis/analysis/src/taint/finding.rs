//! The findings of taint analysis: where data came from, where it affects a decision, and the places between.

use memref::{ThreadId, VirtAddr};
use symbols::Resolver;

use crate::race::atomics::is_inner;

/// Where data goes that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SinkKind {
    /// Where execution goes on: an indirect jump or call, or a return.
    Jump,
    /// A register that a system call takes.
    SystemCall,
    /// What a system call reads through a pointer, but for the data of write and send: names of files, structures.
    SystemCallMemory,
    /// A format.
    Format,
    /// How much memory is asked for.
    AllocationSize,
}

impl SinkKind {
    /// Its name in outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jump => "jump",
            Self::SystemCall => "system_call",
            Self::SystemCallMemory => "system_call_memory",
            Self::Format => "format_string",
            Self::AllocationSize => "allocation_size",
        }
    }
}

/// System calls that read through pointers nothing but names of files.
const PATH_CALLS: &[&str] = &[
    "access",
    "chdir",
    "chmod",
    "chown",
    "chroot",
    "creat",
    "faccessat",
    "faccessat2",
    "fchmodat",
    "fchownat",
    "lchown",
    "link",
    "linkat",
    "lstat",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "open",
    "openat",
    "readlink",
    "readlinkat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "stat",
    "statx",
    "symlink",
    "symlinkat",
    "truncate",
    "unlink",
    "unlinkat",
];

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The function, or module and offset where it has no name.
    pub function: String,
    /// Source file, where known.
    pub file: Option<String>,
    /// Source line, where known.
    pub line: Option<u32>,
}

/// An input that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The call, `mmap`, `argv` or `environment`.
    pub kind: String,
    /// Where the program called it, or the mapped file.
    pub spot: Option<Spot>,
    /// The file, of a mapping.
    pub name: Option<String>,
}

/// Tainted data in a place where it decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of place.
    pub sink: SinkKind,
    /// What exactly: the register of a jump, the argument of a system call, else the call's name.
    pub operand: String,
    /// Where.
    pub at: Spot,
    /// Which thread.
    pub thread: ThreadId,
    /// Where the data comes from.
    pub source: Input,
    /// Its offset there.
    pub offset: u64,
    /// The places that it went through, in their order.
    pub path: Vec<Spot>,
    /// How often.
    pub times: u64,
    /// Whether something before it could not be followed.
    pub uncertain: bool,
}

impl Finding {
    /// What exactly, briefly, for programs.
    pub fn detail(&self) -> String {
        let operand = &self.operand;
        match self.sink {
            SinkKind::Jump | SinkKind::SystemCall => operand.clone(),
            SinkKind::SystemCallMemory => format!("memory that {operand} reads"),
            SinkKind::Format => format!("format of {operand}"),
            SinkKind::AllocationSize => format!("size of {operand}"),
        }
    }

    /// What input decides, for people.
    pub fn words(&self) -> String {
        let operand = &self.operand;
        match self.sink {
            SinkKind::Jump => format!("jump, {operand}"),
            SinkKind::SystemCall => format!("system call, {operand}"),
            SinkKind::SystemCallMemory if matches!(operand.as_str(), "execve" | "execveat") => {
                format!("the program that {operand} runs, or its arguments")
            }
            SinkKind::SystemCallMemory if PATH_CALLS.contains(&operand.as_str()) => {
                format!("the name of a file, in {operand}")
            }
            SinkKind::SystemCallMemory => format!("what {operand} reads"),
            SinkKind::Format => format!("the format of {operand}"),
            SinkKind::AllocationSize => format!("how much memory {operand} gives"),
        }
    }
}

/// The places of a path: lines of the program, and functions of libraries without their lines.
pub(super) fn way(resolver: &mut Resolver, steps: &[VirtAddr]) -> Vec<Spot> {
    let mut path: Vec<Spot> = Vec::new();
    for &step in steps {
        let module = resolver.code_name(step).and_then(|name| name.module.clone());
        let module = module.as_deref().unwrap_or_default();
        // The loader saves and restores registers while it looks a function up.
        if module.starts_with("ld-") {
            continue;
        }
        let mut spot = spot(resolver, step);
        if is_inner(module) {
            (spot.file, spot.line) = (None, None);
        }
        if path.last() != Some(&spot) {
            path.push(spot);
        }
    }
    path
}

/// The place of an instruction.
pub(super) fn spot(resolver: &mut Resolver, ip: VirtAddr) -> Spot {
    let Some(code) = resolver.code_name(ip) else {
        return Spot { function: ip.to_string(), file: None, line: None };
    };
    let function = match &code.function {
        Some(function) => function.to_string(),
        None => code.to_string(),
    };
    let (file, line) = code.line().map_or((None, None), |(file, line)| (Some(file.to_owned()), line));
    Spot { function, file, line }
}

/// Whether a module is a language's own library, whose calls are what the program asked it for.
pub(super) fn is_of_language(module: &str) -> bool {
    ["libstdc++", "libc++"].iter().any(|library| module.starts_with(library))
}
