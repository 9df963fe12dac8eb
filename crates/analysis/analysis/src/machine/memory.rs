//! The guest's memory at any time, from the contents that were found and the stores that were recorded (Simutrace, section 1).

use std::ops::Range;

use trace_format::machine::FoundEntry;
use trace_format::{StreamKind, TypedCursor};

use super::{Machine, stores::Stores};
use crate::{Error, Session};

/// Memory as it was.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The last point up to the one asked for at which all of memory is known. What devices and the processor itself wrote
    /// after it is not in the image, unless instructions wrote the same bytes.
    pub known_at: u64,
}

/// Runs of bytes that were found, in order.
struct FoundBytes {
    entries: std::vec::IntoIter<FoundEntry>,
    data: Option<TypedCursor>,
    frame: Vec<u8>,
    first: u64,
}

impl FoundBytes {
    fn open(session: &Session) -> Result<Self, Error> {
        let trace = session.trace();
        let entries = super::found(trace)?;
        Ok(Self {
            entries: entries.into_iter(),
            data: trace.typed(StreamKind::FoundData, None),
            frame: Vec::new(),
            first: 0,
        })
    }

    /// Bytes of an entry; those that are lost are left out.
    fn bytes(&mut self, entry: &FoundEntry) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let mut at = entry.at;
        let end = entry.at.saturating_add(entry.len);
        while at < end {
            let offset = at.wrapping_sub(self.first) as usize;
            if at < self.first || offset >= self.frame.len() {
                let Some(data) = &mut self.data else { break };
                data.seek(at);
                let Some(frame) = data.next_frame()? else { break };
                self.first = frame.first_index;
                self.frame.clear();
                self.frame.extend_from_slice(frame.bytes);
                if at < self.first {
                    break;
                }
                continue;
            }
            let run = self.frame.len().min(offset + (end - at) as usize);
            out.extend_from_slice(&self.frame[offset..run]);
            at += (run - offset) as u64;
        }
        Ok(out)
    }
}

fn put(image: &mut [u8], range: &Range<u64>, addr: u64, bytes: &[u8]) {
    let start = addr.max(range.start);
    let end = addr.saturating_add(bytes.len() as u64).min(range.end);
    if start < end {
        let from = &bytes[(start - addr) as usize..(end - addr) as usize];
        image[(start - range.start) as usize..(end - range.start) as usize].copy_from_slice(from);
    }
}

/// Rebuilds a range of physical memory as it was when the machine had executed so many instructions; several points in one
/// pass. The points must grow; each image is given to `each` in turn.
///
/// # Errors
/// Where the trace can't be read, has no written data, or the range is not in the guest's memory.
pub fn memory_at<E: From<Error>>(
    session: &Session,
    cycles: &[u64],
    range: &Range<u64>,
    mut each: impl FnMut(usize, Image<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let machine = Machine::of(session).ok_or(Error::NoMachine)?;
    if !machine.written {
        return Err(Error::NoData.into());
    }
    let last = machine.ram.end();
    if range.start >= range.end || range.end > last {
        return Err(Error::NoMemory { start: range.start, end: range.end, last }.into());
    }
    let trace = session.trace();
    let mut replay = Replay {
        image: vec![0; (range.end - range.start) as usize],
        range: range.clone(),
        found: FoundBytes::open(session)?,
        next_found: None,
        cpus: Vec::new(),
    };
    replay.next_found = replay.found.entries.next();
    for record in trace.threads() {
        replay.cpus.push(Stores::new(trace, record.thread)?);
    }
    let checkpoints = super::checkpoints(trace)?;
    for (number, &cycle) in cycles.iter().enumerate() {
        replay.go_to(cycle)?;
        let known_at =
            checkpoints.iter().take_while(|point| point.cycle <= cycle).last().map_or(0, |point| point.cycle);
        each(number, Image { bytes: &replay.image, known_at })?;
    }
    Ok(())
}

/// Memory on its way through the recording.
struct Replay {
    image: Vec<u8>,
    range: Range<u64>,
    found: FoundBytes,
    next_found: Option<FoundEntry>,
    cpus: Vec<Stores>,
}

impl Replay {
    /// Goes on until the machine has executed that many instructions.
    fn go_to(&mut self, cycle: u64) -> Result<(), Error> {
        loop {
            let next =
                self.cpus.iter().enumerate().filter_map(|(number, cpu)| Some((cpu.peek()?.cycle, number)));
            let store = next.min().filter(|(at, _)| *at < cycle);
            // What was found at a cycle was there before the instruction of that number.
            let in_turn =
                |entry: &FoundEntry| entry.cycle <= cycle && store.is_none_or(|(at, _)| entry.cycle <= at);
            if let Some(entry) = self.next_found.filter(in_turn) {
                let bytes = self.found.bytes(&entry)?;
                put(&mut self.image, &self.range, entry.addr, &bytes);
                self.next_found = self.found.entries.next();
                continue;
            }
            let Some(cpu) = store.and_then(|(_, number)| self.cpus.get_mut(number)) else { return Ok(()) };
            if let Some(store) = cpu.peek() {
                let [first, second] = &store.ranges;
                let (first_len, second_len) =
                    ((first.end - first.start) as usize, (second.end - second.start) as usize);
                if let Some((low, high)) = store.bytes.split_at_checked(first_len) {
                    put(&mut self.image, &self.range, first.start, low);
                    put(&mut self.image, &self.range, second.start, high.get(..second_len).unwrap_or(&[]));
                }
            }
            cpu.advance()?;
        }
    }
}
