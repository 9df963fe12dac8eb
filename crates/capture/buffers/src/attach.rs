//! The interface between the recorder and the tracer's library in a process that is attached to while it runs.
//!
//! The recorder stops threads (ptrace) and calls the library's functions on them, one at a time: `memtap_attach_open` while
//! the other threads run; then, with all threads stopped, `memtap_attach_begin`, and `memtap_attach_enter` for each thread.
//!
//! To detach, the recorder stops all threads and calls `memtap_attach_ready`, which reports for each thread whether it can leave, and
//! asks those that are executing in the tracer to wait where they can (`memtap_attach_stay` cancels that). Once all can leave, it
//! calls `memtap_attach_leave` for each, and `memtap_attach_finish`. Each function takes one array of words and returns a [`Status`].

/// The variable in which the library exports its words.
pub const WORDS: &str = "memtap_attach_words";
/// How many there are.
pub const WORD_COUNT: usize = 4;
/// Index: the version of what is said here, so that the recorder can look before it calls anything.
pub const VERSION_AT: usize = 0;
/// Index: 1 while the process is recorded.
pub const RECORDED_AT: usize = 1;
/// Index: the recorder's process id meanwhile.
pub const RECORDER_AT: usize = 2;
/// Index: the end of the stack on which the functions are called, after `memtap_attach_open`.
pub const STACK_AT: usize = 3;
/// Of the words and arrays described here.
pub const ATTACH_VERSION: u64 = 0x6d74_6174_0000_0001;

/// Most threads of a process that can be attached to: each needs a buffer at once.
pub const MAX_THREADS: usize = 1500;

/// What the library's functions return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Status {
    /// Done.
    Done = 0,
    /// The recorder could not be reached.
    NoRecorder = 1,
    /// The recorder is of another version.
    Version = 2,
    /// No memory, or no address space.
    NoMemory = 3,
    /// The kernel can't hand system calls to the process itself, or forbids it.
    NoDispatch = 4,
    /// The session has no room for another process.
    Full = 5,
    /// The process is not recorded.
    NotRecorded = 6,
}

impl Status {
    /// From what a function returned; `None`: the library is of another version.
    pub fn from_word(word: u64) -> Option<Self> {
        [
            Self::Done,
            Self::NoRecorder,
            Self::Version,
            Self::NoMemory,
            Self::NoDispatch,
            Self::Full,
            Self::NotRecorded,
        ]
        .into_iter()
        .find(|status| *status as u64 == word)
    }
}

/// Words that `memtap_attach_begin` gets for each thread: its stack pointer, the base of its fs.
pub const BEGIN_WORDS: usize = 2;

/// What `memtap_attach_enter` gets, and what it leaves there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enter {
    /// Where the thread goes on: in the program; afterwards in the cache.
    pub rip: u64,
    /// Its signal mask, and the one that it really has afterwards.
    pub mask: u64,
    /// Not zero where it waits in a system call.
    pub waits: u64,
}

/// Words of [`Enter`].
pub const ENTER_WORDS: usize = 3;

impl Enter {
    /// As words.
    pub fn words(&self) -> [u64; ENTER_WORDS] {
        [self.rip, self.mask, self.waits]
    }

    /// From words.
    pub fn from_words([rip, mask, waits]: [u64; ENTER_WORDS]) -> Self {
        Self { rip, mask, waits }
    }
}

/// What `memtap_attach_ready` gets for each thread, and what it leaves there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Its id.
    pub tid: u64,
    /// The instruction that it stands at.
    pub rip: u64,
    /// Its stack pointer.
    pub rsp: u64,
    /// Its base of gs.
    pub gs_base: u64,
    /// The result of the system call that it is in.
    pub rax: u64,
    /// That system call's number, or all ones.
    pub orig_rax: u64,
    /// Afterwards not zero if it can leave just now; otherwise it is at work in the tracer, and is to run on for a moment.
    pub is_ready: u64,
}

/// Words of [`Ready`].
pub const READY_WORDS: usize = 7;

impl Ready {
    /// As words.
    pub fn words(&self) -> [u64; READY_WORDS] {
        [self.tid, self.rip, self.rsp, self.gs_base, self.rax, self.orig_rax, self.is_ready]
    }

    /// From words.
    pub fn from_words(words: [u64; READY_WORDS]) -> Self {
        let [tid, rip, rsp, gs_base, rax, orig_rax, is_ready] = words;
        Self { tid, rip, rsp, gs_base, rax, orig_rax, is_ready }
    }
}

/// What `memtap_attach_leave` gets, and what it leaves there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leave {
    /// General registers in the order of a signal context; afterwards the program's own.
    pub registers: [u64; 18],
    /// The number of the system call that the thread is in, or all ones.
    pub orig_rax: u64,
    /// Its signal mask; afterwards the program's own.
    pub mask: u64,
    /// Afterwards the address of the program's vector registers as in a signal frame, and bytes; zeros: as they are.
    pub state: [u64; 2],
    /// Not zero for the first thread, which then tells what was counted.
    pub is_first: u64,
    /// Afterwards the signals that wait because the program blocks them, as a mask, but that the kernel does not know of.
    pub kept: u64,
}

/// Words of [`Leave`].
pub const LEAVE_WORDS: usize = 24;

impl Leave {
    /// As words.
    pub fn words(&self) -> [u64; LEAVE_WORDS] {
        let mut words = [0; LEAVE_WORDS];
        let (registers, rest) = words.split_at_mut(18);
        registers.copy_from_slice(&self.registers);
        rest.copy_from_slice(&[
            self.orig_rax,
            self.mask,
            self.state[0],
            self.state[1],
            self.is_first,
            self.kept,
        ]);
        words
    }

    /// From words.
    pub fn from_words(words: [u64; LEAVE_WORDS]) -> Self {
        let mut registers = [0; 18];
        registers.copy_from_slice(&words[..18]);
        Self {
            registers,
            orig_rax: words[18],
            mask: words[19],
            state: [words[20], words[21]],
            is_first: words[22],
            kept: words[23],
        }
    }
}

/// Results of system calls that the kernel makes again after a stop: -ERESTARTSYS, -ERESTARTNOINTR, -ERESTARTNOHAND and
/// -ERESTART_RESTARTBLOCK.
pub fn is_restart(rax: u64) -> bool {
    matches!((rax as i64).wrapping_neg(), 512..=514 | 516)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        let mut leave =
            Leave { orig_rax: 1, mask: 2, state: [3, 4], is_first: 5, kept: 6, ..Leave::default() };
        leave.registers[17] = 6;
        assert_eq!(Leave::from_words(leave.words()), leave);
        let ready = Ready { tid: 1, rip: 2, rsp: 3, gs_base: 4, rax: 5, orig_rax: 6, is_ready: 7 };
        assert_eq!(Ready::from_words(ready.words()), ready);
        let enter = Enter { rip: 7, mask: 8, waits: 1 };
        assert_eq!(Enter::from_words(enter.words()), enter);
        assert_eq!(Status::from_word(Status::NotRecorded as u64), Some(Status::NotRecorded));
        assert_eq!(Status::from_word(99), None);
    }

    #[test]
    fn only_results_that_the_kernel_hides_are_restarts() {
        for (rax, expect) in [(-512i64, true), (-516, true), (-515, false), (-4, false), (0, false)] {
            assert_eq!(is_restart(rax as u64), expect, "{rax}");
        }
    }
}
