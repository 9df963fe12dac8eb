//! What a client asks for.

use std::ops::Range;

use memref::VirtAddr;
use trace_format::{Filter, KindSet, StreamDescription};

use super::{Get, Message, Put};

/// What `hello` begins with.
pub const HELLO_MAGIC: [u8; 8] = *b"mtSERVE\n";
/// Ranges of a filter at most, of each kind.
const MAX_RANGES: usize = 64;
/// The code of `add frame`, and the bytes before the frame's own.
const ADD_FRAME: u16 = 21;
const PIECE_HEAD_BYTES: usize = 16;
const FLAG_CYCLES: u8 = 1;
const FLAG_WALL: u8 = 2;

/// How a trace is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read.
    Read,
    /// To write more.
    Append,
}

/// What a seek goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Index in the stream.
    Index,
    /// Cycle.
    Cycle,
    /// Wall clock, ns since the Unix epoch.
    WallNs,
}

/// When a trace is forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncWhen {
    /// Never.
    Never,
    /// When it is closed.
    #[default]
    Closed,
    /// At each flush as well.
    Flushed,
}

/// Which file of a trace is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredFile {
    /// The trace.
    Trace,
    /// The page index beside it.
    Index,
}

macro_rules! numbered {
    ($name:ident { $($variant:ident = $code:literal),+ }) => {
        impl $name {
            pub(crate) fn code(self) -> u8 {
                match self { $(Self::$variant => $code),+ }
            }

            pub(crate) fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

numbered!(OpenMode { Read = 0, Append = 1 });
numbered!(By { Index = 0, Cycle = 1, WallNs = 2 });
numbered!(SyncWhen { Never = 0, Closed = 1, Flushed = 2 });
numbered!(StoredFile { Trace = 0, Index = 1 });

/// One request. The fields are those of docs/protocol.md.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "docs/protocol.md has them, and they would be said twice")]
pub enum Request {
    Hello { major: u16, minor: u16, token: String, client: String },
    CreateSession { name: String },
    OpenSession { session: u64 },
    ListSessions,
    LeaveSession,
    CreateTrace { specifier: String, replace: bool, sync: SyncWhen, segment_entries: u32 },
    OpenTrace { specifier: String, mode: OpenMode },
    CloseTrace,
    AddStream { description: StreamDescription },
    ListStreams,
    OpenWriter { stream: u32, buffer_bytes: u32, buffers: u32 },
    Submit { writer: u32, buffer: u32, bytes: u32, entries: Vec<u8> },
    CloseWriter { writer: u32 },
    Flush { sync: bool },
    OpenReader { stream: u32, buffer_bytes: u32, filter: Filter },
    Read { reader: u32, index: u64, most: u32 },
    Seek { stream: u32, by: By, value: u64 },
    CloseReader { reader: u32 },
    AddProperty { key: String, value: String },
    EndSession { session: u64 },
    AddFrame { piece: FramePiece },
    KeepChannel { seconds: u32 },
    ResumeChannel { channel: ChannelKey },
    ReadFile { file: StoredFile, offset: u64, most: u32 },
}

/// A part of a frame: a whole one, unless it is too long for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePiece {
    /// Bytes of the whole frame.
    pub total_bytes: u64,
    /// Where these begin in it.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Who a channel is, when it comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelKey {
    /// Its number.
    pub number: u64,
    /// What only its client knows.
    pub secret: [u8; 16],
}

impl ChannelKey {
    pub(super) fn put(&self, body: &mut Vec<u8>) {
        body.put_u64(self.number);
        body.put(&self.secret);
    }

    pub(super) fn get(get: &mut Get<'_>) -> Option<Self> {
        Some(Self { number: get.u64()?, secret: get.bytes(16)?.try_into().ok()? })
    }
}

impl Request {
    /// What it is called in docs/protocol.md.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::CreateSession { .. } => "create session",
            Self::OpenSession { .. } => "open session",
            Self::ListSessions => "list sessions",
            Self::LeaveSession => "leave session",
            Self::CreateTrace { .. } => "create trace",
            Self::OpenTrace { .. } => "open trace",
            Self::CloseTrace => "close trace",
            Self::AddStream { .. } => "add stream",
            Self::ListStreams => "list streams",
            Self::OpenWriter { .. } => "open writer",
            Self::Submit { .. } => "submit",
            Self::CloseWriter { .. } => "close writer",
            Self::Flush { .. } => "flush",
            Self::OpenReader { .. } => "open reader",
            Self::Read { .. } => "read",
            Self::Seek { .. } => "seek",
            Self::CloseReader { .. } => "close reader",
            Self::AddProperty { .. } => "add property",
            Self::EndSession { .. } => "end session",
            Self::AddFrame { .. } => "add frame",
            Self::KeepChannel { .. } => "keep channel",
            Self::ResumeChannel { .. } => "resume channel",
            Self::ReadFile { .. } => "read file",
        }
    }

    /// As a message of that number.
    pub fn encode(&self, number: u32) -> Message {
        let mut body = Vec::new();
        let code = match self {
            Self::Hello { major, minor, token, client } => {
                body.put(&HELLO_MAGIC);
                body.put_u16(*major);
                body.put_u16(*minor);
                body.put_string(token);
                body.put_string(client);
                1
            }
            Self::CreateSession { name } => {
                body.put_string(name);
                2
            }
            Self::OpenSession { session } => {
                body.put_u64(*session);
                3
            }
            Self::ListSessions => 4,
            Self::LeaveSession => 5,
            Self::CreateTrace { specifier, replace, sync, segment_entries } => {
                body.put_string(specifier);
                body.put_u8((*replace).into());
                body.put_u8(sync.code());
                body.put_u32(*segment_entries);
                6
            }
            Self::OpenTrace { specifier, mode } => {
                body.put_string(specifier);
                body.put_u8(mode.code());
                7
            }
            Self::CloseTrace => 8,
            Self::AddStream { description } => {
                body.put(&description.to_bytes());
                9
            }
            Self::ListStreams => 10,
            Self::OpenWriter { stream, buffer_bytes, buffers } => {
                body.put_u32(*stream);
                body.put_u32(*buffer_bytes);
                body.put_u32(*buffers);
                body.put_u8(0);
                11
            }
            Self::Submit { writer, buffer, bytes, entries } => {
                body.put_u32(*writer);
                body.put_u32(*buffer);
                body.put_u32(*bytes);
                body.put(entries);
                12
            }
            Self::CloseWriter { writer } => {
                body.put_u32(*writer);
                13
            }
            Self::Flush { sync } => {
                body.put_u8((*sync).into());
                14
            }
            Self::OpenReader { stream, buffer_bytes, filter } => {
                body.put_u32(*stream);
                body.put_u32(*buffer_bytes);
                put_filter(&mut body, filter);
                15
            }
            Self::Read { reader, index, most } => {
                body.put_u32(*reader);
                body.put_u64(*index);
                body.put_u32(*most);
                16
            }
            Self::Seek { stream, by, value } => {
                body.put_u32(*stream);
                body.put_u8(by.code());
                body.put_u64(*value);
                17
            }
            Self::CloseReader { reader } => {
                body.put_u32(*reader);
                18
            }
            Self::AddProperty { key, value } => {
                body.put_string(key);
                body.put_string(value);
                19
            }
            Self::EndSession { session } => {
                body.put_u64(*session);
                20
            }
            Self::AddFrame { piece: FramePiece { total_bytes, offset, bytes } } => {
                body.put_u64(*total_bytes);
                body.put_u64(*offset);
                body.put(bytes);
                ADD_FRAME
            }
            Self::KeepChannel { seconds } => {
                body.put_u32(*seconds);
                22
            }
            Self::ResumeChannel { channel } => {
                channel.put(&mut body);
                23
            }
            Self::ReadFile { file, offset, most } => {
                body.put_u8(file.code());
                body.put_u64(*offset);
                body.put_u32(*most);
                24
            }
        };
        Message { code, number, body }
    }

    /// From a message, whose bytes it keeps where they are a frame's; `None` where it is no request.
    pub fn from_message(mut message: Message) -> Option<Self> {
        if message.code != ADD_FRAME {
            return Self::decode(&message);
        }
        let mut get = Get::new(&message.body);
        let (total_bytes, offset) = (get.u64()?, get.u64()?);
        message.body.drain(..PIECE_HEAD_BYTES);
        Some(Self::AddFrame { piece: FramePiece { total_bytes, offset, bytes: message.body } })
    }

    /// From a message; `None` where it is no request.
    pub fn decode(message: &Message) -> Option<Self> {
        let mut get = Get::new(&message.body);
        let request = match message.code {
            1 => {
                if get.bytes(8)? != HELLO_MAGIC {
                    return None;
                }
                Self::Hello {
                    major: get.u16()?,
                    minor: get.u16()?,
                    token: get.string()?,
                    client: get.string()?,
                }
            }
            2 => Self::CreateSession { name: get.string()? },
            3 => Self::OpenSession { session: get.u64()? },
            4 => Self::ListSessions,
            5 => Self::LeaveSession,
            6 => Self::CreateTrace {
                specifier: get.string()?,
                replace: flag(get.u8()?)?,
                sync: SyncWhen::from_code(get.u8()?)?,
                segment_entries: get.u32()?,
            },
            7 => Self::OpenTrace { specifier: get.string()?, mode: OpenMode::from_code(get.u8()?)? },
            8 => Self::CloseTrace,
            9 => Self::AddStream { description: StreamDescription::from_bytes(get.rest())? },
            10 => Self::ListStreams,
            11 => {
                let (stream, buffer_bytes, buffers) = (get.u32()?, get.u32()?, get.u32()?);
                if get.u8()? != 0 {
                    return None;
                }
                Self::OpenWriter { stream, buffer_bytes, buffers }
            }
            12 => Self::Submit {
                writer: get.u32()?,
                buffer: get.u32()?,
                bytes: get.u32()?,
                entries: get.rest().to_vec(),
            },
            13 => Self::CloseWriter { writer: get.u32()? },
            14 => Self::Flush { sync: flag(get.u8()?)? },
            15 => Self::OpenReader {
                stream: get.u32()?,
                buffer_bytes: get.u32()?,
                filter: get_filter(&mut get)?,
            },
            16 => Self::Read { reader: get.u32()?, index: get.u64()?, most: get.u32()? },
            17 => Self::Seek { stream: get.u32()?, by: By::from_code(get.u8()?)?, value: get.u64()? },
            18 => Self::CloseReader { reader: get.u32()? },
            19 => Self::AddProperty { key: get.string()?, value: get.string()? },
            20 => Self::EndSession { session: get.u64()? },
            ADD_FRAME => {
                let (total_bytes, offset) = (get.u64()?, get.u64()?);
                Self::AddFrame { piece: FramePiece { total_bytes, offset, bytes: get.rest().to_vec() } }
            }
            22 => Self::KeepChannel { seconds: get.u32()? },
            23 => Self::ResumeChannel { channel: ChannelKey::get(&mut get)? },
            24 => Self::ReadFile {
                file: StoredFile::from_code(get.u8()?)?,
                offset: get.u64()?,
                most: get.u32()?,
            },
            _ => return None,
        };
        get.at_end().then_some(request)
    }
}

