//! Reading single attributes of entries.

use std::ops::Range;

use elf::LinkAddr;
use gimli::{
    Attribute, AttributeValue, DW_AT_decl_line, DW_AT_high_pc, DW_AT_low_pc, DW_AT_ranges, DW_AT_type,
    DW_TAG_template_type_parameter, DwAt, Dwarf, Operation, Unit, UnitOffset, UnitSectionOffset,
};

use super::sections::Slice;

/// A type: the offset of its entry in `.debug_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TypeRef(pub(crate) usize);

pub(crate) type SliceUnit<'a> = Unit<Slice<'a>>;
pub(crate) type SliceDwarf<'a> = Dwarf<Slice<'a>>;

/// The unit that begins at `offset`.
pub(crate) fn unit_at<'a>(dwarf: &SliceDwarf<'a>, offset: usize) -> Result<SliceUnit<'a>, gimli::Error> {
    dwarf.unit(dwarf.debug_info.header_from_offset(gimli::DebugInfoOffset(offset))?)
}

/// Where an entry of a unit lies in `.debug_info`.
pub(crate) fn global(unit: &SliceUnit<'_>, offset: UnitOffset) -> Option<usize> {
    match offset.to_unit_section_offset(unit) {
        UnitSectionOffset::DebugInfoOffset(offset) => Some(offset.0),
        UnitSectionOffset::DebugTypesOffset(_) => None,
    }
}

/// The entry that an attribute refers to, in `.debug_info`.
pub(crate) fn reference(unit: &SliceUnit<'_>, value: &AttributeValue<Slice<'_>>) -> Option<usize> {
    match value {
        AttributeValue::UnitRef(offset) => global(unit, *offset),
        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

/// The attributes of an entry that tell which code is its.
#[derive(Default)]
pub(crate) struct CodeAttributes<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> CodeAttributes<'a> {
    /// To be told all attributes of the entry.
    pub(crate) fn note(&mut self, name: DwAt, value: AttributeValue<Slice<'a>>) {
        match name {
            DW_AT_low_pc => self.low = Some(value),
            DW_AT_high_pc => self.high = Some(value),
            DW_AT_ranges => self.ranges = Some(value),
            _ => {}
        }
    }

    /// The code; nothing where the entry has none.
    pub(crate) fn read(
        self,
        dwarf: &SliceDwarf<'a>,
        unit: &SliceUnit<'a>,
    ) -> Result<Vec<Range<LinkAddr>>, gimli::Error> {
        let mut all = Vec::new();
        let low = self.low.map(|low| dwarf.attr_address(unit, low)).transpose()?;
        if let (Some(Some(low)), Some(high)) = (low, self.high) {
            let end = match high.udata_value() {
                Some(bytes) => low.wrapping_add(bytes),
                None => dwarf.attr_address(unit, high)?.unwrap_or(low),
            };
            all.push(LinkAddr(low)..LinkAddr(end));
        } else if let Some(ranges) = self.ranges
            && let Some(mut ranges) = dwarf.attr_ranges(unit, ranges)?
        {
            while let Some(range) = ranges.next()? {
                all.push(LinkAddr(range.begin)..LinkAddr(range.end));
            }
        }
        Ok(all)
    }
}

/// The text of an attribute.
pub(crate) fn text<'a>(
    dwarf: &SliceDwarf<'a>,
    unit: &SliceUnit<'a>,
    value: AttributeValue<Slice<'a>>,
) -> Option<&'a str> {
    std::str::from_utf8(dwarf.attr_string(unit, value).ok()?.slice()).ok()
}

/// A number that is no expression.
pub(crate) fn number(attribute: &Attribute<Slice<'_>>) -> Option<u64> {
    attribute.udata_value().or_else(|| attribute.sdata_value().and_then(|value| u64::try_from(value).ok()))
}

/// The address of a variable whose place is one fixed address; nothing for registers, stack and thread-local ones.
pub(crate) fn fixed_address(
    dwarf: &SliceDwarf<'_>,
    unit: &SliceUnit<'_>,
    value: AttributeValue<Slice<'_>>,
) -> Option<LinkAddr> {
    let mut operations = value.exprloc_value()?.operations(unit.encoding());
    let mut address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => dwarf.address(unit, index).ok()?,
        _ => return None,
    };
    while let Some(operation) = operations.next().ok()? {
        match operation {
            Operation::PlusConstant { value } => address = address.checked_add(value)?,
            _ => return None,
        }
    }
    Some(LinkAddr(address))
}

/// The offset of a thread-local variable in its module's template.
pub(crate) fn thread_offset(unit: &SliceUnit<'_>, value: AttributeValue<Slice<'_>>) -> Option<LinkAddr> {
    let mut operations = value.exprloc_value()?.operations(unit.encoding());
    let (first, second) = (operations.next().ok()??, operations.next().ok()??);
    match (first, second) {
        (Operation::UnsignedConstant { value }, Operation::TLS) => Some(LinkAddr(value)),
        (Operation::Address { address }, Operation::TLS) => Some(LinkAddr(address)),
        _ => None,
    }
}

/// The offset of a member: a number, or an expression that adds one.
pub(crate) fn member_location(unit: &SliceUnit<'_>, attribute: &Attribute<Slice<'_>>) -> Option<u64> {
    if let Some(offset) = number(attribute) {
        return Some(offset);
    }
    let mut operations = attribute.exprloc_value()?.operations(unit.encoding());
    match operations.next().ok()?? {
        Operation::PlusConstant { value } => Some(value),
        Operation::UnsignedConstant { value } => Some(value),
        _ => None,
    }
}

/// Where an entry of `.debug_info` lies in a unit.
pub(super) fn local_offset(unit: &SliceUnit<'_>, global: usize) -> Option<UnitOffset> {
    gimli::DebugInfoOffset(global).to_unit_offset(&unit.header)
}

/// The type that an entry of a unit has.
pub(super) fn type_of(unit: &SliceUnit<'_>, at: usize) -> Option<usize> {
    let entry = unit.entry(local_offset(unit, at)?).ok()?;
    reference(unit, &entry.attr_value(DW_AT_type).ok()??)
}

/// The line in its source where an entry of a unit begins.
pub(super) fn declared_line(unit: &SliceUnit<'_>, at: usize) -> Option<u32> {
    let entry = unit.entry(local_offset(unit, at)?).ok()?;
    entry.attr_value(DW_AT_decl_line).ok()??.udata_value()?.try_into().ok()
}

/// The first template parameter of an entry that is a type.
pub(super) fn template_parameter(unit: &SliceUnit<'_>, offset: gimli::UnitOffset) -> Option<usize> {
    let mut tree = unit.entries_tree(Some(offset)).ok()?;
    let mut children = tree.root().ok()?.children();
    while let Ok(Some(child)) = children.next() {
        let entry = child.entry();
        if entry.tag() == DW_TAG_template_type_parameter {
            return reference(unit, &entry.attr_value(DW_AT_type).ok()??);
        }
    }
    None
}
