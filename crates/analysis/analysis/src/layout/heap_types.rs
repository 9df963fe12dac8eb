//! The type of each heap block of a session, and the field at an address in a block. Every table that names fields uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use memref::{Access, ProcessId, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::{BlockId, CodeId, Resolver, TypeLayout, VariableId};

use super::conflicts::{TypeConflict, TypeConflicts};
use super::fields::{FieldUse, NO_FIELD, StoredPart, by_byte, fields_with, member_of, members_of, open_end};
use super::parts::has_scalar;
use super::pools::{Pool, PoolObject, PoolReplay, ToldObjects, path_in_pool, told_by};
use super::votes::{BlockTypes, DecidedType, PlacedType, SharedBlock, TypedShare, VotedBlock};
use crate::typing::{CodeTypes, KnownType};
use crate::{Error, Session};

/// Types that are larger have no table.
pub(super) const MOST_BYTES: u64 = 1 << 16;

/// Which type each heap block has, as all accesses of a session voted.
#[derive(Debug, Default)]
pub struct HeapTypes {
    votes: BlockTypes,
    decided: Vec<Option<DecidedType>>,
    /// The blocks that have several, by their numbers.
    pools: FxHashMap<u32, Pool>,
    conflicts: TypeConflicts,
    number_of: FxHashMap<(ProcessId, BlockId), u32>,
    /// By the type's number; nothing for types that no block has.
    tables: Vec<Option<(TypeTable, TypeBlocks)>>,
}

/// The field that has all bytes from an offset on.
#[derive(Clone, Copy, Debug)]
struct ArrayTail {
    field: u16,
    offset: u64,
}

/// The fields of a type, by its bytes.
#[derive(Debug)]
pub(crate) struct TypeTable {
    /// Its fields in their order.
    pub(crate) fields: Vec<FieldUse>,
    /// Its members, whatever they are, and the one that each field is in.
    pub(super) members: Vec<FieldUse>,
    pub(super) member_of: Vec<u16>,
    /// The field of each byte.
    pub(super) owners: Vec<u16>,
    /// Whether members of a union are among the fields.
    has_alternatives: bool,
    /// The array that its objects end in, however long they are.
    tail: Option<ArrayTail>,
}

/// The blocks of a type, or of arrays of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeBlocks {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Objects in them.
    pub(super) objects: u64,
    /// The first of them.
    pub(crate) example: VariableId,
}

impl TypeTable {
    pub(super) fn new(layout: &TypeLayout, stored: Option<StoredPart<'_>>, are_longer: bool) -> Self {
        let fields = fields_with(layout, stored);
        let tail = open_end(layout, &fields, are_longer);
        let members = members_of(layout);
        Self {
            member_of: fields.iter().map(|field| member_of(field, &members).unwrap_or(NO_FIELD)).collect(),
            members,
            owners: by_byte(&fields, layout.bytes),
            has_alternatives: fields.iter().any(|field| field.is_alternative),
            tail: tail.map(|field| ArrayTail { field, offset: fields[usize::from(field)].offset }),
            fields,
        }
    }

    /// Bytes of an object.
    pub(super) fn bytes(&self) -> u64 {
        self.owners.len() as u64
    }

    /// The array at the end, for what lies in it.
    fn tail_at(&self, offset: u64) -> Option<u16> {
        self.tail.filter(|tail| offset >= tail.offset).map(|tail| tail.field)
    }

    /// What so many bytes into one object or an array of them is.
    #[inline]
    pub(super) fn place(&self, type_: u32, into: u64) -> TypedPlace {
        let (element, offset) = (into / self.bytes(), into % self.bytes());
        let field = self.owners[offset as usize];
        TypedPlace { type_, field, offset, element, is_behind: false }
    }

    /// The fields that an access of so many bytes is of, each once, the first one first: of the same object, and of those behind it.
    /// Of members of a union those that fit best.
    pub(super) fn touched(&self, place: TypedPlace, len_bytes: u64, fields: &mut Vec<u16>) {
        let bytes = self.bytes();
        fields.clear();
        if place.is_behind {
            fields.push(place.field);
        } else if self.has_alternatives {
            self.touch_alternatives(place.offset, len_bytes, fields);
        } else if place.offset < bytes {
            for offset in place.offset..place.offset + len_bytes.clamp(1, bytes) {
                let owner = self.tail_at(offset).unwrap_or(self.owners[(offset % bytes) as usize]);
                if owner != NO_FIELD && fields.last() != Some(&owner) && fields.first() != Some(&owner) {
                    fields.push(owner);
                }
            }
        }
        if fields.is_empty() {
            fields.push(place.field);
        }
    }

