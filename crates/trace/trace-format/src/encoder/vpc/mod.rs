//! SVPC, Simutrace's encoder of memory entries (section 3.3), as faithful as its description allows. It is
//! the baseline for the encoder `access`, and reads Simutrace's own stores. docs/format.md, *Encoders*, 6.

mod predictor;

use super::{
    attribute::{Attribute, Coding},
    codec::{Corrupt, Encoded, Encoder},
    number,
    raw::{raw, raw_decode},
    words::AccessWords,
};
use crate::{EntryType, Guid, StreamKind};
use predictor::{GLOBAL_MISS, GlobalBank, Usage, VALUE_MISS, ValueBank};

/// Attribute types: tags, shapes, identifiers by field, literals by field.
const TAGS: u16 = 32;
const SHAPES: u16 = 33;
const IDS: u16 = 34;
const LITERALS: u16 = 38;
/// Cycles are kept in 48 bits.
const CYCLE: u64 = (1 << 48) - 1;

/// A memory entry of Simutrace's, widened to 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryEntry {
    /// 48 bits.
    pub(crate) cycle: u64,
    /// Full size, and the writer's own 15 bits.
    pub(crate) tag: u16,
    pub(crate) ip: u64,
    pub(crate) addr: u64,
    pub(crate) data: u64,
}

/// A segment's entries: bytes by field. The order of the fields is instruction, address, data if there is any, cycle.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Columns {
    pub(crate) tags: Vec<u8>,
    pub(crate) ids: Vec<Vec<u8>>,
    pub(crate) literals: Vec<Vec<u8>>,
}

/// Which fields there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Of instructions, addresses and data: 32 or 64.
    pub(crate) bits: u32,
    pub(crate) data: bool,
}

impl Shape {
    pub(crate) fn fields(self) -> usize {
        3 + usize::from(self.data)
    }

    /// Bytes of a literal: steps always have 8.
    pub(crate) fn literal_bytes(self, field: usize) -> usize {
        if self.bits == 32 && field + 1 < self.fields() { 4 } else { 8 }
    }
}

/// State of a segment.
struct VpcModel {
    shape: Shape,
    ips: GlobalBank,
    steps: GlobalBank,
    values: Vec<ValueBank>,
    usage: Vec<Usage>,
    cycle: u64,
}

impl VpcModel {
    fn new(shape: Shape, start_cycle: u64) -> Self {
        let values = shape.fields() - 2;
        Self {
            shape,
            ips: GlobalBank::new(),
            steps: GlobalBank::new(),
            values: (0..values).map(|_| ValueBank::new(shape.bits)).collect(),
            usage: (0..shape.fields()).map(|_| Usage::new()).collect(),
            cycle: start_cycle,
        }
    }

    fn encode(&mut self, entry: &MemoryEntry, columns: &mut Columns) {
        columns.tags.extend(entry.tag.to_le_bytes());
        let shape = self.shape;
        let mut put = |field: usize, id: Option<u8>, miss: u8, literal: u64| {
            columns.ids[field].push(id.unwrap_or(miss));
            if id.is_none() {
                columns.literals[field].extend(&literal.to_le_bytes()[..shape.literal_bytes(field)]);
            }
        };
        let id = self.usage[0].choose(&self.ips.predictions(), entry.ip);
        put(0, id, GLOBAL_MISS, entry.ip);
        self.ips.update(entry.ip);
        for (place, bank) in self.values.iter_mut().enumerate() {
            let value = if place == 0 { entry.addr } else { entry.data };
            let id = self.usage[place + 1].choose(&bank.predictions(entry.ip), value);
            put(place + 1, id, VALUE_MISS, value);
            bank.update(entry.ip, value);
        }
        let last = self.values.len() + 1;
        let step = entry.cycle.wrapping_sub(self.cycle);
        let sum = step.wrapping_add(entry.ip);
        let id = self.usage[last].choose(&self.steps.predictions(), sum);
        put(last, id, GLOBAL_MISS, step);
        self.steps.update(sum);
        self.cycle = entry.cycle;
    }

    /// Reads the entry at `place`; `at` is where each field's next literal is.
    fn decode(&mut self, columns: &ColumnsRef<'_>, place: usize, at: &mut [usize]) -> Option<MemoryEntry> {
        let shape = self.shape;
        let mut literal = |field: usize| {
            let bytes = columns.literals[field].get(at[field]..)?.get(..shape.literal_bytes(field))?;
            at[field] += bytes.len();
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            Some(u64::from_le_bytes(word))
        };
        let id = |field: usize| columns.ids[field].get(place).copied();
        let tag = columns.tags.get(place * 2..)?.first_chunk().copied().map(u16::from_le_bytes)?;
        let ip = match id(0)? {
            GLOBAL_MISS => literal(0)?,
            id => *self.ips.predictions().get(usize::from(id))?,
        };
        self.ips.update(ip);
        let mut fields = [0; 2];
        for (number, bank) in self.values.iter_mut().enumerate() {
            let value = match id(number + 1)? {
                VALUE_MISS => literal(number + 1)?,
                id => *bank.predictions(ip).get(usize::from(id))?,
            };
            bank.update(ip, value);
            fields[number] = value;
        }
        let last = self.values.len() + 1;
        let step = match id(last)? {
            GLOBAL_MISS => literal(last)?,
            id => self.steps.predictions().get(usize::from(id))?.wrapping_sub(ip),
        };
        self.steps.update(step.wrapping_add(ip));
        self.cycle = self.cycle.wrapping_add(step);
        Some(MemoryEntry { cycle: self.cycle, tag, ip, addr: fields[0], data: fields[1] })
    }
}

