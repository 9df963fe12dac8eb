//! Types as needed to follow pointers: what a pointer points to, and
//! what lies at an offset. Read one unit at a time, without names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gimli::{
    DW_AT_calling_convention, DW_AT_data_member_location, DW_AT_declaration, DW_AT_name, DW_AT_type,
    DW_TAG_array_type, DW_TAG_atomic_type, DW_TAG_class_type, DW_TAG_const_type, DW_TAG_inheritance,
    DW_TAG_member, DW_TAG_pointer_type, DW_TAG_reference_type, DW_TAG_restrict_type,
    DW_TAG_rvalue_reference_type, DW_TAG_structure_type, DW_TAG_typedef, DW_TAG_union_type,
    DW_TAG_volatile_type,
};

use super::die;
use super::sections::Sections;
use super::types::Types;
use crate::layout::MAX_DEPTH;

/// Types looked at for one part: damaged debug information can describe more than anyone can visit.
const MOST_STEPS: u32 = 1000;
/// How DWARF says that values of a type are passed by their address.
const PASS_BY_REFERENCE: u64 = 4;

/// A member: its place, and its type.
#[derive(Clone, Copy, Debug)]
struct MemberShape {
    offset: u64,
    type_at: usize,
}

/// What a type is.
#[derive(Clone, Debug)]
enum TypeShape {
    /// Another type under a name or with a qualifier.
    Alias(usize),
    /// A pointer or reference; nothing where it points to no type.
    Pointer(Option<usize>),
    Aggregate {
        members: Vec<MemberShape>,
        /// A value of it that is passed or returned is an address in truth.
        by_reference: bool,
    },
    Array(usize),
    /// It is complete elsewhere, under that name.
    Declared(String),
}

type UnitShapes = Arc<HashMap<usize, TypeShape>>;

/// The shapes read so far, by unit.
#[derive(Debug, Default)]
pub(crate) struct TypeShapes {
    units: Mutex<HashMap<usize, UnitShapes>>,
}

impl TypeShapes {
    fn unit(&self, sections: &Sections, at: usize) -> Option<UnitShapes> {
        let start = sections.unit_of(at)?;
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        let shapes = units.entry(start).or_insert_with(|| {
            let mut shapes = HashMap::new();
            if let Err(damage) = read_unit(sections, start, &mut shapes) {
                sections.note_damage(&damage);
            }
            Arc::new(shapes)
        });
        Some(Arc::clone(shapes))
    }

    /// The shape behind names and qualifiers, and where it is.
    fn shape(&self, sections: &Sections, types: &Types, at: usize) -> Option<(usize, TypeShape)> {
        let mut at = at;
        for _ in 0..MAX_DEPTH {
            let shape = self.unit(sections, at)?.get(&at)?.clone();
            match shape {
                TypeShape::Alias(inner) => at = inner,
                TypeShape::Declared(name) => {
                    let complete = types.place_of(sections, &name).filter(|place| *place != at)?;
                    at = complete;
                }
                shape => return Some((at, shape)),
            }
        }
        None
    }

    /// What a pointer points to. Names are kept, and what is declared only is found where it is complete.
    pub(crate) fn pointee(&self, sections: &Sections, types: &Types, at: usize) -> Option<usize> {
        let (_, TypeShape::Pointer(to)) = self.shape(sections, types, at)? else { return None };
        let to = to?;
        match self.unit(sections, to)?.get(&to) {
            Some(TypeShape::Declared(_)) => self.shape(sections, types, to).map(|(at, _)| at),
            _ => Some(to),
        }
    }

    /// The innermost type at an offset of another one: of members that begin there a pointer, else what the first one begins with.
    pub(crate) fn part(&self, sections: &Sections, types: &Types, at: usize, offset: u64) -> Option<usize> {
        let mut steps = MOST_STEPS;
        self.part_within(sections, types, at, offset, &mut steps)
    }

    fn part_within(
        &self,
        sections: &Sections,
        types: &Types,
        at: usize,
        offset: u64,
        steps: &mut u32,
    ) -> Option<usize> {
        *steps = steps.checked_sub(1)?;
        match self.shape(sections, types, at) {
            Some((_, TypeShape::Aggregate { members, .. })) => {
                // The ones that begin last before it: of a union all members, empty bases, all variants of an enumeration.
                let inside = || members.iter().filter(|member| member.offset <= offset);
                let last = inside().map(|member| member.offset).max()?;
                let mut parts = inside().filter(|member| member.offset == last).filter_map(|member| {
                    self.part_within(sections, types, member.type_at, offset - member.offset, steps)
                });
                let first = parts.next()?;
                let is_pointer =
                    |at: usize| matches!(self.shape(sections, types, at), Some((_, TypeShape::Pointer(_))));
                Some(if is_pointer(first) {
                    first
                } else {
                    parts.find(|at| is_pointer(*at)).unwrap_or(first)
                })
            }
            Some((_, TypeShape::Array(element))) => {
                let bytes = super::types::size(sections, &sections.dwarf(), element);
                self.part_within(sections, types, element, offset.checked_rem(bytes)?, steps)
            }
            _ => (offset == 0).then_some(at),
        }
    }

