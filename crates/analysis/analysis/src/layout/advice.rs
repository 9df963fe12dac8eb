//! Suggestions for changing the layout of a type, in words with figures.

use super::uses::TypeUse;

/// Objects that are worth splitting.
const MANY_BYTES: u64 = 4096;
/// The part of the accesses that hot fields have.
const HOT: f64 = 0.9;

pub(super) fn advice(type_: &TypeUse) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(split(type_));
    let never_read = type_.fields.iter().filter(|field| !field.is_read() && field.count.stores > 0);
    // What is not seen is no advice.
    let never_read = never_read.filter(|_| type_.is_complete);
    let names: Vec<String> = never_read.clone().map(|field| format!("`{}`", field.name)).collect();
    if !names.is_empty() {
        let bytes: u64 = never_read.map(|field| field.size).sum();
        let is = if names.len() == 1 { "is" } else { "are" };
        all.push(format!(
            "{} {is} written and never read ({bytes} of {} bytes)",
            names.join(", "),
            type_.bytes
        ));
    }
    let holes: u64 = type_.holes.iter().map(|hole| hole.size).sum();
    if holes >= 8 && holes * 10 >= type_.bytes {
        all.push(format!(
            "{holes} of {} bytes are padding: larger fields first would make it smaller",
            type_.bytes
        ));
    }
    all
}

/// Few bytes that take most of the accesses.
fn split(type_: &TypeUse) -> Option<String> {
    let total = type_.count.accesses();
    let mut fields: Vec<_> = type_.fields.iter().filter(|field| field.count.accesses() > 0).collect();
    // The most accesses for a byte first.
    fields.sort_by(|a, b| {
        let dense = |field: &super::FieldUse| field.count.accesses() as f64 / field.size.max(1) as f64;
        dense(b).total_cmp(&dense(a)).then_with(|| a.offset.cmp(&b.offset))
    });
    let (mut bytes, mut accesses) = (0, 0);
    for field in fields {
        if accesses as f64 >= HOT * total as f64 {
            break;
        }
        bytes += field.size;
        accesses += field.count.accesses();
    }
    if total == 0 || bytes == 0 || bytes * 2 > type_.bytes || type_.objects * type_.bytes < MANY_BYTES {
        return None;
    }
    let kib = |bytes: u64| bytes.div_ceil(1024);
    Some(format!(
        "{bytes} of {} bytes take {:.0} % of the accesses: splitting them off touches {} KiB instead of {}",
        type_.bytes,
        accesses as f64 * 100.0 / total as f64,
        kib(type_.objects * bytes),
        kib(type_.objects * type_.bytes)
    ))
}
