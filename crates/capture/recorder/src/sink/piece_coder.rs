//! Codes a *piece*: some consecutive buffers of a translated thread, into frames of the executions in them. A worker does this in parallel
//! with others that code other pieces, including pieces of the same thread. It therefore touches nothing of the session: whatever must be
//! recorded in the order of the thread's events is listed beside the frames, and `pieces` records it once everything before it is recorded.
//!
//! The state of the thread at the start of the piece need not be known: in that case
//! cycles count from 0, and executions inherit the fs base in effect before the piece.

use std::sync::mpsc::Receiver;

use blocks::{MAX_VALUES, SharedBlock};
use buffers::flow::{Entries, Entry, EntryHeader};
use buffers::{Record, Records};
use memref::{Access, Order};
use trace_format::BlockFrame;

use super::gathered::HeldBuffer;
use crate::sink::session_blocks::ExecutableBlocks;

/// Frames of a piece from which on no further buffer of it is coded: what waits to be written is bounded.
const MOST_FRAMES: usize = 8;

/// Buffers to be coded, and where their thread stands.
pub(super) struct Piece {
    pub(super) buffers: Vec<HeldBuffer>,
    pub(super) known: ExecutableBlocks,
    /// `None` where pieces before it are being coded.
    pub(super) start: Option<PieceStart>,
    /// A frame is ended from so many bytes on.
    pub(super) frame_bytes: usize,
}

/// Where a thread stands when a piece of it begins.
pub(super) struct PieceStart {
    pub(super) cycle: u64,
    pub(super) base: u64,
    /// It grows on.
    pub(super) frame: FilledFrame,
}

/// A frame with executions, of a piece.
pub(super) struct FilledFrame {
    pub(super) frame: BlockFrame,
    /// Whether the fs base of its executions is that of before the piece, which was not known.
    pub(super) inherits_base: bool,
    /// From when on the first execution could have taken place, ns since the Unix epoch.
    pub(super) wall_ns: u64,
}

/// What a piece says beside its executions, and when. Of a piece whose start was not known, the cycle is from there.
pub(super) struct PieceEvent {
    pub(super) cycle: u64,
    pub(super) kind: PieceEventKind,
}

pub(super) enum PieceEventKind {
    /// What comes now came after that order.
    Mark(Order),
    /// So many bytes of records.
    Records(usize),
    /// The rest of a buffer is no entries. It counts as an event of the thread.
    Broken,
}

/// Where a piece is not coded on.
#[derive(Clone, Copy)]
pub(super) struct PieceStop {
    pub(super) buffer: usize,
    pub(super) word: usize,
}

/// What became of a piece.
pub(super) struct CodedPiece {
    pub(super) buffers: Vec<HeldBuffer>,
    pub(super) known: ExecutableBlocks,
    /// Whether its start was known.
    pub(super) is_placed: bool,
    pub(super) frames: Vec<FilledFrame>,
    pub(super) events: Vec<PieceEvent>,
    /// The bytes of the events that have some.
    pub(super) records: Vec<u8>,
    /// At its end.
    pub(super) cycle: u64,
    /// The fs base at its end, unless it is that of before the piece.
    pub(super) base: Option<u64>,
    pub(super) accesses: u64,
    /// Where there is more than a worker should keep.
    pub(super) stop: Option<PieceStop>,
}

/// A piece on its way.
pub(super) struct CodingPiece {
    pub(super) buffers: usize,
    pub(super) coded: Receiver<CodedPiece>,
}

