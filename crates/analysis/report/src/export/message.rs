//! Writes a protocol buffers message field by field. The wire format is left to the
//! crate `protobuf`; the field numbers of a format are in the file of that format.

use protobuf::CodedOutputStream;

/// The bytes of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Memory is there: writing can't fail.
    fn put(&mut self, put: impl FnOnce(&mut CodedOutputStream<'_>) -> protobuf::Result<()>) {
        let mut stream = CodedOutputStream::vec(&mut self.bytes);
        let written = put(&mut stream).and_then(|()| stream.flush());
        written.expect("a message grows in memory");
    }

    /// A number; 0 is what a field is that is not there.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        if value != 0 {
            self.put(|stream| stream.write_uint64(field, value));
        }
        self
    }

    /// A number that is there, also where it is 0.
    pub(super) fn given(&mut self, field: u32, value: u64) -> &mut Self {
        self.put(|stream| stream.write_uint64(field, value));
        self
    }

    /// A number of eight bytes.
    pub(super) fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        self.put(|stream| stream.write_fixed64(field, value));
        self
    }

    /// Numbers, packed.
    pub(super) fn numbers(&mut self, field: u32, values: &[u64]) -> &mut Self {
        self.put(|stream| stream.write_repeated_packed_uint64(field, values));
        self
    }

    /// A text.
    pub(super) fn text(&mut self, field: u32, value: &str) -> &mut Self {
        self.put(|stream| stream.write_string(field, value));
        self
    }

    /// A message in this one.
    pub(super) fn message(&mut self, field: u32, value: &Message) -> &mut Self {
        self.put(|stream| stream.write_bytes(field, &value.bytes));
        self
    }

    /// What is written so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
