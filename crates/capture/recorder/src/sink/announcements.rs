//! Announced programs: each is expected to arrive with the tracer in it. Those that never do ran untraced, and are reported.
//!
//! A process that is about to execute a program announces it in its records, under a number that it passes to
//! the program. The program names the number when it connects. A program that inherits the number from one
//! that never arrived is recognised by its different process id: it is not the program that was announced.

use std::collections::{BTreeMap, BTreeSet};

use buffers::{ProcessSlot, Refusal};

/// A program that is about to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnnouncedProgram {
    /// Its path as it was named.
    pub(crate) name: String,
    /// The process that executes it, as the pool numbers them; `None`: the recorder starts it.
    pub(crate) parent: Option<u32>,
    /// Its process id in its own name space, where that is known.
    pub(crate) own_pid: Option<u32>,
}

/// What a process said of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArrivedProgram {
    own_pid: u32,
}

/// A program that ran without a tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostProgram {
    /// Its name, and why.
    pub(crate) words: String,
    /// The process that started it, as the pool numbers them.
    pub(crate) parent: Option<u32>,
    /// Its process id, where that is known.
    pub(crate) pid: u32,
}

/// All announcements of a session whose end is not known.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    expected: BTreeMap<u32, AnnouncedProgram>,
    /// Those who came before their announcement was read.
    early: BTreeMap<u32, ArrivedProgram>,
    /// What each was named, whether it has arrived or not.
    names: BTreeMap<u32, String>,
    lost: Vec<LostProgram>,
    /// The processes that go on after the end.
    outliving: BTreeSet<u32>,
    /// Where each of them is told, by its process id.
    outliving_pids: BTreeMap<u32, usize>,
}

impl Announcements {
    /// A program is about to be executed.
    pub(crate) fn announce(&mut self, number: u32, program: AnnouncedProgram) {
        self.names.insert(number, program.name.clone());
        match self.early.remove(&number) {
            Some(arrived) if is_it(&program, arrived.own_pid) => {}
            _ => {
                self.expected.insert(number, program);
            }
        }
    }

    /// It was not: the kernel refused.
    pub(crate) fn withdraw(&mut self, number: u32) {
        self.expected.remove(&number);
    }

    /// A process has entered its slot.
    pub(crate) fn arrive(&mut self, number: u32, own_pid: u32) {
        match self.expected.get(&number) {
            Some(program) if is_it(program, own_pid) => {
                self.expected.remove(&number);
            }
            Some(_) => {}
            None => {
                self.early.insert(number, ArrivedProgram { own_pid });
            }
        }
    }

    /// Whether somebody may still arrive though all processes of the session are gone: a program that its parent does not wait for
    /// (a child of vfork has no slot of its own before). `own_pid_of` knows the process ids of those who announced.
    pub(crate) fn awaits(&self, own_pid_of: impl Fn(u32) -> Option<u32>) -> bool {
        self.expected
            .values()
            .any(|program| program.parent.is_some_and(|parent| own_pid_of(parent) != program.own_pid))
    }

    /// A process can't be traced though it arrived, or was forked.
    pub(crate) fn refuse(&mut self, executable: &str, slot: &ProcessSlot, refusal: Refusal) {
        let name = slot.announcement().and_then(|number| self.names.get(&number));
        let words = format!("{} ({})", known(name.map_or(executable, String::as_str)), words_of(refusal));
        self.lost.push(LostProgram { words, parent: slot.parent(), pid: slot.pid() });
    }

    /// A process goes on after the end of the recording; its number in the pool, where it has one. One that was just becoming another
    /// program has two, and is told once, as what it is now.
    pub(crate) fn outlive(&mut self, executable: &str, number: Option<u32>, pid: u32) {
        let words = format!("{} (process {pid} goes on after the end of the recording)", known(executable));
        let program = LostProgram { words, parent: number, pid };
        match self.outliving_pids.get(&pid).and_then(|&place| self.lost.get_mut(place)) {
            Some(told) => *told = program,
            None => {
                self.outliving_pids.insert(pid, self.lost.len());
                self.lost.push(program);
            }
        }
        self.outliving.extend(number);
    }

