//! Blocks that objects of several types share, such as those of a
//! program's own allocator. Their contents are inferred from accesses.

use memref::{Access, AccessKind};
use rustc_hash::FxHashMap;
use symbols::TypeLayout;
use trace_format::Filter;

use super::fields::{fields_of, open_end};
use super::parts::{PartWay, is_in_array, part_at, part_behind, share_head};
use super::votes::{BlockTypes, MOST_OBJECT_BYTES};
use crate::replay::SliceWorker;
use crate::typing::{CodeTypes, KnownType};
use crate::{Error, Moment, Session, Tool};

/// Of objects that overlap, one with a smaller part of the other's votes is none.
const LEAST_OVERLAPPING: u64 = 20;
/// Of objects that overlap, one with so large a part of the votes of the others is as likely as they are.
const LEAST_LIKELY: u64 = 4;
/// The part of the objects that overlap others in a pool whose memory is used again, at least: one in so many.
const LEAST_USED_AGAIN: usize = 20;
/// Objects before a place that may reach to it.
const MOST_OVERLAPPING: usize = 64;

/// An object that an access tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ToldObject {
    /// Bytes from the start of the block.
    pub(super) begin: u64,
    pub(super) type_: u32,
}

/// How many accesses told of each object.
pub(super) type ToldObjects = FxHashMap<ToldObject, u64>;

/// An object of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolObject {
    /// Bytes from the start of the block.
    pub(super) begin: u64,
    /// Of one that ends in an array, up to the next object.
    pub(super) end: u64,
    pub(super) type_: u32,
    /// Of it and of its parts.
    pub(super) votes: u64,
}

/// A block that objects of several types share. Where it was used again, they may overlap.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// By where they begin.
    objects: Vec<PoolObject>,
    /// Its memory was given to one object after the other, as the overlaps of many tell.
    is_used_again: bool,
    /// What hardly any access told of beside others in its place.
    pub(super) doubtful: Vec<DoubtfulObject>,
}

/// An object that most accesses to its place take for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DoubtfulObject {
    pub(super) type_: u32,
    /// The other one's.
    pub(super) taken_for: u32,
    pub(super) votes: u64,
}

impl Pool {
    pub(super) fn new(types: &CodeTypes, told: &ToldObjects, block_bytes: u64) -> Self {
        let is_small = block_bytes <= MOST_OBJECT_BYTES;
        let mut sorted: Vec<(ToldObject, u64)> = told.iter().map(|(told, votes)| (*told, *votes)).collect();
        // What others are parts of comes before them.
        let key = |(told, votes): &(ToldObject, u64)| {
            let larger_first = std::cmp::Reverse((types.layout(told.type_).bytes, *votes));
            (told.begin, larger_first, told.type_)
        };
        sorted.sort_unstable_by_key(key);
        let mut objects: Vec<PoolObject> = Vec::new();
        for (told, votes) in sorted {
            let recent = objects.iter().enumerate().rev().take(MOST_OVERLAPPING);
            // Elements of the array that an object ends in come before any other object.
            let last = objects.len().wrapping_sub(1);
            let is_of = |number: usize, whole: &PoolObject| match number == last {
                true => is_part(types, told, whole),
                false => is_inside(types, told, whole),
            };
            let whole = recent.into_iter().find(|(number, whole)| is_of(*number, whole));
            match whole.map(|(number, _)| number) {
                Some(number) => objects[number].votes += votes,
                None => {
                    let ToldObject { begin, type_ } = told;
                    objects.push(PoolObject { begin, end: begin + types.layout(type_).bytes, type_, votes });
                }
            }
        }
        let mut pool = Self { objects, is_used_again: false, doubtful: Vec::new() };
        pool.drop_doubtful();
        pool.is_used_again = pool.overlapping() * LEAST_USED_AGAIN >= pool.objects.len() && !is_small;
        pool.reach_on(types, block_bytes);
        pool
    }

    /// Takes out what hardly any access tells of beside others in its place.
    fn drop_doubtful(&mut self) {
        let objects = &self.objects;
        let overlapping = |number: usize| {
            let one = objects[number];
            let behind = objects[number + 1..].iter().take_while(move |other| other.begin < one.end);
            let before = objects[..number].iter().rev().take(MOST_OVERLAPPING);
            before.filter(move |other| other.end > one.begin).chain(behind.take(MOST_OVERLAPPING))
        };
        let most = |number: usize| overlapping(number).max_by_key(|other| other.votes);
        let (mut kept, mut doubtful) = (Vec::new(), Vec::new());
        for (number, one) in objects.iter().enumerate() {
            match most(number).filter(|other| one.votes * LEAST_OVERLAPPING < other.votes) {
                Some(other) => {
                    let PoolObject { type_, votes, .. } = *one;
                    doubtful.push(DoubtfulObject { type_, taken_for: other.type_, votes });
                }
                None => kept.push(*one),
            }
        }
        (self.objects, self.doubtful) = (kept, doubtful);
    }