impl Piece {
    /// Codes it.
    pub(super) fn code(self) -> CodedPiece {
        let Self { buffers, known, start, frame_bytes } = self;
        let mut coder = PieceCoder { frame_bytes, ..PieceCoder::default() };
        let is_placed = start.is_some();
        if let Some(PieceStart { cycle, base, frame }) = start {
            (coder.cycle, coder.base) = (cycle, Some(base));
            if !frame.frame.is_empty() {
                (coder.frame, coder.frame_ns) = (frame.frame, frame.wall_ns);
            }
        }
        let mut stop = None;
        for (number, buffer) in buffers.iter().enumerate() {
            let words = buffer.words();
            coder.since_ns = buffer.since_ns;
            let left = if coder.frames.len() < MOST_FRAMES {
                coder.entries(words, &known)
            } else {
                Some(words.len())
            };
            if coder.frame_ns == 0 && !coder.frame.is_empty() {
                coder.frame_ns = buffer.since_ns;
            }
            // Looked at here: while a buffer is coded, a frame grows by little more than it.
            if coder.is_frame_full() {
                coder.end_frame();
            }
            if let Some(left) = left {
                stop = Some(PieceStop { buffer: number, word: words.len() - left });
                break;
            }
        }
        coder.end_frame();
        let PieceCoder { frames, events, records, cycle, base, accesses, .. } = coder;
        CodedPiece { buffers, known, is_placed, frames, events, records, cycle, base, accesses, stop }
    }
}

/// A piece that is being coded.
#[derive(Default)]
struct PieceCoder {
    frame: BlockFrame,
    /// From when on the first execution of the frame could have taken place, where it is in an earlier buffer; 0 otherwise.
    frame_ns: u64,
    /// The same of the buffer that is coded.
    since_ns: u64,
    frame_bytes: usize,
    frames: Vec<FilledFrame>,
    events: Vec<PieceEvent>,
    records: Vec<u8>,
    cycle: u64,
    base: Option<u64>,
    /// The last order that the piece itself has told of.
    order: Order,
    accesses: u64,
}

impl PieceCoder {
    /// The fs base of what is coded now, or a number that stands for it.
    #[inline]
    fn base(&self) -> u64 {
        self.base.unwrap_or(0)
    }

    /// Whether the frame has as many bytes as it may have.
    fn is_frame_full(&self) -> bool {
        self.frame_bytes < usize::MAX && self.frame.filled_bytes() >= self.frame_bytes
    }

    /// The entries of a buffer. Words that are left, from an entry on that can't be coded here.
    fn entries(&mut self, words: &[[u8; 8]], known: &ExecutableBlocks) -> Option<usize> {
        let mut entries = Entries::new(words);
        while let Some(entry) = entries.next_entry() {
            match entry {
                Entry::Block(EntryHeader { id, after }) => {
                    let mut words = None;
                    // Before anything else is looked at: this is what nearly all entries are.
                    if let Some(block) = self.frame.expect(id, self.base()) {
                        let Some(own) = entries.values(block.values()) else { break };
                        if !entries.is_cut() {
                            self.frame.push_expected(block, self.cycle, own);
                            self.accesses += u64::from(block.accesses());
                            self.cycle += u64::from(block.instructions()) + after;
                            continue;
                        }
                        words = Some(own);
                    }
                    let Some(block) = known.get(id) else {
                        entries.end_here();
                        break;
                    };
                    let Some(words) = words.or_else(|| entries.values(block.values())) else { break };
                    let is_taken = if entries.is_cut() {
                        self.cut_execution(&mut entries, block, words, after)
                    } else {
                        self.execution(id, block, words, after)
                    };
                    if !is_taken {
                        return Some(entries.left() + 1 + words.len());
                    }
                }
                Entry::Instructions(count) => self.cycle += count,
                // Of nothing that could be cut.
                Entry::Cut(..) => {}
                Entry::Record(payload) => self.embedded(payload),
            }
        }
        if entries.are_broken() {
            self.tell(self.cycle, PieceEventKind::Broken);
            self.cycle += 1;
        }
        None
    }

