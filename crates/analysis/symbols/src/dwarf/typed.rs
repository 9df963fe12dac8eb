//! Places of typed variables and parameters while a function runs, in registers and in its stack frame, with
//! the instructions for which each place is valid (location lists). Also the type that a function returns.

use std::ops::Range;
use std::sync::Arc;

use elf::LinkAddr;
use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_frame_base, DW_AT_location, DW_AT_specification, DW_AT_type,
    DW_TAG_formal_parameter, DW_TAG_inlined_subroutine, DW_TAG_lexical_block, DW_TAG_subprogram,
    DW_TAG_variable, Expression, Operation,
};

use super::allocating::Origins;
use super::die::{self, CodeAttributes, SliceDwarf, SliceUnit};
use super::locals::{FrameBase, ReadFunctions, UnitFunctions};
use super::sections::{Sections, Slice};

/// A type of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DebugType(pub(crate) usize);

/// Where a variable, or a part of it, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariablePlace {
    /// In a register, by DWARF's number: its value plus this number is that of the variable.
    Register(u16, i64),
    /// In the function's frame: bytes from the canonical frame address.
    Frame(i64),
    /// In memory, so many bytes from where a register points, by DWARF's number.
    Memory(u16, i64),
}

/// A variable or parameter at one of its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedVariable {
    /// The instructions for which it is there.
    pub code: Range<LinkAddr>,
    /// Where.
    pub place: VariablePlace,
    /// Its type.
    pub type_: DebugType,
    /// What of it is there: bytes from its start.
    pub part: u64,
}

/// What a function allocates blocks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatedType {
    /// One of that type; what its constructor allocates, which may be part of the same code, is something else.
    One(DebugType),
    /// One or several of that type.
    Element(DebugType),
    /// What that pointer type points to.
    PointedTo(DebugType),
    /// A power of two of that type, and a byte for each and 16 more behind them, as hashbrown's tables are.
    Table(DebugType),
}

/// Code of a generic function that allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatingCode {
    /// Its instructions.
    pub code: Range<LinkAddr>,
    /// What it allocates.
    pub allocates: AllocatedType,
}

/// What debug information tells of the values in a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedFunction {
    /// Its variables and parameters.
    pub variables: Vec<TypedVariable>,
    /// What it returns.
    pub returns: Option<DebugType>,
    /// The type of its first parameter.
    pub first_parameter: Option<DebugType>,
    /// Generic functions that allocate and are part of it, those that were inlined into others after these.
    pub allocating: Vec<AllocatingCode>,
}

/// The functions read so far, by unit and address.
#[derive(Debug, Default)]
pub(crate) struct TypedFunctions {
    functions: ReadFunctions<Arc<TypedFunction>>,
}

impl TypedFunctions {
    /// The function that begins there.
    pub(crate) fn find(&self, sections: &Sections, function: LinkAddr) -> Option<Arc<TypedFunction>> {
        self.functions.find(sections, function, read_unit)
    }
}

/// A function, or a block of one or an inlined one, and its code.
struct OpenScope {
    depth: isize,
    code: Vec<Range<LinkAddr>>,
    /// Of a function: where it begins, and its frame base from the CFA.
    function: Option<LinkAddr>,
}

/// What has been read of the function that is open.
#[derive(Default)]
struct OpenTyped {
    base: Option<i64>,
    /// The register that is the frame base, by DWARF's number.
    base_register: Option<u16>,
    has_parameter: bool,
    typed: TypedFunction,
}

struct UnitReader<'a, 's> {
    sections: &'a Sections,
    dwarf: &'a SliceDwarf<'s>,
    unit: &'a SliceUnit<'s>,
    origins: Origins<'a, 's>,
    scopes: Vec<OpenScope>,
    open: OpenTyped,
    found: &'a mut UnitFunctions<Arc<TypedFunction>>,
}

