//! Types, read one by one as variables need them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use gimli::{
    AttributeValue, DW_AT_bit_offset, DW_AT_bit_size, DW_AT_byte_size, DW_AT_count, DW_AT_data_bit_offset,
    DW_AT_data_member_location, DW_AT_declaration, DW_AT_external, DW_AT_name, DW_AT_type, DW_AT_upper_bound,
    DW_TAG_array_type, DW_TAG_atomic_type, DW_TAG_base_type, DW_TAG_class_type, DW_TAG_const_type,
    DW_TAG_enumeration_type, DW_TAG_inheritance, DW_TAG_member, DW_TAG_namespace, DW_TAG_pointer_type,
    DW_TAG_reference_type, DW_TAG_restrict_type, DW_TAG_rvalue_reference_type, DW_TAG_structure_type,
    DW_TAG_subrange_type, DW_TAG_typedef, DW_TAG_union_type, DW_TAG_variant, DW_TAG_variant_part,
    DW_TAG_volatile_type, DebuggingInformationEntry, DwTag, EntriesTreeNode,
};

use super::{
    die::{self, SliceDwarf, SliceUnit, TypeRef},
    sections::{Sections, Slice},
};
use crate::{BitField, Member, TypeKind, TypeLayout, layout::MAX_DEPTH};

/// The types read so far.
#[derive(Debug, Default)]
pub(crate) struct Types {
    layouts: Mutex<HashMap<usize, Arc<TypeLayout>>>,
    by_name: OnceLock<HashMap<String, usize>>,
}

impl Types {
    pub(crate) fn layout(&self, sections: &Sections, type_ref: TypeRef) -> Option<Arc<TypeLayout>> {
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = layouts.get(&type_ref.0) {
            return Some(Arc::clone(known));
        }
        let dwarf = sections.dwarf();
        let mut build = Build {
            sections,
            dwarf: &dwarf,
            units: HashMap::new(),
            done: &mut layouts,
            open: HashSet::new(),
        };
        build.layout(type_ref.0, 0)
    }

    pub(crate) fn named(&self, sections: &Sections, name: &str) -> Option<Arc<TypeLayout>> {
        let at = self.place_of(sections, name)?;
        self.layout(sections, TypeRef(at))
    }

    /// The entry of a complete type by its name.
    pub(super) fn place_of(&self, sections: &Sections, name: &str) -> Option<usize> {
        let name = name.trim();
        let name = ["struct ", "union ", "enum ", "class "]
            .iter()
            .find_map(|word| name.strip_prefix(word))
            .unwrap_or(name);
        self.by_name.get_or_init(|| names(sections)).get(name.trim()).copied()
    }
}

/// All complete named types, with their namespaces; the first of a name.
fn names(sections: &Sections) -> HashMap<String, usize> {
    let dwarf = sections.dwarf();
    let mut all = HashMap::new();
    for &start in sections.units() {
        let read = die::unit_at(&dwarf, start).and_then(|unit| names_of_unit(&dwarf, &unit, &mut all));
        if let Err(damage) = read {
            sections.note_damage(&damage);
        }
    }
    all
}

fn names_of_unit(
    dwarf: &SliceDwarf<'_>,
    unit: &SliceUnit<'_>,
    all: &mut HashMap<String, usize>,
) -> Result<(), gimli::Error> {
    let mut scopes: Vec<(isize, String)> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let (depth, offset) = (entries.next_depth(), entries.next_offset());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        while scopes.last().is_some_and(|scope| scope.0 >= depth) {
            scopes.pop();
        }
        let tag = abbreviation.tag();
        let is_type = matches!(
            tag,
            DW_TAG_structure_type
                | DW_TAG_class_type
                | DW_TAG_union_type
                | DW_TAG_enumeration_type
                | DW_TAG_typedef
                | DW_TAG_base_type
        );
        if !is_type && tag != DW_TAG_namespace {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let (mut name, mut declaration) = (None, false);
        for &spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(spec)?;
            match attribute.name() {
                DW_AT_name => name = die::text(dwarf, unit, attribute.value()),
                DW_AT_declaration => declaration = attribute.value() == AttributeValue::Flag(true),
                _ => {}
            }
        }
        let Some(name) = name else { continue };
        let prefix = scopes.last().map_or("", |scope| &scope.1);
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
        if abbreviation.has_children() && scopes.len() < MAX_DEPTH {
            scopes.push((depth, name.clone()));
        }
        if let Some(at) = die::global(unit, offset).filter(|_| is_type && !declaration) {
            all.entry(name).or_insert(at);
        }
    }
    Ok(())
}