    fn touch_alternatives(&self, offset: u64, len_bytes: u64, touched: &mut Vec<u16>) {
        let fits = || {
            self.fields
                .iter()
                .enumerate()
                .filter_map(|(number, field)| Some((number, field, field.fit(offset, len_bytes)?)))
        };
        let best = fits().filter(|(_, field, _)| field.is_alternative).map(|(.., fit)| fit).max();
        let chosen = fits().filter(|(_, field, fit)| !field.is_alternative || Some(*fit) == best);
        touched.extend(chosen.map(|(number, ..)| number as u16));
    }
}

/// What an address of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypedPlace {
    pub(crate) type_: u32,
    /// The field's number; of bytes between fields, none has it.
    pub(crate) field: u16,
    /// Bytes from the start of the object.
    pub(super) offset: u64,
    /// The number of the object in its block.
    pub(super) element: u64,
    /// It lies behind the objects of the block.
    is_behind: bool,
}

impl TypedPlace {
    /// The same place of its block's first object.
    pub(super) fn of_first_object(self) -> Self {
        Self { element: 0, ..self }
    }
}

/// What is built in the bytes of a type, in most of its blocks.
fn stored_parts(decided: &[Option<DecidedType>]) -> FxHashMap<u32, PlacedType> {
    let mut counts: FxHashMap<(u32, PlacedType), u64> = FxHashMap::default();
    for one in decided.iter().flatten() {
        if let Some(stored) = one.stored {
            *counts.entry((one.placed.type_, stored)).or_default() += 1;
        }
    }
    let mut most: FxHashMap<u32, (u64, PlacedType)> = FxHashMap::default();
    for ((type_, stored), count) in counts {
        let best = most.entry(type_).or_insert((count, stored));
        *best = (*best).max((count, stored));
    }
    most.into_iter().map(|(type_, (_, stored))| (type_, stored)).collect()
}

/// Types of which blocks are allocated that do not consist of their objects alone: something else is in them, too, or they are shorter.
fn irregular_types(
    votes: &BlockTypes,
    decided: &[Option<DecidedType>],
    pools: &FxHashMap<u32, Pool>,
) -> FxHashSet<u32> {
    let is_irregular = |one: &&DecidedType| {
        let type_ = one.placed.type_;
        let are_all = one.objects_bytes.is_multiple_of(votes.types.layout(type_).bytes);
        !one.is_allocated && votes.types.is_aggregate(type_) && !are_all
    };
    let in_blocks = decided.iter().flatten().filter(is_irregular).map(|one| one.placed.type_);
    in_blocks.chain(pools.values().flat_map(Pool::objects).map(|one| one.type_)).collect()
}

/// Types of which objects have more bytes than they do themselves.
fn longer_types(
    votes: &BlockTypes,
    decided: &[Option<DecidedType>],
    pools: &FxHashMap<u32, Pool>,
) -> FxHashSet<u32> {
    let bytes = |type_: u32| votes.types.layout(type_).bytes;
    let is_longer = |(block, one): &(&VotedBlock, &DecidedType)| {
        !one.is_allocated && block.len.saturating_sub(one.placed.base.into()) > bytes(one.placed.type_)
    };
    let known = votes.blocks.iter().zip(decided).filter_map(|(block, one)| Some((block, one.as_ref()?)));
    let in_blocks = known.filter(is_longer).map(|(_, one)| one.placed.type_);
    let in_pools = pools.values().flat_map(Pool::objects);
    let in_pools = in_pools.filter(|one| one.end - one.begin > bytes(one.type_)).map(|one| one.type_);
    in_blocks.chain(in_pools).collect()
}

/// The blocks that several types share, by their numbers.
fn pools_of(votes: &BlockTypes, told: &FxHashMap<u32, ToldObjects>) -> FxHashMap<u32, Pool> {
    let pool = |(number, told): (&u32, &ToldObjects)| {
        let bytes = votes.blocks[*number as usize].len;
        (*number, Pool::new(&votes.types, told, bytes))
    };
    told.iter().map(pool).collect()
}

/// What a block has of a type.
#[derive(Clone, Copy, Debug, Default)]
struct TypeShare {
    bytes: u64,
    objects_bytes: u64,
    objects: u64,
}

