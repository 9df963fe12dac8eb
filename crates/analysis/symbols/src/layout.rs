//! Types: what lies at which offset of a variable.

use std::{fmt::Write, sync::Arc};

/// Types nest no deeper than this; what lies deeper is an offset.
pub(crate) const MAX_DEPTH: usize = 32;
/// Members looked at for one path: damaged debug information can describe more than anyone can visit.
const MAX_STEPS: u32 = 20_000;
/// Bit fields named for one access.
const MAX_BIT_FIELDS: usize = 4;

/// A type and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLayout {
    /// Its name, empty for an unnamed one.
    pub name: Arc<str>,
    /// Bytes.
    pub bytes: u64,
    /// What it consists of.
    pub kind: TypeKind,
}

/// What a type consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A number, pointer, enumeration, or something not known closer.
    Scalar,
    /// Members one after the other.
    Struct(Vec<Member>),
    /// Members at one place.
    Union(Vec<Member>),
    /// Equal elements.
    Array {
        /// The element.
        element: Arc<TypeLayout>,
        /// How many there are in each dimension, the outermost first; 0 where the type gives no bound.
        counts: Vec<u64>,
    },
}

/// The bits of a bit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// The first one, counted from the start of the type.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty for a base class or an unnamed structure or union, whose members count as this type's own.
    pub name: Arc<str>,
    /// Bytes from the start of the type.
    pub offset: u64,
    /// Which bits it has, for a bit field.
    pub bits: Option<BitField>,
    /// Its type.
    pub layout: Arc<TypeLayout>,
}

impl Member {
    fn holds(&self, offset: u64) -> bool {
        self.bits.is_none()
            && offset
                .checked_sub(self.offset)
                .is_some_and(|inner| inner < self.layout.bytes || self.layout.is_open_ended())
    }

    fn overlaps_bits(&self, offset: u64, size: u64) -> bool {
        self.bits.is_some_and(|BitField { first: start, count }| {
            let end = start.saturating_add(count);
            start < offset.saturating_add(size).saturating_mul(8) && offset.saturating_mul(8) < end
        })
    }
}

/// How well a place fits an access, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Padding,
    Inside,
    Start,
    StartAndSize,
}

struct PathSearch {
    size: Option<u32>,
    steps: u32,
}

impl TypeLayout {
    /// What an array has elements of, those of its elements if these are arrays; else the type itself.
    pub fn innermost(&self) -> &Self {
        match &self.kind {
            TypeKind::Array { element, .. } => element.innermost(),
            _ => self,
        }
    }

    /// The field or element at `offset` that an access of `size` bytes begins in, to be appended to the variable's name:
    /// `.pixels[3].red`, `[1][2]`, `.flags.a|b` where several bit fields are touched, and `+2` at the end where the
    /// access begins inside a scalar or in padding. Where members share the place, the first that begins there and has
    /// the size of the access is taken, then the first that begins there, then the first. Empty for the start of a
    /// scalar; `None` beyond the end.
    pub fn path(&self, offset: u64, size: Option<u32>) -> Option<String> {
        if offset >= self.bytes.max(1) && !self.is_open_ended() {
            return None;
        }
        let (mut path, rest, _) = self.walk(offset, &mut PathSearch { size, steps: MAX_STEPS }, 0);
        if rest != 0 {
            let _infallible = write!(path, "+{rest}");
        }
        Some(path)
    }

    /// The fields and elements that an access of `size` bytes at `offset` touches, the one that it begins in first, with padding between
    /// them left out. Empty where it begins beyond the end.
    pub fn paths(&self, offset: u64, size: u32) -> Vec<Arc<str>> {
        let mut paths: Vec<Arc<str>> = self.path(offset, Some(size)).map(Arc::from).into_iter().collect();
        if !paths.is_empty() {
            paths.extend(self.further_paths(offset, size));
        }
        paths
    }

    /// The same without the first.
    pub(crate) fn further_paths(&self, offset: u64, size: u32) -> Vec<Arc<str>> {
        let mut paths = Vec::new();
        let mut at = self.part_end(offset);
        while at < offset.saturating_add(size.into()) && at < self.bytes {
            if self.has_part(at) {
                paths.extend(self.path(at, None).map(Arc::from));
            }
            at = self.part_end(at).max(at + 1);
        }
        paths
    }

    /// Where the number, the pointer or the union that holds an offset ends, or the padding there.
    pub fn part_end(&self, offset: u64) -> u64 {
        self.part_at(offset, 0).1
    }

    /// Whether an offset is in a number, a pointer or a union, and not in padding.
    pub fn has_part(&self, offset: u64) -> bool {
        self.part_at(offset, 0).0
    }

