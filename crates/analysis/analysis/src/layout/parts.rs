//! What lies at an offset of a type.

use symbols::{Member, TypeKind, TypeLayout};

/// Types nest no deeper here.
const MOST_DEPTH: u32 = 16;
/// Members that a header has at least: one alone may have its name by chance.
const LEAST_HEADER: usize = 2;

/// How a type has another one in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartWay {
    /// Its members are the first ones of the other, too, as headers of objects in C are.
    Header,
    /// In an array of bytes, where anything may be built (`std::map` keeps its values so).
    Storage,
    /// As a member, an element, a base class or itself.
    Member,
}

/// How a type has another one as a part that begins at an offset, if it has.
pub(super) fn part_at(outer: &TypeLayout, offset: u64, inner: &TypeLayout) -> Option<PartWay> {
    find(outer, offset, inner, 0)
}

fn find(outer: &TypeLayout, offset: u64, inner: &TypeLayout, depth: u32) -> Option<PartWay> {
    if offset == 0 && outer.name == inner.name && outer.bytes == inner.bytes {
        return Some(PartWay::Member);
    }
    if depth > MOST_DEPTH {
        return None;
    }
    if offset == 0 && is_header(outer, inner) {
        return Some(PartWay::Header);
    }
    match &outer.kind {
        TypeKind::Scalar => None,
        TypeKind::Array { element, .. } if is_byte(element) => {
            let fits = offset + inner.bytes <= outer.bytes && !is_byte(inner);
            fits.then_some(PartWay::Storage)
        }
        TypeKind::Array { element, .. } => match element.bytes {
            0 => None,
            bytes => find(element, offset % bytes, inner, depth + 1),
        },
        TypeKind::Struct(members) | TypeKind::Union(members) => members
            .iter()
            .filter_map(|member| {
                let into = offset.checked_sub(member.offset)?;
                (into < member.layout.bytes.max(1)).then(|| find(&member.layout, into, inner, depth + 1))?
            })
            .max(),
    }
}

/// The same in objects that end in an array of one, where they are longer than their type. A loop over that array may be described as one
/// over the objects.
pub(super) fn part_behind(outer: &TypeLayout, offset: u64, inner: &TypeLayout) -> Option<PartWay> {
    let last = array_of_one(outer)?;
    let TypeKind::Array { element, .. } = &last.layout.kind else { return None };
    let into = offset.checked_sub(last.offset)?;
    if offset > 0 && outer.name == inner.name && outer.bytes == inner.bytes {
        return Some(PartWay::Member);
    }
    part_at(element, into.checked_rem(element.bytes)?, inner)
}

/// The array of one that a structure ends in, as C has it for any number of elements: `char contents[1]`.
pub(super) fn array_of_one(layout: &TypeLayout) -> Option<&Member> {
    let TypeKind::Struct(members) = &layout.kind else { return None };
    let is_one =
        |last: &&Member| matches!(&last.layout.kind, TypeKind::Array { counts, .. } if *counts == [1]);
    members.last().filter(is_one).filter(|_| members.len() > 1)
}

/// Whether a type has a number or pointer of so many bytes at an offset.
pub(super) fn has_scalar(outer: &TypeLayout, offset: u64, bytes: u64) -> bool {
    match &outer.kind {
        TypeKind::Scalar => offset == 0 && outer.bytes == bytes,
        TypeKind::Array { element, .. } => {
            element.bytes > 0 && has_scalar(element, offset % element.bytes, bytes)
        }
        TypeKind::Struct(members) | TypeKind::Union(members) => members.iter().any(|member| {
            let into = offset.checked_sub(member.offset);
            into.is_some_and(|into| has_scalar(&member.layout, into, bytes))
        }),
    }
}

/// Whether a place is in an array within a type.
pub(super) fn is_in_array(outer: &TypeLayout, offset: u64) -> bool {
    match &outer.kind {
        TypeKind::Scalar => false,
        TypeKind::Array { .. } => true,
        TypeKind::Struct(members) | TypeKind::Union(members) => members.iter().any(|member| {
            let into = offset.checked_sub(member.offset).filter(|into| *into < member.layout.bytes.max(1));
            into.is_some_and(|into| is_in_array(&member.layout, into))
        }),
    }
}

/// Whether a structure begins with all members of another one.
fn is_header(outer: &TypeLayout, inner: &TypeLayout) -> bool {
    inner.bytes <= outer.bytes && share_head(outer, inner, inner.bytes)
}