fn flag(byte: u8) -> Option<bool> {
    match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn put_filter(body: &mut Vec<u8>, filter: &Filter) {
    let flags = if filter.cycles.is_some() { FLAG_CYCLES } else { 0 }
        | if filter.wall_ns.is_some() { FLAG_WALL } else { 0 };
    body.put_u8(flags);
    for range in [&filter.cycles, &filter.wall_ns] {
        let range = range.clone().unwrap_or(0..0);
        body.put_u64(range.start);
        body.put_u64(range.end);
    }
    body.put_u32(filter.kinds.0);
    for ranges in [&filter.addresses, &filter.ips] {
        let ranges = &ranges[..ranges.len().min(MAX_RANGES)];
        body.put_u16(ranges.len() as u16);
        for range in ranges {
            body.put_u64(range.start.0);
            body.put_u64(range.end.0);
        }
    }
}

fn get_filter(get: &mut Get<'_>) -> Option<Filter> {
    let flags = get.u8().filter(|flags| flags & !(FLAG_CYCLES | FLAG_WALL) == 0)?;
    let cycles = get.u64()?..get.u64()?;
    let wall_ns = get.u64()?..get.u64()?;
    let kinds = KindSet(get.u32()?);
    let mut ranges = || -> Option<Vec<Range<VirtAddr>>> {
        let count = usize::from(get.u16()?);
        (count <= MAX_RANGES).then_some(())?;
        (0..count).map(|_| Some(VirtAddr(get.u64()?)..VirtAddr(get.u64()?))).collect()
    };
    let (addresses, ips) = (ranges()?, ranges()?);
    let empty = 0..0;
    if (flags & FLAG_CYCLES == 0 && cycles != empty) || (flags & FLAG_WALL == 0 && wall_ns != empty) {
        return None;
    }
    Some(Filter {
        index: None,
        cycles: (flags & FLAG_CYCLES != 0).then_some(cycles),
        wall_ns: (flags & FLAG_WALL != 0).then_some(wall_ns),
        kinds,
        addresses,
        ips,
    })
}