    /// Whether there is a part, and where it or the padding ends.
    fn part_at(&self, offset: u64, depth: usize) -> (bool, u64) {
        match &self.kind {
            TypeKind::Array { element, .. } if element.bytes > 0 && depth < MAX_DEPTH => {
                let start = offset - offset % element.bytes;
                let (is_part, end) = element.part_at(offset - start, depth + 1);
                (is_part, start.saturating_add(end))
            }
            TypeKind::Struct(members) if depth < MAX_DEPTH => {
                let holders = members.iter().filter_map(|member| match member.bits {
                    Some(bits) if member.overlaps_bits(offset, 1) => {
                        Some((true, bits.first.saturating_add(bits.count).div_ceil(8)))
                    }
                    None if member.holds(offset) => {
                        let (is_part, end) = member.layout.part_at(offset - member.offset, depth + 1);
                        Some((is_part, member.offset.saturating_add(end)))
                    }
                    _ => None,
                });
                let holders: Vec<(bool, u64)> = holders.collect();
                // Bases without members have a byte in which something else lies.
                let parts = holders.iter().filter(|(is_part, _)| *is_part);
                parts.max().copied().unwrap_or_else(|| {
                    let next = members.iter().map(|member| member.offset).filter(|next| *next > offset);
                    let ends = holders.iter().map(|(_, end)| *end).chain(next);
                    (false, ends.min().unwrap_or(self.bytes.max(offset.saturating_add(1))))
                })
            }
            _ => (true, self.bytes.max(offset.saturating_add(1))),
        }
    }

    /// Offset and type of what a path names: `.pixels[3].red`, `[1]`; the whole for an empty one. `None` if there is no
    /// such member or element. For a bit field the offset is that of its first byte.
    pub fn find(self: &Arc<Self>, path: &str) -> Option<(u64, Arc<Self>)> {
        let (mut offset, mut layout, mut rest) = (0u64, Arc::clone(self), path);
        while !rest.is_empty() {
            let step;
            if let Some(index) = rest.strip_prefix('[') {
                let (index, after) = index.split_once(']')?;
                (step, layout) = layout.element(index.trim().parse().ok()?)?;
                rest = after;
            } else {
                rest = rest.strip_prefix('.')?;
                // Names of members may hold dots themselves (`_vptr.Shape`): the longest that fits.
                let ends = rest.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
                let mut ends: Vec<usize> = ends.chain([rest.len()]).collect();
                ends.reverse();
                let found = ends.iter().find_map(|&end| Some((end, layout.member(rest.get(..end)?, 0)?)));
                let (end, (at, inner)) = found?;
                (step, layout) = (at, inner);
                rest = rest.get(end..)?;
            }
            offset = offset.checked_add(step)?;
        }
        Some((offset, layout))
    }

    fn members(&self) -> &[Member] {
        match &self.kind {
            TypeKind::Struct(members) | TypeKind::Union(members) => members,
            TypeKind::Scalar | TypeKind::Array { .. } => &[],
        }
    }

    /// Whether it ends in an array without a bound, as `data` in `struct { int width; float data[]; }`.
    fn is_open_ended(&self) -> bool {
        match &self.kind {
            TypeKind::Array { element, counts } => counts.first() == Some(&0) && element.bytes != 0,
            TypeKind::Struct(members) => members.last().is_some_and(|last| {
                matches!(&last.layout.kind, TypeKind::Array { .. }) && last.layout.is_open_ended()
            }),
            TypeKind::Scalar | TypeKind::Union(_) => false,
        }
    }

