//! Why there is no recording, or no complete one. Each error is one line: what went wrong, where, and what to do.

use std::io;
use std::path::PathBuf;

use crate::ProgramEnd;

/// An error of recording or watching.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What can't be done with it.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The system refuses something that recording needs.
    #[error("{what}")]
    System {
        /// What can't be had or done.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },

    /// The program is a directory.
    #[error("{0}: is a directory; name a program")]
    Directory(String),
    /// The program is not executable.
    #[error("{}: is not executable; make it so with chmod +x", .0.display())]
    NotExecutable(PathBuf),
    /// The program is not in PATH.
    #[error("{0}: no such program in PATH; check the spelling or give a path")]
    NotInPath(String),
    /// The script names no interpreter.
    #[error("{}: its first line names no interpreter; name one after #!", .0.display())]
    NoInterpreter(PathBuf),
    /// The script's interpreter can't be recorded.
    #[error("{}: its interpreter can't be recorded", path.display())]
    Interpreter {
        /// The script.
        path: PathBuf,
        /// What is wrong with the interpreter.
        source: Box<Error>,
    },
    /// The script's interpreter is statically linked.
    #[error(
        "{}: its interpreter {interpreter} is statically linked; record that, with the script as argument",
        path.display()
    )]
    StaticInterpreter {
        /// The script.
        path: PathBuf,
        /// Its interpreter.
        interpreter: String,
    },
    /// The program runs with another user's rights.
    #[error(
        "{}: runs with another user's rights (setuid), and the loader then ignores the tracer; record a copy without the bit",
        .0.display()
    )]
    SetId(PathBuf),
    /// The file is no executable.
    #[error("{}: is neither a program (ELF) nor a script (#!); name an executable", .0.display())]
    NoExecutable(PathBuf),
    /// The program is for the 32-bit mode.
    #[error("{}: is a 32-bit program; memtap records x86-64 programs only", .0.display())]
    Bits32(PathBuf),
    /// The program's C library is another one.
    #[error(
        "{}: is linked with another C library than GNU's (its loader is {loader}), which can't load memtap's library; build it with \
         glibc, or statically",
        path.display()
    )]
    OtherLibrary {
        /// The program.
        path: PathBuf,
        /// The loader that it names.
        loader: String,
    },
    /// The program is for another processor.
    #[error("{}: is for another processor (machine {machine}); memtap records x86-64 programs only", path.display())]
    Processor {
        /// The program.
        path: PathBuf,
        /// ELF's number of the processor.
        machine: u16,
    },
    /// The program is statically linked.
    #[error("{}: is statically linked, so no tracer can be preloaded; translate it", .0.display())]
    Static(PathBuf),
    /// The program that is to be watched is statically linked.
    #[error("{}: is statically linked, so the library that watches can't be preloaded", .0.display())]
    StaticWatched(PathBuf),
    /// What is asked for needs translated code, and page protection was asked for.
    #[error("{0} needs --tracer translate")]
    NeedsTranslation(Feature),

    /// The loader divides lists of libraries there.
    #[error("{}: libraries can't be preloaded from a folder with a space or colon in its path; move memtap, or copy its libraries elsewhere and set MEMTAP_LIB_DIR", path.display())]
    LibraryPath {
        /// The library.
        path: PathBuf,
    },
    /// A library of memtap's is nowhere.
    #[error(
        "{name}: not found in {looked}; install memtap as a whole, or set MEMTAP_LIB_DIR to the folder that has it"
    )]
    NoLibrary {
        /// The library.
        name: String,
        /// Where it was looked for.
        looked: String,
    },
    /// Names can't be looked up in a file.
    #[error("{}", path.display())]
    Symbols {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: symbols::Error,
    },
    /// The program has no function of that name.
    #[error("{}: has no function named {name}", path.display())]
    NoFunction {
        /// The program.
        path: PathBuf,
        /// The function.
        name: String,
    },
    /// The program's path does not fit a message.
    #[error("{}: the path is too long", .0.display())]
    PathTooLong(PathBuf),
    /// Too many functions start and stop recording.
    #[error("at most {} functions together start and stop recording", buffers::MAX_BREAKPOINTS)]
    TooManyFunctions,

    /// The server that is to write the trace can't be reached.
    #[error("the server that is to write the trace can't be reached")]
    Connect(#[source] trace_server::Error),
    /// The trace store refuses.
    #[error(transparent)]
    Store(#[from] trace_server::Error),
    /// The trace can't be created or written.
    #[error(transparent)]
    Trace(#[from] trace_format::Error),
    /// The program was recorded up to its end, but not all of it could be written.
    #[error("the program ended with status {}, but the trace is not complete", end.shell_status())]
    Incomplete {
        /// How the program ended.
        end: ProgramEnd,
        /// What could not be written.
        source: Box<Error>,
    },
    /// The program's end can't be waited for.
    #[error("the program's end can't be waited for, so its exit status is not known; the trace is complete")]
    LostProgram(#[source] io::Error),

    /// The process can't be attached to.
    #[error(transparent)]
    Attach(#[from] attach::Error),
    /// The process ended before it was recorded.
    #[error("process {0} ended")]
    ProcessEnded(u32),
    /// The process has no /proc.
    #[error(
        "process {0} has no /proc in its root directory, in which the tracer reads what is mapped; mount it there (bwrap --proc /proc)"
    )]
    NoProc(u32),
    /// The process has another root directory, in which nothing can be put.
    #[error(
        "process {pid} sees other files than memtap (a container), and no folder there takes memtap's library: {looked}"
    )]
    NoFoothold {
        /// The process.
        pid: u32,
        /// The folders, and why they don't take it.
        looked: String,
    },
    /// The process has another version of the library.
    #[error("process {0} has loaded another version of memtap's library; restart the program")]
    OldLibrary(u32),
    /// The library is of another version.
    #[error("{}: is another version than memtap's", .0.display())]
    Version(PathBuf),
    /// The process is recorded by somebody.
    #[error(
        "process {pid} is already being recorded by memtap (process {recorder}); end that recording first"
    )]
    RecordedAlready {
        /// The process.
        pid: u32,
        /// Who records it.
        recorder: u64,
    },
    /// The process can't connect.
    #[error("process {0} can't reach the recorder: a limit or seccomp denies it sockets or memory")]
    NoRecorder(u32),
    /// The process has no memory for the tracer.
    #[error("process {0} has no memory or address space left for the tracer")]
    NoMemory(u32),
    /// System calls can't be handed to the tracer.
    #[error(
        "process {0} can't have its system calls handed to the tracer: that needs Linux 5.11, and a process that does not forbid it to itself (seccomp)"
    )]
    NoDispatch(u32),
    /// The process is recorded already, or there is no room for it.
    #[error("process {0} is already being recorded, or the session is full")]
    Full(u32),
    /// The process is not recorded.
    #[error("process {0} is not recorded")]
    NotRecorded(u32),
    /// The process has too many threads.
    #[error("process {pid} has {count} threads; at most {} can be attached to", buffers::attach::MAX_THREADS)]
    TooManyThreads {
        /// The process.
        pid: u32,
        /// Its threads.
        count: usize,
    },
    /// The process uses the gs segment.
    #[error("process {0} uses the gs segment, which the tracer needs")]
    UsesGs(u32),
    /// A stopped thread can't be read or changed.
    #[error("process {pid}: a thread can't be taken over")]
    Thread {
        /// The process.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// A thread does not leave the tracer.
    #[error("a thread stayed in the tracer or in the kernel for {seconds} seconds")]
    StaysInTracer {
        /// How long was waited.
        seconds: u64,
    },
    /// The process could not be left.
    #[error("process {pid} keeps running in the tracer, but is no longer recorded")]
    NotLeft {
        /// The process.
        pid: u32,
        /// Why.
        source: Box<Error>,
    },

    /// The command is no QEMU for whole machines.
    #[error("{}: is not a QEMU that runs a whole machine; name qemu-system-x86_64", .0.display())]
    NoQemu(PathBuf),
    /// QEMU has no plugins.
    #[error(
        "{}: this QEMU was built without plugins; use one built with --enable-plugins, such as Debian's",
        .0.display()
    )]
    NoPlugins(PathBuf),
    /// QEMU's arguments don't go together with recording.
    #[error("{0}")]
    QemuArguments(String),
    /// QEMU ended before the machine ran.
    #[error("{name}: ended with status {} before the machine ran; its output is above", end.shell_status())]
    NoMachine {
        /// QEMU as it was named.
        name: String,
        /// How it ended.
        end: ProgramEnd,
    },

    /// The expression names nothing that can be watched.
    #[error("{expression}: {why}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        why: String,
    },
    /// The expression's name can't be found.
    #[error("{expression}")]
    Name {
        /// The expression.
        expression: String,
        /// What is wrong.
        source: symbols::Error,
    },
    /// The expression is wrong, which the error says with the expression.
    #[error(transparent)]
    BadExpression(symbols::Error),
    /// The expression names a thread-local variable, and page protection was asked for.
    #[error("{0}: is a thread-local variable, which page protection can't watch; use --tracer translate")]
    ThreadLocal(String),
    /// A line of a list is none.
    #[error("{}:{line}: expected read, write or access, and an expression", path.display())]
    WatchList {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Nobody takes the hits.
    #[error("the log of hits can't be written")]
    Hits(#[source] io::Error),
}

/// What only translated code can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// Recording the bytes of accesses.
    Data,
    /// Recording which blocks are executed.
    Flow,
    /// Recording accesses to stacks.
    Stack,
    /// Comparing with stepping.
    Verify,
    /// Recording a process that runs already.
    Attach,
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Data => "recording the bytes of accesses",
            Self::Flow => "recording the control flow",
            Self::Stack => "recording stacks",
            Self::Verify => "comparing with stepping",
            Self::Attach => "recording a process that runs already",
        })
    }
}

impl Error {
    /// For `map_err` where a file can't be used.
    pub(crate) fn file(path: impl Into<PathBuf>, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, what, source }
    }

    /// For `map_err` where the system refuses something.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
