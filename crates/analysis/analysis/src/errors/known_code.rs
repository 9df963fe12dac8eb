//! Code of which more is known than its accesses tell: the kernel, allocators, the C library and the dynamic linker.

use memref::{BlockFunction, VirtAddr};
use symbols::Resolver;

use crate::Owner;

/// Whether the kernel reads for it what the program gives out.
pub(super) fn is_system_call(function: BlockFunction) -> bool {
    use BlockFunction::{Pwrite, Send, Write, Writev};
    matches!(function, Write | Pwrite | Writev | Send)
}

/// Whether some code of the process may know how many bytes the allocator really gave, and use them.
pub(super) fn asks_usable_size(resolver: &Resolver) -> bool {
    resolver.image().instances().any(|(_, instance)| instance.module.asks_usable_size())
}

/// Whose an instruction is; `None` where it is in no module.
fn owner(resolver: &mut Resolver, ip: VirtAddr) -> Option<Owner> {
    let code = resolver.code_name(ip)?;
    code.module.as_deref().map(Owner::of_module)
}

/// Whether the C library or the dynamic linker accesses it.
pub(super) fn is_runtime(resolver: &mut Resolver, ip: VirtAddr) -> bool {
    matches!(owner(resolver, ip), Some(Owner::CLibrary | Owner::Linker))
}

/// Whether the dynamic linker accesses it: it reads what it maps before the map of regions has it, where a large block may have been.
pub(super) fn is_linker(resolver: &mut Resolver, ip: VirtAddr) -> bool {
    owner(resolver, ip) == Some(Owner::Linker)
}