/// Bytes of a type, without reading its members; 0 where it isn't said.
pub(crate) fn size(sections: &Sections, dwarf: &SliceDwarf<'_>, at: usize) -> u64 {
    let mut done = HashMap::new();
    let mut build = Build { sections, dwarf, units: HashMap::new(), done: &mut done, open: HashSet::new() };
    build.size(at, 0).unwrap_or(0)
}

/// Types of libstdc++ that are bytes for one object of the type that they have as a parameter.
const BUFFERS: [&str; 2] = ["__aligned_membuf<", "__aligned_buffer<"];

/// Before the name of an atomic type of C.
const ATOMIC: &str = "_Atomic ";

struct Build<'s, 'd> {
    sections: &'s Sections,
    dwarf: &'d SliceDwarf<'s>,
    units: HashMap<usize, Arc<SliceUnit<'s>>>,
    done: &'d mut HashMap<usize, Arc<TypeLayout>>,
    /// Types whose reading has begun: one that contains itself is damaged.
    open: HashSet<usize>,
}

type Die<'e, 's> = DebuggingInformationEntry<'e, 'e, Slice<'s>>;

fn is_transparent(tag: DwTag) -> bool {
    matches!(
        tag,
        DW_TAG_typedef | DW_TAG_const_type | DW_TAG_volatile_type | DW_TAG_restrict_type | DW_TAG_atomic_type
    )
}

