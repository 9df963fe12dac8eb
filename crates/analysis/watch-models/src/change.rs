//! How watchpoints change, and which thread changes them (Table 2).

use crate::Watched;

/// How a range of watchpoints changes (Table 2, *Watchpoint Modifications*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Every byte of the range gets exactly these watchpoints.
    Set(Watched),
    /// Every byte of the range is watched for these as well.
    Add(Watched),
    /// Every byte of the range is no longer watched for these.
    Remove(Watched),
}

impl Change {
    /// What becomes of a byte.
    pub const fn apply(self, old: Watched) -> Watched {
        match self {
            Self::Set(new) => new,
            Self::Add(more) => old.with(more),
            Self::Remove(less) => old.without(less),
        }
    }
}

/// Whose instruction changes a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The watching thread's own.
    Local,
    /// Another thread's: the watching core is told, and its lookaside lines are shot down.
    Remote,
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn any_change() -> impl Strategy<Value = Change> {
        (0..3_u8, 0..4_u8).prop_map(|(kind, bits)| match kind {
            0 => Change::Set(Watched::from_bits(bits)),
            1 => Change::Add(Watched::from_bits(bits)),
            _ => Change::Remove(Watched::from_bits(bits)),
        })
    }
}
