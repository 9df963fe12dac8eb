//! Arrays whose elements an instruction accesses and whose bounds are in DWARF: static arrays, those on the stack, and members.

use memref::VirtAddr;
use symbols::{LinkAddr, Module, TypeKind, TypeLayout, TypedFunction, TypedVariable, VariablePlace};

/// An array, by what it has its place from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundedArray {
    /// In static memory.
    Static { start: VirtAddr, bytes: u64 },
    /// On the stack: bytes from the canonical frame address.
    Local { start: i64, bytes: u64 },
    /// A member of objects of so many bytes.
    Member { start: u64, bytes: u64, object_bytes: u64 },
}

/// Bytes of the array that begins at an offset of a type. None has one whose bound is not known, nor a last member: more may follow it.
pub(super) fn bounded_array(layout: &TypeLayout, offset: u64) -> Option<u64> {
    match &layout.kind {
        TypeKind::Array { counts, .. } => {
            let is_bounded = !counts.is_empty() && counts.iter().all(|count| *count > 0);
            (offset == 0 && is_bounded && layout.bytes > 0).then_some(layout.bytes)
        }
        TypeKind::Struct(members) => {
            let holder = members.iter().find(|member| {
                let into = offset.checked_sub(member.offset);
                into.is_some_and(|into| into < member.layout.bytes)
            })?;
            let bytes = bounded_array(&holder.layout, offset - holder.offset)?;
            members.iter().any(|member| member.offset >= offset + bytes).then_some(bytes)
        }
        TypeKind::Scalar | TypeKind::Union(_) => None,
    }
}

/// The array that begins at a place of a function's frame, for an instruction.
pub(super) fn local_array(
    module: &Module,
    function: &TypedFunction,
    instruction: LinkAddr,
    slot: i64,
) -> Option<BoundedArray> {
    let array = |variable: &TypedVariable| {
        let VariablePlace::Frame(begin) = variable.place else { return None };
        let into = u64::try_from(slot.checked_sub(begin)?).ok()?;
        let layout = module.layout_of(variable.type_)?;
        (into < layout.bytes).then(|| (variable.code.contains(&instruction), bounded_array(&layout, into)))
    };
    let holders: Vec<(bool, Option<u64>)> = function.variables.iter().filter_map(array).collect();
    // Variables of blocks that follow each other can share the place.
    let is_known_here = holders.iter().any(|(is_here, _)| *is_here);
    let mut sizes = holders.iter().filter(|(is_here, _)| *is_here || !is_known_here).map(|(_, bytes)| *bytes);
    let bytes = sizes.next()??;
    sizes.all(|other| other == Some(bytes)).then_some(BoundedArray::Local { start: slot, bytes })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use symbols::Member;

    use super::*;

    fn layout(bytes: u64, kind: TypeKind) -> Arc<TypeLayout> {
        Arc::new(TypeLayout { name: "".into(), bytes, kind })
    }

    fn member(offset: u64, layout: Arc<TypeLayout>) -> Member {
        Member { name: "".into(), offset, bits: None, layout }
    }

    #[test]
    fn members_have_bounds_unless_they_are_the_last() {
        let int = layout(4, TypeKind::Scalar);
        let array = |count: u64| {
            layout(4 * count, TypeKind::Array { element: Arc::clone(&int), counts: vec![count] })
        };
        let inner = layout(16, TypeKind::Struct(vec![member(0, array(2)), member(8, array(2))]));
        let members =
            vec![member(0, int.clone()), member(4, inner), member(20, array(3)), member(32, array(1))];
        let whole = layout(36, TypeKind::Struct(members));
        let check = |offset: u64, expect: Option<u64>| {
            assert_eq!(bounded_array(&whole, offset), expect, "at {offset}");
        };
        check(0, None);
        check(4, Some(8));
        check(8, None);
        check(12, None);
        check(20, Some(12));
        check(32, None);
        assert_eq!((bounded_array(&array(3), 0), bounded_array(&array(0), 0)), (Some(12), None));
    }
}