impl<'s> Build<'s, '_> {
    fn unit(&mut self, at: usize) -> Option<Arc<SliceUnit<'s>>> {
        let start = self.sections.unit_of(at)?;
        if let Some(unit) = self.units.get(&start) {
            return Some(Arc::clone(unit));
        }
        let unit = Arc::new(die::unit_at(self.dwarf, start).ok()?);
        self.units.insert(start, Arc::clone(&unit));
        Some(unit)
    }

    fn size(&mut self, at: usize, depth: usize) -> Option<u64> {
        let unit = self.unit(at)?;
        let offset = gimli::DebugInfoOffset(at).to_unit_offset(&unit.header)?;
        let entry = unit.entry(offset).ok()?;
        if let Some(bytes) = attribute_number(&entry, DW_AT_byte_size) {
            return Some(bytes);
        }
        if depth >= MAX_DEPTH {
            return None;
        }
        match entry.tag() {
            tag if is_transparent(tag) => self.size(type_of(&unit, &entry)?, depth + 1),
            DW_TAG_array_type => {
                let element = self.size(type_of(&unit, &entry)?, depth + 1)?;
                counts(&unit, offset)?.iter().try_fold(element, |bytes, count| bytes.checked_mul(*count))
            }
            tag if is_pointer(tag) => Some(u64::from(unit.header.address_size())),
            _ => None,
        }
    }

    fn layout(&mut self, at: usize, depth: usize) -> Option<Arc<TypeLayout>> {
        if let Some(known) = self.done.get(&at) {
            return Some(Arc::clone(known));
        }
        if depth >= MAX_DEPTH || !self.open.insert(at) {
            let bytes = self.size(at, 0).unwrap_or(0);
            return Some(Arc::new(TypeLayout { name: "".into(), bytes, kind: TypeKind::Scalar }));
        }
        let layout = self.read(at, depth);
        self.open.remove(&at);
        let layout = layout?;
        self.done.insert(at, Arc::clone(&layout));
        Some(layout)
    }

    fn read(&mut self, at: usize, depth: usize) -> Option<Arc<TypeLayout>> {
        let unit = self.unit(at)?;
        let offset = gimli::DebugInfoOffset(at).to_unit_offset(&unit.header)?;
        let entry = unit.entry(offset).ok()?;
        let name = entry.attr_value(DW_AT_name).ok().flatten();
        let name = name.and_then(|name| die::text(self.dwarf, &unit, name)).unwrap_or("");
        let bytes = |build: &mut Self| build.size(at, 0).unwrap_or(0);
        let kind = match entry.tag() {
            tag if is_transparent(tag) => {
                let inner = self.layout(type_of(&unit, &entry)?, depth + 1)?;
                // A typedef has a name of its own; qualifiers have not. What has a name already is one type, however many it is given.
                let is_named_aggregate = !inner.name.is_empty()
                    && matches!(inner.kind, TypeKind::Struct(_) | TypeKind::Union(_))
                    && !inner.name.starts_with(ATOMIC);
                if is_named_aggregate && entry.tag() == DW_TAG_typedef {
                    return Some(inner);
                }
                let atomic = entry.tag() == DW_TAG_atomic_type || inner.name.starts_with(ATOMIC);
                let name = match (atomic, name.is_empty()) {
                    // Whoever looks for races must know, whatever the name of the type.
                    (true, true) => format!("{ATOMIC}{}", inner.name.trim_start_matches(ATOMIC)),
                    (true, false) => format!("{ATOMIC}{name}"),
                    (false, _) => name.to_string(),
                };
                let rename = !name.is_empty();
                return Some(if rename {
                    Arc::new(TypeLayout { name: name.into(), ..(*inner).clone() })
                } else {
                    inner
                });
            }
            DW_TAG_structure_type | DW_TAG_class_type => {
                let mut members = self.members(&unit, offset, depth);
                if BUFFERS.iter().any(|start| name.starts_with(start)) {
                    self.fill_buffer(&unit, offset, depth, &mut members);
                }
                TypeKind::Struct(members)
            }
            DW_TAG_union_type => TypeKind::Union(self.members(&unit, offset, depth)),
            DW_TAG_array_type => {
                let element = self.layout(type_of(&unit, &entry)?, depth + 1)?;
                TypeKind::Array { element, counts: counts(&unit, offset)? }
            }
            _ => TypeKind::Scalar,
        };
        Some(Arc::new(TypeLayout { name: name.into(), bytes: bytes(self), kind }))
    }

    fn members(&mut self, unit: &SliceUnit<'s>, offset: gimli::UnitOffset, depth: usize) -> Vec<Member> {
        let mut members = Vec::new();
        let Ok(mut tree) = unit.entries_tree(Some(offset)) else { return members };
        if let Ok(root) = tree.root() {
            self.children(unit, root, depth, &mut members);
        }
        members
    }

    /// A buffer holds what it was made for, whatever its bytes are declared as.
    fn fill_buffer(
        &mut self,
        unit: &SliceUnit<'s>,
        offset: gimli::UnitOffset,
        depth: usize,
        members: &mut [Member],
    ) {
        let Some(inner) = die::template_parameter(unit, offset) else { return };
        let Some(layout) = self.layout(inner, depth + 1) else { return };
        if let Some(storage) = members.iter_mut().find(|member| layout.bytes <= member.layout.bytes) {
            storage.layout = layout;
        }
    }

    fn children(
        &mut self,
        unit: &SliceUnit<'s>,
        node: EntriesTreeNode<'_, '_, '_, Slice<'s>>,
        depth: usize,
        members: &mut Vec<Member>,
    ) {
        if depth >= MAX_DEPTH {
            return;
        }
        let mut children = node.children();
        while let Ok(Some(child)) = children.next() {
            match child.entry().tag() {
                DW_TAG_member | DW_TAG_inheritance => {
                    let member = self.member(unit, child.entry(), depth);
                    members.extend(member);
                }
                // A Rust enumeration: each variant has its own structure, all at one place.
                DW_TAG_variant_part => {
                    let mut variants = Vec::new();
                    self.children(unit, child, depth + 1, &mut variants);
                    let bytes =
                        variants.iter().map(|v| v.offset.saturating_add(v.layout.bytes)).max().unwrap_or(0);
                    let layout = TypeLayout { name: "".into(), bytes, kind: TypeKind::Union(variants) };
                    members.push(Member { name: "".into(), offset: 0, bits: None, layout: Arc::new(layout) });
                }
                DW_TAG_variant => self.children(unit, child, depth + 1, members),
                _ => {}
            }
        }
    }

    fn member(&mut self, unit: &SliceUnit<'s>, entry: &Die<'_, 's>, depth: usize) -> Option<Member> {
        // Static members of classes lie elsewhere.
        if has(entry, DW_AT_declaration) || has(entry, DW_AT_external) {
            return None;
        }
        let layout = self.layout(type_of(unit, entry)?, depth + 1)?;
        let name = if entry.tag() == DW_TAG_inheritance {
            ""
        } else {
            let name = entry.attr_value(DW_AT_name).ok().flatten();
            name.and_then(|name| die::text(self.dwarf, unit, name)).unwrap_or("")
        };
        // Fields of Rust tuples: `__0`.
        let number = name
            .strip_prefix("__")
            .filter(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
        let offset = entry
            .attr(DW_AT_data_member_location)
            .ok()
            .flatten()
            .and_then(|attribute| die::member_location(unit, &attribute))
            .unwrap_or(0);
        let bits = attribute_number(entry, DW_AT_bit_size).and_then(|bits| {
            let start = match attribute_number(entry, DW_AT_data_bit_offset) {
                Some(start) => offset.checked_mul(8)?.checked_add(start)?,
                None => {
                    // The old form counts from the most significant bit of a storage unit.
                    let storage = attribute_number(entry, DW_AT_byte_size).unwrap_or(layout.bytes);
                    let from_top = attribute_number(entry, DW_AT_bit_offset)?;
                    let end = offset.checked_add(storage)?.checked_mul(8)?.checked_sub(from_top)?;
                    end.checked_sub(bits)?
                }
            };
            Some(BitField { first: start, count: bits })
        });
        let offset = bits.map_or(offset, |bits: BitField| bits.first / 8);
        Some(Member { name: number.unwrap_or(name).into(), offset, bits, layout })
    }
}

