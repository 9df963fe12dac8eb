//! Records of a whole machine, as the QEMU plugin writes them: 64-bit words, and only one per access where nothing else changed.
//!
//! The vCPUs of a machine take turns in one thread, so a single sequence of buffers holds the records of all of them. To save
//! space, cycles are not repeated in each record: a [`MachineRecord::Enter`] gives the cycle at which a block was entered, and
//! an access names its instruction within that block. Physical addresses are not repeated either: a [`MachineRecord::Page`]
//! gives the physical page of the next access, and holds for that virtual page until another one replaces it.

use crate::layout::BUFFER_BYTES;
use crate::pool::{Buffer, Content, Pool};

/// Most instructions of a block.
pub const MAX_BLOCK_INSTRUCTIONS: usize = 512;
/// Most bytes of a [`MachineRecord::Found`].
pub const MAX_FOUND_BYTES: usize = 4096;
/// Most words of a record.
pub const MAX_MACHINE_WORDS: usize = 8 + MAX_FOUND_BYTES / 8;

const TAG_ACCESS: u64 = 0;
const TAG_ENTER: u64 = 1;
const TAG_PAGE: u64 = 2;
const TAG_OTHER: u64 = 3;

const OTHER_CPU: u64 = 0;
const OTHER_BLOCK: u64 = 1;
const OTHER_FOUND: u64 = 2;
const OTHER_TASK: u64 = 3;
const OTHER_SYNC: u64 = 4;
const OTHER_MARK: u64 = 5;
const OTHER_GAP: u64 = 6;
const OTHER_CLOCK: u64 = 7;
const OTHER_TEXT: u64 = 8;

const PAGE_SHIFT: u32 = memref::VirtAddr::PAGE_SHIFT;
/// Virtual pages whose place the plugin remembers. It says [`MachineRecord::Page`] where its memory has something else, so
/// that a reader with the same slots knows the same.
pub const PAGE_SLOTS: usize = 1 << 13;

/// The slot of a virtual page among [`PAGE_SLOTS`].
#[inline]
pub const fn page_slot(page: u64) -> usize {
    page as usize % PAGE_SLOTS
}

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TaskChange {
    /// A vCPU went on to execute it.
    Switch = 0,
    /// It was made.
    Create = 1,
    /// It runs another program.
    Exec = 2,
    /// It ended.
    Exit = 3,
}

impl TaskChange {
    /// From its number.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Switch,
            1 => Self::Create,
            2 => Self::Exec,
            3 => Self::Exit,
            _ => return None,
        })
    }
}

/// A task of the guest's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Where the kernel holds it.
    pub address: u64,
    /// Its process: what user space calls the process id.
    pub process: u32,
    /// Its thread: what user space calls the thread id.
    pub thread: u32,
    /// The process that made its process.
    pub parent: u32,
    /// Its name, padded with zeros.
    pub name: [u8; 16],
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineRecord<'a> {
    /// An access by an instruction of the block that was entered last.
    Access {
        /// Its first byte.
        addr: u64,
        /// The instruction's place in the block.
        index: u16,
        /// Bytes as a power of two.
        size_shift: u8,
        /// Whether it writes.
        store: bool,
        /// What is in memory after a store, or what a load read; low bytes first.
        value: Option<u128>,
    },
    /// A block was entered.
    Enter {
        /// Its number.
        block: u32,
        /// Instructions that the machine had executed.
        cycle: u64,
    },
    /// Where the page of the next access lies, or the page after it.
    Page {
        /// The number of the physical page.
        page: u64,
        /// Whether a device answers there.
        device: bool,
        /// Whether it is about the page after that of the access's first byte.
        next: bool,
    },
    /// The vCPU that what follows is about.
    Cpu(u32),
    /// A block was translated for the first time.
    Block {
        /// Its number; they grow.
        block: u32,
        /// Where it starts.
        ip: u64,
        /// Bytes of each instruction.
        sizes: &'a [u8],
    },
    /// Bytes in memory that no instruction was seen writing.
    Found {
        /// When they were found.
        cycle: u64,
        /// When all of memory was known before.
        since: u64,
        /// Where they are, physically.
        addr: u64,
        /// The bytes; a multiple of eight.
        bytes: &'a [u8],
    },
    /// A task of the guest.
    Task {
        /// When.
        cycle: u64,
        /// What it did.
        change: TaskChange,
        /// Which.
        task: Task,
    },
    /// All of memory is known at this cycle.
    Sync {
        /// When.
        cycle: u64,
        /// When, ns since the Unix epoch.
        time_ns: u64,
    },
    /// A point that the guest marked, or where recording was switched on (0) or off (1).
    Mark {
        /// When.
        cycle: u64,
        /// What the guest says: a number.
        mark: u32,
    },
    /// Events that could not be recorded.
    Gap {
        /// When.
        cycle: u64,
        /// How many.
        count: u64,
    },
    /// So many instructions were executed.
    Clock {
        /// When.
        cycle: u64,
    },
    /// Words about the recording, for a property of the trace.
    Text {
        /// Which: a number of the plugin's.
        what: u32,
        /// The words.
        text: &'a [u8],
    },
}