    /// What a value of a type that stands in a register points to: a pointer's, or that of a structure with nothing before it.
    pub(crate) fn held_pointee(&self, sections: &Sections, types: &Types, at: usize) -> Option<usize> {
        match self.shape(sections, types, at)? {
            (_, TypeShape::Aggregate { by_reference: false, .. }) => {
                self.pointee(sections, types, self.part(sections, types, at, 0)?)
            }
            _ => self.pointee(sections, types, at),
        }
    }
}

/// A structure whose members are being read.
struct OpenAggregate {
    depth: isize,
    at: usize,
    members: Vec<MemberShape>,
    by_reference: bool,
}

impl OpenAggregate {
    fn shape(self) -> TypeShape {
        TypeShape::Aggregate { members: self.members, by_reference: self.by_reference }
    }
}

fn read_unit(
    sections: &Sections,
    start: usize,
    shapes: &mut HashMap<usize, TypeShape>,
) -> Result<(), gimli::Error> {
    let dwarf = sections.dwarf();
    let unit = die::unit_at(&dwarf, start)?;
    let mut open: Vec<OpenAggregate> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let (depth, offset) = (entries.next_depth(), entries.next_offset());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        while let Some(over) = open.pop_if(|open| open.depth >= depth) {
            shapes.insert(over.at, over.shape());
        }
        let (tag, specs) = (abbreviation.tag(), abbreviation.attributes());
        let is_wanted = matches!(
            tag,
            DW_TAG_typedef
                | DW_TAG_const_type
                | DW_TAG_volatile_type
                | DW_TAG_restrict_type
                | DW_TAG_atomic_type
                | DW_TAG_pointer_type
                | DW_TAG_reference_type
                | DW_TAG_rvalue_reference_type
                | DW_TAG_array_type
                | DW_TAG_structure_type
                | DW_TAG_class_type
                | DW_TAG_union_type
                | DW_TAG_member
                | DW_TAG_inheritance
        );
        let Some(at) = die::global(&unit, offset).filter(|_| is_wanted) else {
            entries.skip_attributes(specs)?;
            continue;
        };
        let (mut type_at, mut place, mut name, mut is_declared) = (None, Some(0), None, false);
        let mut by_reference = false;
        for &spec in specs {
            let attribute = entries.read_attribute(spec)?;
            match attribute.name() {
                DW_AT_type => type_at = die::reference(&unit, &attribute.value()),
                DW_AT_data_member_location => place = die::member_location(&unit, &attribute),
                DW_AT_declaration => is_declared = true,
                DW_AT_calling_convention => {
                    by_reference = die::number(&attribute) == Some(PASS_BY_REFERENCE);
                }
                DW_AT_name if name.is_none() => name = die::text(&dwarf, &unit, attribute.value()),
                _ => {}
            }
        }
        let shape = match tag {
            DW_TAG_member | DW_TAG_inheritance => {
                // Those of variants count as the enumeration's.
                if let (Some(outer), Some(type_at), Some(offset), false) =
                    (open.last_mut(), type_at, place, is_declared)
                {
                    outer.members.push(MemberShape { offset, type_at });
                }
                continue;
            }
            DW_TAG_structure_type | DW_TAG_class_type | DW_TAG_union_type => {
                match name.filter(|_| is_declared) {
                    Some(name) => TypeShape::Declared(name.to_owned()),
                    None => {
                        open.push(OpenAggregate { depth, at, members: Vec::new(), by_reference });
                        continue;
                    }
                }
            }
            DW_TAG_pointer_type | DW_TAG_reference_type | DW_TAG_rvalue_reference_type => {
                TypeShape::Pointer(type_at)
            }
            DW_TAG_array_type => match type_at {
                Some(element) => TypeShape::Array(element),
                None => continue,
            },
            _ => match type_at {
                Some(inner) => TypeShape::Alias(inner),
                None => continue,
            },
        };
        shapes.insert(at, shape);
    }
    for over in open {
        shapes.insert(over.at, over.shape());
    }
    Ok(())
}