impl HeapTypes {
    fn new(
        votes: BlockTypes,
        mut decided: Vec<Option<DecidedType>>,
        told: &FxHashMap<u32, ToldObjects>,
    ) -> Self {
        let pools = pools_of(&votes, told);
        let mut conflicts = TypeConflicts::default();
        for (number, pool) in &pools {
            decided[*number as usize] = None;
            conflicts.add_pool(pool);
        }
        decided.iter().flatten().for_each(|one| conflicts.add(one));
        let irregular = irregular_types(&votes, &decided, &pools);
        // Where anything may follow an object, another one does only if an access told so.
        for one in decided.iter_mut().flatten() {
            if !one.is_allocated && irregular.contains(&one.placed.type_) {
                one.objects_bytes = one.told_bytes;
            }
        }
        let longer = longer_types(&votes, &decided, &pools);
        let mut tables: Vec<Option<(TypeTable, TypeBlocks)>> = Vec::new();
        let stored = stored_parts(&decided);
        let mut shares: BTreeMap<u32, TypeShare> = BTreeMap::new();
        // As they were met: the first one is an example for its type, and variables are numbered by whoever is first to name them.
        for (number, id) in (0..).zip(votes.variables()) {
            shares.clear();
            if let Some(DecidedType { placed, objects_bytes, .. }) = decided[number as usize] {
                let bytes = votes.blocks[number as usize].len;
                shares.insert(placed.type_, TypeShare { bytes, objects_bytes, objects: 1 });
            }
            for one in pools.get(&number).into_iter().flat_map(Pool::objects) {
                let share = shares.entry(one.type_).or_default();
                share.bytes += one.end - one.begin;
                share.objects_bytes += votes.types.layout(one.type_).bytes;
                share.objects += 1;
            }
            for (&type_, share) in &shares {
                let index = type_ as usize;
                if index >= tables.len() {
                    tables.resize_with(index + 1, || None);
                }
                let layout = votes.types.layout(type_);
                if layout.bytes > MOST_BYTES {
                    continue;
                }
                let (table, blocks) = tables[index].get_or_insert_with(|| {
                    let stored = stored.get(&type_).map(|part| StoredPart {
                        offset: part.base.into(),
                        layout: votes.types.layout(part.type_),
                    });
                    let none = TypeBlocks { count: 0, bytes: 0, objects: 0, example: id };
                    (TypeTable::new(layout, stored, longer.contains(&type_)), none)
                });
                blocks.count += 1;
                blocks.bytes += share.bytes;
                blocks.objects += match table.tail {
                    Some(_) => share.objects,
                    None => (share.objects_bytes / layout.bytes).max(1),
                };
            }
        }
        let numbers = votes.blocks.iter().enumerate();
        let number_of = numbers.map(|(number, block)| ((block.process, block.id), number as u32)).collect();
        Self { conflicts, votes, decided, pools, number_of, tables }
    }

    /// How many accesses to heap blocks know their types by themselves.
    pub fn share(&self) -> TypedShare {
        self.votes.share()
    }

    /// Missing events, which may have been accesses of blocks.
    pub fn missing(&self) -> u64 {
        self.votes.missing()
    }

    /// Whether any code had debug information.
    pub fn has_debug_info(&self) -> bool {
        self.votes.has_debug_info()
    }

    /// The number of the block that a variable is; nothing for what is none, or was never accessed.
    #[inline]
    pub(super) fn block_of(&self, variable: VariableId) -> Option<u32> {
        self.votes.known_block(variable)
    }

    /// What an access to that variable is of; nothing where the variable is no block with a type.
    #[inline]
    pub(crate) fn place(
        &self,
        resolver: &mut Resolver,
        variable: VariableId,
        access: &Access,
    ) -> Option<TypedPlace> {
        let number = self.block_of(variable)?;
        match &self.decided[number as usize] {
            Some(_) => self.place_in(number, access.addr),
            None => self.place_by(resolver.resolve_code(access.ip), number, access.addr),
        }
    }

    /// What that code accesses at an address of a block that several types share.
    fn place_by(&self, code: CodeId, number: u32, addr: VirtAddr) -> Option<TypedPlace> {
        let pool = self.pools.get(&number)?;
        let into = self.offset_in(number, addr);
        let types = &self.votes.types;
        let known = types.known(code);
        let told = known.and_then(|known| told_by(types, known, into));
        let object = pool.accessed(types, into, told)?;
        // A number that the object does not have there is of something else, which no access told of.
        let layout = types.layout(object.type_);
        let is_other = |known: KnownType| {
            let offset = into - object.begin;
            !types.is_aggregate(known.type_)
                && offset < layout.bytes
                && !has_scalar(layout, offset, types.layout(known.type_).bytes)
        };
        if known.is_some_and(is_other) {
            return None;
        }
        self.place_of(object, into)
    }

