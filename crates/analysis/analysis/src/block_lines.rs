//! Block operations split into accesses to single cache lines, for analyses that work on lines.

use memref::{Access, AccessKind, BlockOp, VirtAddr};

/// What a block operation reads and then what it writes, one access for each of its lines: so that a size fits whatever the
/// block's. `line_bytes` is a power of two.
pub(crate) fn line_accesses(block: &BlockOp, line_bytes: u64) -> impl Iterator<Item = Access> {
    let (cycle, ip) = (block.cycle, block.ip);
    let reads = [block.read(), block.compared()].into_iter().flatten();
    let reads = reads.map(|(addr, len)| (addr, len, AccessKind::Load));
    let writes = block.written().into_iter().map(|(addr, len)| (addr, len, AccessKind::Store));
    reads.chain(writes).flat_map(move |(addr, len, kind)| {
        let end = addr.0.saturating_add(len);
        let mut from = addr.0;
        std::iter::from_fn(move || {
            let start = from;
            let stop = end.min((start / line_bytes + 1).saturating_mul(line_bytes));
            from = stop;
            (start < stop).then(|| Access {
                cycle,
                ip,
                addr: VirtAddr(start),
                size: (stop - start) as u32,
                kind,
            })
        })
    })
}