    fn member(&self, name: &str, depth: usize) -> Option<(u64, Arc<Self>)> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(member) = self.members().iter().find(|member| *member.name == *name && !name.is_empty()) {
            return Some((member.offset, Arc::clone(&member.layout)));
        }
        let unnamed = self.members().iter().filter(|member| member.name.is_empty());
        unnamed.into_iter().find_map(|outer| {
            let (offset, layout) = outer.layout.member(name, depth + 1)?;
            Some((outer.offset.checked_add(offset)?, layout))
        })
    }

    fn element(&self, index: u64) -> Option<(u64, Arc<Self>)> {
        let TypeKind::Array { element, counts } = &self.kind else { return None };
        let (&count, inner) = counts.split_first()?;
        if index >= count && count != 0 {
            return None;
        }
        let bytes = inner.iter().try_fold(element.bytes, |bytes, count| bytes.checked_mul(*count))?;
        let layout = if inner.is_empty() {
            Arc::clone(element)
        } else {
            let kind = TypeKind::Array { element: Arc::clone(element), counts: inner.to_vec() };
            Arc::new(Self { name: "".into(), bytes, kind })
        };
        Some((index.checked_mul(bytes)?, layout))
    }

    /// The path to the innermost part, and the bytes from its start.
    fn walk(&self, offset: u64, walk: &mut PathSearch, depth: usize) -> (String, u64, Fit) {
        walk.steps = walk.steps.saturating_sub(1);
        if depth > MAX_DEPTH || walk.steps == 0 {
            return (String::new(), offset, Fit::Padding);
        }
        match &self.kind {
            TypeKind::Scalar => {
                let fit = match offset {
                    0 if walk.size.is_some_and(|size| u64::from(size) == self.bytes) => Fit::StartAndSize,
                    0 => Fit::Start,
                    _ => Fit::Inside,
                };
                (String::new(), offset, fit)
            }
            TypeKind::Array { element, counts } => {
                if element.bytes == 0 || counts.is_empty() {
                    return (String::new(), offset, Fit::Padding);
                }
                let mut index = offset / element.bytes;
                let mut indices = Vec::new();
                for &count in counts.iter().skip(1).rev() {
                    indices.push(index % count.max(1));
                    index /= count.max(1);
                }
                indices.push(index);
                let mut path = String::new();
                for index in indices.iter().rev() {
                    let _infallible = write!(path, "[{index}]");
                }
                let (inner, rest, fit) = element.walk(offset % element.bytes, walk, depth + 1);
                (path + &inner, rest, fit)
            }
            TypeKind::Struct(members) | TypeKind::Union(members) => {
                let mut best: Option<(String, u64, Fit)> = None;
                for member in members.iter().filter(|member| member.holds(offset)) {
                    let (inner, rest, fit) = member.layout.walk(offset - member.offset, walk, depth + 1);
                    if best.as_ref().is_none_or(|best| fit > best.2) {
                        let path =
                            if member.name.is_empty() { inner } else { format!(".{}{inner}", member.name) };
                        best = Some((path, rest, fit));
                    }
                }
                if best.as_ref().is_none_or(|best| best.2 == Fit::Padding)
                    && let Some(found) = bit_fields(members, offset, walk.size)
                {
                    return found;
                }
                best.unwrap_or((String::new(), offset, Fit::Padding))
            }
        }
    }
}

