//! Copies by the C library that begin in a variable and end behind it. A function that receives the
//! address of a variable does not know where the variable ends. Therefore an overrun is detected
//! from what the function stored: one contiguous range of bytes, which its caller asked for.
//!
//! The variables considered are those whose type is in the debug information: static variables, and locals of the
//! function that made the call. Where several occupy the same place at different times, the copy must exceed all of
//! them. Nothing behind them may be declared on the same line, since such a declaration may destructure one object.

use memref::VirtAddr;
use symbols::{LocalVariable, Resolver, VariableKind};

use super::copies::StoredCopy;
use super::finding::FoundError;
use crate::amount;

/// So far behind a variable others are looked for.
const MOST_BEHIND: u64 = 4096;

/// What a copy stored behind the variable that it begins in.
pub(super) fn overrun(resolver: &mut Resolver, copy: &StoredCopy) -> Option<FoundError> {
    let begin = copy.bytes.start;
    let frame = copy.call.slot.0..copy.call.caller.map_or(0, |cfa| cfa.0);
    let known = match frame.contains(&begin) {
        true => local(resolver, copy, frame.end),
        false => of_module(resolver, VirtAddr(begin)),
    };
    let ShortVariable { name, end } = known?;
    let over = copy.bytes.end.checked_sub(end).filter(|over| *over > 0)?;
    let len = copy.bytes.end - begin;
    let what =
        format!("{} of {} ends {} behind {name}", copy.function, amount(len, "byte"), amount(over, "byte"));
    Some(FoundError::new(what, len, name, None))
}

/// A variable, and the first address behind it.
struct ShortVariable {
    name: String,
    end: u64,
}

fn of_module(resolver: &mut Resolver, addr: VirtAddr) -> Option<ShortVariable> {
    let place = resolver.resolve_data(addr);
    let variable = resolver.names().variable(place.variable)?;
    if variable.kind != VariableKind::Static {
        return None;
    }
    let bytes = resolver.type_of(addr)?.bytes;
    let is_known = bytes > 0 && variable.bytes > 0;
    let end = addr.0 - place.offset + bytes.max(variable.bytes);
    is_known.then(|| ShortVariable { name: variable.name.to_string(), end })
}

/// A local variable of the function that made the call, by its canonical frame address.
fn local(resolver: &Resolver, copy: &StoredCopy, cfa: u64) -> Option<ShortVariable> {
    let names = resolver.names();
    let call = names.code(copy.call.code)?;
    let (function, (_, address)) = (call.function_id, call.place()?);
    let at = |place: u64| names.locals_at(function, place.wrapping_sub(cfa) as i64);
    let here = at(copy.bytes.start);
    let (_, there) = here.iter().find(|(_, local)| local.lives_at(address))?;
    let end_of = |local: &LocalVariable| {
        (local.bytes > 0).then(|| cfa.wrapping_add_signed(local.offset) + local.bytes)
    };
    // One whose size nobody knows may be any.
    let ends: Option<Vec<u64>> = here.iter().map(|(_, local)| end_of(local)).collect();
    let end = ends?.into_iter().max()?;
    // What a declaration took apart was copied whole.
    let behind = end..copy.bytes.end.min(end.saturating_add(MOST_BEHIND));
    let is_part =
        behind.into_iter().any(|place| at(place).iter().any(|(_, local)| local.is_declared_with(there)));
    (!is_part).then(|| ShortVariable { name: there.name.to_string(), end })
}
