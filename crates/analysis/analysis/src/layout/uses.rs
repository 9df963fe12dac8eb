//! The second replay: how the fields of each type are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use memref::{Access, AccessKind, Event, ThreadId};
use rustc_hash::FxHashMap;

use super::HeapTypes;
use super::advice::advice;
use super::conflicts::TypeConflict;
use super::fields::{FieldUse, TypeHole, holes};
use super::heap_types::{TypeTable, TypedPlace};
use crate::{Count, Error, Moment, Tool};

/// Accesses within which fields of one object are used together.
const TOGETHER: u64 = 64;
/// Objects that a thread is at, at a time.
const OBJECTS: usize = 16;
/// Fields that take part in pairs.
const PAIRED: usize = 64;
const LINE_BYTES: u64 = 64;

/// Two fields of one object that were used within 64 accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPair {
    /// The one.
    pub first: String,
    /// The other.
    pub second: String,
    /// How often.
    pub times: u64,
}

/// A type, its blocks, and how its fields are used.
#[derive(Clone, Debug)]
pub struct TypeUse {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Blocks of it, or of arrays of it.
    pub blocks: u64,
    /// Objects in them.
    pub objects: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// How most of its accesses were found to be of it: `dwarf`, `flow` or `votes`.
    pub typed_by: &'static str,
    /// The part of the votes that agree.
    pub confidence: f64,
    /// What else was voted for, most first.
    pub conflicts: Vec<TypeConflict>,
    /// Its fields in their order; what is accessed between them is nobody's.
    pub fields: Vec<FieldUse>,
    /// Bytes without a field.
    pub holes: Vec<TypeHole>,
    /// Accesses to each of its lines, if it begins with one.
    pub lines: Vec<u64>,
    /// Fields that are used together, most often first.
    pub pairs: Vec<FieldPair>,
    /// What could be done, in words.
    pub advice: Vec<String>,
    /// All its accesses.
    pub count: Count,
}

/// Two fields by their numbers in the type, the smaller first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FieldNumbers {
    first: u16,
    second: u16,
}

/// What one type collects.
#[derive(Debug, Default)]
struct CountedType {
    /// By field and thread.
    counts: BTreeMap<(u16, ThreadId), Count>,
    pairs: FxHashMap<FieldNumbers, u64>,
    direct: u64,
    flow: u64,
    all: Count,
}

/// An object that a thread is at.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectInUse {
    object: u64,
    type_: u32,
    mask: u64,
    since: u64,
}

#[derive(Clone, Debug)]
struct ThreadObjects {
    accesses: u64,
    objects: [ObjectInUse; OBJECTS],
}

/// Counts by field.
#[derive(Debug)]
pub struct TypeUses {
    types: Arc<HeapTypes>,
    counted: FxHashMap<u32, CountedType>,
    threads: FxHashMap<ThreadId, ThreadObjects>,
    /// Accesses to heap blocks, and those to blocks that have a type.
    heap: u64,
    typed: u64,
    /// Missing events.
    pub missing: u64,
}

impl TypeUses {
    /// With the blocks' types as they were voted for.
    pub fn new(types: Arc<HeapTypes>) -> Self {
        Self {
            types,
            counted: FxHashMap::default(),
            threads: FxHashMap::default(),
            heap: 0,
            typed: 0,
            missing: 0,
        }
    }

    /// The part of the accesses to heap blocks that have a type.
    pub fn covered(&self) -> f64 {
        self.typed as f64 / (self.heap as f64).max(1.0)
    }

    fn access(&mut self, at: &mut Moment<'_>, access: &Access) {
        let variable = at.resolver.resolve_data(access.addr).variable;
        if self.types.block_of(variable).is_none() {
            return;
        }
        self.heap += 1;
        let Some(place) = self.types.place(variable, access.addr) else { return };
        self.typed += 1;
        let counted = self.counted.entry(place.type_).or_default();
        counted.all.add(access);
        counted.counts.entry((place.field, at.thread)).or_default().add(access);
        match self.types.code().known(at.resolver.resolve_code(access.ip)) {
            Some(known) if known.is_named => counted.direct += 1,
            Some(_) => counted.flow += 1,
            None => {}
        }
        if (place.field as usize) < PAIRED {
            self.together(at.thread, access, place);
        }
    }

