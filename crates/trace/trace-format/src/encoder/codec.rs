//! The encoder trait: the contract between a stream's entries and the attributes of its frames.
//!
//! An encoder works on the bytes of entries as docs/format.md lays them out. It handles one
//! segment at a time and keeps nothing of other segments, so that each frame can be decoded
//! alone, except for [`Encoded::blocks`]. The second stage and the checksums belong to the frame.

use blocks::SharedBlock;
use memref::Access;

use super::{attribute::Attribute, words};
use crate::{DataAccess, EntryType, ExecutedFrame, InstructionTable, entry::entries};

/// A frame's content is not what its encoder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(pub &'static str);

/// What a decoder of accesses says of others.
pub(super) const NO_ACCESSES: Corrupt = Corrupt("the entries are not accesses");

/// A segment as its encoder left it.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// What its entries are.
    pub entry_type: &'a EntryType,
    /// How many there are.
    pub count: usize,
    /// What was made of them.
    pub parts: &'a [Attribute],
    /// Of a frame that names blocks instead of defining them, these, in its order: whoever reads the frame finds them.
    pub blocks: &'a [SharedBlock],
}

/// Turns segments into attributes and back. Stateless: one instance serves all streams and threads at once.
pub trait Encoder: Send + Sync {
    /// The number in stream descriptions. Numbers below 1,024 are memtap's.
    fn id(&self) -> u32;

    /// The name for people.
    fn name(&self) -> &'static str;

    /// Encodes whole entries of `entry_type`: at least one, at most [`crate::MAX_FRAME_ENTRIES`].
    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute>;

    /// Decodes exactly as many entries as it says and appends them to `out`. The parts have passed their checksums but may
    /// still be anything.
    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt>;

    /// Decodes entries that are accesses, as [`Self::decode`] would, without the detour over their bytes where the encoder knows one.
    /// With `end`, it may stop after the first access whose cycle is not below that: cycles never decrease, and nobody wants
    /// those that follow.
    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        _end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        let mut bytes = Vec::new();
        self.decode(encoded, &mut bytes)?;
        if words::has_data(encoded.entry_type) {
            let mut all: Vec<DataAccess> = Vec::new();
            entries(&bytes, &mut all)?;
            out.extend(all.iter().map(|entry| entry.access));
            return Ok(());
        }
        entries(&bytes, out)
    }

    /// Decodes entries that are accesses to what executed them, which was emptied; an encoder that knows nothing of blocks gives the
    /// accesses one by one.
    fn decode_executions(&self, encoded: &Encoded<'_>, out: &mut ExecutedFrame) -> Result<(), Corrupt> {
        let mut accesses = Vec::new();
        self.decode_accesses(encoded, None, &mut accesses)?;
        accesses.into_iter().for_each(|access| out.push_single(access));
        Ok(())
    }

    /// Gives entries that are accesses to `act`, some at a time: as they are decoded, where the encoder can, so that they need not go
    /// through memory. What was given before an error is not to be used.
    fn each_access(&self, encoded: &Encoded<'_>, act: &mut dyn FnMut(&[Access])) -> Result<(), Corrupt> {
        let mut accesses = Vec::new();
        self.decode_accesses(encoded, None, &mut accesses)?;
        act(&accesses);
        Ok(())
    }

    /// Counts entries that are accesses by instruction, as counting what [`Self::decode_accesses`] gives would, without making accesses
    /// where the encoder knows a way.
    fn count_instructions(&self, encoded: &Encoded<'_>, out: &mut InstructionTable) -> Result<(), Corrupt> {
        let mut accesses = Vec::new();
        self.decode_accesses(encoded, None, &mut accesses)?;
        out.add_all(&accesses);
        Ok(())
    }
}
