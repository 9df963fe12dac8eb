//! The traces of DynamoRIO's drmemtrace, in version 4 of that format: one file per thread, of entries of 12 bytes.
//!
//! An entry has a type (u16), a size (u16) and an address (u64). An instruction is an entry with its length, followed by the
//! entries of its accesses. Before an address is executed for the first time in a file, entries with the bytes of the instruction
//! are written. Markers describe the file. The source is `trace_entry.h` of DynamoRIO 10 (`trace_type_t`, `trace_marker_type_t`,
//! `offline_file_type_t`). Unknown instructions are left out, so the file type says that instructions were filtered.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use analysis::Session;
use analysis::flow::{
    ExecutedInstruction, InstructionFeed, InstructionKind, InstructionSink, UnknownInstructions, blocks,
};
use memref::{Access, AccessKind, ThreadId, VirtAddr};

use crate::Error;

/// With bytes of instructions, and without the outcome of branches.
const VERSION: u64 = 4;
/// What instructions were left out of, of x86-64, with bytes of instructions.
const FILE_TYPE: u64 = 0x80 | 0x40 | 0x200;
/// Bytes of an entry's payload.
const WORD_BYTES: usize = 8;
/// Bytes of a file that are kept until they are written.
const KEPT_BYTES: usize = 1 << 16;
/// Microseconds from 1601 to 1970, from which the format and memtap count.
const EPOCH_MICROSECONDS: u64 = 11_644_473_600_000_000;
const LINE_BYTES: u64 = 64;

/// Types of entries.
mod entry {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const PREFETCH: u16 = 2;
    pub(super) const INSTRUCTION: u16 = 10;
    pub(super) const DIRECT_JUMP: u16 = 11;
    pub(super) const INDIRECT_JUMP: u16 = 12;
    pub(super) const CONDITIONAL_JUMP: u16 = 13;
    pub(super) const DIRECT_CALL: u16 = 14;
    pub(super) const INDIRECT_CALL: u16 = 15;
    pub(super) const RETURN: u16 = 16;
    pub(super) const THREAD: u16 = 22;
    pub(super) const THREAD_EXIT: u16 = 23;
    pub(super) const PROCESS: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const MARKER: u16 = 28;
    pub(super) const ENCODING: u16 = 47;
}

/// Types of markers, which stand in place of the size.
mod marker {
    pub(super) const TIMESTAMP: u16 = 2;
    pub(super) const CPU: u16 = 3;
    pub(super) const FILE_TYPE: u16 = 9;
    pub(super) const LINE_BYTES: u16 = 10;
    pub(super) const VERSION: u16 = 12;
    pub(super) const PAGE_BYTES: u16 = 18;
}

/// A file that is being written. It is open only while it is written to, since threads may be many.
struct ThreadFile {
    path: PathBuf,
    kept: Vec<u8>,
    /// The bytes that were told of the instruction at each address.
    told: HashMap<VirtAddr, Box<[u8]>>,
}

impl ThreadFile {
    fn push(&mut self, kind: u16, size: u16, word: u64) {
        self.kept.extend(kind.to_le_bytes());
        self.kept.extend(size.to_le_bytes());
        self.kept.extend(word.to_le_bytes());
    }

    fn write(&mut self, least: usize) -> io::Result<()> {
        if self.kept.len() >= least {
            OpenOptions::new().append(true).create(true).open(&self.path)?.write_all(&self.kept)?;
            self.kept.clear();
        }
        Ok(())
    }
}

/// The files of a session.
struct ThreadFiles {
    files: BTreeMap<ThreadId, ThreadFile>,
}

