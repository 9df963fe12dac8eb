//! The names of addresses in the text formats.

use memref::{RegionKind, VirtAddr};
use symbols::Resolver;

/// `symbol+offset`, the offset always there, as the paper has it.
pub(super) fn data_name(resolver: &mut Resolver, addr: VirtAddr) -> String {
    let name = resolver.resolve_data(addr);
    match resolver.names().variable(name.variable) {
        Some(variable) => format!("{}+{}", variable.name, name.offset),
        None => addr.to_string(),
    }
}

/// The variable or block alone; `None` where there is none.
pub(super) fn variable_name(resolver: &mut Resolver, addr: VirtAddr) -> Option<String> {
    let name = resolver.resolve_data(addr);
    resolver.names().variable(name.variable).map(|variable| variable.name.to_string())
}

/// `function+offset`, or the address.
pub(crate) fn code_name(resolver: &mut Resolver, ip: VirtAddr) -> String {
    resolver.code_name(ip).map_or_else(|| ip.to_string(), |code| code.to_string())
}

/// The kind of an address's region, in brackets. Where `.bss` begins on the last page of `.data`, the variable tells which it is.
pub(super) fn region_name(resolver: &mut Resolver, addr: VirtAddr) -> String {
    let name = resolver.resolve_data(addr);
    let region = name.region.and_then(|id| resolver.image().regions().region(id));
    let kind = region.map(|region| region.kind).map(|kind| match resolver.names().variable(name.variable) {
        Some(variable) if kind == RegionKind::Data && variable.region == RegionKind::Bss => RegionKind::Bss,
        _ => kind,
    });
    kind.map_or_else(|| "[unknown]".to_owned(), |kind| format!("[{kind}]"))
}
