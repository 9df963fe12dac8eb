//! The number of accesses of each kind in a thread: the sum over the headers of its frames. Frames of earlier versions, whose headers
//! lack these counts, are decoded and counted. Payload checksums are not checked unless requested ([`Trace::verify_checksums`]).

use memref::{Gap, GapReason, VirtAddr};

use super::{
    damage::Damage,
    file::FrameError,
    shard::Shard,
    stream::Stream,
    trace::{Trace, TraceData},
};
use crate::{AccessCounts, Error, InstructionTable, StreamKind, directory::FrameRef, in_order::in_order};

/// The accesses of a thread by kind, and what is missing of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadAccesses {
    /// Those that are known.
    pub counts: AccessCounts,
    /// Frames that had to be decoded, and could not be.
    pub lost: Vec<Gap>,
}

impl Trace {
    /// Verifies the checksums of all frames with entries, without decoding them; what is damaged is noted as readers do. For those
    /// who read nothing but headers and want to know more. `threads` of this process work on it.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn verify_checksums(&self, threads: usize) -> Result<(), Error> {
        let TraceData { file, encoders, .. } = self.inner();
        self.verify_frames(threads, |_| true, |stream, frame| stream.verify(file, frame))?;
        // What a file ends in is needed by nothing before it; all else may be definitions that other frames need.
        let cuts = |damage: &Damage| {
            use Damage::{Ended, FileHeader, NotClosed, Torn};
            matches!(damage, NotClosed | Ended { .. } | FileHeader | Torn { .. })
        };
        if self.damage_met().iter().all(cuts) {
            return Ok(());
        }
        let verify = |stream: &Stream, frame: &FrameRef| stream.verify_names(file, encoders, frame);
        self.verify_frames(threads, Stream::may_name_blocks, verify)
    }

    /// Verifies all frames of some streams, which note what is damaged.
    fn verify_frames(
        &self,
        threads: usize,
        wanted: impl Fn(&Stream) -> bool,
        verify: impl Fn(&Stream, &FrameRef) -> Result<(), FrameError> + Sync,
    ) -> Result<(), Error> {
        let streams = self.inner().streams.values().filter(|stream| wanted(stream));
        let all: Vec<_> =
            streams.flat_map(|stream| stream.frames.iter().map(move |frame| (stream, frame))).collect();
        let verify_one = |_: &mut (), number: usize| {
            let (stream, frame) = all[number];
            verify(stream, frame)
        };
        let take = |_, verified| match verified {
            Ok(()) | Err(FrameError::Damaged(_)) => Ok(()),
            Err(FrameError::Failed(error)) => Err(error),
        };
        in_order(all.len(), threads, || (), verify_one, take)
    }
}

impl Shard {
    /// The thread's accesses by kind, from the headers of its frames. `threads` of this process decode what has headers without
    /// counts: frames of earlier versions. Frames that are nowhere in the file are told by [`Self::events`].
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn count_accesses(&self, threads: usize) -> Result<ThreadAccesses, Error> {
        let mut all = ThreadAccesses::default();
        let Some(stream) = self.inner.stream(StreamKind::Accesses, Some(self.thread)) else { return Ok(all) };
        let file_bytes = self.inner.file.len;
        let told = |place: usize| {
            let frame = &stream.frames[place];
            let whole = frame.offset.saturating_add(frame.header.total_bytes) <= file_bytes;
            frame.header.counts.filter(|_| whole)
        };
        let mut untold = Vec::new();
        for place in 0..stream.frames.len() {
            match told(place) {
                Some(counts) => all.counts.join(counts),
                None => untold.push(place),
            }
        }
        in_order(
            untold.len(),
            threads,
            || (),
            |(), number| self.decode_and_count(&stream, untold[number]),
            |number, counted| match counted {
                Ok(counts) => {
                    all.counts.join(counts);
                    Ok(())
                }
                Err(FrameError::Damaged(_)) => {
                    all.lost.push(self.lost_frame(&stream, untold[number]));
                    Ok(())
                }
                Err(FrameError::Failed(error)) => Err(error),
            },
        )?;
        Ok(all)
    }

    fn decode_and_count(&self, stream: &Stream, place: usize) -> Result<AccessCounts, FrameError> {
        let (inner, frame) = (&self.inner, &stream.frames[place]);
        let mut table = InstructionTable::default();
        stream.count_instructions(&inner.file, &inner.encoders, frame, &mut table)?;
        let mut counts = AccessCounts::default();
        for count in table.into_sorted() {
            let [loads, stores, modifies] = count.counts;
            counts.join(AccessCounts { loads, stores, modifies, prefetches: 0 });
        }
        counts.prefetches = frame.header.entries.saturating_sub(counts.all());
        Ok(counts)
    }

    fn lost_frame(&self, stream: &Stream, place: usize) -> Gap {
        let header = &stream.frames[place].header;
        Gap {
            process: self.process,
            thread: self.thread,
            cycle: header.bounds.cycles.min,
            count: header.entries,
            reason: GapReason::DamagedFrame,
            addr: VirtAddr(0),
        }
    }
}