    /// How many objects overlap one that begins before them.
    fn overlapping(&self) -> usize {
        let mut end = 0;
        let overlaps = self.objects.iter().filter(|one| {
            let is_before_end = one.begin < end;
            end = end.max(one.end);
            is_before_end
        });
        overlaps.count()
    }

    /// Objects that end in an array go on to the next one.
    fn reach_on(&mut self, types: &CodeTypes, block_bytes: u64) {
        let mut open: FxHashMap<u32, bool> = FxHashMap::default();
        for number in 0..self.objects.len() {
            let next = self.objects.get(number + 1).map_or(block_bytes, |next| next.begin);
            let one = &mut self.objects[number];
            let is_open = *open.entry(one.type_).or_insert_with(|| has_open_end(types.layout(one.type_)));
            if is_open {
                one.end = one.end.max(next);
            }
        }
    }

    pub(super) fn objects(&self) -> &[PoolObject] {
        &self.objects
    }

    /// The object that a place lies in; of several the last that begins before it, unless hardly any access told of that.
    pub(super) fn at(&self, into: u64) -> Option<&PoolObject> {
        let most = self.around(into).map(|one| one.votes).max()?;
        self.around(into).find(|one| one.votes * LEAST_LIKELY >= most)
    }

    /// The object that an access is of, by what it tells itself. Where it tells nothing, a place that was used again may be of anything.
    pub(super) fn accessed(
        &self,
        types: &CodeTypes,
        into: u64,
        told: Option<ToldObject>,
    ) -> Option<&PoolObject> {
        let as_told = told.and_then(|told| self.around(into).find(|whole| is_part(types, told, whole)));
        as_told.or_else(|| if self.is_used_again { None } else { self.at(into) })
    }

    /// The objects that have a place, the last one to begin first.
    fn around(&self, into: u64) -> impl Iterator<Item = &PoolObject> {
        let before = self.objects.partition_point(|one| one.begin <= into);
        let near = self.objects[..before].iter().rev().take(MOST_OVERLAPPING);
        near.filter(move |one| into < one.end)
    }
}

/// Whether an object is another one, or a part of it, or of an element of the array that it ends in.
fn is_part(types: &CodeTypes, part: ToldObject, whole: &PoolObject) -> bool {
    let is_element = |into| {
        let (inner, outer) = (types.layout(part.type_), types.layout(whole.type_));
        // One more of the same is an object of its own.
        part.type_ != whole.type_ && part_behind(outer, into, inner) == Some(PartWay::Member)
    };
    is_inside(types, part, whole) || part.begin.checked_sub(whole.begin).is_some_and(is_element)
}

/// Whether an object is another one, or a part of it.
fn is_inside(types: &CodeTypes, part: ToldObject, whole: &PoolObject) -> bool {
    let Some(into) = part.begin.checked_sub(whole.begin) else { return false };
    let (inner, outer) = (types.layout(part.type_), types.layout(whole.type_));
    let is_same = into == 0 && part.type_ == whole.type_;
    is_same
        || into < outer.bytes && part_at(outer, into, inner).is_some()
        || into == 0 && share_head(outer, inner, inner.bytes)
}

/// Whether objects of a type end in an array of any length.
fn has_open_end(layout: &TypeLayout) -> bool {
    open_end(layout, &fields_of(layout), true).is_some()
}

/// Finds the objects of pools: a replay that asks each access to one of them what it tells.
#[derive(Clone, Debug)]
pub(super) struct PoolReplay<'a> {
    types: &'a BlockTypes,
    /// By the block's number.
    told: FxHashMap<u32, ToldObjects>,
}

impl<'a> PoolReplay<'a> {
    /// What all accesses tell of these blocks.
    pub(super) fn told(
        session: &Session,
        types: &'a BlockTypes,
        pools: &[u32],
    ) -> Result<FxHashMap<u32, ToldObjects>, Error> {
        let told = pools.iter().map(|number| (*number, ToldObjects::default())).collect();
        let mut replay = Self { types, told };
        if session.workers() < 2 {
            session.replay(&Filter::default(), None, &mut replay)?;
            return Ok(replay.told);
        }
        let (_, workers) = session.replay_divided(vec![replay.clone(); session.workers()], Vec::new())?;
        for (number, told) in workers.into_iter().flat_map(|worker| worker.told) {
            let all = replay.told.entry(number).or_default();
            for (object, votes) in told {
                *all.entry(object).or_default() += votes;
            }
        }
        Ok(replay.told)
    }
}

impl SliceWorker for PoolReplay<'_> {}

impl Tool for PoolReplay<'_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            let variable = at.resolver.resolve_data(access.addr).variable;
            let Some(number) = self.types.known_block(variable) else { continue };
            let Some(told) = self.told.get_mut(&number) else { continue };
            let code = at.resolver.resolve_code(access.ip);
            let Some(known) = self.types.types.known(code) else { continue };
            let into = access.addr.0.wrapping_sub(self.types.blocks[number as usize].start.0);
            if let Some(object) = told_by(&self.types.types, known, into) {
                *told.entry(object).or_default() += 1;
            }
        }
        Ok(())
    }
}

