//! The fields of a type: its members one after the other, those of members that are structures in their place.

use symbols::{TypeKind, TypeLayout};

use crate::Count;

/// Members nest no deeper here.
const MOST_DEPTH: u32 = 12;
const MOST_FIELDS: usize = 512;

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
}

/// Bytes of a type that no field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeHole {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
}

/// The fields of a type. Of a union, each member is one; a number or an array is a field alone.
pub(super) fn fields_of(layout: &TypeLayout) -> Vec<FieldUse> {
    fields_with(layout, None)
}

/// What is built in bytes of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredPart<'a> {
    pub(super) offset: u64,
    pub(super) layout: &'a TypeLayout,
}

/// The same, with the fields of what is built in an array of bytes instead of these.
pub(super) fn fields_with(layout: &TypeLayout, stored: Option<StoredPart<'_>>) -> Vec<FieldUse> {
    let mut fields = Vec::new();
    add(layout, "", 0, 0, &mut fields);
    if let Some(StoredPart { offset, layout }) = stored {
        let covers =
            |field: &FieldUse| field.offset <= offset && offset + layout.bytes <= field.offset + field.size;
        if let Some(place) = fields.iter().position(covers) {
            let name = fields.remove(place).name;
            add(layout, &name, offset, 1, &mut fields);
        }
    }
    // What has no bytes is not accessed (markers of Rust, empty bases).
    fields.retain(|field: &FieldUse| field.size > 0);
    fields.sort_by_key(|field| field.offset);
    fields
}

fn add(layout: &TypeLayout, name: &str, offset: u64, depth: u32, fields: &mut Vec<FieldUse>) {
    let field = || FieldUse {
        name: if name.is_empty() { "[value]".to_owned() } else { name.to_owned() },
        type_name: layout.name.to_string(),
        offset,
        size: layout.bytes,
        ..FieldUse::default()
    };
    match &layout.kind {
        // An empty base class or member, which has a byte on paper.
        TypeKind::Struct(members) if members.is_empty() && depth > 0 => {}
        TypeKind::Struct(members)
            if depth < MOST_DEPTH && fields.len() < MOST_FIELDS && !members.is_empty() =>
        {
            for member in members {
                let inner = match (name.is_empty(), member.name.is_empty()) {
                    (_, true) => name.to_owned(),
                    (true, false) => member.name.to_string(),
                    (false, false) => format!("{name}.{}", member.name),
                };
                match member.bits {
                    Some(bits) => fields.push(FieldUse {
                        name: inner,
                        type_name: member.layout.name.to_string(),
                        offset: offset + bits.first / 8,
                        size: (bits.first + bits.count).div_ceil(8) - bits.first / 8,
                        ..FieldUse::default()
                    }),
                    None => add(&member.layout, &inner, offset + member.offset, depth + 1, fields),
                }
            }
        }
        _ => fields.push(field()),
    }
}

/// The field that each byte belongs to: of several the last that begins at or before it.
pub(super) fn by_byte(fields: &[FieldUse], bytes: u64) -> Vec<u16> {
    let mut owners = vec![u16::MAX; bytes as usize];
    for (number, field) in fields.iter().enumerate() {
        for byte in field.offset..(field.offset + field.size).min(bytes) {
            if owners[byte as usize] == u16::MAX {
                owners[byte as usize] = number as u16;
            }
        }
    }
    owners
}

/// Runs of bytes that belong to no field.
pub(super) fn holes(owners: &[u16]) -> Vec<TypeHole> {
    let mut holes: Vec<TypeHole> = Vec::new();
    for (offset, _) in owners.iter().enumerate().filter(|(_, owner)| **owner == u16::MAX) {
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

    use symbols::Member;

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
    }
}