    /// Nobody arrives any more: those who ran untraced.
    pub(crate) fn finish(&mut self) -> Vec<LostProgram> {
        let mut lost = std::mem::take(&mut self.lost);
        // One that was about to become another program goes on as that, and is told already. A child of vfork has no number of its own
        // before, and is known by its process id.
        let goes_on = |program: &AnnouncedProgram| {
            program.parent.is_some_and(|parent| self.outliving.contains(&parent))
                || program.own_pid.is_some_and(|pid| self.outliving_pids.contains_key(&pid))
        };
        let expected = std::mem::take(&mut self.expected).into_values();
        lost.extend(expected.filter(|program| !goes_on(program)).map(|program| LostProgram {
            words: format!("{} ({NOT_ARRIVED})", known(&program.name)),
            parent: program.parent,
            pid: program.own_pid.unwrap_or(0),
        }));
        lost
    }
}

/// Why an announced program does not arrive, as far as the recorder can tell.
const NOT_ARRIVED: &str = "the tracer never came up in it: its loader did not find memtap's library (another root directory, a \
                           static program), it could not reach memtap (sockets refused, another network), or it ended first";

fn known(name: &str) -> &str {
    if name.is_empty() { "a program" } else { name }
}

fn is_it(program: &AnnouncedProgram, own_pid: u32) -> bool {
    program.own_pid.is_none_or(|announced| announced == own_pid)
}

fn words_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NoAddressSpace => "no address space for the table of its pages; ulimit -v?",
        Refusal::NoMemory => "no memory or address space for the tracer; ulimit -v?",
        Refusal::NoDispatch => {
            "its system calls can't be handed to the tracer: that needs Linux 5.11, and no filter (seccomp) that denies prctl"
        }
        Refusal::NotMapped => "the static program can't be mapped beside memtap",
        Refusal::Sanitizer => {
            "its sanitizer keeps memory where page protection needs addresses; --tracer translate records it"
        }
        Refusal::Bug => "a bug in memtap's tracer ended it, with the line above; please report it",
        Refusal::NoProc => "/proc/self/maps can't be read where it runs; /proc must be mounted there",
    }
}

#[cfg(test)]
mod tests {
    use buffers::FIRST_ANNOUNCEMENT;

    use super::*;

    fn program(own_pid: Option<u32>) -> AnnouncedProgram {
        // The recorder's own program has no process that announces it.
        AnnouncedProgram { name: "/bin/echo".to_owned(), parent: own_pid.map(|_| 3), own_pid }
    }

    fn words(announced: &mut Announcements) -> Vec<String> {
        announced.finish().into_iter().map(|lost| lost.words).collect()
    }

    #[test]
    fn who_arrives_before_or_after_its_announcement_is_not_lost() {
        let mut announced = Announcements::default();
        announced.announce(1, program(Some(50)));
        announced.arrive(1, 50);
        announced.arrive(2, 51);
        announced.announce(2, program(Some(51)));
        announced.announce(3, program(Some(52)));
        announced.withdraw(3);
        assert!(!announced.awaits(|_| None));
        assert_eq!(words(&mut announced), [""; 0]);
    }

    #[test]
    fn who_never_arrives_is_lost_also_where_its_child_comes_in_its_place() {
        let mut announced = Announcements::default();
        announced.announce(FIRST_ANNOUNCEMENT, program(None));
        announced.announce(1, program(Some(50)));
        announced.arrive(1, 60);
        announced.arrive(2, 61);
        announced.announce(2, program(Some(51)));
        assert!(announced.awaits(|_| Some(9)), "of a child of vfork nobody knows the end");
        announced.withdraw(2);
        assert!(!announced.awaits(|_| Some(50)), "the process itself is gone");
        let lost = words(&mut announced);
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(
            lost.iter().all(|words| words.starts_with("/bin/echo (the tracer never came up")),
            "{lost:?}"
        );
    }

    #[test]
    fn a_process_that_outlives_the_recording_as_another_program_is_told_once() {
        let mut announced = Announcements::default();
        announced.announce(1, program(Some(50)));
        announced.outlive("/bin/sh", Some(3), 50);
        announced.outlive("/bin/sleep", Some(4), 50);
        announced.outlive("/bin/cat", Some(5), 51);
        let told = words(&mut announced);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("/bin/sleep (process 50") && told[1].starts_with("/bin/cat"), "{told:?}");
        // A child of vfork, which its parent announced.
        let mut announced = Announcements::default();
        announced.announce(1, program(Some(52)));
        announced.outlive("/bin/echo", None, 52);
        let told = words(&mut announced);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("/bin/echo (process 52"), "{told:?}");
    }

    #[test]
    fn each_refusal_has_its_words() {
        for refusal in Refusal::ALL {
            assert!(!words_of(refusal).contains('\n') && words_of(refusal).len() > 20);
        }
    }
}