fn sign_extend(value: u64) -> u64 {
    ((value << 16) as i64 >> 16) as u64
}

/// The word of an access; `value` says that its value follows.
#[inline]
pub fn access_word(addr: u64, index: u16, size_shift: u8, store: bool, value: bool) -> u64 {
    TAG_ACCESS
        | u64::from(store) << 2
        | u64::from(value) << 3
        | u64::from(size_shift & 7) << 4
        | u64::from(index & 0x1ff) << 7
        | addr << 16
}

/// The words of [`MachineRecord::Enter`].
#[inline]
pub fn enter_words(block: u32, cycle: u64) -> [u64; 2] {
    [TAG_ENTER | u64::from(block) << 8, cycle]
}

/// The word of [`MachineRecord::Page`].
#[inline]
pub fn page_word(page: u64, device: bool, next: bool) -> u64 {
    TAG_PAGE | u64::from(device) << 2 | u64::from(next) << 3 | page << PAGE_SHIFT
}

fn other(what: u64, payload: u64) -> u64 {
    TAG_OTHER | what << 2 | payload << 8
}

/// Writes a record's words to the front of `out` and returns their number; 0 where it does not fit.
pub fn encode_machine(record: &MachineRecord<'_>, out: &mut [u64]) -> usize {
    let mut len = 0;
    let mut put = |word: u64| {
        if let Some(place) = out.get_mut(len) {
            *place = word;
        }
        len += 1;
    };
    let put_bytes = |put: &mut dyn FnMut(u64), bytes: &[u8]| {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            put(u64::from_le_bytes(word));
        }
    };
    match *record {
        MachineRecord::Access { addr, index, size_shift, store, value } => {
            put(access_word(addr, index, size_shift, store, value.is_some()));
            if let Some(value) = value {
                put(value as u64);
                if size_shift > 3 {
                    put((value >> 64) as u64);
                }
            }
        }
        MachineRecord::Enter { block, cycle } => enter_words(block, cycle).into_iter().for_each(put),
        MachineRecord::Page { page, device, next } => put(page_word(page, device, next)),
        MachineRecord::Cpu(cpu) => put(other(OTHER_CPU, cpu.into())),
        MachineRecord::Block { block, ip, sizes } => {
            put(other(OTHER_BLOCK, u64::from(block) | (sizes.len() as u64) << 32));
            put(ip);
            put_bytes(&mut put, sizes);
        }
        MachineRecord::Found { cycle, since, addr, bytes } => {
            put(other(OTHER_FOUND, bytes.len() as u64));
            put(cycle);
            put(since);
            put(addr);
            put_bytes(&mut put, bytes);
        }
        MachineRecord::Task { cycle, change, ref task } => {
            put(other(OTHER_TASK, change as u64 | u64::from(task.parent) << 8));
            put(cycle);
            put(task.address);
            put(u64::from(task.process) | u64::from(task.thread) << 32);
            put_bytes(&mut put, &task.name);
        }
        MachineRecord::Sync { cycle, time_ns } => {
            put(other(OTHER_SYNC, 0));
            put(cycle);
            put(time_ns);
        }
        MachineRecord::Mark { cycle, mark } => {
            put(other(OTHER_MARK, mark.into()));
            put(cycle);
        }
        MachineRecord::Gap { cycle, count } => {
            put(other(OTHER_GAP, 0));
            put(cycle);
            put(count);
        }
        MachineRecord::Clock { cycle } => {
            put(other(OTHER_CLOCK, 0));
            put(cycle);
        }
        MachineRecord::Text { what, text } => {
            put(other(OTHER_TEXT, u64::from(what) | (text.len() as u64 & 0xffff) << 32));
            put_bytes(&mut put, text);
        }
    }
    if len <= out.len() { len } else { 0 }
}

