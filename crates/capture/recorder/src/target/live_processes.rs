//! Which traced processes are still alive.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

/// How it is seen that a process is dead.
enum Sight {
    /// A pidfd becomes readable when its process ends.
    Descriptor(OwnedFd),
    /// There was no pidfd to be had: nobody has that number any more.
    Number(Pid),
    /// It was dead before anybody could look.
    Dead,
}

impl Sight {
    fn of(pid: u32) -> Self {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Self::Dead };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Self::Descriptor(descriptor),
            Err(Errno::SRCH) => Self::Dead,
            // Descriptors are short, or the kernel has no pidfds: it lives all the same.
            Err(_) => Self::Number(pid),
        }
    }

    fn is_dead(&self) -> bool {
        match self {
            Self::Descriptor(descriptor) => {
                let mut list = [PollFd::new(descriptor, PollFlags::IN)];
                poll(&mut list, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
            }
            Self::Number(pid) => test_kill_process(*pid) == Err(Errno::SRCH),
            Self::Dead => true,
        }
    }
}

/// A process of the pool that has not ended, as far as we know.
struct LiveProcess {
    pid: u32,
    sight: Sight,
}

/// The live ones, by their number in the pool.
#[derive(Default)]
pub(crate) struct LiveProcesses {
    live: BTreeMap<u32, LiveProcess>,
}

impl LiveProcesses {
    /// Begins to watch; a pid of zero is that of a process that is dead. Returns the number of a process that had the same pid: it called exec, and has no more to say.
    pub(crate) fn add(&mut self, number: u32, pid: u32) -> Option<u32> {
        let former =
            self.live.iter().find(|(_, live)| live.pid == pid && pid != 0).map(|(&number, _)| number);
        self.live.insert(number, LiveProcess { pid, sight: Sight::of(pid) });
        former.and_then(|former| self.live.remove(&former).map(|_| former))
    }

    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Takes out those that are dead.
    pub(crate) fn dead(&mut self) -> Vec<u32> {
        self.take(|_, live| live.sight.is_dead())
    }

    /// Takes out those that have no more to say, though they may live, as far as `is_gone` knows.
    pub(crate) fn gone(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<u32> {
        self.take(|number, _| is_gone(number))
    }

    fn take(&mut self, which: impl Fn(u32, &LiveProcess) -> bool) -> Vec<u32> {
        let list = self.live.iter().filter(|(number, live)| which(**number, live));
        let taken: Vec<u32> = list.map(|(&number, _)| number).collect();
        for number in &taken {
            self.live.remove(number);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_live_until_it_ends() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut watch = LiveProcesses::default();
        assert_eq!(watch.add(3, child.id()), None);
        assert!(watch.dead().is_empty());
        assert_eq!(watch.add(4, child.id()), Some(3));
        assert!(watch.gone(|number| number == 3).is_empty());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(watch.dead(), [4]);
        assert!(watch.is_empty());
    }

    #[test]
    fn a_process_without_a_pidfd_is_live_until_it_ends() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let sight = Sight::Number(Pid::from_raw(child.id() as i32).unwrap());
        assert!(!sight.is_dead());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(sight.is_dead());
    }
}
