//! Generic functions that allocate, and the type they allocate for: `Box<T>::new` and `RawVec<T>` of Rust's library,
//! `allocate` of C++'s allocators, `make_unique<T>`. The compiler recorded the type when it instantiated the function.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::{DW_AT_abstract_origin, DW_AT_linkage_name, DW_AT_name, DW_AT_specification, DW_AT_type};

use super::die::{self, SliceDwarf, SliceUnit};
use super::sections::Sections;
use super::typed::{AllocatedType, DebugType};

/// Entries that say together what a function is: its instance, where that was inlined from, its declaration.
const MOST_ENTRIES: usize = 4;
/// Functions of `Box` that allocate begin with these.
const BOX_NEW: [&str; 3] = ["new", "try_new", "pin"];

/// What a function is called, and what it was made for.
#[derive(Default)]
struct GenericFunction {
    name: Option<String>,
    linkage_name: Option<String>,
    returns: Option<usize>,
    /// Its first template parameter.
    parameter: Option<usize>,
}

/// Reads entries that functions are instances of, which may lie in other units, where the compiler optimised several together.
pub(super) struct Origins<'a, 's> {
    sections: &'s Sections,
    dwarf: &'a SliceDwarf<'s>,
    units: HashMap<usize, Rc<SliceUnit<'s>>>,
    allocates: HashMap<usize, Option<AllocatedType>>,
}

impl<'a, 's> Origins<'a, 's> {
    pub(super) fn new(sections: &'s Sections, dwarf: &'a SliceDwarf<'s>) -> Self {
        Self { sections, dwarf, units: HashMap::new(), allocates: HashMap::new() }
    }

    /// The unit that an entry lies in.
    fn unit(&mut self, at: usize) -> Option<Rc<SliceUnit<'s>>> {
        let start = self.sections.unit_of(at)?;
        if let Some(unit) = self.units.get(&start) {
            return Some(Rc::clone(unit));
        }
        let unit = Rc::new(die::unit_at(self.dwarf, start).ok()?);
        self.units.insert(start, Rc::clone(&unit));
        Some(unit)
    }

    /// The type that an entry has.
    pub(super) fn type_of(&mut self, at: usize) -> Option<usize> {
        let unit = self.unit(at)?;
        die::type_of(&unit, at)
    }

    /// What the function that an entry describes allocates.
    pub(super) fn allocated_by(&mut self, at: usize) -> Option<AllocatedType> {
        if let Some(known) = self.allocates.get(&at) {
            return *known;
        }
        let allocates = self.read(at).allocates();
        self.allocates.insert(at, allocates);
        allocates
    }

    fn read(&mut self, at: usize) -> GenericFunction {
        let mut function = GenericFunction::default();
        let mut next = Some(at);
        for _ in 0..MOST_ENTRIES {
            let Some((at, unit)) = next.take().and_then(|at| Some((at, self.unit(at)?))) else { break };
            let Some(offset) = die::local_offset(&unit, at) else { break };
            let Ok(entry) = unit.entry(offset) else { break };
            let value = |name| entry.attr_value(name).ok().flatten();
            let text = |name| die::text(self.dwarf, &unit, value(name)?).map(str::to_owned);
            let reference = |name| die::reference(&unit, &value(name)?);
            function.name = function.name.or_else(|| text(DW_AT_name));
            function.linkage_name = function.linkage_name.or_else(|| text(DW_AT_linkage_name));
            function.returns = function.returns.or_else(|| reference(DW_AT_type));
            function.parameter = function.parameter.or_else(|| die::template_parameter(&unit, offset));
            next = reference(DW_AT_abstract_origin).or_else(|| reference(DW_AT_specification));
        }
        function
    }
}

impl GenericFunction {
    fn allocates(&self) -> Option<AllocatedType> {
        let base = self.name.as_deref()?.split('<').next()?;
        let linkage_name = self.linkage_name.as_deref().unwrap_or("");
        if base == "allocate" {
            return Some(AllocatedType::PointedTo(DebugType(self.returns?)));
        }
        let has = |parts: &[&str]| parts.iter().all(|part| linkage_name.contains(part));
        let is_box = has(&["5alloc5boxed", "Box"]) && BOX_NEW.iter().any(|start| base.starts_with(start));
        // Its inner part is one for all types.
        let is_vector = has(&["7raw_vec", "RawVec"]) && !has(&["RawVecInner"]);
        let is_table = has(&["9hashbrown3raw", "RawTable"]) && !has(&["RawTableInner"]);
        let is_unique = base == "make_unique" || base == "make_unique_for_overwrite";
        let parameter = DebugType(self.parameter?);
        match () {
            () if is_table => Some(AllocatedType::Table(parameter)),
            () if is_unique => Some(AllocatedType::One(parameter)),
            () if is_box || is_vector => Some(AllocatedType::Element(parameter)),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, linkage_name: &str, expect: Option<AllocatedType>) {
        let function = GenericFunction {
            name: Some(name.to_owned()),
            linkage_name: Some(linkage_name.to_owned()),
            returns: Some(1),
            parameter: Some(2),
        };
        assert_eq!(function.allocates(), expect, "{name}");
    }

    #[test]
    fn allocating_functions_by_their_names() {
        let element = Some(AllocatedType::Element(DebugType(2)));
        check("new<bank::Node>", "_ZN5alloc5boxed12Box$LT$T$GT$3new17h79948cc6de0066a5E", element);
        check("into_raw<bank::Node>", "_ZN5alloc5boxed12Box$LT$T$GT$8into_raw17h0E", None);
        check("grow_one<u64>", "_ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$8grow_one17h0E", element);
        check("grow_one<Global>", "_ZN5alloc7raw_vec20RawVecInner$LT$A$GT$8grow_one17h0E", None);
        let table = Some(AllocatedType::Table(DebugType(2)));
        check("reserve_rehash<u64>", "_ZN9hashbrown3raw21RawTable$LT$T$C$A$GT$14reserve_rehash17h0E", table);
        let one = Some(AllocatedType::One(DebugType(2)));
        check("make_unique<Player>", "_ZSt11make_uniqueI6PlayerJEE", one);
        let pointer = Some(AllocatedType::PointedTo(DebugType(1)));
        check("allocate", "_ZNSt15__new_allocatorI4ItemE8allocateEmPKv", pointer);
        check("main", "_ZN4bank4main17h0E", None);
    }
}
