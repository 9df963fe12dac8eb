//! Buffers of translated threads on their way through the workers. The reading thread codes a thread's buffers
//! itself as long as few wait. When more do, it gathers them into pieces, which workers code in parallel
//! (`piece_coder`); the reading thread enters the results here, in the order of each thread. It returns to
//! coding itself when workers take at most three quarters of the time that it takes to gather a piece.
//!
//! A piece continues the last frame of its thread if everything before the piece is entered. Frames are
//! therefore as long as if one thread coded everything, except where that thread would fall behind. The
//! amount of waiting data is bounded: at the bound, the reading thread waits for the workers.

use std::sync::mpsc::{TryRecvError, channel};

use buffers::Records;
use memref::{GapReason, VirtAddr};
use trace_format::Error;

use super::Sink;
use super::causes::OVERWRITTEN;
use super::gathered::HeldBuffer;
use super::piece_coder::{CodedPiece, CodingPiece, FilledFrame, Piece, PieceEventKind, PieceStart};
use super::thread::TracedThread;

impl Sink<'_> {
    /// The next buffer of a thread whose buffers are coded by pieces.
    pub(super) fn gather(&mut self, thread: &mut TracedThread, buffer: HeldBuffer) -> Result<(), Error> {
        if !self.pieces.is_behind && thread.gathered.is_empty() && thread.coding.is_empty() {
            return self.code(thread, vec![buffer]);
        }
        thread.gathered.push(buffer);
        self.pieces.gathered += 1;
        if thread.gathered.len() >= self.pieces.limits.piece_buffers {
            self.send_piece(thread)
        } else {
            Ok(())
        }
    }

    /// Codes buffers of a thread of which all that comes before them is entered.
    fn code(&mut self, thread: &mut TracedThread, buffers: Vec<HeldBuffer>) -> Result<(), Error> {
        let (known, start) = (self.blocks.of(thread.process), Some(thread.start_of_piece()?));
        let frame_bytes = self.pieces.limits.frame_bytes;
        self.enter_piece(thread, Piece { buffers, known, start, frame_bytes }.code())
    }

    /// Gives the workers what was gathered of a thread.
    fn send_piece(&mut self, thread: &mut TracedThread) -> Result<(), Error> {
        let buffers = std::mem::take(&mut thread.gathered);
        let count = buffers.len();
        if count == 0 {
            return Ok(());
        }
        self.pieces.gathered -= count;
        let Some(workers) = self.pieces.workers.clone() else { return self.code(thread, buffers) };
        let start = if thread.coding.is_empty() { Some(thread.start_of_piece()?) } else { None };
        let (known, frame_bytes) = (self.blocks.of(thread.process), self.pieces.limits.frame_bytes);
        let piece = Piece { buffers, known, start, frame_bytes };
        let (result, coded) = channel();
        let code = move || {
            // Nobody waits for it where the recording has failed.
            let _ = result.send(piece.code());
        };
        workers.run(code);
        thread.coding.push_back(CodingPiece { buffers: count, coded });
        self.pieces.sent.push_back(thread.number);
        self.pieces.coding += count;
        Ok(())
    }

    /// Enters the pieces whose turn has come, and waits for some where too much is on its way.
    pub(crate) fn enter_coded(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        if self.pieces.gathered > self.pieces.limits.gathered_buffers {
            result = self.send_all();
        }
        while let Some(&number) = self.pieces.sent.front() {
            let waits = self.pieces.coding > self.pieces.limits.coding_buffers;
            if let Some(mut thread) = self.threads.remove(&number) {
                let entered = self.enter_next(&mut thread, waits);
                result = result.and(self.count_open(&mut thread));
                self.threads.insert(number, thread);
                match entered {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => result = result.and(Err(error)),
                }
            }
            self.pieces.sent.pop_front();
        }
        result.and(self.relieve_open())
    }

    /// Gives the workers all that was gathered.
    fn send_all(&mut self) -> Result<(), Error> {
        let gathered = self.threads.iter().filter(|(_, thread)| !thread.gathered.is_empty());
        let mut numbers: Vec<u32> = gathered.map(|(&number, _)| number).collect();
        numbers.sort_unstable();
        let mut result = Ok(());
        for number in numbers {
            if let Some(mut thread) = self.threads.remove(&number) {
                result = result.and(self.send_piece(&mut thread));
                self.threads.insert(number, thread);
            }
        }
        result
    }

    /// Enters all that was read so far.
    pub(crate) fn finish_pieces(&mut self) -> Result<(), Error> {
        let mut result = self.send_all();
        while let Some(number) = self.pieces.sent.pop_front() {
            if let Some(mut thread) = self.threads.remove(&number) {
                result = result.and(self.finish_pieces_of(&mut thread));
                self.threads.insert(number, thread);
            }
        }
        result
    }

    /// Enters all that was read of a thread so far.
    pub(super) fn finish_pieces_of(&mut self, thread: &mut TracedThread) -> Result<(), Error> {
        let mut result = self.send_piece(thread);
        while !thread.coding.is_empty() {
            result = result.and(self.enter_next(thread, true).map(drop));
        }
        result
    }

    /// Enters the next piece of a thread, if it has one. `false` where it is not coded yet, unless that is to be waited for.
    fn enter_next(&mut self, thread: &mut TracedThread, waits: bool) -> Result<bool, Error> {
        let Some(CodingPiece { buffers, coded }) = thread.coding.front() else { return Ok(true) };
        let ended =
            if waits { coded.recv().map_err(|_| TryRecvError::Disconnected) } else { coded.try_recv() };
        let piece = match ended {
            Ok(piece) => piece,
            Err(TryRecvError::Empty) => return Ok(false),
            Err(TryRecvError::Disconnected) => unreachable!("a worker that panics takes the process along"),
        };
        self.pieces.coding -= buffers;
        thread.coding.pop_front();
        self.enter_piece(thread, piece)?;
        let waiting = thread.gathered.len();
        let is_quick = !self.pieces.is_behind && waiting <= self.pieces.limits.piece_buffers * 3 / 4;
        if is_quick && waiting > 0 && thread.coding.is_empty() {
            let gathered = std::mem::take(&mut thread.gathered);
            self.pieces.gathered -= waiting;
            self.code(thread, gathered)?;
        }
        Ok(true)
    }

    /// Enters a piece, and what a worker left of it.
    fn enter_piece(&mut self, thread: &mut TracedThread, mut piece: CodedPiece) -> Result<(), Error> {
        let mut result = Ok(());
        loop {
            result = result.and(self.enter_executions(thread, &mut piece));
            let CodedPiece { mut buffers, known, stop, .. } = piece;
            let rest = stop.map_or(Vec::new(), |stop| buffers.split_off(stop.buffer));
            buffers.into_iter().for_each(|buffer| self.pieces.release(buffer));
            let mut rest = rest.into_iter();
            let (Some(stop), Some(next)) = (stop, rest.next()) else { return result };
            thread.shard.begin_from(next.since_ns);
            result = result.and(self.flow(thread, &next.words()[stop.word..]));
            self.pieces.release(next);
            let start = Some(thread.start_of_piece()?);
            let (buffers, frame_bytes) = (rest.collect(), self.pieces.limits.frame_bytes);
            piece = Piece { buffers, known, start, frame_bytes }.code();
        }
    }

    /// Enters what was coded of a piece.
    fn enter_executions(&mut self, thread: &mut TracedThread, piece: &mut CodedPiece) -> Result<(), Error> {
        let start = if piece.is_placed { 0 } else { thread.cycle };
        let mut result = self.enter_events(thread, start, piece);
        thread.cycle = start + piece.cycle;
        self.totals.accesses += piece.accesses;
        for FilledFrame { mut frame, inherits_base, wall_ns } in piece.frames.drain(..) {
            if !piece.is_placed {
                frame.begin_at(start, if inherits_base { thread.base } else { frame.base() });
            }
            let put = match thread.shard.blocks() {
                Ok(Some(mut writer)) => writer.put_frame(frame, wall_ns),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            result = result.and(put);
        }
        thread.base = piece.base.unwrap_or(thread.base);
        result
    }

    /// What a piece says beside its executions.
    fn enter_events(
        &mut self,
        thread: &mut TracedThread,
        start: u64,
        piece: &CodedPiece,
    ) -> Result<(), Error> {
        let mut records = piece.records.as_slice();
        for event in &piece.events {
            let cycle = start + event.cycle;
            thread.cycle = cycle;
            match event.kind {
                PieceEventKind::Mark(order) => thread.mark(cycle, order)?,
                PieceEventKind::Broken => {
                    // What came after the entries that were found can't be.
                    self.gap(thread, GapReason::Killed, 1, (VirtAddr(0), OVERWRITTEN))?;
                }
                PieceEventKind::Records(len) => {
                    let (own, later) = records.split_at(len);
                    records = later;
                    for record in Records::new(own).map_while(Result::ok) {
                        self.record(thread, &record)?;
                        // Here a cycle is an instruction, not an event.
                        thread.cycle = cycle;
                    }
                }
            }
        }
        Ok(())
    }
}

impl TracedThread {
    /// Where it stands, for a piece that begins when all before it is entered.
    fn start_of_piece(&mut self) -> Result<PieceStart, Error> {
        let writer = self.shard.blocks()?;
        let (frame, wall_ns) = writer.map_or_else(Default::default, |mut writer| writer.take_frame());
        let frame = FilledFrame { frame, inherits_base: false, wall_ns };
        Ok(PieceStart { cycle: self.cycle, base: self.base, frame })
    }
}