/// [`Columns`] as they are read.
#[derive(Debug)]
pub(crate) struct ColumnsRef<'a> {
    pub(crate) tags: &'a [u8],
    pub(crate) ids: Vec<&'a [u8]>,
    pub(crate) literals: Vec<&'a [u8]>,
}

/// Encodes the entries of a segment.
fn encode(shape: Shape, start_cycle: u64, entries: impl Iterator<Item = MemoryEntry>) -> Columns {
    let fields = shape.fields();
    let mut columns =
        Columns { tags: Vec::new(), ids: vec![Vec::new(); fields], literals: vec![Vec::new(); fields] };
    let mut model = VpcModel::new(shape, start_cycle);
    for entry in entries {
        model.encode(&entry, &mut columns);
    }
    columns
}

/// Decodes `count` entries of a segment; literals may be followed by bytes that no entry needs.
pub(crate) fn decode(
    shape: Shape,
    start_cycle: u64,
    columns: &ColumnsRef<'_>,
    count: usize,
    mut emit: impl FnMut(MemoryEntry),
) -> Result<(), Corrupt> {
    let mut model = VpcModel::new(shape, start_cycle);
    let mut at = vec![0; shape.fields()];
    for place in 0..count {
        let entry = model.decode(columns, place, &mut at);
        emit(entry.ok_or(Corrupt("a column is too short, or has an identifier of no predictor"))?);
    }
    Ok(())
}

/// How entries are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryLayout {
    /// Simutrace's own, packed.
    Memory(Shape),
    /// memtap's accesses.
    Access { data: bool },
}

impl EntryLayout {
    fn of(entry_type: &EntryType) -> Option<Self> {
        for (number, bits, data) in MEMORY_TYPES {
            let shape = Shape { bits, data };
            if entry_type.guid == Guid::of_type(number) && entry_type.entry_bytes == entry_bytes(shape) {
                return Some(Self::Memory(shape));
            }
        }
        let bytes = entry_type.entry_bytes as usize;
        let own = |kind: StreamKind| bytes == kind.entry_bytes();
        if own(StreamKind::Accesses) {
            return Some(Self::Access { data: false });
        }
        own(StreamKind::DataAccesses).then_some(Self::Access { data: true })
    }

    fn shape(self) -> Shape {
        match self {
            Self::Memory(shape) => shape,
            Self::Access { data } => Shape { bits: 64, data },
        }
    }
}

/// Number of the type, bits, data: docs/format.md, *Entry types*.
const MEMORY_TYPES: [(u8, u32, bool); 4] = [(32, 32, false), (33, 32, true), (34, 64, false), (35, 64, true)];

fn entry_bytes(shape: Shape) -> u32 {
    8 + (shape.bits / 8) * (2 + u32::from(shape.data))
}

impl EntryType {
    /// Simutrace's memory entries of 32 or 64 bits (section 3.3, table 1), packed: metadata (cycle 48 bits, full size 1, tag
    /// 15), instruction, address, and data where there is any.
    pub fn memory_access(wide: bool, data: bool) -> Self {
        use crate::{Field, FieldRole};
        let shape = Shape { bits: if wide { 64 } else { 32 }, data };
        let width = (shape.bits / 8) as u8;
        let number = MEMORY_TYPES.iter().find(|&&(_, bits, has)| (bits, has) == (shape.bits, data));
        let mut fields = vec![Field { name: "metadata".into(), offset: 0, bytes: 8, role: FieldRole::Plain }];
        for (place, name) in ["ip", "addr", "data"].into_iter().take(2 + usize::from(data)).enumerate() {
            let role = if place == 2 { FieldRole::Plain } else { FieldRole::Address };
            let offset = 8 + place as u16 * u16::from(width);
            fields.push(Field { name: name.into(), offset, bytes: width, role });
        }
        Self {
            guid: Guid::of_type(number.map_or(0, |&(number, ..)| number)),
            name: format!("{}memory-access-{}", if data { "data-" } else { "" }, shape.bits),
            entry_bytes: entry_bytes(shape),
            fields,
        }
    }
}

fn word(entry: &[u8], at: usize, bytes: usize) -> u64 {
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(&entry[at..at + bytes]);
    u64::from_le_bytes(word)
}

