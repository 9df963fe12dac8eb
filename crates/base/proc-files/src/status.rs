//! /proc/PID/status: fields by name.

/// The text of the file.
#[derive(Clone, Copy, Debug)]
pub struct TaskStatus<'a>(pub &'a str);

impl<'a> TaskStatus<'a> {
    /// What stands after a field's name; empty where there is no such field.
    #[must_use]
    pub fn field(&self, name: &str) -> &'a str {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim)
    }

    /// A set of signals, signal 1 in its lowest bit; none where there is no such field.
    #[must_use]
    pub fn signals(&self, name: &str) -> u64 {
        u64::from_str_radix(self.field(name), 16).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let status = TaskStatus("Name:\tsh\nTgid:\t70\nNgid:\t0\nPid:\t71\nSigIgn:\t0000000000000402\n");
        assert_eq!((status.field("Pid"), status.field("Tgid"), status.field("Tg")), ("71", "70", ""));
        assert_eq!((status.signals("SigIgn"), status.signals("SigBlk")), (0x402, 0));
    }
}
