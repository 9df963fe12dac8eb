//! Finds the function that contains a return address: the caller, whose own entry may not have been seen.
//!
//! The table of functions by address is built anew at each discovery, and read
//! without a lock. Results are cached by return address, since a program has few.

use crate::{address_index::AddressIndex, module, probe_table};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A function with probes.
struct Extent {
    start: usize,
    end: usize,
    function: u32,
}

/// The latest table, leaked; null before the first.
static EXTENTS: AtomicPtr<Vec<Extent>> = AtomicPtr::new(std::ptr::null_mut());
/// Functions plus one, by return address; or none, as of a table: [`no_function`].
static KNOWN: AddressIndex = AddressIndex::new();
/// How often the table was written.
static TABLES: AtomicU32 = AtomicU32::new(0);
/// How many addresses are kept; others are looked up again.
static KNOWN_COUNT: AtomicU32 = AtomicU32::new(0);
const MOST_KNOWN: u32 = 1 << 18;
const MOST_FUNCTIONS: u32 = probe_table::CAPACITY as u32;

/// What is kept of an address that no function of the latest table has: a later one may have one.
fn no_function() -> u32 {
    TABLES.load(Ordering::Relaxed) | 1 << 31
}

/// Writes the table anew, after functions were given probes.
pub(crate) fn refresh() {
    let mut extents: Vec<Extent> = Vec::new();
    for module in module::all() {
        for symbol in module.symbols_if_read() {
            let start = module.bias + symbol.offset;
            if symbol.len_bytes > 0
                && let Some(function) = probe_table::known_function(start)
            {
                extents.push(Extent { start, end: start + symbol.len_bytes, function });
            }
        }
    }
    extents.sort_unstable_by_key(|extent| extent.start);
    EXTENTS.store(Box::into_raw(Box::new(extents)), Ordering::Release);
    TABLES.fetch_add(1, Ordering::Release);
}

/// The function with probes that `return_address` lies in.
#[inline]
pub(crate) fn function_at(return_address: usize) -> Option<u32> {
    match KNOWN.get(return_address) {
        Some(number) if number == no_function() => None,
        Some(number @ 1..=MOST_FUNCTIONS) => Some(number - 1),
        _ => look_up(return_address),
    }
}

#[cold]
fn look_up(return_address: usize) -> Option<u32> {
    // Before the table, so that what is kept is never of a newer one than was looked at.
    let none = no_function();
    // SAFETY: null or leaked, never changed.
    let extents = unsafe { EXTENTS.load(Ordering::Acquire).as_ref() }?;
    // The last instruction of a function may be the call.
    let at = return_address - 1;
    let before = extents.partition_point(|extent| extent.start <= at);
    let extent = extents[..before].last().filter(|extent| at < extent.end);
    let function = extent.map(|extent| extent.function);
    let is_kept = KNOWN.get(return_address).is_some();
    if (is_kept || KNOWN_COUNT.fetch_add(1, Ordering::Relaxed) < MOST_KNOWN)
        && let Some(number) = KNOWN.number(return_address)
    {
        number.store(function.map_or(none, |function| function + 1), Ordering::Release);
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_function_is_looked_up_again_in_the_next_table() {
        let nobodys = 0x1234_5678;
        refresh();
        assert_eq!(function_at(nobodys), None);
        assert_eq!(KNOWN.get(nobodys), Some(no_function()));
        let table = vec![Extent { start: nobodys - 8, end: nobodys, function: 7 }];
        EXTENTS.store(Box::into_raw(Box::new(table)), Ordering::Release);
        TABLES.fetch_add(1, Ordering::Release);
        assert_eq!(function_at(nobodys), Some(7));
        assert_eq!(KNOWN.get(nobodys), Some(8));
        refresh();
    }
}
