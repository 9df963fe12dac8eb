//! Input that the kernel lays out before a program runs: its command line and its environment.

use std::ops::Range;

use memref::{RegionKind, VirtAddr};
use symbols::Resolver;

/// Input that is in memory before the program runs.
#[derive(Clone, Debug)]
pub(super) struct Inherited {
    pub(super) kind: &'static str,
    pub(super) bytes: Range<VirtAddr>,
}

/// The command line's bytes, and those of the environment, which lie between them and the end of the stack.
pub(super) fn inherited(resolver: &Resolver, arguments: Range<VirtAddr>) -> Vec<Inherited> {
    let after = arguments.end;
    let mut list = vec![Inherited { kind: "argv", bytes: arguments }];
    let regions = resolver.image().regions();
    let (_, end, region) = regions.find_range(after);
    if region.and_then(|id| regions.region(id)).is_some_and(|region| region.kind == RegionKind::Stack) {
        list.push(Inherited { kind: "environment", bytes: after..end });
    }
    list
}
