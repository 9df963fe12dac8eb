//! The second replay: how the fields of each type are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use memref::{Access, AccessKind, BlockFunction, BlockOp, Event, MarkerKind, ProcessId, ThreadId, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::CodeId;
use trace_format::Filter;

use super::HeapTypes;
use super::advice::advice;
use super::conflicts::TypeConflict;
use super::fields::{FieldUse, NO_FIELD, TypeHole, by_byte, holes};
use super::heap_types::{TypeTable, TypedPlace};
use super::variables::VariableTypes;
use crate::tally::slot;
use crate::{Count, Error, Moment, Session, Tool};

/// Accesses within which fields of one object are used together.
const TOGETHER: u64 = 64;
/// Objects that a thread is at, at a time.
const OBJECTS: usize = 16;
/// Fields that take part in pairs.
const PAIRED: usize = 64;
const LINE_BYTES: u64 = 64;
/// Places, and sets of fields of one type, that are counted before they are added up.
const MOST_COUNTED: usize = 1 << 16;

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

/// A type, and how its fields are used in blocks of the heap, or in variables.
#[derive(Clone, Debug)]
pub struct TypeUse {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Blocks of it, or of arrays of it; none where this is about variables.
    pub blocks: u64,
    /// Static and local variables of it, or of arrays of it, that were accessed.
    pub variables: u64,
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
    /// Whether all accesses of its blocks are known, and that they are of it: only then a field without any was never used.
    pub is_complete: bool,
    /// Its objects lie in blocks that several types share, where accesses are of nobody knows what: there may be more to it.
    pub is_lower_bound: bool,
    /// All its accesses.
    pub count: Count,
}

/// Two fields by their numbers in the type, the smaller first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FieldNumbers {
    first: u16,
    second: u16,
}

/// Block operations on a field.
#[derive(Clone, Copy, Debug, Default)]
struct BlockOps {
    reads: u64,
    writes: u64,
}

/// What one type collects.
#[derive(Debug, Default)]
struct CountedType {
    /// By field and thread.
    counts: BTreeMap<(u16, ThreadId), Count>,
    /// Block operations by field: those that read it, and those that wrote it.
    blocks: FxHashMap<u16, BlockOps>,
    pairs: FxHashMap<FieldNumbers, u64>,
    /// How often fields were used together, a bit each: of these, pairs are made in the end.
    together: FxHashMap<u64, u64>,
    /// By line, if an object begins with one.
    lines: BTreeMap<u64, u64>,
    direct: u64,
    flow: u64,
    all: Count,
}

/// A place in a type, and who accesses how many bytes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AccessedPlace {
    /// Of its first object: which one it is does not matter.
    place: TypedPlace,
    size: u32,
    thread: ThreadId,
}

/// How a place of a type is accessed.
#[derive(Debug)]
struct PlaceUse {
    of: AccessedPlace,
    fields: Box<[u16]>,
    /// Those that take part in pairs, a bit each.
    mask: u64,
    count: Count,
    direct: u64,
    flow: u64,
}

/// The places that are accessed, until they are added up.
#[derive(Debug, Default)]
struct PlaceUses {
    all: Vec<PlaceUse>,
    number_of: FxHashMap<AccessedPlace, u32>,
    /// What each instruction accessed last, by its number: most access the same place of another object.
    last: Vec<Option<u32>>,
}

