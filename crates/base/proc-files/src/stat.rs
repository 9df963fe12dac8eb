//! /proc/PID/stat: the state of a task, and the time that it has used.

use crate::number;

/// Whether a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskActivity {
    /// It runs, or waits for something.
    Alive,
    /// By a signal, or by a debugger.
    Stopped,
    /// Nothing of it is left but its status.
    Ended,
}

/// What the line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskStat {
    /// Whether it runs.
    pub activity: TaskActivity,
    /// Processor time of it, in ticks.
    pub own_ticks: u64,
    /// Processor time of its children that have ended and were waited for, in ticks.
    pub children_ticks: u64,
}

impl TaskStat {
    /// Reads the line; `None` where it is none.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        // The second field, the name in parentheses, may hold anything; the third follows the last one of these.
        let name_end = line.windows(2).rposition(|bytes| bytes == b") ")?;
        let mut fields = line.get(name_end + 2..)?.split(|&byte| byte == b' ');
        let activity = match fields.next()?.first()? {
            b'T' | b't' => TaskActivity::Stopped,
            b'Z' | b'X' => TaskActivity::Ended,
            _ => TaskActivity::Alive,
        };
        // Fields 14 to 17: its time in user mode, that in the kernel, and both of its children.
        let mut ticks = fields.skip(10).map_while(|field| Some(number(field, 10)?.0));
        let mut sum_of_two = || ticks.next()?.checked_add(ticks.next()?);
        Some(Self { activity, own_ticks: sum_of_two()?, children_ticks: sum_of_two()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<TaskStat>) {
        assert_eq!(TaskStat::parse(line.as_bytes()), expect, "{line}");
    }

    #[test]
    fn the_name_may_hold_anything() {
        let stat = |activity| Some(TaskStat { activity, own_ticks: 30, children_ticks: 12 });
        let rest = "1 7 7 34816 7 4194304 100 0 0 0 10 20 5 7 20 0 1 0 12345 0\n";
        check(&std::format!("7 (a) Z 1 (b) S {rest}"), stat(TaskActivity::Alive));
        check(&std::format!("7 (sh) T {rest}"), stat(TaskActivity::Stopped));
        check(&std::format!("7 (sh) t {rest}"), stat(TaskActivity::Stopped));
        check(&std::format!("7 (sh) Z {rest}"), stat(TaskActivity::Ended));
        check("7 (sh) S 1 7", None);
        check("", None);
    }

    #[test]
    fn the_test_itself_is_alive() {
        let line = std::fs::read("/proc/self/stat").unwrap();
        assert_eq!(TaskStat::parse(&line).unwrap().activity, TaskActivity::Alive);
    }
}
