//! The name of an accessed variable in findings.

use memref::VirtAddr;
use symbols::Resolver;

/// A variable with its field, or with an offset where no type is known.
pub(crate) fn variable_name(resolver: &mut Resolver, addr: VirtAddr, size: u32) -> String {
    let name = resolver.resolve_data(addr);
    let variable = resolver.names().variable(name.variable);
    let text = variable.as_deref().map_or_else(|| addr.to_string(), |variable| variable.name.to_string());
    match resolver.field_path(addr, size) {
        Some(path) => format!("{text}{path}"),
        None if name.offset == 0 => text,
        None => format!("{text}+{}", name.offset),
    }
}