fn bit_fields(members: &[Member], offset: u64, size: Option<u32>) -> Option<(String, u64, Fit)> {
    let size = u64::from(size.unwrap_or(1).max(1));
    let mut names =
        members.iter().filter(|member| member.overlaps_bits(offset, size)).map(|member| &*member.name);
    let mut path = format!(".{}", names.next()?);
    for name in names.by_ref().take(MAX_BIT_FIELDS - 1) {
        path.push('|');
        path.push_str(name);
    }
    if names.next().is_some() {
        path.push_str("|...");
    }
    Some((path, 0, Fit::Start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(bytes: u64) -> Arc<TypeLayout> {
        Arc::new(TypeLayout { name: "".into(), bytes, kind: TypeKind::Scalar })
    }

    fn member(name: &str, offset: u64, layout: &Arc<TypeLayout>) -> Member {
        Member { name: name.into(), offset, bits: None, layout: Arc::clone(layout) }
    }

    fn bits(name: &str, start: u64, len: u64) -> Member {
        Member {
            name: name.into(),
            offset: start / 8,
            bits: Some(BitField { first: start, count: len }),
            layout: scalar(4),
        }
    }

    fn array(element: &Arc<TypeLayout>, counts: &[u64]) -> Arc<TypeLayout> {
        let bytes = counts.iter().product::<u64>() * element.bytes;
        let kind = TypeKind::Array { element: Arc::clone(element), counts: counts.to_vec() };
        Arc::new(TypeLayout { name: "".into(), bytes, kind })
    }

    fn aggregate(bytes: u64, kind: TypeKind) -> Arc<TypeLayout> {
        Arc::new(TypeLayout { name: "".into(), bytes, kind })
    }

    fn check(layout: &Arc<TypeLayout>, offset: u64, size: impl Into<Option<u32>>, expect: &str) {
        assert_eq!(layout.path(offset, size.into()).as_deref(), Some(expect));
    }

    #[test]
    fn members_and_elements() {
        let pixel = aggregate(
            3,
            TypeKind::Struct(vec![
                member("red", 0, &scalar(1)),
                member("green", 1, &scalar(1)),
                member("blue", 2, &scalar(1)),
            ]),
        );
        let frame = aggregate(
            24,
            TypeKind::Struct(vec![member("width", 0, &scalar(8)), member("pixels", 8, &array(&pixel, &[4]))]),
        );
        check(&frame, 0, 8, ".width");
        check(&frame, 3, 1, ".width+3");
        check(&frame, 8 + 9, 1, ".pixels[3].red");
        check(&frame, 8 + 5, None, ".pixels[1].blue");
        check(&frame, 21, 1, "+21");
        assert_eq!(frame.path(24, None), None);
        assert_eq!(frame.find(".pixels[3].red"), Some((17, scalar(1))));
        assert_eq!(frame.find(".pixels[4]"), None);
        assert_eq!(frame.find(".nothing"), None);
        assert_eq!(frame.find("width"), None);
        assert_eq!(frame.find("").map(|found| found.0), Some(0));
    }

    #[test]
    fn parts_end_where_the_next_begins() {
        let empty = aggregate(1, TypeKind::Struct(Vec::new()));
        let pair = aggregate(
            16,
            TypeKind::Struct(vec![
                member("", 0, &empty),
                member("a", 0, &scalar(4)),
                member("b", 8, &scalar(8)),
            ]),
        );
        let whole = aggregate(
            40,
            TypeKind::Struct(vec![
                member("pairs", 0, &array(&pair, &[2])),
                bits("c", 256, 3),
                bits("d", 259, 9),
            ]),
        );
        let check = |offset: u64, expect: (bool, u64)| {
            assert_eq!((whole.has_part(offset), whole.part_end(offset)), expect, "at {offset}");
        };
        check(0, (true, 4));
        check(5, (false, 8));
        check(8, (true, 16));
        check(20, (false, 24));
        check(27, (true, 32));
        check(32, (true, 34));
        check(36, (false, 40));
    }

    #[test]
    fn nested_arrays() {
        let matrix = array(&scalar(4), &[3, 5]);
        check(&matrix, 4 * (5 + 2), 4, "[1][2]");
        check(&array(&matrix, &[2]), 60 + 4, 4, "[1][0][1]");
        assert_eq!(matrix.find("[2]").map(|(offset, row)| (offset, row.bytes)), Some((40, 20)));
        assert_eq!(matrix.find("[2][4]"), Some((56, scalar(4))));
    }

    #[test]
    fn unions_by_the_size_of_the_access() {
        let halves = array(&scalar(2), &[4]);
        let union = aggregate(
            8,
            TypeKind::Union(vec![
                member("whole", 0, &scalar(8)),
                member("low", 0, &scalar(4)),
                member("halves", 0, &halves),
            ]),
        );
        check(&union, 0, 8, ".whole");
        check(&union, 0, 4, ".low");
        check(&union, 0, 2, ".halves[0]");
        check(&union, 0, None, ".whole");
        check(&union, 4, 2, ".halves[2]");
        check(&union, 5, 1, ".whole+5");
    }

    #[test]
    fn bit_fields() {
        let flags = aggregate(
            4,
            TypeKind::Struct(vec![
                bits("a", 0, 3),
                bits("b", 3, 5),
                bits("c", 8, 1),
                bits("d", 9, 1),
                bits("e", 10, 1),
            ]),
        );
        check(&flags, 0, 1, ".a|b");
        check(&flags, 1, 1, ".c|d|e");
        check(&flags, 0, 4, ".a|b|c|d|...");
        check(&flags, 2, 1, "+2");
    }

    #[test]
    fn unnamed_members_and_empty_bases() {
        let empty = aggregate(1, TypeKind::Struct(Vec::new()));
        let base = aggregate(4, TypeKind::Struct(vec![member("x", 0, &scalar(4))]));
        let derived = aggregate(
            8,
            TypeKind::Struct(vec![member("", 0, &empty), member("", 0, &base), member("y", 4, &scalar(4))]),
        );
        check(&derived, 0, None, ".x");
        check(&derived, 4, 4, ".y");
        assert_eq!(derived.find(".x"), Some((0, scalar(4))));
    }

    #[test]
    fn arrays_without_a_bound() {
        let data = array(&scalar(4), &[0]);
        let image =
            aggregate(8, TypeKind::Struct(vec![member("width", 0, &scalar(4)), member("data", 8, &data)]));
        check(&image, 524, 4, ".data[129]");
        check(&image, 0, 4, ".width");
        assert_eq!(image.find(".data[129]"), Some((524, scalar(4))));
    }

    #[test]
    fn absurd_nesting_ends() {
        let mut layout = scalar(1);
        for _ in 0..100 {
            layout = aggregate(1, TypeKind::Union(vec![member("a", 0, &layout), member("b", 0, &layout)]));
        }
        assert!(layout.path(0, Some(2)).is_some());
    }
}
