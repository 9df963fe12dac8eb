//! What the server answers.

use trace_format::{Interval, StreamDescription, StreamInfo};

use super::{ANSWER, ChannelKey, Get, Message, Put, REFUSAL};
use crate::{Error, RefusalReason};

/// A session, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its number.
    pub session: u64,
    /// Channels that are in it.
    pub channels: u32,
    /// 0 no trace, 1 writing, 2 reading.
    pub mode: u8,
    /// Its name.
    pub name: String,
    /// What its trace was called by.
    pub specifier: String,
}

/// A stream, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatistics {
    /// Its number in the trace.
    pub number: u32,
    /// Entries that can be read.
    pub entries: u64,
    /// Frames in the file.
    pub frames: u64,
    /// Their bytes.
    pub stored_bytes: u64,
    /// Cycles.
    pub cycles: Interval,
    /// Wall clock, ns since the Unix epoch.
    pub wall_ns: Interval,
    /// What the stream holds, and whose.
    pub description: StreamDescription,
}

impl From<StreamInfo> for StreamStatistics {
    fn from(info: StreamInfo) -> Self {
        Self {
            number: info.number,
            entries: info.entries,
            frames: info.frames,
            stored_bytes: info.stored_bytes,
            cycles: info.bounds.cycles,
            wall_ns: info.bounds.wall_ns,
            description: info.description,
        }
    }
}

/// Entries that were read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EntryBlock {
    /// The index of the first entry.
    pub first_index: u64,
    /// How many there are.
    pub entries: u32,
    /// Where to read on.
    pub next_index: u64,
    /// The index after the stream's last entry, as far as the server knows.
    pub end_index: u64,
    /// Entries that are damaged or missing on the way.
    pub lost: u64,
    /// Whether each entry's index follows.
    pub indexed: bool,
    /// Whether `data` is compressed.
    pub compressed: bool,
    /// Bytes of entries and indices, as they travel.
    pub bytes: u32,
    /// The bytes, unless they are in shared memory.
    pub data: Vec<u8>,
}

/// One answer. The fields are those of docs/protocol.md.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "docs/protocol.md has them, and they would be said twice")]
pub enum Reply {
    Hello { major: u16, minor: u16, server: String },
    Session { session: u64 },
    Done { code: u16 },
    Sessions { sessions: Vec<SessionInfo> },
    Closed { file_bytes: u64 },
    Stream { stream: u32 },
    Streams { streams: Vec<StreamStatistics> },
    Writer { writer: u32, buffer_bytes: u32, buffers: u32, entry_bytes: u32, shared: bool },
    Submitted { writer: u32, buffer: u32 },
    Reader { reader: u32, buffer_bytes: u32, entry_bytes: u32, shared: bool },
    Block(EntryBlock),
    Index { index: u64 },
    Kept { channel: ChannelKey, seconds: u32 },
    Resumed { last: Message },
    File { file_bytes: u64, bytes: Vec<u8> },
    Refused { reason: RefusalReason, text: String },
}

impl Reply {
    /// As the answer of that number.
    pub fn encode(&self, number: u32) -> Message {
        let mut body = Vec::new();
        let code = match self {
            Self::Hello { major, minor, server } => {
                body.put_u16(*major);
                body.put_u16(*minor);
                body.put_string(server);
                1
            }
            Self::Session { session } => {
                body.put_u64(*session);
                2
            }
            Self::Done { code } => *code,
            Self::Sessions { sessions } => {
                body.put_u32(sessions.len() as u32);
                for session in sessions {
                    body.put_u64(session.session);
                    body.put_u32(session.channels);
                    body.put_u8(session.mode);
                    body.put_string(&session.name);
                    body.put_string(&session.specifier);
                }
                4
            }
            Self::Closed { file_bytes } => {
                body.put_u64(*file_bytes);
                8
            }
            Self::Stream { stream } => {
                body.put_u32(*stream);
                9
            }
            Self::Streams { streams } => {
                body.put_u32(streams.len() as u32);
                for stream in streams {
                    put_stream(&mut body, stream);
                }
                10
            }
            Self::Writer { writer, buffer_bytes, buffers, entry_bytes, shared } => {
                body.put_u32(*writer);
                body.put_u32(*buffer_bytes);
                body.put_u32(*buffers);
                body.put_u32(*entry_bytes);
                body.put_u8((*shared).into());
                11
            }
            Self::Submitted { writer, buffer } => {
                body.put_u32(*writer);
                body.put_u32(*buffer);
                12
            }
            Self::Reader { reader, buffer_bytes, entry_bytes, shared } => {
                body.put_u32(*reader);
                body.put_u32(*buffer_bytes);
                body.put_u32(*entry_bytes);
                body.put_u8((*shared).into());
                15
            }
            Self::Block(block) => {
                body.put_u64(block.first_index);
                body.put_u32(block.entries);
                body.put_u64(block.next_index);
                body.put_u64(block.end_index);
                body.put_u64(block.lost);
                body.put_u8(u8::from(block.indexed) | u8::from(block.compressed) << 1);
                body.put_u32(block.bytes);
                body.put(&block.data);
                16
            }
            Self::Index { index } => {
                body.put_u64(*index);
                17
            }
            Self::Kept { channel, seconds } => {
                channel.put(&mut body);
                body.put_u32(*seconds);
                22
            }
            Self::Resumed { last } => {
                body.put_u32(last.number);
                body.put_u16(last.code);
                body.put(&last.body);
                23
            }
            Self::File { file_bytes, bytes } => {
                body.put_u64(*file_bytes);
                body.put(bytes);
                24
            }
            Self::Refused { reason, text } => {
                body.put_u16(*reason as u16);
                body.put_string(text);
                REFUSAL
            }
        };
        Message { code: code | ANSWER, number, body }
    }