fn read_unit(
    sections: &Sections,
    start: usize,
    found: &mut UnitFunctions<Arc<TypedFunction>>,
) -> Result<(), gimli::Error> {
    let dwarf = sections.dwarf();
    let unit = die::unit_at(&dwarf, start)?;
    let mut reader = UnitReader {
        sections,
        dwarf: &dwarf,
        unit: &unit,
        origins: Origins::new(sections, &dwarf),
        scopes: Vec::new(),
        open: OpenTyped::default(),
        found,
    };
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let (depth, offset) = (entries.next_depth(), entries.next_offset());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        reader.close(depth);
        let (tag, specs) = (abbreviation.tag(), abbreviation.attributes());
        let mut attributes = Vec::new();
        match tag {
            DW_TAG_subprogram
            | DW_TAG_lexical_block
            | DW_TAG_inlined_subroutine
            | DW_TAG_variable
            | DW_TAG_formal_parameter => {
                for &spec in specs {
                    let attribute = entries.read_attribute(spec)?;
                    attributes.push((attribute.name(), attribute.value()));
                }
            }
            _ => {
                entries.skip_attributes(specs)?;
                continue;
            }
        }
        match tag {
            DW_TAG_variable | DW_TAG_formal_parameter => {
                if tag == DW_TAG_formal_parameter {
                    reader.parameter(depth, &attributes);
                }
                reader.variable(&attributes)?;
            }
            _ => {
                reader.scope(depth, tag == DW_TAG_subprogram, &attributes)?;
                if tag != DW_TAG_lexical_block {
                    let origin = reader.origin(&attributes).or_else(|| die::global(&unit, offset));
                    reader.allocating(depth, origin);
                }
            }
        }
    }
    reader.close(isize::MIN);
    Ok(())
}

/// A register and a number are where a variable lies, unless it is said to be their sum.
fn held(place: VariablePlace, is_value: bool) -> VariablePlace {
    match place {
        VariablePlace::Register(register, number) if !is_value => VariablePlace::Memory(register, number),
        place => place,
    }
}

type Attributes<'s> = [(gimli::DwAt, AttributeValue<Slice<'s>>)];

fn value<'s>(attributes: &Attributes<'s>, name: gimli::DwAt) -> Option<AttributeValue<Slice<'s>>> {
    attributes.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
}

