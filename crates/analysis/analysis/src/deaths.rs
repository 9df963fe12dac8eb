//! Processes that were killed by a signal. The trace records them as counters (docs/format.md, *Counters*).

use memref::{ProcessId, ThreadId, VirtAddr};
use trace_format::{COUNTER_DEATH, CounterRecord};

use crate::{Error, Session};

/// A process that a signal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which.
    pub process: ProcessId,
    /// Whose fault it was, or who sent the signal; `None` where no thread told of it.
    pub thread: Option<ThreadId>,
    /// As signal(7) names it.
    pub signal: String,
    /// Why it came, where the thread's own instruction was the cause, and the kernel said what.
    pub fault: Option<DeathFault>,
    /// The instruction; zero where no thread told of it.
    pub ip: VirtAddr,
}

/// Why a fault came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeathFault {
    /// As sigaction(2) names it: `SEGV_MAPERR`.
    pub code: String,
    /// The address concerned.
    pub addr: VirtAddr,
}

impl Death {
    /// What a counter tells; `None` where it counts something else.
    pub fn of(counter: &CounterRecord) -> Option<Self> {
        if counter.code != COUNTER_DEATH {
            return None;
        }
        let mut words = counter.name.split(' ');
        let signal = words.next().unwrap_or_default().to_owned();
        let fault = words.next().zip(words.next()).and_then(|(code, addr)| {
            let addr = u64::from_str_radix(addr.strip_prefix("0x")?, 16).ok()?;
            Some(DeathFault { code: code.to_owned(), addr: VirtAddr(addr) })
        });
        Some(Self { process: counter.process, thread: counter.thread, signal, fault, ip: counter.ip })
    }

    /// Whether the instruction is known.
    pub fn is_placed(&self) -> bool {
        self.ip.0 != 0 || self.thread.is_some()
    }
}

impl Session {
    /// The processes that a signal ended, as far as somebody told of it.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn deaths(&self) -> Result<Vec<Death>, Error> {
        Ok(self.trace().counters()?.iter().filter_map(Death::of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_has_a_cause_where_the_kernel_said_one() {
        let check = |name: &str, signal: &str, fault: Option<(&str, u64)>| {
            let counter = CounterRecord {
                process: ProcessId(1),
                thread: Some(ThreadId(2)),
                ip: VirtAddr(0x1000),
                code: COUNTER_DEATH,
                count: 1,
                name: name.to_owned(),
            };
            let fault = fault.map(|(code, addr)| DeathFault { code: code.to_owned(), addr: VirtAddr(addr) });
            let death = Death::of(&counter).expect("a death");
            assert_eq!((&*death.signal, death.fault), (signal, fault), "{name}");
            assert_eq!(Death::of(&CounterRecord { code: COUNTER_DEATH - 1, ..counter }), None);
        };
        check("SIGSEGV SEGV_MAPERR 0x10", "SIGSEGV", Some(("SEGV_MAPERR", 0x10)));
        check("SIGSEGV", "SIGSEGV", None);
        check("SIGABRT", "SIGABRT", None);
        check("SIGSEGV SEGV_MAPERR", "SIGSEGV", None);
    }
}
