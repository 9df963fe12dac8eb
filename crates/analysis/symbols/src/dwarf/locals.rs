//! Local variables and parameters that have a fixed place in the stack frame of their function.
//!
//! A place is given in bytes from the canonical frame address (CFA), which is the address after that of the return address.
//! Variables that live in registers, or at places that change within the function, are left out. So are functions whose frame
//! base is neither the CFA itself, nor the frame pointer of the usual prologue, nor the stack pointer ([`super::frame_rows`]).

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use elf::LinkAddr;
use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_decl_line, DW_AT_frame_base, DW_AT_location, DW_AT_name,
    DW_AT_type, DW_TAG_formal_parameter, DW_TAG_inlined_subroutine, DW_TAG_lexical_block, DW_TAG_subprogram,
    DW_TAG_variable, Operation,
};

use super::{
    die::{self, CodeAttributes, SliceDwarf, SliceUnit},
    sections::{Sections, Slice},
    statics::name_of,
    typed::DebugType,
    types,
};

/// The register that x86-64 calls rbp, in DWARF's numbers.
const RBP: u16 = 6;
/// The one that it calls rsp.
const RSP: u16 = 7;
/// With the usual prologue rbp points below the return address and the caller's rbp.
const RBP_BELOW_CFA: i64 = 16;

/// A local variable or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalVariable {
    /// Its name.
    pub name: Arc<str>,
    /// Where it begins, in bytes from the canonical frame address.
    pub offset: i64,
    /// Its bytes; 0 where they are not known.
    pub bytes: u64,
    /// Its type, in its module.
    pub type_: Option<DebugType>,
    /// The code of the block, or of the function made part of this one, that it is of. Nothing where it is the whole function's.
    code: Arc<[Range<LinkAddr>]>,
    /// How many of these are around it.
    depth: usize,
    /// The line where it is declared.
    line: Option<u32>,
}

impl LocalVariable {
    /// Whether it lies at its place while that instruction runs: another block's variable may lie there at other times.
    pub fn lives_at(&self, address: LinkAddr) -> bool {
        self.lives_everywhere() || self.code.iter().any(|code| code.contains(&address))
    }

    /// The source lines of the declaration, which may be made before the block begins, as in Rust: from the variable's own to the first
    /// of the block, which is another statement's.
    pub(crate) fn declares(&self, line: u32, block: impl FnOnce(LinkAddr) -> Option<u32>) -> bool {
        let Some(declared) = self.line.filter(|declared| *declared <= line) else { return false };
        let first = self.code.first().map(|code| code.start);
        line == declared || first.and_then(block).is_some_and(|first| line < first)
    }

    /// Whether both are declared on one line, as the parts are into which a declaration takes an object apart (`auto [id, rest] = …`):
    /// that object has no name.
    pub fn is_declared_with(&self, other: &Self) -> bool {
        self.line.is_some() && self.line == other.line
    }

    /// Whether it lies at its place in all of the function.
    pub fn lives_everywhere(&self) -> bool {
        self.code.is_empty()
    }
}

/// A local variable of a function: its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// A local variable, and its number.
pub type FoundLocal = (LocalId, Arc<LocalVariable>);

/// Those of a function, of several that share a byte the innermost and smallest first.
type FunctionLocals = Arc<[Arc<LocalVariable>]>;

/// The locals of the functions of each unit.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    functions: ReadFunctions<FunctionLocals>,
}

/// Functions by where they begin.
pub(super) type UnitFunctions<T> = HashMap<LinkAddr, T>;

/// What each function of a module has, read unit by unit when a function of it is first asked for.
#[derive(Debug)]
pub(super) struct ReadFunctions<T> {
    inner: Mutex<FunctionTables<T>>,
}

#[derive(Debug)]
struct FunctionTables<T> {
    /// Sorted.
    units: Option<Vec<UnitRange>>,
    read: HashMap<usize, UnitFunctions<T>>,
}

impl<T> Default for ReadFunctions<T> {
    fn default() -> Self {
        Self { inner: Mutex::new(FunctionTables { units: None, read: HashMap::new() }) }
    }
}

