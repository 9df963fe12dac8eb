//! The bytes on a channel (docs/protocol.md): messages, and the requests and answers in them. Only [`read`] and [`write()`] do I/O here.

mod code;
mod reply;
mod request;

use std::io::{self, Read, Write};

pub(crate) use code::{Get, Put};
pub use reply::{EntryBlock, Reply, SessionInfo, StreamStatistics};
pub use request::{By, ChannelKey, FramePiece, HELLO_MAGIC, OpenMode, Request, StoredFile, SyncWhen};

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a body at most.
pub const MAX_BODY_BYTES: usize = 16 << 20;
/// Bytes of a body before the channel was admitted.
pub const MAX_HELLO_BYTES: usize = 4096;
/// The protocol's major version.
pub const VERSION: u16 = 1;
/// The minor one: since 1 there are frames, and channels that are kept; since 2 files are read.
pub const MINOR_VERSION: u16 = 2;
/// The least one that a client can do with.
pub(crate) const LEAST_MINOR_VERSION: u16 = 1;
/// The one that reads files.
pub(crate) const FILES_MINOR_VERSION: u16 = 2;
/// Bytes of a file that one answer has at most.
pub const MAX_FILE_BYTES: usize = 4 << 20;
/// The bit that marks an answer.
pub(crate) const ANSWER: u16 = 0x8000;
/// The code of a refusal.
pub(crate) const REFUSAL: u16 = 0xffff;

/// A message without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub code: u16,
    /// Whose answer, or what the answer will repeat.
    pub number: u32,
    /// The rest.
    pub body: Vec<u8>,
}

/// Why a message could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The channel ended between two messages.
    Closed,
    /// The channel failed, or ended within a message.
    Io(io::Error),
    /// These are no messages.
    Malformed(&'static str),
}

/// Reads a message whose body has at most `limit` bytes. Memory is taken as the bytes come, not as the header promises.
pub fn read(stream: &mut dyn Read, limit: usize) -> Result<Message, ReadError> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match stream.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Err(ReadError::Closed),
            Ok(0) => return Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ReadError::Io(error)),
        }
    }
    let (len, code, number) = parse_header(&header, limit).map_err(ReadError::Malformed)?;
    let mut body = Vec::new();
    match stream.take(len as u64).read_to_end(&mut body) {
        Ok(read) if read == len => Ok(Message { code, number, body }),
        Ok(_) => Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(ReadError::Io(error)),
    }
}

/// Length of the body, code and number.
pub fn parse_header(header: &[u8; HEADER_BYTES], limit: usize) -> Result<(usize, u16, u32), &'static str> {
    let mut get = Get::new(header);
    let (Some(len), Some(code), Some(0), Some(number), Some(0)) =
        (get.u32(), get.u16(), get.u16(), get.u32(), get.u32())
    else {
        return Err("a message header with reserved bytes that are not zero");
    };
    if len as usize > limit {
        return Err("a message that is too long");
    }
    Ok((len as usize, code, number))
}

/// The bytes of a message.
pub fn frame(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + message.body.len());
    out.put_u32(message.body.len() as u32);
    out.put_u16(message.code);
    out.put_u16(0);
    out.put_u32(message.number);
    out.put_u32(0);
    out.extend_from_slice(&message.body);
    out
}

/// Writes a message.
pub fn write(stream: &mut dyn Write, message: &Message) -> io::Result<()> {
    stream.write_all(&frame(message))?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_a_cut_one_is_an_error() {
        let message = Message { code: 5, number: 77, body: vec![1, 2, 3] };
        let bytes = frame(&message);
        assert_eq!(read(&mut &bytes[..], 3).unwrap(), message);
        assert!(matches!(read(&mut &bytes[..], 2), Err(ReadError::Malformed(_))));
        assert!(matches!(read(&mut &bytes[..0], 3), Err(ReadError::Closed)));
        for cut in 1..bytes.len() {
            assert!(matches!(read(&mut &bytes[..cut], 3), Err(ReadError::Io(_))), "{cut}");
        }
    }

    #[test]
    fn a_promise_of_16_mib_allocates_nothing() {
        let mut header = frame(&Message { code: 1, number: 1, body: Vec::new() });
        header[..4].copy_from_slice(&(MAX_BODY_BYTES as u32).to_le_bytes());
        assert!(matches!(read(&mut &header[..], MAX_BODY_BYTES), Err(ReadError::Io(_))));
    }
}