impl PlaceUses {
    #[inline]
    fn last(&self, code: CodeId, of: &AccessedPlace) -> Option<u32> {
        let number = (*self.last.get(code.0 as usize)?)?;
        (self.all[number as usize].of == *of).then_some(number)
    }
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

/// The part of the votes that may disagree where all accesses of blocks are taken for those of their type.
const MOST_DOUBT: f64 = 0.005;

/// Counts by field.
#[derive(Debug)]
pub struct TypeUses {
    types: Arc<HeapTypes>,
    variables: VariableTypes,
    /// Members that are structures are one field each.
    is_flat: bool,
    counted: FxHashMap<u32, CountedType>,
    places: PlaceUses,
    threads: FxHashMap<ThreadId, ThreadObjects>,
    /// Accesses to heap blocks, and those to blocks that have a type.
    heap: u64,
    typed: u64,
    in_mappings: u64,
    in_variables: u64,
    /// Recording was switched off or on in between.
    is_partial: bool,
    /// Where recording began, of each process.
    begun: BTreeMap<ProcessId, VirtAddr>,
    /// The blocks that several types share where an access was to none of the objects that are known.
    unplaced: FxHashSet<u32>,
    /// The fields of one access.
    touched: Vec<u16>,
}

impl TypeUses {
    /// With the blocks' types as they were voted for.
    pub fn new(session: &Session, types: Arc<HeapTypes>) -> Self {
        Self {
            variables: VariableTypes::new(session, &types),
            types,
            is_flat: false,
            counted: FxHashMap::default(),
            places: PlaceUses::default(),
            threads: FxHashMap::default(),
            heap: 0,
            typed: 0,
            in_mappings: 0,
            in_variables: 0,
            is_partial: false,
            begun: BTreeMap::new(),
            unplaced: FxHashSet::default(),
            touched: Vec::new(),
        }
    }

    /// Counts to members alone: those that are structures are one field each.
    #[must_use]
    pub fn flat(self) -> Self {
        Self { is_flat: true, ..self }
    }

    /// Replays all of a session, unless nothing in it can have a type.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(mut self, session: &Session) -> Result<Self, Error> {
        if session.may_have_types() {
            session.replay(&Filter::default(), None, &mut self)?;
        }
        Ok(self)
    }

    /// Finds the fields that so many bytes at a place are of.
    fn touch(&mut self, place: TypedPlace, len_bytes: u64) {
        let variables = self.variables.get(place.type_).map(|known| &known.table);
        let Some(table) = variables.or_else(|| self.types.table(place.type_)) else { return };
        table.touched(place, len_bytes, &mut self.touched);
        if self.is_flat {
            for field in &mut self.touched {
                *field = table.member_of.get(usize::from(*field)).copied().unwrap_or(NO_FIELD);
            }
            self.touched.sort_unstable();
            self.touched.dedup();
        }
    }

    /// The part of the accesses to heap blocks that have a type.
    pub fn covered(&self) -> f64 {
        self.typed as f64 / (self.heap as f64).max(1.0)
    }

    /// Accesses to objects in memory that the program mapped itself.
    pub fn in_mappings(&self) -> u64 {
        self.in_mappings
    }

    /// Accesses to static and local variables that are structures, or arrays of them.
    pub fn in_variables(&self) -> u64 {
        self.in_variables
    }

    fn access(&mut self, at: &mut Moment<'_>, access: &Access) {
        let code = self.variables.follow(at, access);
        let variable = at.resolver.resolve_data(access.addr).variable;
        let block = self.types.block_of(variable);
        let is_in_block = block.is_some();
        let is_mapping = block.is_some_and(|number| self.types.block(number).is_mapping);
        let place = match is_in_block {
            true => self.types.place(at.resolver, variable, access),
            false => self.variables.place(at, code, variable, access.addr),
        };
        self.heap += u64::from(is_in_block && !is_mapping);
        let Some(place) = place else {
            self.unplaced.extend(self.types.pool_of(variable));
            return;
        };
        *match (is_in_block, is_mapping) {
            (true, false) => &mut self.typed,
            (true, true) => &mut self.in_mappings,
            (false, _) => &mut self.in_variables,
        } += 1;
        let of = AccessedPlace { place: place.of_first_object(), size: access.size, thread: at.thread };
        let number = self.places.last(code, &of).unwrap_or_else(|| self.place_use(code, of));
        let used = &mut self.places.all[number as usize];
        used.count.add(access);
        match self.types.code().known(code) {
            // A variable has its type, whatever the instruction knows.
            _ if !is_in_block => used.direct += 1,
            Some(known) if known.is_named => used.direct += 1,
            Some(_) => used.flow += 1,
            None => {}
        }
        let mask = used.mask;
        if mask != 0 {
            self.together(at.thread, access, place, mask);
        }
    }

