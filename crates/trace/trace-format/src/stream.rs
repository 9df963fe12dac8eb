//! Streams: the type of their entries, and whose they are (docs/format.md, *Stream description*).

use memref::{ProcessId, ThreadId};

use crate::{
    EntryType, Field, FieldRole, Guid, StreamKind,
    bytes::{ByteReader, put_string},
    encoder::{Attribute, Coding},
};

const ATTRIBUTE_DESCRIPTION: u16 = 1;
const NONE: u32 = u32::MAX;
const MAX_ENTRY_BYTES: u32 = 4096;
const FLAG_VARIABLE: u32 = 1;
const FLAG_HIDDEN: u32 = 2;

/// What a trace says about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// The name: unique among the streams of a thread, and among those of the session.
    pub name: String,
    /// The type of its entries.
    pub entry_type: EntryType,
    /// The number of its encoder.
    pub encoder: u32,
    /// Whether the entries are blocks of variable-sized data.
    pub variable: bool,
    /// Whether the stream serves an encoder and is not meant for users.
    pub hidden: bool,
    /// The process it belongs to, if to one.
    pub process: Option<ProcessId>,
    /// The thread it belongs to, if to one.
    pub thread: Option<ThreadId>,
    /// Free for writers: key and value.
    pub properties: Vec<(String, String)>,
}

impl StreamDescription {
    /// A new stream of memtap's own: of a thread where `owner` is given, otherwise of the session.
    pub fn of_kind(kind: StreamKind, owner: Option<(ProcessId, ThreadId)>) -> Self {
        Self {
            name: kind.name().into(),
            entry_type: kind.entry_type(),
            encoder: kind.encoder(),
            variable: kind.variable(),
            hidden: false,
            process: owner.map(|(process, _)| process),
            thread: owner.map(|(_, thread)| thread),
            properties: Vec::new(),
        }
    }

    /// Makes a description of anybody's true: bytes of foreign entries that no field covers become fields, since encoders
    /// take them for zero. A type without fields stays as it is, and is stored as it is.
    pub fn complete(&mut self) {
        let kind = &mut self.entry_type;
        if kind.fields.is_empty() || StreamKind::of(kind).is_some() {
            return;
        }
        let mut fields = Vec::new();
        let mut at = 0u32;
        let end = Field {
            name: String::new(),
            offset: kind.entry_bytes.min(u32::from(u16::MAX)) as u16,
            bytes: 0,
            role: FieldRole::Plain,
        };
        for field in kind.fields.drain(..).chain([end]) {
            while at < u32::from(field.offset) {
                let gap = u32::from(field.offset) - at;
                let bytes = [8, 4, 2, 1].into_iter().find(|&bytes| u32::from(bytes) <= gap).unwrap_or(1);
                let name = format!("unnamed{at}");
                fields.push(Field { name, offset: at as u16, bytes, role: FieldRole::Plain });
                at += u32::from(bytes);
            }
            at = u32::from(field.offset) + u32::from(field.bytes);
            fields.push(field);
        }
        fields.pop();
        kind.fields = fields;
    }

    /// Whether entries of threads' streams may refer to its entries.
    pub fn is_session_table(&self) -> bool {
        self.thread.is_none() && StreamKind::of(&self.entry_type).is_some_and(StreamKind::is_table)
    }

    /// Whether it holds the names that others refer to.
    pub fn is_names(&self) -> bool {
        StreamKind::of(&self.entry_type) == Some(StreamKind::Names)
    }

    /// The description as docs/format.md lays it out (*Stream description*).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let kind = &self.entry_type;
        let flags = (u32::from(self.variable) * FLAG_VARIABLE) | (u32::from(self.hidden) * FLAG_HIDDEN);
        out.extend(kind.guid.0);
        out.extend(self.encoder.to_le_bytes());
        out.extend(kind.entry_bytes.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend(self.process.map_or(NONE, |process| process.0).to_le_bytes());
        out.extend(self.thread.map_or(NONE, |thread| thread.0).to_le_bytes());
        out.extend((kind.fields.len() as u16).to_le_bytes());
        out.extend((self.properties.len() as u16).to_le_bytes());
        put_string(&mut out, &self.name);
        put_string(&mut out, &kind.name);
        for field in &kind.fields {
            out.extend(field.offset.to_le_bytes());
            out.extend([field.bytes, field.role as u8]);
            put_string(&mut out, &field.name);
        }
        for (key, value) in &self.properties {
            put_string(&mut out, key);
            put_string(&mut out, value);
        }
        out
    }

    pub(crate) fn part(&self) -> Attribute {
        Attribute { kind: ATTRIBUTE_DESCRIPTION, coding: Coding::Stored, bytes: self.to_bytes() }
    }

    pub(crate) fn parse(parts: &[Attribute]) -> Option<Self> {
        let [Attribute { kind: ATTRIBUTE_DESCRIPTION, bytes, .. }] = parts else { return None };
        Self::from_bytes(bytes)
    }

    /// The inverse of [`Self::to_bytes`], but for names that memtap's own streams had in earlier versions of the format: they
    /// get those of this one, so that nobody else has to know the old ones. `None` where the bytes are no description.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let guid = Guid(reader.take(16)?.try_into().ok()?);
        let encoder = reader.u32()?;
        let entry_bytes = reader.u32().filter(|bytes| (1..=MAX_ENTRY_BYTES).contains(bytes))?;
        let flags = reader.u32().filter(|flags| flags & !(FLAG_VARIABLE | FLAG_HIDDEN) == 0)?;
        let process = reader.u32().map(|id| (id != NONE).then_some(ProcessId(id)))?;
        let thread = reader.u32().map(|id| (id != NONE).then_some(ThreadId(id)))?;
        let (fields, properties) = (reader.u16()?, reader.u16()?);
        let name = reader.string()?;
        let type_name = reader.string()?;
        let mut end = 0;
        let fields = (0..fields)
            .map(|_| {
                let (offset, bytes) = (reader.u16()?, reader.u8()?);
                let role = match reader.u8()? {
                    0 => FieldRole::Plain,
                    1 => FieldRole::Growing,
                    2 => FieldRole::Address,
                    _ => return None,
                };
                let fits = matches!(bytes, 1 | 2 | 4 | 8) && offset >= end;
                end = offset.checked_add(bytes.into())?;
                (fits && u32::from(end) <= entry_bytes).then_some(Field {
                    name: reader.string()?,
                    offset,
                    bytes,
                    role,
                })
            })
            .collect::<Option<_>>()?;
        let properties =
            (0..properties).map(|_| Some((reader.string()?, reader.string()?))).collect::<Option<_>>()?;
        let mut entry_type = EntryType { guid, name: type_name, entry_bytes, fields };
        let mut name = name;
        if let Some(kind) = StreamKind::of(&entry_type) {
            for name in [&mut name, &mut entry_type.name] {
                if kind.former_name() == Some(name) {
                    *name = kind.name().into();
                }
            }
        }
        reader.is_empty().then_some(Self {
            name,
            entry_type,
            encoder,
            variable: flags & FLAG_VARIABLE != 0,
            hidden: flags & FLAG_HIDDEN != 0,
            process,
            thread,
            properties,
        })
    }
}
