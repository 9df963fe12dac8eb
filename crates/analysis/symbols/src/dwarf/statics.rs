//! Variables at fixed addresses: global, static, and static within functions and classes.
//! Also thread-local variables, which are at fixed offsets in the template of their module.

use std::collections::HashMap;

use elf::LinkAddr;
use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_const_value, DW_AT_declaration, DW_AT_location, DW_AT_name,
    DW_AT_specification, DW_AT_type, DW_TAG_class_type, DW_TAG_formal_parameter, DW_TAG_member,
    DW_TAG_module, DW_TAG_namespace, DW_TAG_structure_type, DW_TAG_subprogram, DW_TAG_union_type,
    DW_TAG_variable, DwAt, UnitOffset,
};

use super::{
    die::{self, SliceDwarf, SliceUnit, TypeRef},
    sections::Sections,
    types,
};

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticVariable {
    pub(crate) address: LinkAddr,
    pub(crate) bytes: u64,
    /// With its scopes.
    pub(crate) name: String,
    pub(crate) type_ref: Option<TypeRef>,
}

/// All variables of a module.
#[derive(Debug, Default)]
pub(crate) struct Statics {
    /// Those that have an address, sorted by it, one each.
    all: Vec<StaticVariable>,
    /// Thread-local ones, sorted by their offset in a thread's block, which is what their address is; one each.
    thread_local: Vec<StaticVariable>,
}

/// A variable as its entry has it; what is missing is in the entry it refers to.
struct VariableEntry {
    address: LinkAddr,
    thread_local: bool,
    name: Option<String>,
    type_ref: Option<usize>,
    origin: Option<usize>,
}

struct Scope<'a> {
    depth: isize,
    name: Option<&'a str>,
    origin: Option<usize>,
    namespace: bool,
}

#[derive(Default)]
struct StaticsReader {
    found: Vec<VariableEntry>,
    declared: HashMap<usize, (String, Option<usize>)>,
}

/// The attributes of interest of one entry.
#[derive(Default)]
struct Attributes<'a> {
    name: Option<&'a str>,
    type_ref: Option<usize>,
    address: Option<LinkAddr>,
    /// The address is an offset.
    thread_local: bool,
    origin: Option<usize>,
    declaration: bool,
}

impl Statics {
    /// Reads all units; one that is damaged gives the variables before the damage.
    pub(crate) fn read(sections: &Sections) -> Self {
        let dwarf = sections.dwarf();
        let mut reader = StaticsReader::default();
        for &start in sections.units() {
            let read = die::unit_at(&dwarf, start).and_then(|unit| reader.unit(&dwarf, &unit));
            if let Err(damage) = read {
                sections.note_damage(&damage);
            }
        }
        let mut sizes = HashMap::new();
        let mut finish = |thread_local: bool| {
            let found = reader.found.iter().filter(|found| found.thread_local == thread_local);
            let mut all: Vec<_> =
                found.filter_map(|found| reader.finish(sections, &dwarf, found, &mut sizes)).collect();
            // Of several entries for one variable the one that knows its type is first.
            all.sort_by_key(|variable| (variable.address, variable.type_ref.is_none()));
            all.dedup_by_key(|variable| variable.address);
            all
        };
        Self { all: finish(false), thread_local: finish(true) }
    }

    /// The thread-local variable at an offset of the template.
    pub(crate) fn thread_local(&self, offset: LinkAddr) -> Option<&StaticVariable> {
        let at = self.thread_local.binary_search_by_key(&offset, |variable| variable.address).ok()?;
        self.thread_local.get(at)
    }

    /// The variable at an address, and the range around the address with the same answer.
    pub(crate) fn find(&self, address: LinkAddr) -> (LinkAddr, LinkAddr, Option<&StaticVariable>) {
        let after = self.all.partition_point(|variable| variable.address <= address);
        let next = self.all.get(after).map_or(LinkAddr::MAX, |variable| variable.address);
        let Some(variable) = after.checked_sub(1).and_then(|i| self.all.get(i)) else {
            return (LinkAddr(0), next, None);
        };
        let end = variable.address.saturating_offset(variable.bytes.max(1)).min(next);
        if address < end { (variable.address, end, Some(variable)) } else { (end, next, None) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StaticVariable> {
        self.all.iter()
    }
}

/// Why a variable that a source has is not one of those at fixed addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nothing is left of it.
    OptimisedAway,
    /// The compiler knows its value, and wrote that where it is used.
    Constant,
    /// It lives in registers or on a stack.
    Local,
}

/// What the units say of a variable of that name that has no fixed address.
pub(crate) fn missing(sections: &Sections, name: &str) -> Option<Missing> {
    let dwarf = sections.dwarf();
    let units = sections.units().iter().filter_map(|&start| die::unit_at(&dwarf, start).ok());
    units.filter_map(|unit| missing_in(&dwarf, &unit, name).ok().flatten()).next()
}

fn missing_in<'a>(
    dwarf: &SliceDwarf<'a>,
    unit: &SliceUnit<'a>,
    name: &str,
) -> Result<Option<Missing>, gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let specs = abbreviation.attributes();
        if !matches!(abbreviation.tag(), DW_TAG_variable | DW_TAG_formal_parameter) {
            entries.skip_attributes(specs)?;
            continue;
        }
        let (mut named, mut placed, mut constant, mut elsewhere) = (false, false, false, false);
        for &spec in specs {
            let attribute = entries.read_attribute(spec)?;
            match attribute.name() {
                DW_AT_name => named = die::text(dwarf, unit, attribute.value()) == Some(name),
                DW_AT_location => placed = true,
                DW_AT_const_value => constant = true,
                DW_AT_declaration => elsewhere = true,
                _ => {}
            }
        }
        if named && !elsewhere {
            return Ok(Some(match (placed, constant) {
                (true, _) => Missing::Local,
                (false, true) => Missing::Constant,
                (false, false) => Missing::OptimisedAway,
            }));
        }
    }
    Ok(None)
}