    /// What an address of a block is.
    #[inline]
    pub(super) fn place_in(&self, number: u32, addr: VirtAddr) -> Option<TypedPlace> {
        let Some(decided) = &self.decided[number as usize] else {
            let into = self.offset_in(number, addr);
            return self.place_of(self.pools.get(&number)?.at(into)?, into);
        };
        let placed = decided.placed;
        let table = self.table(placed.type_)?;
        let into = self.offset_in(number, addr).checked_sub(placed.base.into())?;
        let type_ = placed.type_;
        if let Some(field) = table.tail_at(into) {
            return Some(TypedPlace { type_, field, offset: into, element: 0, is_behind: true });
        }
        let place = table.place(type_, into);
        let is_behind = into >= decided.objects_bytes;
        Some(TypedPlace { field: if is_behind { NO_FIELD } else { place.field }, is_behind, ..place })
    }

    /// What a place of a block is, by the object that it lies in.
    fn place_of(&self, object: &PoolObject, into: u64) -> Option<TypedPlace> {
        let PoolObject { begin, type_, .. } = *object;
        let table = self.table(type_)?;
        let offset = into - begin;
        if let Some(field) = table.tail_at(offset) {
            return Some(TypedPlace { type_, field, offset, element: begin, is_behind: true });
        }
        Some(TypedPlace { element: begin, ..table.place(type_, offset) })
    }

    /// Bytes from the start of a block.
    #[inline]
    fn offset_in(&self, number: u32, addr: VirtAddr) -> u64 {
        addr.0.wrapping_sub(self.votes.blocks[number as usize].start.0)
    }

    /// The fields that an access of so many bytes is of, each once, the first one first: of the same object, and of those behind it.
    /// Of members of a union those that fit best.
    pub(crate) fn touched(&self, place: TypedPlace, len_bytes: u64, fields: &mut Vec<u16>) {
        fields.clear();
        match self.table(place.type_) {
            Some(table) => table.touched(place, len_bytes, fields),
            None => fields.push(place.field),
        }
    }

    /// The field that an address in that variable lies in, to be appended to the block's name: `.hits`, of one of several
    /// objects `[3].hits`, of one of several types `[Cell at 96].hits`. Nothing where the variable is no block of a type with fields, or
    /// the address lies between them.
    pub(crate) fn field_path(&self, variable: VariableId, addr: VirtAddr) -> Option<String> {
        self.field_path_in(self.block_of(variable)?, addr)
    }

    /// The same of a block, which may have been released.
    pub(super) fn field_path_in(&self, number: u32, addr: VirtAddr) -> Option<String> {
        let block = &self.votes.blocks[number as usize];
        let place = self.place_in(number, addr)?;
        let table = self.table(place.type_)?;
        let field = self.field_in(number, addr)?;
        let is_pool = self.pools.contains_key(&number);
        Some(match block.len < 2 * table.bytes() {
            _ if is_pool => path_in_pool(self.name(place.type_), place.element, field),
            true => format!(".{field}"),
            false => format!("[{}].{field}", place.element),
        })
    }

    /// The field of a block that an address lies in.
    pub(super) fn field_in(&self, number: u32, addr: VirtAddr) -> Option<&str> {
        let block = &self.votes.blocks[number as usize];
        let is_inside = addr.checked_sub(block.start).is_some_and(|offset| offset < block.len);
        let place =
            self.place_in(number, addr).filter(|place| is_inside && self.is_aggregate(place.type_))?;
        Some(&self.table(place.type_)?.fields.get(usize::from(place.field))?.name)
    }

    /// A block by its number.
    pub(super) fn block(&self, number: u32) -> &VotedBlock {
        &self.votes.blocks[number as usize]
    }

    /// The number of a block that was accessed.
    pub(super) fn number_of(&self, process: ProcessId, block: BlockId) -> Option<u32> {
        self.number_of.get(&(process, block)).copied()
    }

    /// The type of a variable that is a block.
    pub(crate) fn type_of(&self, variable: VariableId) -> Option<u32> {
        self.type_of_block(self.block_of(variable)?)
    }

    /// The type of a block; nothing where several share it.
    pub(super) fn type_of_block(&self, number: u32) -> Option<u32> {
        let type_ = self.decided[number as usize].as_ref()?.placed.type_;
        self.table(type_).map(|_| type_)
    }