    fn together(&mut self, thread: ThreadId, access: &Access, place: TypedPlace) {
        let TypedPlace { type_, field, offset, element } = place;
        let object = access.addr.0 - offset;
        let new = || ThreadObjects { accesses: 0, objects: [ObjectInUse::default(); OBJECTS] };
        let objects = self.threads.entry(thread).or_insert_with(new);
        objects.accesses += 1;
        let now = objects.accesses;
        let slot = ((object >> 4) ^ element) as usize % OBJECTS;
        let used = &mut objects.objects[slot];
        if used.object == object && used.type_ == type_ && now - used.since < TOGETHER {
            used.mask |= 1 << field;
            return;
        }
        let over = std::mem::replace(used, ObjectInUse { object, type_, mask: 1 << field, since: now });
        self.end(over);
    }

    fn end(&mut self, over: ObjectInUse) {
        if over.mask.count_ones() < 2 {
            return;
        }
        let Some(counted) = self.counted.get_mut(&over.type_) else { return };
        let fields = || (0..PAIRED as u16).filter(|field| over.mask >> field & 1 == 1);
        for first in fields() {
            for second in fields().filter(|second| *second > first) {
                *counted.pairs.entry(FieldNumbers { first, second }).or_default() += 1;
            }
        }
    }

    /// The types, most accesses first.
    pub fn types_used(mut self) -> Vec<TypeUse> {
        let open: Vec<ObjectInUse> = self.threads.values().flat_map(|thread| thread.objects).collect();
        open.into_iter().for_each(|over| self.end(over));
        let mut all: BTreeMap<u32, TypeUse> = BTreeMap::new();
        for (type_, counted) in &self.counted {
            let Some(table) = self.types.table(*type_) else { continue };
            all.insert(*type_, counted.type_use(self.types.name(*type_), table));
        }
        for (type_, one) in &mut all {
            one.conflicts = self.types.conflicts(*type_);
            one.confidence = self.types.confidence(*type_);
            one.advice = advice(one);
        }
        let mut all: Vec<TypeUse> = all.into_values().collect();
        all.sort_by(|a, b| b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

impl CountedType {
    fn type_use(&self, name: &str, table: &TypeTable) -> TypeUse {
        let (mut fields, bytes) = (table.fields.clone(), table.bytes());
        let mut lines = vec![0; bytes.div_ceil(LINE_BYTES) as usize];
        for ((field, thread), count) in &self.counts {
            let Some(field) = fields.get_mut(*field as usize) else { continue };
            field.count += *count;
            field.threads.push(thread.0);
            lines[(field.offset / LINE_BYTES) as usize] += count.accesses();
        }
        let named = |field: u16| table.fields[field as usize].name.clone();
        let mut pairs: Vec<FieldPair> = self
            .pairs
            .iter()
            .map(|(fields, times)| FieldPair {
                first: named(fields.first),
                second: named(fields.second),
                times: *times,
            })
            .collect();
        pairs.sort_by(|a, b| {
            b.times.cmp(&a.times).then_with(|| (&a.first, &a.second).cmp(&(&b.first, &b.second)))
        });
        let all = self.all.accesses();
        let typed_by = match () {
            () if self.direct + self.flow < all - all / 2 => "votes",
            () if self.direct >= self.flow => "dwarf",
            () => "flow",
        };
        TypeUse {
            name: name.to_owned(),
            bytes,
            blocks: table.blocks,
            objects: table.objects,
            block_bytes: table.block_bytes,
            typed_by,
            confidence: 1.0,
            conflicts: Vec::new(),
            holes: holes(&table.owners),
            fields,
            lines,
            pairs,
            advice: Vec::new(),
            count: self.all,
        }
    }
}

impl Tool for TypeUses {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            self.access(at, access);
        }
        Ok(())
    }

    fn event(&mut self, _: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if let Event::Gap(gap) = event {
            self.missing += gap.count;
        }
        Ok(())
    }
}