    /// The number of a place, which is what that instruction accesses.
    fn place_use(&mut self, code: CodeId, of: AccessedPlace) -> u32 {
        if self.places.all.len() >= MOST_COUNTED {
            self.add_up();
        }
        let number = match self.places.number_of.get(&of) {
            Some(number) => *number,
            None => {
                self.touch(of.place, of.size.into());
                let paired = self.touched.iter().filter(|field| usize::from(**field) < PAIRED);
                let mask = paired.fold(0, |mask, field| mask | 1 << field);
                let fields = self.touched.as_slice().into();
                // Pairs of its fields may be complete before it is added up.
                self.counted.entry(of.place.type_).or_default();
                self.places.all.push(PlaceUse {
                    of,
                    fields,
                    mask,
                    count: Count::default(),
                    direct: 0,
                    flow: 0,
                });
                let number = self.places.all.len() as u32 - 1;
                self.places.number_of.insert(of, number);
                number
            }
        };
        *slot(&mut self.places.last, code.0) = Some(number);
        number
    }

    /// Adds up what was counted at places.
    fn add_up(&mut self) {
        for PlaceUse { of, fields, count, direct, flow, .. } in std::mem::take(&mut self.places).all {
            let counted = self.counted.entry(of.place.type_).or_default();
            counted.all += count;
            counted.direct += direct;
            counted.flow += flow;
            for field in &fields {
                *counted.counts.entry((*field, of.thread)).or_default() += count;
            }
            if fields.first() != Some(&NO_FIELD) {
                let offset = of.place.offset;
                let last_byte = offset + u64::from(of.size.max(1)) - 1;
                for line in offset / LINE_BYTES..=last_byte / LINE_BYTES {
                    *counted.lines.entry(line).or_default() += count.accesses();
                }
            }
        }
    }

    /// Recording was switched on or off: where `main` begins and ends, all that the program itself does is recorded.
    fn switched(&mut self, at: &mut Moment<'_>, kind: MarkerKind, ip: VirtAddr) {
        let name = at.resolver.code_name(ip).and_then(|name| name.function.clone());
        let is_of_main = ip.0 != 0 && name.is_none_or(|name| &*name == "main");
        let begun = match kind {
            MarkerKind::Start => self.begun.insert(at.process, ip).is_none(),
            _ => self.begun.get(&at.process) == Some(&ip),
        };
        self.is_partial |= !is_of_main || !begun;
    }

    /// A block operation: what of each object it reads or writes.
    fn block_op(&mut self, at: &mut Moment<'_>, op: &BlockOp) {
        // Zeros that calloc writes and what realloc moves is no use that the program makes of a field.
        if op.function == BlockFunction::Allocator {
            return;
        }
        let reads = op.read().into_iter().chain(op.compared()).map(|range| (range, false));
        let ranges: Vec<_> = reads.chain(op.written().map(|range| (range, true))).collect();
        for ((addr, len), writes) in ranges.into_iter().filter(|((_, len), _)| *len > 0) {
            let variable = at.resolver.resolve_data(addr).variable;
            let code = at.resolver.resolve_code(op.ip);
            let place = match self.types.block_of(variable) {
                Some(number) => self.types.place_in(number, addr),
                None => self.variables.place(at, code, variable, addr),
            };
            let Some(place) = place else { continue };
            self.touch(place, len);
            let blocks = &mut self.counted.entry(place.type_).or_default().blocks;
            for field in &self.touched {
                let ops = blocks.entry(*field).or_default();
                *if writes { &mut ops.writes } else { &mut ops.reads } += 1;
            }
        }
    }

    fn together(&mut self, thread: ThreadId, access: &Access, place: TypedPlace, mask: u64) {
        let TypedPlace { type_, offset, element, .. } = place;
        let object = access.addr.0 - offset;
        let new = || ThreadObjects { accesses: 0, objects: [ObjectInUse::default(); OBJECTS] };
        let objects = self.threads.entry(thread).or_insert_with(new);
        objects.accesses += 1;
        let now = objects.accesses;
        let slot = ((object >> 4) ^ element) as usize % OBJECTS;
        let used = &mut objects.objects[slot];
        if used.object == object && used.type_ == type_ && now - used.since < TOGETHER {
            used.mask |= mask;
            return;
        }
        let over = std::mem::replace(used, ObjectInUse { object, type_, mask, since: now });
        self.end(over);
    }