impl<'s> UnitReader<'_, 's> {
    /// Scopes that end where an entry of that depth begins.
    fn close(&mut self, depth: isize) {
        while let Some(scope) = self.scopes.pop_if(|scope| scope.depth >= depth) {
            if let Some(address) = scope.function {
                let open = std::mem::take(&mut self.open);
                self.found.insert(address, Arc::new(open.typed));
            }
        }
    }

    fn scope(
        &mut self,
        depth: isize,
        is_function: bool,
        attributes: &Attributes<'s>,
    ) -> Result<(), gimli::Error> {
        let code = self.code(attributes)?;
        let address = code.first().map(|code| code.start);
        if !is_function {
            self.scopes.push(OpenScope { depth, code, function: None });
            return Ok(());
        }
        let Some(address) = address.filter(|_| self.scopes.is_empty()) else { return Ok(()) };
        self.scopes.push(OpenScope { depth, code, function: Some(address) });
        let base = value(attributes, DW_AT_frame_base).and_then(|value| FrameBase::read(self.unit, value));
        let returns = self.type_of(attributes);
        self.open = OpenTyped {
            base: base.and_then(|base| base.above_cfa(self.sections, address)),
            base_register: base.and_then(FrameBase::register),
            has_parameter: false,
            typed: TypedFunction { returns, ..TypedFunction::default() },
        };
        Ok(())
    }

    /// What the function that was just opened allocates.
    fn allocating(&mut self, depth: isize, origin: Option<usize>) {
        let (Some(origin), Some(scope)) = (origin, self.scopes.last()) else { return };
        if scope.code.is_empty() || scope.depth != depth {
            return;
        }
        let Some(allocates) = self.origins.allocated_by(origin) else { return };
        let all = scope.code.iter().map(|code| AllocatingCode { code: code.clone(), allocates });
        self.open.typed.allocating.extend(all);
    }

    fn code(&self, attributes: &Attributes<'s>) -> Result<Vec<Range<LinkAddr>>, gimli::Error> {
        let mut code = CodeAttributes::default();
        attributes.iter().for_each(|(name, value)| code.note(*name, *value));
        code.read(self.dwarf, self.unit)
    }

    /// The type, which may stand at the entry that this one is an instance of.
    fn type_of(&mut self, attributes: &Attributes<'s>) -> Option<DebugType> {
        let own = value(attributes, DW_AT_type).and_then(|value| die::reference(self.unit, &value));
        own.or_else(|| self.origins.type_of(self.origin(attributes)?)).map(DebugType)
    }

    /// The entry that this one is an instance of.
    fn origin(&self, attributes: &Attributes<'s>) -> Option<usize> {
        let origin = value(attributes, DW_AT_abstract_origin).or(value(attributes, DW_AT_specification))?;
        die::reference(self.unit, &origin)
    }

    /// The first parameter of a function itself.
    fn parameter(&mut self, depth: isize, attributes: &Attributes<'s>) {
        if let [function] = self.scopes.as_slice()
            && function.depth == depth - 1
            && !self.open.has_parameter
        {
            self.open.has_parameter = true;
            self.open.typed.first_parameter = self.type_of(attributes);
        }
    }

    fn variable(&mut self, attributes: &Attributes<'s>) -> Result<(), gimli::Error> {
        let Some(location) = value(attributes, DW_AT_location).filter(|_| !self.scopes.is_empty()) else {
            return Ok(());
        };
        let Some(type_) = self.type_of(attributes) else { return Ok(()) };
        if let Some(expression) = location.exprloc_value() {
            let code = self.scopes.iter().rev().find(|scope| !scope.code.is_empty());
            for code in code.map(|scope| scope.code.clone()).unwrap_or_default() {
                self.places(&expression, code, type_);
            }
        } else if let Some(mut list) = self.dwarf.attr_locations(self.unit, location)? {
            while let Some(entry) = list.next()? {
                self.places(&entry.data, LinkAddr(entry.range.begin)..LinkAddr(entry.range.end), type_);
            }
        }
        Ok(())
    }

    /// The places that an expression says, piece by piece.
    fn places(&mut self, expression: &Expression<Slice<'s>>, code: Range<LinkAddr>, type_: DebugType) {
        let mut operations = (*expression).operations(self.unit.encoding());
        let (mut place, mut part): (Option<(VariablePlace, bool)>, u64) = (None, 0);
        let mut pieces = Vec::new();
        let mut is_known = true;
        while let Ok(Some(operation)) = operations.next() {
            match operation {
                Operation::Register { register } if place.is_none() => {
                    place = Some((VariablePlace::Register(register.0, 0), true));
                }
                Operation::RegisterOffset { register, offset, .. } if place.is_none() => {
                    place = Some((VariablePlace::Register(register.0, offset), false));
                }
                Operation::FrameOffset { offset } if place.is_none() => {
                    match (self.open.base, self.open.base_register) {
                        (Some(base), _) => {
                            place = Some((VariablePlace::Frame(offset.saturating_add(base)), true));
                        }
                        (None, Some(register)) => {
                            place = Some((VariablePlace::Memory(register, offset), true));
                        }
                        (None, None) => is_known = false,
                    }
                }
                Operation::StackValue => {
                    if let Some((VariablePlace::Register(..), is_value)) = &mut place {
                        *is_value = true;
                    } else {
                        is_known = false;
                    }
                }
                Operation::Piece { size_in_bits, .. } => {
                    pieces
                        .extend(place.take().filter(|_| is_known).map(|(place, is)| (held(place, is), part)));
                    part += size_in_bits / 8;
                    is_known = true;
                }
                _ => is_known = false,
            }
        }
        pieces.extend(
            place.filter(|_| is_known && part == 0).map(|(place, is_value)| (held(place, is_value), 0)),
        );
        let found =
            pieces.into_iter().map(|(place, part)| TypedVariable { code: code.clone(), place, type_, part });
        self.open.typed.variables.extend(found);
    }
}