/// What is to be appended to the name of a pool for a field of the object that begins so many bytes from its start: `[Cell at 96].hits`.
pub(super) fn path_in_pool(type_name: &str, begin: u64, field: &str) -> String {
    format!("[{type_name} at {begin}].{field}")
}

/// The object that an access so many bytes into a block tells of.
pub(super) fn told_by(types: &CodeTypes, known: KnownType, into: u64) -> Option<ToldObject> {
    let layout = types.layout(known.type_);
    // An element of an array in the object, not one of several objects.
    let is_inner = |offset: i64| u64::try_from(offset).is_ok_and(|offset| is_in_array(layout, offset));
    if !types.is_aggregate(known.type_) || known.is_indexed && is_inner(known.offset) {
        return None;
    }
    // What lies before or behind an object is one of an array, or it is larger than its type (a base class): the object is there.
    Some(ToldObject { begin: into.checked_add_signed(-known.offset)?, type_: known.type_ })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use symbols::{Member, TypeKind};

    use super::*;

    const NODE: u32 = 0;
    const LINK: u32 = 1;
    const EDGE: u32 = 2;
    const TEXT: u32 = 3;

    /// `node` begins with a `link`, `text` ends in an array of one.
    fn types() -> CodeTypes {
        let of = |name: &str, bytes, kind| Arc::new(TypeLayout { name: name.into(), bytes, kind });
        let scalar = |bytes| of("", bytes, TypeKind::Scalar);
        let member = |name: &str, offset, layout: &Arc<TypeLayout>| Member {
            name: name.into(),
            offset,
            bits: None,
            layout: Arc::clone(layout),
        };
        let link = of("link", 8, TypeKind::Struct(vec![member("next", 0, &scalar(8))]));
        let node = vec![member("link", 0, &link), member("value", 8, &scalar(8))];
        let edge = vec![
            member("from", 0, &scalar(8)),
            member("to", 8, &scalar(8)),
            member("weight", 16, &scalar(8)),
        ];
        let array = of("", 1, TypeKind::Array { element: scalar(1), counts: vec![1] });
        let text = vec![member("len", 0, &scalar(4)), member("bytes", 4, &array)];
        CodeTypes::of(vec![
            of("node", 16, TypeKind::Struct(node)),
            link,
            of("edge", 24, TypeKind::Struct(edge)),
            of("text", 8, TypeKind::Struct(text)),
        ])
    }

    fn pool(told: &[(u64, u32, u64)], block_bytes: u64) -> Pool {
        let told = told.iter().map(|&(begin, type_, votes)| (ToldObject { begin, type_ }, votes)).collect();
        Pool::new(&types(), &told, block_bytes)
    }

    fn spans(pool: &Pool) -> Vec<(u64, u64, u32)> {
        pool.objects().iter().map(|one| (one.begin, one.end, one.type_)).collect()
    }

    #[test]
    fn parts_are_of_what_they_are_parts_of_and_texts_go_on() {
        let pool = pool(&[(0, NODE, 2), (0, LINK, 9), (16, TEXT, 1), (40, EDGE, 3), (64, LINK, 1)], 4096);
        assert_eq!(spans(&pool), [(0, 16, NODE), (16, 40, TEXT), (40, 64, EDGE), (64, 72, LINK)]);
        assert_eq!(pool.objects()[0].votes, 11);
        let at = |into| pool.at(into).map(|one| one.type_);
        assert_eq!(
            (at(15), at(39), at(40), at(71), at(72)),
            (Some(NODE), Some(TEXT), Some(EDGE), Some(LINK), None)
        );
    }

    #[test]
    fn what_hardly_any_access_tells_of_is_none() {
        let pool = pool(&[(0, EDGE, 100), (8, NODE, 1), (24, NODE, 1)], 4096);
        assert_eq!(spans(&pool), [(0, 24, EDGE), (24, 40, NODE)]);
        assert_eq!(pool.doubtful, [DoubtfulObject { type_: NODE, taken_for: EDGE, votes: 1 }]);
    }

    #[test]
    fn where_memory_was_used_again_only_what_an_access_tells_counts() {
        let check = |block_bytes, untold| {
            let pool = pool(&[(0, EDGE, 5), (16, NODE, 4)], block_bytes);
            let at = |told| pool.accessed(&types(), 16, told).map(|one| one.type_);
            assert_eq!(at(Some(ToldObject { begin: 0, type_: EDGE })), Some(EDGE));
            assert_eq!(at(Some(ToldObject { begin: 16, type_: NODE })), Some(NODE));
            assert_eq!(at(None), untold, "a block of {block_bytes}");
        };
        check(4096, None);
        // A small block is allocated for what is in it.
        check(40, Some(NODE));
    }
}
