//! The stream of block definitions (docs/format.md, *Block definitions*): what a block does is
//! written once, and the frames of all threads that contain executions of it name its place.
//!
//! The definitions that a frame needs are in the file before the frame. A thread that stores a frame has
//! its blocks named here first; blocks that are not defined yet are appended while other frames wait. A
//! block remembers where it is defined ([`SharedBlock::defined_at`]) once the definition is in the file.
//!
//! Definitions are valid for one *epoch*. The next epoch begins when [`EPOCH_FRAMES`] frames, or frames of
//! [`EPOCH_BYTES`] in total, have named blocks, or when the epoch has [`EPOCH_ENTRIES`]. It defines anew what is
//! executed from then on. This bounds both the loss from a damaged frame of definitions and what a reader has to keep.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use blocks::SharedBlock;

use super::{
    lock::lock,
    sink::{NewSegment, SegmentContent, SegmentSink},
};
use crate::{
    Bounds, Error, StreamDescription, StreamKind,
    encoder::{Attribute, BlockNames, EPOCH_ENTRIES},
};

/// Stored bytes of frames that name blocks of one epoch, before the next one begins.
const EPOCH_BYTES: u64 = 64 << 20;
/// Frames that name blocks of one epoch: a frame of a program that is well predicted has few bytes and millions of accesses. Definitions
/// that are repeated this rarely are a thirtieth of those that each frame had for itself.
const EPOCH_FRAMES: u64 = 32;
const ENTRY_BYTES: usize = StreamKind::BlockDefinitions.entry_bytes();

/// Names the blocks of coded frames, and writes their definitions. One for all threads that write a trace.
#[derive(Debug)]
pub struct DefinitionWriter {
    state: Mutex<DefinitionStream>,
    /// Stored bytes of frames that named blocks of this epoch, an [`EPOCH_FRAMES`]th of an epoch's for each at least. Only a measure:
    /// nothing is ordered by it.
    stored: AtomicU64,
    epoch_bytes: u64,
}

impl Default for DefinitionWriter {
    fn default() -> Self {
        Self { state: Mutex::default(), stored: AtomicU64::new(0), epoch_bytes: EPOCH_BYTES }
    }
}

/// The names of the blocks of one frame: an attribute of it.
#[derive(Debug)]
pub struct NamedBlocks(pub(super) Attribute);

/// How far the stream got.
#[derive(Debug)]
struct DefinitionStream {
    /// Its number, once it has an entry.
    stream: Option<u32>,
    sequence: u64,
    /// The index of the next entry.
    next: u64,
    /// The index of the epoch's first entry.
    base: u64,
    epoch: EpochTag,
}

/// Says of an epoch which blocks are defined in it: their words are the tag and the place. No other epoch of this process, of
/// whatever trace, has the same one.
#[derive(Clone, Copy, Debug)]
struct EpochTag(u64);

const PLACE_BITS: u32 = EPOCH_ENTRIES.ilog2();

impl EpochTag {
    fn new() -> Self {
        /// Numbers only have to differ, so no order is needed. 0 is no epoch's.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed) << PLACE_BITS)
    }

    /// Where a block is defined in this epoch.
    fn place(self, block: &SharedBlock) -> Option<u32> {
        let place = block.defined_at().load(Ordering::Acquire) ^ self.0;
        (place < EPOCH_ENTRIES).then_some(place as u32)
    }

    /// The block's definition is in the file.
    fn define(self, block: &SharedBlock, place: u32) {
        block.defined_at().store(self.0 | u64::from(place), Ordering::Release);
    }
}

impl Default for DefinitionStream {
    fn default() -> Self {
        Self { stream: None, sequence: 0, next: 0, base: 0, epoch: EpochTag::new() }
    }
}

/// What a frame adds to the stream.
struct NewDefinitions<'a> {
    /// Of all of the frame's blocks.
    names: BlockNames,
    added: Vec<(u32, &'a SharedBlock)>,
    bytes: Vec<u8>,
}

impl DefinitionStream {
    fn begin_epoch(&mut self) {
        (self.base, self.epoch) = (self.next, EpochTag::new());
    }