impl<T: Clone> ReadFunctions<T> {
    /// What the function that begins there has. `read` reads a unit, as far as it is not damaged.
    pub(super) fn find(
        &self,
        sections: &Sections,
        function: LinkAddr,
        read: impl FnOnce(&Sections, usize, &mut UnitFunctions<T>) -> Result<(), gimli::Error>,
    ) -> Option<T> {
        let mut tables = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let FunctionTables { units, read: known } = &mut *tables;
        let units = units.get_or_insert_with(|| unit_ranges(sections));
        let unit = units.iter().find(|range| (range.begin..range.end).contains(&function))?.unit;
        let functions = known.entry(unit).or_insert_with(|| {
            let mut found = UnitFunctions::new();
            if let Err(damage) = read(sections, unit, &mut found) {
                sections.note_damage(&damage);
            }
            found
        });
        functions.get(&function).cloned()
    }
}

/// Code of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnitRange {
    begin: LinkAddr,
    /// The first address after it.
    end: LinkAddr,
    /// Where the unit starts in its section.
    unit: usize,
}

impl Locals {
    /// The variables that own a byte, of those of one block and those around it the innermost and smallest first. Others share it in
    /// blocks of their own.
    pub(crate) fn at(&self, sections: &Sections, function: LinkAddr, offset: i64) -> Vec<FoundLocal> {
        let Some(locals) = self.functions.find(sections, function, read_unit) else { return Vec::new() };
        let owns = |local: &LocalVariable| {
            offset
                .checked_sub(local.offset)
                .is_some_and(|into| into >= 0 && (into as u64) < local.bytes.max(1))
        };
        let owners = locals.iter().enumerate().filter(|(_, local)| owns(local));
        owners.map(|(number, local)| (LocalId(number as u32), Arc::clone(local))).collect()
    }

    /// One of them.
    pub(crate) fn get(
        &self,
        sections: &Sections,
        function: LinkAddr,
        id: LocalId,
    ) -> Option<Arc<LocalVariable>> {
        self.functions.find(sections, function, read_unit)?.get(id.0 as usize).cloned()
    }
}

fn unit_ranges(sections: &Sections) -> Vec<UnitRange> {
    let dwarf = sections.dwarf();
    let mut all = Vec::new();
    for &start in sections.units() {
        let Ok(unit) = die::unit_at(&dwarf, start) else { continue };
        let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
        while let Ok(Some(range)) = ranges.next() {
            all.push(UnitRange { begin: LinkAddr(range.begin), end: LinkAddr(range.end), unit: start });
        }
    }
    all.sort_unstable();
    all
}

/// What the places of a function's variables are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameBase {
    Cfa,
    /// By DWARF's number.
    Register(u16),
}

impl FrameBase {
    pub(super) fn read(unit: &SliceUnit<'_>, value: AttributeValue<Slice<'_>>) -> Option<Self> {
        match value.exprloc_value()?.operations(unit.encoding()).next().ok()?? {
            Operation::CallFrameCFA => Some(Self::Cfa),
            Operation::Register { register } => Some(Self::Register(register.0)),
            _ => None,
        }
    }

    /// How far above the CFA it is in that function.
    pub(super) fn above_cfa(self, sections: &Sections, function: LinkAddr) -> Option<i64> {
        match self {
            Self::Cfa => Some(0),
            Self::Register(RBP) => Some(-RBP_BELOW_CFA),
            Self::Register(RSP) => Some(-sections.frame_rows.depth(function)?),
            Self::Register(_) => None,
        }
    }

    pub(super) fn register(self) -> Option<u16> {
        match self {
            Self::Cfa => None,
            Self::Register(register) => Some(register),
        }
    }
}

/// The place of a variable from the frame base.
fn place(unit: &SliceUnit<'_>, value: AttributeValue<Slice<'_>>) -> Option<i64> {
    let mut operations = value.exprloc_value()?.operations(unit.encoding());
    let Operation::FrameOffset { offset } = operations.next().ok()?? else { return None };
    operations.next().ok()?.is_none().then_some(offset)
}

/// The function whose entries are being read.
struct OpenFunction {
    depth: isize,
    address: LinkAddr,
    base: i64,
    /// Blocks, and functions made part of it, that are open.
    blocks: Vec<OpenBlock>,
    locals: Vec<Arc<LocalVariable>>,
}

struct OpenBlock {
    depth: isize,
    code: Arc<[Range<LinkAddr>]>,
}

impl OpenFunction {
    /// Ends the blocks that an entry of that depth does not lie in.
    fn end_blocks(&mut self, depth: isize) {
        while self.blocks.pop_if(|block| block.depth >= depth).is_some() {}
    }