/// The entry, and the word that it has no place for: size, kind, bytes of the value.
fn from_bytes(layout: EntryLayout, entry: &[u8]) -> (MemoryEntry, u64) {
    match layout {
        EntryLayout::Memory(shape) => {
            let width = shape.bits as usize / 8;
            let meta = word(entry, 0, 8);
            let data = if shape.data { word(entry, 8 + 2 * width, width) } else { 0 };
            let (ip, addr) = (word(entry, 8, width), word(entry, 8 + width, width));
            (MemoryEntry { cycle: meta & CYCLE, tag: (meta >> 48) as u16, ip, addr, data }, 0)
        }
        EntryLayout::Access { data } => {
            let [cycle, ip, addr, shape] = std::array::from_fn(|place| word(entry, place * 8, 8));
            let data = if data { word(entry, 32, 8) } else { 0 };
            (MemoryEntry { cycle, tag: 0, ip, addr, data }, shape)
        }
    }
}

/// SVPC with LZMA as its second stage.
#[derive(Debug)]
pub(crate) struct Vpc;

impl Encoder for Vpc {
    fn id(&self) -> u32 {
        number::VPC
    }

    fn name(&self) -> &'static str {
        number::name_of(number::VPC)
    }

    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute> {
        let Some(layout) = EntryLayout::of(entry_type) else { return raw(entries) };
        // What has no place in a memory entry becomes a number in the tag.
        let mut shapes: Vec<u64> = Vec::new();
        let mut memory = Vec::with_capacity(entries.len() / entry_type.entry_bytes as usize);
        for bytes in entries.chunks_exact(entry_type.entry_bytes as usize) {
            let (mut entry, shape) = from_bytes(layout, bytes);
            if let EntryLayout::Access { .. } = layout {
                let known = shapes.iter().position(|&other| other == shape).unwrap_or_else(|| {
                    shapes.push(shape);
                    shapes.len() - 1
                });
                let Ok(tag) = u16::try_from(known) else { return raw(entries) };
                entry.tag = tag;
            }
            memory.push(entry);
        }
        let start = memory.first().map_or(0, |entry| entry.cycle);
        let columns = encode(layout.shape(), start, memory.into_iter());
        let mut head = start.to_le_bytes().to_vec();
        head.extend(shapes.iter().flat_map(|shape| shape.to_le_bytes()));
        let mut parts = vec![
            Attribute { kind: TAGS, coding: Coding::Lzma, bytes: columns.tags },
            Attribute { kind: SHAPES, coding: Coding::Stored, bytes: head },
        ];
        for (first, columns) in [(IDS, columns.ids), (LITERALS, columns.literals)] {
            for (field, bytes) in columns.into_iter().enumerate() {
                parts.push(Attribute { kind: first + field as u16, coding: Coding::Lzma, bytes });
            }
        }
        parts
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let &Encoded { entry_type, count, parts, .. } = encoded;
        const MISSING: Corrupt = Corrupt("the frame lacks an attribute of its encoder");
        let Some(layout) = EntryLayout::of(entry_type) else { return raw_decode(encoded, out) };
        if let [Attribute { kind: 0, .. }] = parts {
            return raw_decode(encoded, out);
        }
        let part =
            |kind: u16| parts.iter().find(|part| part.kind == kind).map(|part| &*part.bytes).ok_or(MISSING);
        let shape = layout.shape();
        let all = |first: u16| (first..).take(shape.fields()).map(part).collect::<Result<Vec<_>, _>>();
        let columns = ColumnsRef { tags: part(TAGS)?, ids: all(IDS)?, literals: all(LITERALS)? };
        let (start, shapes) = part(SHAPES)?.split_first_chunk().ok_or(MISSING)?;
        let shapes = shapes.as_chunks::<8>().0;
        let mut known = true;
        let start = u64::from_le_bytes(*start);
        decode(shape, start, &columns, count, |entry| match layout {
            EntryLayout::Memory(shape) => {
                let width = shape.bits as usize / 8;
                out.extend((entry.cycle & CYCLE | u64::from(entry.tag) << 48).to_le_bytes());
                out.extend(&entry.ip.to_le_bytes()[..width]);
                out.extend(&entry.addr.to_le_bytes()[..width]);
                if shape.data {
                    out.extend(&entry.data.to_le_bytes()[..width]);
                }
            }
            EntryLayout::Access { data } => {
                let shape = shapes.get(usize::from(entry.tag));
                known &= shape.is_some();
                let shape = u64::from_le_bytes(shape.copied().unwrap_or_default());
                let MemoryEntry { cycle, ip, addr, data: value, .. } = entry;
                AccessWords { cycle, ip, addr, shape, value }.put(data, out);
            }
        })?;
        if known { Ok(()) } else { Err(Corrupt("an entry has a tag that stands for nothing")) }
    }
}