    fn end(&mut self, over: ObjectInUse) {
        if over.mask.count_ones() < 2 {
            return;
        }
        let Some(counted) = self.counted.get_mut(&over.type_) else { return };
        *counted.together.entry(over.mask).or_default() += 1;
        if counted.together.len() >= MOST_COUNTED {
            counted.add_pairs();
        }
    }

    /// The types, most accesses first.
    pub fn types_used(mut self) -> Vec<TypeUse> {
        let open: Vec<ObjectInUse> = self.threads.values().flat_map(|thread| thread.objects).collect();
        open.into_iter().for_each(|over| self.end(over));
        self.add_up();
        self.counted.values_mut().for_each(CountedType::add_pairs);
        let unplaced = self.types.types_in_pools(&self.unplaced);
        let mut all: BTreeMap<u32, TypeUse> = BTreeMap::new();
        for (type_, counted) in &self.counted {
            let one = match (self.variables.get(*type_), self.types.table(*type_)) {
                (Some(known), _) => counted.type_use(&known.name, &known.table, self.is_flat),
                (None, Some(table)) => counted.type_use(self.types.name(*type_), table, self.is_flat),
                (None, None) => continue,
            };
            all.insert(*type_, one);
        }
        for (type_, one) in &mut all {
            if let Some(blocks) = self.types.blocks(*type_) {
                (one.blocks, one.objects, one.block_bytes) = (blocks.count, blocks.objects, blocks.bytes);
                one.conflicts = self.types.conflicts(*type_);
                one.confidence = self.types.confidence(*type_);
            }
            let variables = self.variables.get(*type_).map(|known| known.count);
            if let Some(count) = variables {
                (one.variables, one.objects) = (count.variables(), count.objects);
            }
            one.is_lower_bound = unplaced.contains(type_);
            one.is_complete = self.types.missing() == 0
                && !self.is_partial
                && one.confidence >= 1.0 - MOST_DOUBT
                && !one.is_lower_bound
                && variables.is_none_or(|count| self.variables.are_all_known(count));
            one.advice = advice(one);
        }
        let mut all: Vec<TypeUse> = all.into_values().collect();
        all.sort_by(|a, b| b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

impl CountedType {
    /// Makes pairs of the fields that were used together.
    fn add_pairs(&mut self) {
        for (mask, times) in self.together.drain() {
            let fields = || (0..PAIRED as u16).filter(|field| mask >> field & 1 == 1);
            for first in fields() {
                for second in fields().filter(|second| *second > first) {
                    *self.pairs.entry(FieldNumbers { first, second }).or_default() += times;
                }
            }
        }
    }

    fn type_use(&self, name: &str, table: &TypeTable, is_flat: bool) -> TypeUse {
        let bytes = table.bytes();
        let (known, holes) = match is_flat {
            true => (&table.members, holes(&by_byte(&table.members, bytes))),
            false => (&table.fields, holes(&table.owners)),
        };
        let mut fields = known.clone();
        let mut lines = vec![0; bytes.div_ceil(LINE_BYTES) as usize];
        for ((field, thread), count) in &self.counts {
            let Some(field) = fields.get_mut(*field as usize) else { continue };
            field.count += *count;
            field.threads.push(thread.0);
        }
        for (line, accesses) in &self.lines {
            // What reaches into the next element, or is behind the type, is of no line of it.
            if let Some(known) = lines.get_mut(*line as usize) {
                *known += accesses;
            }
        }
        for (field, ops) in &self.blocks {
            let Some(field) = fields.get_mut(*field as usize) else { continue };
            (field.block_reads, field.block_writes) = (ops.reads, ops.writes);
        }
        let named = |field: u16| known[field as usize].name.clone();
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
            blocks: 0,
            objects: 0,
            block_bytes: 0,
            variables: 0,
            typed_by,
            confidence: 1.0,
            conflicts: Vec::new(),
            holes,
            fields,
            lines,
            pairs,
            advice: Vec::new(),
            is_complete: true,
            is_lower_bound: false,
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

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.variables.event(at, event);
        match event {
            Event::Block(op) => self.block_op(at, op),
            Event::Marker(marker) if marker.kind != MarkerKind::Mark => {
                self.switched(at, marker.kind, marker.ip)
            }
            _ => {}
        }
        Ok(())
    }
}
