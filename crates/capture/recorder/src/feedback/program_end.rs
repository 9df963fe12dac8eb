//! How a program ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How the program of a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
    /// It was not waited for: a process that was attached to runs on, or is not a child of this one.
    NotWaited,
}

impl ProgramEnd {
    /// As a shell gives it: 128 and the signal's number where one killed it; 0 where it was not waited for.
    #[must_use]
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => 128u8.saturating_add(signal as u8),
            Self::NotWaited => 0,
        }
    }
}

impl From<ExitStatus> for ProgramEnd {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Killed(signal),
            // Nobody asks to be told of stops, so there is a code.
            None => Self::Exited(status.code().map_or(1, |code| code as u8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_a_shell() {
        let check = |raw: i32, expect: ProgramEnd, status: u8| {
            let end = ProgramEnd::from(ExitStatus::from_raw(raw));
            assert_eq!((end, end.shell_status()), (expect, status));
        };
        check(0, ProgramEnd::Exited(0), 0);
        check(7 << 8, ProgramEnd::Exited(7), 7);
        check(9, ProgramEnd::Killed(9), 137);
    }
}