fn is_pointer(tag: DwTag) -> bool {
    matches!(tag, DW_TAG_pointer_type | DW_TAG_reference_type | DW_TAG_rvalue_reference_type)
}

fn has(entry: &Die<'_, '_>, name: gimli::DwAt) -> bool {
    matches!(entry.attr_value(name), Ok(Some(AttributeValue::Flag(true))))
}

fn attribute_number(entry: &Die<'_, '_>, name: gimli::DwAt) -> Option<u64> {
    die::number(&entry.attr(name).ok()??)
}

fn type_of(unit: &SliceUnit<'_>, entry: &Die<'_, '_>) -> Option<usize> {
    die::reference(unit, &entry.attr_value(DW_AT_type).ok()??)
}

/// Elements in each dimension; 0 for an array without a bound.
fn counts(unit: &SliceUnit<'_>, offset: gimli::UnitOffset) -> Option<Vec<u64>> {
    let mut tree = unit.entries_tree(Some(offset)).ok()?;
    let mut counts = Vec::new();
    let mut children = tree.root().ok()?.children();
    while let Ok(Some(child)) = children.next() {
        let entry = child.entry();
        if entry.tag() == DW_TAG_subrange_type {
            let count = attribute_number(entry, DW_AT_count);
            let bound = || attribute_number(entry, DW_AT_upper_bound)?.checked_add(1);
            counts.push(count.or_else(bound).unwrap_or(0));
        }
    }
    Some(counts)
}