impl ThreadFiles {
    fn begin(session: &Session, dir: &Path) -> Self {
        let mut files = BTreeMap::new();
        for record in session.trace().threads() {
            let process = session.trace().process(record.process);
            let (pid, exe) = process.map_or((0, ""), |process| (process.pid, process.exe.as_str()));
            let exe = exe.rsplit('/').next().unwrap_or_default();
            let (thread, tid) = (record.thread.0, record.tid);
            let path = dir.join(format!("drmemtrace.{exe}.{pid}.{tid}.{thread:04}.trace"));
            let mut file = ThreadFile { path, kept: Vec::new(), told: HashMap::new() };
            file.push(entry::HEADER, 0, VERSION);
            file.push(entry::MARKER, marker::VERSION, VERSION);
            file.push(entry::MARKER, marker::FILE_TYPE, FILE_TYPE);
            file.push(entry::THREAD, 4, tid.into());
            file.push(entry::PROCESS, 4, pid.into());
            file.push(entry::MARKER, marker::LINE_BYTES, LINE_BYTES);
            file.push(entry::MARKER, marker::PAGE_BYTES, VirtAddr::PAGE_BYTES);
            file.push(entry::MARKER, marker::TIMESTAMP, microseconds(record.start_ns));
            // Which processor it was is not known.
            file.push(entry::MARKER, marker::CPU, u64::MAX);
            files.insert(record.thread, file);
        }
        Self { files }
    }

    fn finish(&mut self, session: &Session) -> io::Result<()> {
        for record in session.trace().threads() {
            let Some(file) = self.files.get_mut(&record.thread) else { continue };
            file.push(
                entry::MARKER,
                marker::TIMESTAMP,
                microseconds(record.end_ns.unwrap_or(record.start_ns)),
            );
            file.push(entry::MARKER, marker::CPU, u64::MAX);
            file.push(entry::THREAD_EXIT, 4, record.tid.into());
            file.push(entry::FOOTER, 0, 0);
            file.write(0)?;
        }
        Ok(())
    }
}

fn microseconds(unix_ns: u64) -> u64 {
    EPOCH_MICROSECONDS + unix_ns / 1000
}

impl InstructionSink for ThreadFiles {
    fn instruction(
        &mut self,
        thread: ThreadId,
        instruction: &ExecutedInstruction,
    ) -> Result<(), analysis::Error> {
        let Some(file) = self.files.get_mut(&thread) else { return Ok(()) };
        let (ip, bytes) = (instruction.ip, instruction.bytes());
        if file.told.get(&ip).is_none_or(|told| **told != *bytes) {
            for part in bytes.chunks(WORD_BYTES) {
                let mut word = [0; WORD_BYTES];
                word[..part.len()].copy_from_slice(part);
                file.push(entry::ENCODING, part.len() as u16, u64::from_le_bytes(word));
            }
            file.told.insert(ip, bytes.into());
        }
        let kind = match instruction.kind {
            InstructionKind::Plain => entry::INSTRUCTION,
            InstructionKind::Jump => entry::DIRECT_JUMP,
            InstructionKind::IndirectJump => entry::INDIRECT_JUMP,
            InstructionKind::Branch => entry::CONDITIONAL_JUMP,
            InstructionKind::Call => entry::DIRECT_CALL,
            InstructionKind::IndirectCall => entry::INDIRECT_CALL,
            InstructionKind::Return => entry::RETURN,
        };
        file.push(kind, bytes.len() as u16, ip.0);
        Ok(file.write(KEPT_BYTES)?)
    }

    fn access(&mut self, thread: ThreadId, access: &Access) -> Result<(), analysis::Error> {
        let Some(file) = self.files.get_mut(&thread) else { return Ok(()) };
        let size = u16::try_from(access.size).unwrap_or(u16::MAX);
        if access.kind == AccessKind::Prefetch {
            file.push(entry::PREFETCH, size, access.addr.0);
        }
        if access.kind.reads() {
            file.push(entry::READ, size, access.addr.0);
        }
        if access.kind.writes() {
            file.push(entry::WRITE, size, access.addr.0);
        }
        Ok(())
    }
}

/// Writes a file for each thread into a directory that is there; tells what could not be written since its code is in no file.
///
/// # Errors
/// Where the trace has no control flow or can't be read, or a file can't be written.
pub fn drmemtrace(session: &Session, dir: &Path) -> Result<UnknownInstructions, Error> {
    if blocks(session.trace())?.is_empty() {
        return Err(Error::NoFlow);
    }
    let (mut files, unknown) = InstructionFeed::replay(session, ThreadFiles::begin(session, dir))?;
    files.finish(session)?;
    Ok(unknown)
}