    /// The names of those blocks; `None` where the epoch has no room for their definitions.
    fn plan<'a>(&self, blocks: &'a [SharedBlock]) -> Option<NewDefinitions<'a>> {
        let first = self.next - self.base;
        let names = BlockNames { base: self.base, places: Vec::with_capacity(blocks.len()) };
        let mut new = NewDefinitions { names, added: Vec::new(), bytes: Vec::new() };
        for block in blocks {
            let place = match self.epoch.place(block) {
                Some(place) => place,
                None => {
                    let place = (first + (new.bytes.len() / ENTRY_BYTES) as u64) as u32;
                    block.put_definition(&mut new.bytes);
                    if first + (new.bytes.len() / ENTRY_BYTES) as u64 > EPOCH_ENTRIES {
                        return None;
                    }
                    new.added.push((place, block));
                    place
                }
            };
            new.names.places.push(place);
        }
        Some(new)
    }

    /// Writes definitions, and remembers them.
    fn add(&mut self, new: &NewDefinitions<'_>, sink: &dyn SegmentSink, wall_ns: u64) -> Result<(), Error> {
        let kind = StreamKind::BlockDefinitions;
        let description = || StreamDescription { hidden: true, ..StreamDescription::of_kind(kind, None) };
        let stream = match self.stream {
            Some(stream) => stream,
            None => *self.stream.insert(sink.add_stream(&description())?),
        };
        sink.add_segment(&NewSegment {
            stream,
            entry_type: &kind.entry_type(),
            encoder: kind.encoder(),
            sequence: self.sequence,
            first_index: self.next,
            wall_ns,
            bounds: Some(Bounds::NONE),
            content: SegmentContent::Entries(&new.bytes),
        })?;
        self.sequence += 1;
        self.next += (new.bytes.len() / ENTRY_BYTES) as u64;
        new.added.iter().for_each(|&(place, block)| self.epoch.define(block, place));
        Ok(())
    }
}

impl DefinitionWriter {
    #[cfg(test)]
    pub(super) fn with_epochs_of(epoch_bytes: u64) -> Self {
        Self { epoch_bytes, ..Self::default() }
    }

    /// Names the blocks of a segment, after their definitions were given to `sink`, whose only writer of definitions this is.
    /// `None` where the segment's frame has to define them itself.
    ///
    /// # Errors
    /// Where the definitions could not be written: the frame would not be readable.
    pub fn name(
        &self,
        segment: &NewSegment<'_>,
        sink: &dyn SegmentSink,
    ) -> Result<Option<NamedBlocks>, Error> {
        let SegmentContent::Coded(frame) = segment.content else { return Ok(None) };
        let blocks = frame.blocks();
        if blocks.is_empty() {
            return Ok(None);
        }
        let mut state = lock(&self.state);
        if self.stored.load(Ordering::Relaxed) >= self.epoch_bytes {
            state.begin_epoch();
            self.stored.store(0, Ordering::Relaxed);
        }
        let mut new = state.plan(blocks);
        if new.is_none() {
            state.begin_epoch();
            new = state.plan(blocks);
        }
        let Some(new) = new else { return Ok(None) };
        if !new.added.is_empty() {
            state.add(&new, sink, segment.wall_ns)?;
        }
        drop(state);
        Ok(Some(NamedBlocks(new.names.attribute())))
    }