    /// From a message; `None` where it is no answer.
    pub fn decode(message: &Message) -> Option<Self> {
        let mut get = Get::new(&message.body);
        if message.code == REFUSAL {
            let (reason, text) = (RefusalReason::from_code(get.u16()?), get.string()?);
            return get.at_end().then_some(Self::Refused { reason, text });
        }
        if message.code & ANSWER == 0 {
            return None;
        }
        let reply = match message.code & !ANSWER {
            1 => Self::Hello { major: get.u16()?, minor: get.u16()?, server: get.string()? },
            2 => Self::Session { session: get.u64()? },
            4 => {
                let count = get.u32()?;
                let session = |_| {
                    Some(SessionInfo {
                        session: get.u64()?,
                        channels: get.u32()?,
                        mode: get.u8()?,
                        name: get.string()?,
                        specifier: get.string()?,
                    })
                };
                Self::Sessions { sessions: (0..count).map(session).collect::<Option<_>>()? }
            }
            8 => Self::Closed { file_bytes: get.u64()? },
            9 => Self::Stream { stream: get.u32()? },
            10 => {
                let count = get.u32()?;
                Self::Streams { streams: (0..count).map(|_| get_stream(&mut get)).collect::<Option<_>>()? }
            }
            11 => Self::Writer {
                writer: get.u32()?,
                buffer_bytes: get.u32()?,
                buffers: get.u32()?,
                entry_bytes: get.u32()?,
                shared: get.u8()? != 0,
            },
            12 => Self::Submitted { writer: get.u32()?, buffer: get.u32()? },
            15 => Self::Reader {
                reader: get.u32()?,
                buffer_bytes: get.u32()?,
                entry_bytes: get.u32()?,
                shared: get.u8()? != 0,
            },
            16 => {
                let (first_index, entries) = (get.u64()?, get.u32()?);
                let (next_index, end_index, lost) = (get.u64()?, get.u64()?, get.u64()?);
                let flags = get.u8().filter(|flags| flags & !3 == 0)?;
                let (indexed, compressed) = (flags & 1 != 0, flags & 2 != 0);
                let bytes = get.u32()?;
                let data = get.rest().to_vec();
                Self::Block(EntryBlock {
                    first_index,
                    entries,
                    next_index,
                    end_index,
                    lost,
                    indexed,
                    compressed,
                    bytes,
                    data,
                })
            }
            17 => Self::Index { index: get.u64()? },
            22 => Self::Kept { channel: ChannelKey::get(&mut get)?, seconds: get.u32()? },
            23 => {
                let (number, code) = (get.u32()?, get.u16()?);
                Self::Resumed { last: Message { code, number, body: get.rest().to_vec() } }
            }
            24 => Self::File { file_bytes: get.u64()?, bytes: get.rest().to_vec() },
            code @ (3 | 5 | 6 | 7 | 13 | 14 | 18 | 19 | 20 | 21) => Self::Done { code },
            _ => return None,
        };
        get.at_end().then_some(reply)
    }

    /// The answer, or the refusal as an error.
    pub(crate) fn or_refused(self) -> Result<Self, Error> {
        match self {
            Self::Refused { reason, text } => Err(Error::Refused { reason, text }),
            other => Ok(other),
        }
    }
}

fn put_stream(body: &mut Vec<u8>, stream: &StreamStatistics) {
    body.put_u32(stream.number);
    let words = [stream.entries, stream.frames, stream.stored_bytes];
    let intervals = [stream.cycles, stream.wall_ns];
    for word in
        words.into_iter().chain(intervals.into_iter().flat_map(|interval| [interval.min, interval.max]))
    {
        body.put_u64(word);
    }
    let description = stream.description.to_bytes();
    body.put_u32(description.len() as u32);
    body.put(&description);
}

fn get_stream(get: &mut Get<'_>) -> Option<StreamStatistics> {
    let number = get.u32()?;
    let (entries, frames, stored_bytes) = (get.u64()?, get.u64()?, get.u64()?);
    let cycles = Interval { min: get.u64()?, max: get.u64()? };
    let wall_ns = Interval { min: get.u64()?, max: get.u64()? };
    let len = get.u32()? as usize;
    let description = StreamDescription::from_bytes(get.bytes(len)?)?;
    Some(StreamStatistics { number, entries, frames, stored_bytes, cycles, wall_ns, description })
}
