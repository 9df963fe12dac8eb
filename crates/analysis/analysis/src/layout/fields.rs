//! The fields of a type: its members in order, with nested structures replaced by their own members.

use symbols::{Member, TypeKind, TypeLayout};

use super::parts::array_of_one;
use crate::Count;

/// Members nest no deeper here.
const MOST_DEPTH: u32 = 12;
const MOST_FIELDS: usize = 512;
/// The owner of bytes between fields.
pub(super) const NO_FIELD: u16 = u16::MAX;

/// A field, and how it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldUse {
    /// Its name, with those of the structures that it is in: `pos.x`.
    pub name: String,
    /// The name of its type; empty where it has none.
    pub type_name: String,
    /// Bytes from the start of the type.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Its accesses, in all blocks.
    pub count: Count,
    /// The threads that accessed it.
    pub threads: Vec<u32>,
    /// Block operations that read it: memcpy and the like, system calls.
    pub block_reads: u64,
    /// Those that wrote it.
    pub block_writes: u64,
    /// Others have its bytes, too.
    pub(super) is_alternative: bool,
    /// Bytes of an element, of an array.
    element_bytes: u64,
}

/// How well a field fits an access, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FieldFit {
    Overlaps,
    Element,
    Whole,
}

impl FieldUse {
    /// Behind its last byte.
    fn end(&self) -> u64 {
        self.offset + self.size
    }

    /// How it fits an access of so many bytes at an offset; nothing where it has none of them.
    pub(super) fn fit(&self, offset: u64, len_bytes: u64) -> Option<FieldFit> {
        if offset >= self.end() || self.offset >= offset.saturating_add(len_bytes) {
            return None;
        }
        let is_element = || {
            self.element_bytes == len_bytes
                && offset.checked_sub(self.offset).is_some_and(|into| into.is_multiple_of(len_bytes))
        };
        Some(match () {
            () if self.offset == offset && self.size == len_bytes => FieldFit::Whole,
            () if is_element() => FieldFit::Element,
            () => FieldFit::Overlaps,
        })
    }

    /// Whether anything reads it.
    pub fn is_read(&self) -> bool {
        self.count.loads + self.count.modifies + self.block_reads > 0
    }

    /// Whether anything reads or writes it.
    pub fn is_used(&self) -> bool {
        self.is_read() || self.count.stores + self.block_writes > 0
    }
}

/// Bytes of a type that no field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeHole {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
}

/// The fields of a type. Members of a union are fields of their own unless all have the same bytes; a number or an array is a field
/// alone.
pub(super) fn fields_of(layout: &TypeLayout) -> Vec<FieldUse> {
    fields_with(layout, None)
}

/// What is built in bytes of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredPart<'a> {
    pub(super) offset: u64,
    pub(super) layout: &'a TypeLayout,
}

/// The members of a type as one field each, whatever they are.
pub(super) fn members_of(layout: &TypeLayout) -> Vec<FieldUse> {
    opened(layout, None, 1)
}