/// Reads records from the bytes of a buffer. Stops at the first bytes that are no record, and then says so.
#[derive(Clone, Debug)]
pub struct MachineRecords<'a> {
    bytes: &'a [u8],
    broken: bool,
}

impl<'a> MachineRecords<'a> {
    /// Reads from there.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, broken: false }
    }

    /// Whether reading ended at bytes that are no record.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.bytes.split_first_chunk::<8>()?;
        self.bytes = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn run(&mut self, len: usize) -> Option<&'a [u8]> {
        let (run, rest) = self.bytes.split_at_checked(len.checked_next_multiple_of(8)?)?;
        self.bytes = rest;
        run.get(..len)
    }

    fn other(&mut self, word: u64) -> Option<MachineRecord<'a>> {
        let payload = word >> 8;
        Some(match word >> 2 & 0x3f {
            OTHER_CPU => MachineRecord::Cpu(u32::try_from(payload).ok()?),
            OTHER_BLOCK => {
                let len = (payload >> 32) as usize;
                let ip = self.word()?;
                let sizes = self.run(len).filter(|_| len <= MAX_BLOCK_INSTRUCTIONS)?;
                MachineRecord::Block { block: payload as u32, ip, sizes }
            }
            OTHER_FOUND => {
                let len = usize::try_from(payload).ok().filter(|&len| len <= MAX_FOUND_BYTES)?;
                let (cycle, since, addr) = (self.word()?, self.word()?, self.word()?);
                MachineRecord::Found { cycle, since, addr, bytes: self.run(len)? }
            }
            OTHER_TASK => {
                let change = TaskChange::from_code(payload as u8)?;
                let parent = (payload >> 8) as u32;
                let (cycle, address, ids) = (self.word()?, self.word()?, self.word()?);
                let name = self.run(16)?.try_into().ok()?;
                let task = Task { address, process: ids as u32, thread: (ids >> 32) as u32, parent, name };
                MachineRecord::Task { cycle, change, task }
            }
            OTHER_SYNC => MachineRecord::Sync { cycle: self.word()?, time_ns: self.word()? },
            OTHER_MARK => MachineRecord::Mark { mark: payload as u32, cycle: self.word()? },
            OTHER_GAP => MachineRecord::Gap { cycle: self.word()?, count: self.word()? },
            OTHER_CLOCK => MachineRecord::Clock { cycle: self.word()? },
            OTHER_TEXT => {
                MachineRecord::Text { what: payload as u32, text: self.run((payload >> 32) as usize)? }
            }
            _ => return None,
        })
    }

    #[inline]
    fn decode(&mut self) -> Option<MachineRecord<'a>> {
        let word = self.word()?;
        Some(match word & 3 {
            TAG_ACCESS => {
                let size_shift = (word >> 4 & 7) as u8;
                let value = if word >> 3 & 1 == 0 {
                    None
                } else {
                    let low = self.word()?;
                    let high = if size_shift > 3 { self.word()? } else { 0 };
                    Some(u128::from(low) | u128::from(high) << 64)
                };
                MachineRecord::Access {
                    addr: sign_extend(word >> 16),
                    index: (word >> 7 & 0x1ff) as u16,
                    size_shift,
                    store: word >> 2 & 1 != 0,
                    value,
                }
            }
            TAG_ENTER => MachineRecord::Enter { block: (word >> 8) as u32, cycle: self.word()? },
            TAG_PAGE => MachineRecord::Page {
                page: word >> PAGE_SHIFT,
                device: word >> 2 & 1 != 0,
                next: word >> 3 & 1 != 0,
            },
            _ => self.other(word)?,
        })
    }
}

impl<'a> Iterator for MachineRecords<'a> {
    type Item = MachineRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() || self.broken {
            return None;
        }
        let record = self.decode();
        self.broken = record.is_none();
        record
    }
}

/// The plugin's end of the pool: fills one buffer after the other.
#[derive(Debug)]
pub struct MachineWriter {
    buffer: Option<Buffer>,
    words: usize,
    sequence: u32,
}