    /// An execution. `false`, and nothing is done, where it makes more accesses than a frame takes.
    fn execution(&mut self, id: u32, block: &SharedBlock, words: &[[u8; 8]], after: u64) -> bool {
        let (count, base) = (block.count_words(words), self.base());
        if count > 0 {
            if self.frame.is_full() || !self.frame.is_empty() && !self.frame.takes(count, base) {
                self.end_frame();
            }
            if !self.frame.takes(count, base) {
                return false;
            }
        }
        let orders = block.orders(words);
        if let Some([before, _]) = orders {
            self.mark(self.cycle, before);
        }
        self.frame.push(id, block, self.cycle, words, base, count);
        self.accesses += count;
        let left = self.cycle + u64::from(block.instructions());
        self.cycle = left + after;
        if let Some([_, last]) = orders {
            self.mark(left, last);
        }
        true
    }

    /// An execution of which only a part took place. The cut that says which follows; one that has orders takes place as a whole. `false`,
    /// and nothing is done, where its accesses need an fs base that is not known.
    #[cold]
    fn cut_execution(
        &mut self,
        entries: &mut Entries<'_>,
        block: &SharedBlock,
        words: &[[u8; 8]],
        after: u64,
    ) -> bool {
        if self.base.is_none() && block.accesses().iter().any(|access| access.fs) {
            return false;
        }
        let mut values = [0u64; MAX_VALUES];
        for (value, word) in values.iter_mut().zip(words) {
            *value = u64::from_le_bytes(*word);
        }
        let (from, instructions) = (self.cycle, u64::from(block.instructions()));
        let mut accesses = Vec::new();
        block.expand(from, &values, self.base(), &mut accesses);
        let orders = block.orders(words);
        if let Some([before, _]) = orders {
            self.mark(from, before);
        }
        self.cycle = from + instructions + after;
        if let Some([_, last]) = orders {
            self.mark(from + instructions, last);
        }
        let cut = loop {
            match entries.next_entry() {
                Some(Entry::Instructions(0)) => {}
                Some(Entry::Cut(executed, all)) if orders.is_none() => break Some((executed, all)),
                _ => break None,
            }
        };
        if let Some((executed, all)) = cut {
            let executed = executed.min(instructions);
            self.cycle -= instructions - executed;
            if !all {
                accesses.retain(|access| access.cycle < from + executed);
            }
        }
        accesses.iter().for_each(|access| self.single(access));
        true
    }

    fn single(&mut self, access: &Access) {
        if self.frame.is_full() || self.is_frame_full() || !self.frame.takes(1, self.frame.base()) {
            self.end_frame();
        }
        self.frame.push_single(access);
        self.accesses += 1;
    }

    /// Records among the blocks, up to the first one that is broken.
    fn embedded(&mut self, payload: &[u8]) {
        let mut is_told = false;
        for record in Records::new(payload).map_while(Result::ok) {
            if let Some(access) = record.access(self.cycle) {
                self.single(&access);
            } else if let Record::ThreadBase { addr } = record {
                if self.base.is_none() {
                    self.end_frame();
                }
                self.base = Some(addr.0);
            } else if !is_told {
                is_told = true;
                // It may be one that tells of an order by itself.
                self.order = 0;
                self.records.extend_from_slice(payload);
                self.tell(self.cycle, PieceEventKind::Records(payload.len()));
            }
        }
    }

    fn mark(&mut self, cycle: u64, order: Order) {
        if order > self.order {
            self.order = order;
            self.tell(cycle, PieceEventKind::Mark(order));
        }
    }

    fn tell(&mut self, cycle: u64, kind: PieceEventKind) {
        self.events.push(PieceEvent { cycle, kind });
    }

    fn end_frame(&mut self) {
        let began_ns = std::mem::take(&mut self.frame_ns);
        if !self.frame.is_empty() {
            let wall_ns = if began_ns == 0 { self.since_ns } else { began_ns };
            let frame = std::mem::take(&mut self.frame);
            self.frames.push(FilledFrame { frame, inherits_base: self.base.is_none(), wall_ns });
        }
    }
}