impl StaticsReader {
    fn unit<'a>(&mut self, dwarf: &SliceDwarf<'a>, unit: &SliceUnit<'a>) -> Result<(), gimli::Error> {
        let mut scopes: Vec<Scope<'a>> = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                scopes.pop();
            }
            let specs = abbreviation.attributes();
            let tag = abbreviation.tag();
            let is_scope = matches!(
                tag,
                DW_TAG_namespace
                    | DW_TAG_module
                    | DW_TAG_subprogram
                    | DW_TAG_structure_type
                    | DW_TAG_class_type
                    | DW_TAG_union_type
            );
            let has = |name: DwAt| specs.iter().any(|spec| spec.name() == name);
            let is_variable = tag == DW_TAG_variable && (has(DW_AT_location) || has(DW_AT_declaration))
                || tag == DW_TAG_member && has(DW_AT_declaration);
            if !(is_variable || is_scope && abbreviation.has_children()) {
                entries.skip_attributes(specs)?;
                continue;
            }
            let mut attributes = Attributes::default();
            for &spec in specs {
                let attribute = entries.read_attribute(spec)?;
                let value = attribute.value();
                match attribute.name() {
                    DW_AT_name => attributes.name = die::text(dwarf, unit, value),
                    DW_AT_type => attributes.type_ref = die::reference(unit, &value),
                    DW_AT_location => {
                        let offset = die::thread_offset(unit, value);
                        attributes.thread_local = offset.is_some();
                        attributes.address = offset.or_else(|| die::fixed_address(dwarf, unit, value));
                    }
                    DW_AT_specification | DW_AT_abstract_origin => {
                        attributes.origin = die::reference(unit, &value);
                    }
                    DW_AT_declaration => attributes.declaration = value == AttributeValue::Flag(true),
                    _ => {}
                }
            }
            if is_variable {
                self.variable(dwarf, unit, offset, &scopes, &attributes);
            } else {
                let namespace = tag == DW_TAG_namespace;
                scopes.push(Scope { depth, name: attributes.name, origin: attributes.origin, namespace });
            }
        }
        Ok(())
    }

    fn variable<'a>(
        &mut self,
        dwarf: &SliceDwarf<'a>,
        unit: &SliceUnit<'a>,
        offset: UnitOffset,
        scopes: &[Scope<'a>],
        attributes: &Attributes<'a>,
    ) {
        if attributes.address.is_none() && !attributes.declaration {
            return;
        }
        let qualified = attributes.name.map(|name| {
            let mut text = String::new();
            for scope in scopes {
                let part = scope.name.or_else(|| name_of(dwarf, unit, scope.origin, 0));
                let part = part.or(scope.namespace.then_some("(anonymous namespace)"));
                if let Some(part) = part {
                    text.push_str(part);
                    text.push_str("::");
                }
            }
            text + name
        });
        if let Some(address) = attributes.address {
            let (type_ref, origin) = (attributes.type_ref, attributes.origin);
            let thread_local = attributes.thread_local;
            self.found.push(VariableEntry { address, thread_local, name: qualified, type_ref, origin });
        } else if let (Some(name), Some(at)) = (qualified, die::global(unit, offset)) {
            self.declared.insert(at, (name, attributes.type_ref));
        }
    }

    fn finish(
        &self,
        sections: &Sections,
        dwarf: &SliceDwarf<'_>,
        found: &VariableEntry,
        sizes: &mut HashMap<usize, u64>,
    ) -> Option<StaticVariable> {
        let declared = found.origin.and_then(|origin| self.declared.get(&origin));
        let mut name = found.name.clone().or_else(|| Some(declared?.0.clone()));
        let mut type_ref = found.type_ref.or_else(|| declared?.1);
        if let Some(origin) = found.origin.filter(|_| name.is_none() || type_ref.is_none()) {
            // An instance of an inlined function: name and type are in the abstract one.
            let unit = die::unit_at(dwarf, sections.unit_of(origin)?).ok()?;
            name = name.or_else(|| name_of(dwarf, &unit, Some(origin), 0).map(str::to_owned));
            type_ref = type_ref.or_else(|| die::type_of(&unit, origin));
        }
        let bytes =
            type_ref.map_or(0, |at| *sizes.entry(at).or_insert_with(|| types::size(sections, dwarf, at)));
        Some(StaticVariable { address: found.address, bytes, name: name?, type_ref: type_ref.map(TypeRef) })
    }
}

/// The name of an entry of the same unit, or of the one that it refers to.
pub(super) fn name_of<'a>(
    dwarf: &SliceDwarf<'a>,
    unit: &SliceUnit<'a>,
    at: Option<usize>,
    depth: usize,
) -> Option<&'a str> {
    let entry = unit.entry(die::local_offset(unit, at?)?).ok()?;
    if let Ok(Some(name)) = entry.attr_value(DW_AT_name) {
        return die::text(dwarf, unit, name);
    }
    let next = [DW_AT_specification, DW_AT_abstract_origin]
        .iter()
        .find_map(|&name| die::reference(unit, &entry.attr_value(name).ok()??));
    if depth < 4 && next.is_some() {
        return name_of(dwarf, unit, next, depth + 1);
    }
    None
}