/// The member that a field is, or is in.
pub(super) fn member_of(field: &FieldUse, members: &[FieldUse]) -> Option<u16> {
    let has_all = |member: &&FieldUse| member.offset <= field.offset && field.end() <= member.end();
    let is_named = |member: &&FieldUse| {
        field.name.strip_prefix(&member.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let named = members.iter().position(|member| has_all(&member) && is_named(&member));
    named.or_else(|| members.iter().position(|member| has_all(&member))).map(|number| number as u16)
}

/// The same as [`fields_of`], with the fields of what is built in an array of bytes instead of these.
pub(super) fn fields_with(layout: &TypeLayout, stored: Option<StoredPart<'_>>) -> Vec<FieldUse> {
    opened(layout, stored, MOST_DEPTH)
}

/// Fields of structures that are nested so deep at most.
fn opened(layout: &TypeLayout, stored: Option<StoredPart<'_>>, most_depth: u32) -> Vec<FieldUse> {
    let mut fields: Vec<FoundField> = Vec::new();
    add(layout, "", 0, 0, most_depth, &mut fields);
    if let Some(StoredPart { offset, layout }) = stored {
        let covers =
            |found: &FoundField| found.field.offset <= offset && offset + layout.bytes <= found.field.end();
        if let Some(place) = fields.iter().position(covers) {
            let name = fields.remove(place).field.name;
            add(layout, &name, offset, 1, most_depth, &mut fields);
        }
    }
    // What has no bytes is not accessed (markers of Rust, empty bases), unless it is what objects end in.
    let is_tail = |field: &FieldUse| field.offset == layout.bytes && field.element_bytes > 0;
    fields.retain(|found| found.field.size > 0 || is_tail(&found.field));
    fields.sort_by_key(|found| found.field.offset);
    join_bits(fields)
}

/// The field that objects of a type end in where they may be longer than the type: an array without a bound, and where blocks are known
/// to be longer, one of a single element, as C has it (`char contents[1]`).
pub(super) fn open_end(layout: &TypeLayout, fields: &[FieldUse], are_longer: bool) -> Option<u16> {
    let last = fields.iter().rposition(|field| field.size == 0);
    let of_one = || {
        let member = array_of_one(layout).filter(|_| are_longer)?;
        let is_it = |field: &FieldUse| field.offset == member.offset && field.size == member.layout.bytes;
        fields.iter().rposition(is_it)
    };
    last.or_else(of_one).map(|number| number as u16)
}

/// Bit fields that share a byte are one field: whichever of them an access is about, it is of all of them.
fn join_bits(fields: Vec<FoundField>) -> Vec<FieldUse> {
    let mut joined: Vec<FoundField> = Vec::new();
    for found in fields {
        match joined.last_mut() {
            Some(last) if last.is_bits && found.is_bits && found.field.offset < last.field.end() => {
                let parent = found.field.name.rfind('.').map_or(0, |dot| dot + 1);
                let name = &found.field.name[parent..];
                last.field.name = format!("{}|{name}", last.field.name);
                last.field.size = last.field.size.max(found.field.end() - last.field.offset);
            }
            _ => joined.push(found),
        }
    }
    joined.into_iter().map(|found| found.field).collect()
}

/// A field on its way.
struct FoundField {
    field: FieldUse,
    /// Some bits of its bytes.
    is_bits: bool,
}

fn add(
    layout: &TypeLayout,
    name: &str,
    offset: u64,
    depth: u32,
    most_depth: u32,
    fields: &mut Vec<FoundField>,
) {
    let field = || FieldUse {
        name: if name.is_empty() { "[value]".to_owned() } else { name.to_owned() },
        type_name: layout.name.to_string(),
        offset,
        size: layout.bytes,
        element_bytes: match &layout.kind {
            TypeKind::Array { element, .. } => element.bytes,
            _ => 0,
        },
        ..FieldUse::default()
    };
    // What a member without a name has (a base class, an anonymous union) is its owner's, however flat the view.
    let is_opened = (depth < most_depth || name.is_empty()) && fields.len() < MOST_FIELDS;
    match &layout.kind {
        // An empty base class or member, which has a byte on paper.
        TypeKind::Struct(members) if members.is_empty() && depth > 0 => {}
        TypeKind::Struct(members) if is_opened && !members.is_empty() => {
            members.iter().for_each(|member| add_member(member, name, offset, depth, most_depth, fields));
        }
        TypeKind::Union(members) if is_opened => {
            let mut alternatives = Vec::new();
            let found = &mut alternatives;
            members.iter().for_each(|member| add_member(member, name, offset, depth, most_depth, found));
            alternatives.retain(|found| found.field.size > 0);
            match joined_alternatives(alternatives, name) {
                Some(alternatives) => fields.extend(alternatives),
                None => fields.push(FoundField { field: field(), is_bits: false }),
            }
        }
        _ => fields.push(FoundField { field: field(), is_bits: false }),
    }
}

fn add_member(
    member: &Member,
    name: &str,
    offset: u64,
    depth: u32,
    most_depth: u32,
    fields: &mut Vec<FoundField>,
) {
    let inner = match (name.is_empty(), member.name.is_empty()) {
        (_, true) => name.to_owned(),
        (true, false) => member.name.to_string(),
        (false, false) => format!("{name}.{}", member.name),
    };
    match member.bits {
        Some(bits) => {
            let field = FieldUse {
                name: inner,
                type_name: member.layout.name.to_string(),
                offset: offset + bits.first / 8,
                size: (bits.first + bits.count).div_ceil(8) - bits.first / 8,
                ..FieldUse::default()
            };
            fields.push(FoundField { field, is_bits: true });
        }
        None => add(&member.layout, &inner, offset + member.offset, depth + 1, most_depth, fields),
    }
}

/// What the members of a union consist of, those with the same bytes as one: `value.i|value.n` tells that nobody knows which of them an
/// access is about. Nothing where all have the same bytes: then the union is the field.
fn joined_alternatives(alternatives: Vec<FoundField>, union: &str) -> Option<Vec<FoundField>> {
    let mut joined: Vec<FoundField> = Vec::new();
    for mut found in alternatives {
        let same = joined
            .iter_mut()
            .find(|other| (other.field.offset, other.field.size) == (found.field.offset, found.field.size));
        match same {
            Some(same) => {
                let name = found.field.name.strip_prefix(union).unwrap_or(&found.field.name);
                same.field.name = format!("{}|{}", same.field.name, name.trim_start_matches('.'));
                if same.field.type_name != found.field.type_name {
                    same.field.type_name.clear();
                }
            }
            None => {
                found.field.is_alternative = true;
                joined.push(found);
            }
        }
    }
    (joined.len() > 1).then_some(joined)
}

/// The field that each byte belongs to: of several the last that begins at or before it.
pub(super) fn by_byte(fields: &[FieldUse], bytes: u64) -> Vec<u16> {
    let mut owners = vec![NO_FIELD; bytes as usize];
    for (number, field) in fields.iter().enumerate() {
        for byte in field.offset..(field.offset + field.size).min(bytes) {
            if owners[byte as usize] == NO_FIELD {
                owners[byte as usize] = number as u16;
            }
        }
    }
    owners
}

/// Runs of bytes that belong to no field.
pub(super) fn holes(owners: &[u16]) -> Vec<TypeHole> {
    let mut holes: Vec<TypeHole> = Vec::new();
    for (offset, _) in owners.iter().enumerate().filter(|(_, owner)| **owner == NO_FIELD) {
        let offset = offset as u64;
        match holes.last_mut() {
            Some(hole) if hole.offset + hole.size == offset => hole.size += 1,
            _ => holes.push(TypeHole { offset, size: 1 }),
        }
    }
    holes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use symbols::BitField;

    use super::*;

    fn scalar(name: &str, bytes: u64) -> Arc<TypeLayout> {
        Arc::new(TypeLayout { name: name.into(), bytes, kind: TypeKind::Scalar })
    }

    fn member(name: &str, offset: u64, layout: &Arc<TypeLayout>) -> Member {
        Member { name: name.into(), offset, bits: None, layout: Arc::clone(layout) }
    }

    #[test]
    fn structures_are_opened_and_holes_are_found() {
        let inner = TypeLayout {
            name: "Inner".into(),
            bytes: 16,
            kind: TypeKind::Struct(vec![
                member("flag", 0, &scalar("char", 1)),
                member("value", 8, &scalar("long", 8)),
            ]),
        };
        let outer = TypeLayout {
            name: "Outer".into(),
            bytes: 32,
            kind: TypeKind::Struct(vec![
                member("id", 0, &scalar("int", 4)),
                member("inner", 8, &Arc::new(inner)),
                member("next", 24, &scalar("", 8)),
            ]),
        };
        let fields = fields_of(&outer);
        let names: Vec<(&str, u64, u64)> =
            fields.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
        assert_eq!(names, [("id", 0, 4), ("inner.flag", 8, 1), ("inner.value", 16, 8), ("next", 24, 8)]);
        let owners = by_byte(&fields, 32);
        assert_eq!((owners[3], owners[4], owners[23]), (0, u16::MAX, 2));
        assert_eq!(holes(&owners), [TypeHole { offset: 4, size: 4 }, TypeHole { offset: 9, size: 7 }]);
        assert_eq!(fields_of(&scalar("double", 8))[0].name, "[value]");
        let members = members_of(&outer);
        let names: Vec<(&str, u64, u64)> =
            members.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
        assert_eq!(names, [("id", 0, 4), ("inner", 8, 16), ("next", 24, 8)]);
        let numbers: Vec<_> = fields.iter().map(|field| member_of(field, &members)).collect();
        assert_eq!(numbers, [Some(0), Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn bases_are_opened_however_flat_the_view() {
        let structure = |name: &str, bytes, members| {
            Arc::new(TypeLayout { name: name.into(), bytes, kind: TypeKind::Struct(members) })
        };
        let (empty, int) = (structure("Tag", 1, vec![]), scalar("int", 4));
        let base = structure("Entity", 4, vec![member("id", 0, &int)]);
        let derived =
            structure("Monster", 8, vec![member("", 0, &empty), member("", 0, &base), member("hp", 4, &int)]);
        let names =
            |fields: Vec<FieldUse>| -> Vec<String> { fields.into_iter().map(|field| field.name).collect() };
        assert_eq!(names(members_of(&derived)), ["id", "hp"]);
        assert_eq!(names(fields_of(&derived)), ["id", "hp"]);
    }

    #[test]
    fn objects_may_end_in_an_array_of_one() {
        let array = |count| {
            let kind = TypeKind::Array { element: scalar("char", 1), counts: vec![count] };
            Arc::new(TypeLayout { name: "".into(), bytes: count, kind })
        };
        let check = |count, are_longer, expect| {
            let members = vec![member("len", 0, &scalar("int", 4)), member("contents", 4, &array(count))];
            let layout = TypeLayout { name: "String".into(), bytes: 8, kind: TypeKind::Struct(members) };
            assert_eq!(open_end(&layout, &fields_of(&layout), are_longer), expect, "{count} {are_longer}");
        };
        check(1, true, Some(1));
        check(1, false, None);
        check(4, true, None);
    }

    #[test]
    fn members_of_unions_are_fields_unless_all_have_the_same_bytes() {
        let number = TypeLayout {
            name: "Number".into(),
            bytes: 8,
            kind: TypeKind::Union(vec![
                member("i", 0, &scalar("long", 8)),
                member("n", 0, &scalar("double", 8)),
            ]),
        };
        let number = Arc::new(number);
        assert_eq!(fields_of(&number).len(), 1);
        let slot = Arc::new(TypeLayout {
            name: "Slot".into(),
            bytes: 16,
            kind: TypeKind::Struct(vec![member("value", 0, &number), member("tag", 8, &scalar("char", 1))]),
        });
        let entry = TypeLayout {
            name: "Entry".into(),
            bytes: 16,
            kind: TypeKind::Union(vec![
                member("whole", 0, &slot),
                member("raw", 0, &scalar("long", 8)),
                member("low", 0, &scalar("int", 4)),
            ]),
        };
        let fields = fields_of(&entry);
        let names: Vec<(&str, u64, u64)> =
            fields.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
        assert_eq!(names, [("whole.value|raw", 0, 8), ("low", 0, 4), ("whole.tag", 8, 1)]);
        let fits: Vec<Option<FieldFit>> = fields.iter().map(|field| field.fit(0, 4)).collect();
        assert_eq!(fits, [Some(FieldFit::Overlaps), Some(FieldFit::Whole), None]);
    }

    #[test]
    fn bit_fields_of_one_byte_are_one() {
        let bits = |name: &str, first, count| Member {
            name: name.into(),
            offset: first / 8,
            bits: Some(BitField { first, count }),
            layout: scalar("unsigned", 4),
        };
        let flags = TypeLayout {
            name: "Flags".into(),
            bytes: 4,
            kind: TypeKind::Struct(vec![
                bits("a", 0, 3),
                bits("b", 3, 7),
                bits("c", 10, 2),
                bits("d", 16, 8),
            ]),
        };
        let fields = fields_of(&flags);
        let names: Vec<(&str, u64, u64)> =
            fields.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
        assert_eq!(names, [("a|b|c", 0, 2), ("d", 2, 1)]);
    }
}