/// Whether a structure has all members of another one that begin up to an offset.
pub(super) fn share_head(outer: &TypeLayout, inner: &TypeLayout, furthest: u64) -> bool {
    let (TypeKind::Struct(all), TypeKind::Struct(first)) = (&outer.kind, &inner.kind) else { return false };
    let head = || first.iter().filter(|member| member.offset <= furthest);
    head().count() >= LEAST_HEADER
        && head().all(|member| {
            let is_same = |other: &Member| {
                other.name == member.name
                    && other.offset == member.offset
                    && other.layout.bytes == member.layout.bytes
            };
            !member.name.is_empty() && all.iter().any(is_same)
        })
}

fn is_byte(layout: &TypeLayout) -> bool {
    layout.bytes == 1 && layout.kind == TypeKind::Scalar
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn of(name: &str, bytes: u64, kind: TypeKind) -> Arc<TypeLayout> {
        Arc::new(TypeLayout { name: name.into(), bytes, kind })
    }

    fn member(name: &str, offset: u64, layout: &Arc<TypeLayout>) -> Member {
        Member { name: name.into(), offset, bits: None, layout: Arc::clone(layout) }
    }

    #[test]
    fn bases_members_elements_and_storage() {
        let long = of("long", 8, TypeKind::Scalar);
        let base = of("base", 16, TypeKind::Struct(vec![member("color", 0, &long), member("up", 8, &long)]));
        let pair = of("pair", 16, TypeKind::Struct(vec![member("first", 0, &long)]));
        let byte = of("unsigned char", 1, TypeKind::Scalar);
        let bytes = of("", 16, TypeKind::Array { element: byte, counts: vec![16] });
        let node =
            of("node", 32, TypeKind::Struct(vec![member("", 0, &base), member("storage", 16, &bytes)]));
        assert_eq!(part_at(&node, 0, &base), Some(PartWay::Member));
        assert_eq!(part_at(&node, 16, &pair), Some(PartWay::Storage));
        assert_eq!(part_at(&node, 24, &pair), None, "it would end behind the bytes");
        assert_eq!(part_at(&node, 8, &base), None);
        let nodes = of("", 96, TypeKind::Array { element: Arc::clone(&node), counts: vec![3] });
        assert_eq!(part_at(&nodes, 64, &base), Some(PartWay::Member));
        assert_eq!(part_at(&node, 0, &node), Some(PartWay::Member));
    }

    #[test]
    fn arrays_of_one_go_on() {
        let (long, int) = (of("long", 8, TypeKind::Scalar), of("int", 4, TypeKind::Scalar));
        let item = of("item", 16, TypeKind::Struct(vec![member("at", 0, &long), member("kind", 8, &int)]));
        let list = |count| {
            let items =
                of("", 16 * count, TypeKind::Array { element: Arc::clone(&item), counts: vec![count] });
            of(
                "list",
                8 + 16 * count,
                TypeKind::Struct(vec![member("len", 0, &int), member("items", 8, &items)]),
            )
        };
        assert_eq!(part_behind(&list(1), 40, &item), Some(PartWay::Member));
        assert_eq!(part_behind(&list(1), 36, &item), None);
        assert_eq!(part_behind(&list(2), 40, &item), None, "its bound is what it says");
    }

    #[test]
    fn numbers_have_their_places() {
        let (long, int) = (of("long", 8, TypeKind::Scalar), of("int", 4, TypeKind::Scalar));
        let value = of("value", 8, TypeKind::Union(vec![member("p", 0, &long), member("n", 0, &int)]));
        let node =
            of("node", 24, TypeKind::Struct(vec![member("value", 0, &value), member("next", 12, &int)]));
        for (offset, bytes, expect) in
            [(0, 8, true), (0, 4, true), (12, 4, true), (8, 4, false), (12, 8, false)]
        {
            assert_eq!(has_scalar(&node, offset, bytes), expect, "{bytes} bytes at {offset}");
        }
    }

    #[test]
    fn headers_of_objects_in_c() {
        let (long, byte) = (of("long", 8, TypeKind::Scalar), of("char", 1, TypeKind::Scalar));
        let header = || vec![member("next", 0, &long), member("tag", 8, &byte)];
        let object = of("object", 16, TypeKind::Struct(header()));
        let mut members = header();
        members.push(member("len", 16, &long));
        let string = of("string", 24, TypeKind::Struct(members));
        assert_eq!(part_at(&string, 0, &object), Some(PartWay::Header));
        assert_eq!(part_at(&object, 0, &string), None);
        let other = vec![member("next", 0, &long), member("tag", 8, &long), member("len", 16, &long)];
        assert_eq!(part_at(&of("other", 24, TypeKind::Struct(other)), 0, &object), None);
        let mut members = header();
        members.push(member("user", 16, &byte));
        let data = of("data", 24, TypeKind::Struct(members));
        assert!(share_head(&string, &data, 8), "both have a tag");
        assert!(!share_head(&string, &data, 16), "one alone has a user");
        assert!(!share_head(&string, &data, 0), "one member may be alike by chance");
    }
}