impl Default for MachineWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl MachineWriter {
    /// Without a buffer.
    pub const fn new() -> Self {
        Self { buffer: None, words: BUFFER_BYTES / 8, sequence: 0 }
    }

    /// Whether so many words fit.
    #[inline]
    pub const fn has_room(&self, words: usize) -> bool {
        self.words + words <= BUFFER_BYTES / 8
    }

    /// Takes a free buffer in place of the present one, which must have been submitted. `false` when there is none now.
    pub fn refill(&mut self, pool: &Pool, process: u32, tid: u32) -> bool {
        // A machine's pool holds nothing else, so nobody asks.
        let content = Content::Records;
        let Some(buffer) = pool.take(process, 0, tid, self.sequence, content) else { return false };
        self.buffer = Some(buffer);
        self.words = 0;
        self.sequence = self.sequence.wrapping_add(1);
        true
    }

    /// Hands the present buffer over, if there is one with something in it. Returns whether it did.
    pub fn submit(&mut self, pool: &Pool) -> bool {
        if self.words == 0 {
            return false;
        }
        self.words = BUFFER_BYTES / 8;
        match self.buffer.take() {
            Some(buffer) => {
                pool.submit(buffer);
                true
            }
            None => false,
        }
    }

    /// Appends words. The caller made room; what does not fit is dropped, and `false` returned.
    #[inline]
    pub fn put(&mut self, words: &[u64]) -> bool {
        let Some(buffer) = self.buffer.filter(|_| self.has_room(words.len())) else { return false };
        // SAFETY: `words` more words lie inside the buffer by the check above; the buffer is aligned to 8 and owned by us.
        let place = unsafe { buffer.start().cast::<u64>().add(self.words) };
        // SAFETY: `words` more words lie inside the buffer; they are memory of the caller, which is not shared.
        unsafe { core::ptr::copy_nonoverlapping(words.as_ptr(), place, words.len()) };
        self.words += words.len();
        buffer.header().publish(self.words * 8);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn round_trip(records: &[MachineRecord<'_>]) {
        let mut bytes = Vec::new();
        for record in records {
            let mut words = [0; MAX_MACHINE_WORDS];
            let len = encode_machine(record, &mut words);
            assert!(len > 0, "{record:?}");
            bytes.extend(words[..len].iter().flat_map(|word| word.to_le_bytes()));
        }
        let mut reader = MachineRecords::new(&bytes);
        let read: Vec<_> = reader.by_ref().collect();
        assert!(!reader.is_broken());
        assert_eq!(read, records);
    }

    proptest! {
        #[test]
        fn records_come_back(
            addr in (0u64..1 << 47, any::<bool>()).prop_map(|(low, high)| if high { !low } else { low }),
            index in 0u16..512, size_shift in 0u8..5, store: bool, low: u64, high: u64, block: u32, cycle: u64,
            page in 0u64..1 << 52, flags: (bool, bool), name: [u8; 16], ids: (u32, u32, u32),
            sizes in proptest::collection::vec(1u8..16, 0..100), found in proptest::collection::vec(any::<u64>(), 0..512),
        ) {
            let value = if size_shift > 3 { u128::from(low) | u128::from(high) << 64 } else { low.into() };
            let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
            let task = Task { address: low, process: ids.0, thread: ids.1, parent: ids.2, name };
            round_trip(&[
                MachineRecord::Access { addr, index, size_shift, store, value: None },
                MachineRecord::Access { addr, index, size_shift, store, value: Some(value) },
                MachineRecord::Enter { block, cycle },
                MachineRecord::Page { page, device: flags.0, next: flags.1 },
                MachineRecord::Cpu(block),
                MachineRecord::Block { block, ip: low, sizes: &sizes },
                MachineRecord::Found { cycle, since: low, addr: high, bytes: &bytes },
                MachineRecord::Task { cycle, change: TaskChange::Exec, task },
                MachineRecord::Sync { cycle, time_ns: low },
                MachineRecord::Mark { cycle, mark: block },
                MachineRecord::Gap { cycle, count: low },
                MachineRecord::Clock { cycle },
                MachineRecord::Text { what: block, text: &sizes },
            ]);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(MachineRecords::new(&bytes).count() <= bytes.len() / 8);
        }
    }
}