    /// The name of the type of a block, as tables by type have it; nothing where none is known, or several types share the block.
    pub fn type_name(&self, process: ProcessId, block: BlockId) -> Option<&Arc<str>> {
        let type_ = self.type_of_block(self.number_of(process, block)?)?;
        Some(self.name(type_))
    }

    /// Whether a block has a type, or several.
    pub(super) fn has_type(&self, number: u32) -> bool {
        self.pools.contains_key(&number) || self.type_of_block(number).is_some()
    }

    /// The type of what lies at an address of a block.
    pub(super) fn type_at(&self, number: u32, addr: VirtAddr) -> Option<u32> {
        match self.pools.contains_key(&number) {
            true => self.place_in(number, addr).map(|place| place.type_),
            false => self.type_of_block(number),
        }
    }

    /// The number of the block that a variable is, where several types share it.
    pub(crate) fn pool_of(&self, variable: VariableId) -> Option<u32> {
        self.block_of(variable).filter(|number| self.pools.contains_key(number))
    }

    /// The types of the objects in such blocks.
    pub(super) fn types_in_pools(&self, numbers: &FxHashSet<u32>) -> FxHashSet<u32> {
        let pools = numbers.iter().filter_map(|number| self.pools.get(number));
        pools.flat_map(Pool::objects).map(|one| one.type_).collect()
    }

    /// What is known of a type that blocks have.
    #[inline]
    pub(crate) fn table(&self, type_: u32) -> Option<&TypeTable> {
        self.tables.get(type_ as usize)?.as_ref().map(|(table, _)| table)
    }

    /// The blocks of a type.
    pub(crate) fn blocks(&self, type_: u32) -> Option<TypeBlocks> {
        self.tables.get(type_ as usize)?.as_ref().map(|(_, blocks)| *blocks)
    }

    /// All types that blocks may have are numbered below it.
    pub(super) fn count(&self) -> u32 {
        self.tables.len() as u32
    }

    /// The name of a type.
    pub(crate) fn name(&self, type_: u32) -> &Arc<str> {
        &self.votes.types.layout(type_).name
    }

    /// Whether a type consists of members.
    pub(crate) fn is_aggregate(&self, type_: u32) -> bool {
        self.votes.types.is_aggregate(type_)
    }

    /// The types of code, where it accesses blocks.
    pub(super) fn code(&self) -> &CodeTypes {
        &self.votes.types
    }

    /// What else accesses to blocks of a type take them for, most first.
    pub(crate) fn conflicts(&self, type_: u32) -> Vec<TypeConflict> {
        self.conflicts.against(&self.votes, type_)
    }

    /// The part of the accesses that know a type, which say another one than their block has.
    pub fn doubt(&self) -> f64 {
        self.conflicts.doubt()
    }

    /// The part of the votes for a type that agree.
    pub(super) fn confidence(&self, type_: u32) -> f64 {
        self.conflicts.confidence(type_)
    }

    /// The same for one block.
    pub(super) fn conflicts_in(&self, number: u32) -> Vec<TypeConflict> {
        let Some(Some(decided)) = self.decided.get(number as usize) else { return Vec::new() };
        let mut conflicts = TypeConflicts::default();
        conflicts.add(decided);
        conflicts.against(&self.votes, decided.placed.type_)
    }
}

impl Session {
    /// The types of the heap's blocks, of which the first call replays the whole trace, and once more where blocks are shared by several
    /// types. Where nothing can have a type nothing is read, and no block is known.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn heap_types(&self) -> Result<Arc<HeapTypes>, Error> {
        if self.may_have_types() { self.heap_blocks() } else { Ok(Arc::default()) }
    }

    /// The same with all blocks that were accessed, also where none can have a type.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn heap_blocks(&self) -> Result<Arc<HeapTypes>, Error> {
        self.kept(|| self.decided(self.votes()?))
    }

    /// The same, where the votes saw one of everything.
    pub(crate) fn keep_heap_types(&self, votes: BlockTypes) -> Result<Arc<HeapTypes>, Error> {
        self.kept(|| self.decided(votes))
    }

    fn decided(&self, votes: BlockTypes) -> Result<HeapTypes, Error> {
        let decided = votes.decide();
        let mut told = FxHashMap::default();
        let mut larger = Vec::new();
        for (number, shared) in votes.shared(&decided) {
            match shared {
                SharedBlock::Small(objects) => _ = told.insert(number, objects),
                SharedBlock::Larger => larger.push(number),
            }
        }
        if !larger.is_empty() {
            told.extend(PoolReplay::told(self, &votes, &larger)?);
        }
        Ok(HeapTypes::new(votes, decided, &told))
    }
}