    /// All of its variables, as they are looked for.
    fn sorted(self) -> FunctionLocals {
        let mut locals = self.locals;
        locals.sort_by_key(|local| (std::cmp::Reverse(local.depth), local.bytes));
        locals.into()
    }
}

fn read_unit(
    sections: &Sections,
    start: usize,
    found: &mut UnitFunctions<FunctionLocals>,
) -> Result<(), gimli::Error> {
    let dwarf = sections.dwarf();
    let unit = die::unit_at(&dwarf, start)?;
    let mut sizes = HashMap::new();
    let mut open: Option<OpenFunction> = None;
    let mut close = |open: &mut Option<OpenFunction>| {
        if let Some(function) = open.take() {
            found.insert(function.address, function.sorted());
        }
    };
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if open.as_ref().is_some_and(|function| function.depth >= depth) {
            close(&mut open);
        }
        if let Some(function) = &mut open {
            function.end_blocks(depth);
        }
        let specs = abbreviation.attributes();
        match abbreviation.tag() {
            DW_TAG_subprogram => {
                let (mut code, mut base) = (CodeAttributes::default(), None);
                for &spec in specs {
                    let attribute = entries.read_attribute(spec)?;
                    code.note(attribute.name(), attribute.value());
                    if attribute.name() == DW_AT_frame_base {
                        base = FrameBase::read(&unit, attribute.value());
                    }
                }
                // The first part is where a function begins that was split.
                let address = code.read(&dwarf, &unit)?.first().map(|code| code.start);
                let base = address.and_then(|address| base?.above_cfa(sections, address));
                if let (Some(address), Some(base)) = (address, base) {
                    close(&mut open);
                    open =
                        Some(OpenFunction { depth, address, base, blocks: Vec::new(), locals: Vec::new() });
                }
            }
            DW_TAG_lexical_block | DW_TAG_inlined_subroutine if open.is_some() => {
                let mut code = CodeAttributes::default();
                for &spec in specs {
                    let attribute = entries.read_attribute(spec)?;
                    code.note(attribute.name(), attribute.value());
                }
                let code = code.read(&dwarf, &unit)?;
                // One without code of its own has its variables where the one around it has them.
                if let Some(function) = open.as_mut().filter(|_| !code.is_empty()) {
                    function.blocks.push(OpenBlock { depth, code: code.into() });
                }
            }
            DW_TAG_variable | DW_TAG_formal_parameter if open.is_some() => {
                let (mut name, mut type_ref, mut origin) = (None, None, None);
                let (mut offset, mut line) = (None, None);
                for &spec in specs {
                    let attribute = entries.read_attribute(spec)?;
                    let value = attribute.value();
                    match attribute.name() {
                        DW_AT_name => name = die::text(&dwarf, &unit, value),
                        DW_AT_type => type_ref = die::reference(&unit, &value),
                        DW_AT_abstract_origin => origin = die::reference(&unit, &value),
                        DW_AT_decl_line => line = die::number(&attribute),
                        DW_AT_location => offset = place(&unit, value),
                        _ => {}
                    }
                }
                let (Some(function), Some(offset)) = (open.as_mut(), offset) else { continue };
                let Some(name) = name.or_else(|| name_of(&dwarf, &unit, origin, 0)) else { continue };
                let line = line.and_then(|line| line.try_into().ok());
                let type_ref = type_ref.or_else(|| die::type_of(&unit, origin?));
                let bytes = type_ref.map_or(0, |at| size(sections, &dwarf, at, &mut sizes));
                let offset = offset + function.base;
                function.locals.push(Arc::new(LocalVariable {
                    name: name.into(),
                    offset,
                    bytes,
                    type_: type_ref.map(DebugType),
                    code: function.blocks.last().map(|block| Arc::clone(&block.code)).unwrap_or_default(),
                    depth: function.blocks.len(),
                    line: line.or_else(|| die::declared_line(&unit, origin?)),
                }));
            }
            _ => entries.skip_attributes(specs)?,
        }
    }
    close(&mut open);
    Ok(())
}

fn size(sections: &Sections, dwarf: &SliceDwarf<'_>, at: usize, sizes: &mut HashMap<usize, u64>) -> u64 {
    *sizes.entry(at).or_insert_with(|| types::size(sections, dwarf, at))
}