    /// A frame of so many bytes was stored; whether it named blocks is what [`Self::name`] gave.
    pub fn stored(&self, named: Option<&NamedBlocks>, bytes: usize) {
        if named.is_some() {
            let counted = (bytes as u64).max(self.epoch_bytes / EPOCH_FRAMES);
            self.stored.fetch_add(counted, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        io,
        path::Path,
        sync::{Arc, atomic::AtomicBool},
    };

    use blocks::{
        BasicBlock, BlockAccess, Definition, Extent, MAX_ACCESSES, MAX_DEFINITION_BYTES, RecordedValues,
        encode_definition,
    };
    use memref::{Access, ProcessId, ThreadId, VirtAddr};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        BlockFrame, CodedFrame, CreateOptions, Encoders, FileSink, Filter, FinishedFrame, Limits, Storage,
        Trace, encoder::number,
    };

    /// Bytes in memory; while it is full, nothing can be written.
    #[derive(Clone, Debug, Default)]
    struct Memory {
        bytes: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<AtomicBool>,
    }

    impl Storage for Memory {
        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let mut file = lock(&self.bytes);
            file.truncate(offset as usize);
            file.extend_from_slice(bytes);
            Ok(())
        }

        fn truncate(&mut self, len_bytes: u64) -> io::Result<()> {
            lock(&self.bytes).truncate(len_bytes as usize);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn block(number: u64, accesses: usize) -> SharedBlock {
        let access = BlockAccess { base: 0, size: 8, ..BlockAccess::NONE };
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(0x1000 + 64 * number), 3);
        let values = RecordedValues::plain(1);
        let len = encode_definition(0, extent, values, &vec![access; accesses], &mut bytes);
        BasicBlock::new(&Definition::decode(&bytes[..len]).unwrap().0).unwrap().into()
    }

    /// A frame that executes each of those blocks once, and its accesses.
    fn frame(blocks: &[SharedBlock], numbers: &[usize]) -> (Arc<CodedFrame>, Vec<Access>) {
        let (mut frame, mut accesses) = (BlockFrame::default(), Vec::new());
        for (cycle, &number) in (0..).step_by(3).zip(numbers) {
            let (block, value) = (&blocks[number], 0x7000 + cycle * cycle);
            frame.push(number as u32, block, cycle, &[value.to_le_bytes()], 0, block.count(&[value]));
            block.expand(cycle, &[value], 0, &mut accesses);
        }
        (Arc::new(frame.finish()), accesses)
    }

    /// A sink and its streams of accesses.
    struct Streams {
        sink: FileSink,
        memory: Memory,
        /// Of each stream, the next sequence number and index.
        next: BTreeMap<u32, (u64, u64)>,
    }

    impl Streams {
        fn new(threads: u32, epoch_bytes: u64) -> Self {
            let memory = Memory::default();
            let (storage, path) = (Box::new(memory.clone()), Path::new("test"));
            let sink = FileSink::create_on(storage, path, CreateOptions::default()).unwrap();
            let sink = sink.with_epochs_of(epoch_bytes);
            let mut next = BTreeMap::new();
            for thread in 0..threads {
                let owner = Some((ProcessId(0), ThreadId(thread)));
                let description = StreamDescription {
                    encoder: number::BLOCKS,
                    ..StreamDescription::of_kind(StreamKind::Accesses, owner)
                };
                next.insert(sink.add_stream(&description).unwrap(), (0, 0));
            }
            Self { sink, memory, next }
        }

        fn add(&mut self, thread: u32, frame: &Arc<CodedFrame>) -> Result<(), Error> {
            let (stream, (sequence, first_index)) = self.next.iter_mut().nth(thread as usize).unwrap();
            self.sink.add_segment(&NewSegment {
                stream: *stream,
                entry_type: &StreamKind::Accesses.entry_type(),
                encoder: number::BLOCKS,
                sequence: *sequence,
                first_index: *first_index,
                wall_ns: 1,
                bounds: None,
                content: SegmentContent::Coded(frame),
            })?;
            *sequence += 1;
            *first_index += frame.count();
            Ok(())
        }

        fn trace(&self) -> Trace {
            let bytes = lock(&self.memory.bytes).clone();
            Trace::open_on(Box::new(bytes), "test", Encoders::default(), Limits::default()).unwrap()
        }

        fn definitions(&self) -> u64 {
            let trace = self.trace();
            let mut streams = trace.streams();
            let stream = streams
                .find(|s| StreamKind::of(&s.description.entry_type) == Some(StreamKind::BlockDefinitions));
            stream.map_or(0, |stream| stream.entries)
        }
    }

    fn read(trace: &Trace, thread: u32) -> Vec<Access> {
        let mut all = Vec::new();
        let mut cursor = trace.shard(ThreadId(thread)).accesses(&Filter::default());
        while let Some(block) = cursor.next_block().unwrap() {
            all.extend_from_slice(block);
        }
        assert_eq!(cursor.lost(), []);
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Against lists of accesses: whatever frames name what, wherever epochs begin and whatever could not be written.
        #[test]
        fn frames_that_were_stored_are_read(
            frames in prop::collection::vec((0u32..3, prop::collection::vec(0usize..30, 1..40), prop::bool::weighted(0.2)), 1..30),
            epoch_bytes in prop_oneof![Just(1u64), 300u64..3000, Just(u64::MAX)],
        ) {
            let blocks: Vec<_> = (0..30).map(|number| block(number, 1 + number as usize % 5)).collect();
            let mut streams = Streams::new(3, epoch_bytes);
            let mut expected = [Vec::new(), Vec::new(), Vec::new()];
            for (thread, numbers, is_full) in &frames {
                let (coded, accesses) = frame(&blocks, numbers);
                streams.memory.is_full.store(*is_full, Ordering::Relaxed);
                let added = streams.add(*thread, &coded);
                prop_assert_eq!(added.is_err(), *is_full);
                if added.is_ok() {
                    expected[*thread as usize].extend(accesses);
                }
            }
            let trace = streams.trace();
            for (thread, expected) in (0..).zip(&expected) {
                prop_assert_eq!(&read(&trace, thread), expected);
            }
            // Each frame is readable as the first one that a reader asks for.
            for (thread, expected) in (0..).zip(&expected) {
                if let Some(last) = expected.last() {
                    let index = expected.len() as u64 - 1;
                    let filter = Filter { index: Some(index..index + 1), ..Filter::default() };
                    let found = streams.trace().shard(ThreadId(thread)).accesses(&filter).next_block().unwrap().map(<[Access]>::to_vec);
                    prop_assert_eq!(found, Some(vec![*last]));
                }
            }
        }
    }

    #[test]
    fn each_epoch_defines_anew_what_it_executes() {
        let blocks: Vec<_> = (0..10).map(|number| block(number, 1)).collect();
        let (coded, accesses) = frame(&blocks, &[0, 1, 2]);
        let mut once = Streams::new(1, u64::MAX);
        let mut each_time = Streams::new(1, 1);
        for streams in [&mut once, &mut each_time] {
            (0..5).for_each(|_| streams.add(0, &coded).unwrap());
        }
        assert_eq!((once.definitions(), each_time.definitions()), (3 * 2, 5 * 3 * 2));
        for streams in [once, each_time] {
            assert!(read(&streams.trace(), 0) == accesses.repeat(5));
        }
        // However few bytes frames have.
        let mut many = Streams::new(1, EPOCH_BYTES);
        (0..2 * EPOCH_FRAMES + 1).for_each(|_| many.add(0, &coded).unwrap());
        assert_eq!(many.definitions(), 3 * 3 * 2);
    }

    #[test]
    fn an_epoch_ends_where_it_is_full_and_a_frame_of_more_defines_its_blocks_itself() {
        let entries = 1 + MAX_ACCESSES as u64;
        let count = (EPOCH_ENTRIES / entries) as usize;
        let blocks: Vec<_> = (0..count as u64 + 1).map(|number| block(number, MAX_ACCESSES)).collect();
        let mut streams = Streams::new(1, u64::MAX);
        let numbers: Vec<usize> = (0..count).collect();
        let (full, accesses) = frame(&blocks, &numbers);
        let (one, more) = frame(&blocks, &[count]);
        let (all, everything) = frame(&blocks, &[numbers, vec![count]].concat());
        streams.add(0, &full).unwrap();
        assert_eq!(streams.definitions(), count as u64 * entries);
        streams.add(0, &one).unwrap();
        assert_eq!(streams.definitions(), (count as u64 + 1) * entries);
        streams.add(0, &all).unwrap();
        assert_eq!(streams.definitions(), (count as u64 + 1) * entries, "it names none");
        assert!(read(&streams.trace(), 0) == [accesses, more, everything].concat());
    }

    /// Frames under checksums that hold, of a writer that is not sane.
    #[test]
    fn names_of_what_is_not_there_make_a_damaged_frame() {
        let blocks: Vec<_> = (0..3).map(|number| block(number, 2)).collect();
        let (coded, _) = frame(&blocks, &[0, 1, 2]);
        let check = |base: u64, places: &[u32], bytes: &[u8], expect: bool| {
            let streams = Streams::new(1, u64::MAX);
            let kind = StreamKind::BlockDefinitions;
            let segment = NewSegment {
                stream: streams.sink.add_stream(&StreamDescription::of_kind(kind, None)).unwrap(),
                entry_type: &kind.entry_type(),
                encoder: kind.encoder(),
                sequence: 0,
                first_index: 0,
                wall_ns: 1,
                bounds: None,
                content: SegmentContent::Entries(bytes),
            };
            streams.sink.add_segment(&segment).unwrap();
            let named = NamedBlocks(BlockNames { base, places: places.to_vec() }.attribute());
            let segment = NewSegment {
                stream: 1,
                entry_type: &StreamKind::Accesses.entry_type(),
                encoder: number::BLOCKS,
                content: SegmentContent::Coded(&coded),
                ..segment
            };
            let named = FinishedFrame::of(&segment, &CreateOptions::default(), Some(&named));
            streams.sink.add_frame(named).unwrap();
            let trace = streams.trace();
            let shard = trace.shard(ThreadId(0));
            let mut cursor = shard.accesses(&Filter::default());
            let read = cursor.next_block().unwrap().is_some();
            assert_eq!(read, expect, "{base} {places:?}");
            assert_eq!(read, cursor.lost().is_empty());
            assert_eq!(read, trace.check().unwrap().lost_entries == 0);
        };
        let mut sound = Vec::new();
        blocks.iter().for_each(|block| block.put_definition(&mut sound));
        check(0, &[0, 3, 6], &sound, true);
        check(0, &[0, 3], &sound, false);
        check(0, &[0, 3, 6, 0], &sound, false);
        check(0, &[0, 3, 5], &sound, false);
        check(0, &[0, 3, 9], &sound, false);
        check(3, &[0, 3, 6], &sound, false);
        check(u64::MAX, &[0; 3], &sound, false);
        check(u64::MAX - 5, &[0, 3, 6], &sound, false);
        check(0, &[EPOCH_ENTRIES as u32; 3], &sound, false);
        check(0, &[0; 7], &sound, false);
        // A definition without an access, one that is cut, and a frame of more entries than an epoch has.
        let mut bare = sound.clone();
        bare.extend([24, 0, 0, 0].into_iter().chain([0; 20]));
        check(0, &[0, 3, 6], &bare, false);
        check(0, &[0, 3, 3], &sound[..sound.len() - ENTRY_BYTES], false);
        let long = sound.repeat(EPOCH_ENTRIES as usize / 9 + 1);
        check(0, &[0, 3, 6], &long, false);
    }

    #[test]
    fn workers_that_store_at_the_same_time_define_each_block_once_and_before_it_is_named() {
        let blocks: Vec<_> = (0..500).map(|number| block(number, 1)).collect();
        let streams = Streams::new(4, u64::MAX);
        let kinds: Vec<u32> = streams.next.keys().copied().collect();
        std::thread::scope(|scope| {
            for (thread, &stream) in kinds.iter().enumerate() {
                let (sink, blocks) = (&streams.sink, &blocks);
                scope.spawn(move || {
                    let mut first_index = 0;
                    for sequence in 0..40 {
                        let numbers: Vec<usize> =
                            (0..100).map(|n| (n * (thread + 1) + 11 * sequence) % 500).collect();
                        let (coded, _) = frame(blocks, &numbers);
                        sink.add_segment(&NewSegment {
                            stream,
                            entry_type: &StreamKind::Accesses.entry_type(),
                            encoder: number::BLOCKS,
                            sequence: sequence as u64,
                            first_index,
                            wall_ns: 1,
                            bounds: None,
                            content: SegmentContent::Coded(&coded),
                        })
                        .unwrap();
                        first_index += coded.count();
                    }
                });
            }
        });
        assert!(streams.definitions() <= 500 * 2);
        // Each prefix of the file has what its frames need.
        let bytes = lock(&streams.memory.bytes).clone();
        let at = |place: usize| u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap()) as usize;
        let ends =
            std::iter::successors(Some(64), |&place| (place < bytes.len()).then(|| place + at(place + 32)));
        for end in ends.step_by(7) {
            let source = Box::new(bytes[..end].to_vec());
            let trace = Trace::open_on(source, "test", Encoders::default(), Limits::default()).unwrap();
            (0..4).for_each(|thread| drop(read(&trace, thread)));
        }
    }
}
