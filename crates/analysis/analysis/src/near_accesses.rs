//! Groups of a basic block's accesses that are at fixed distances from each other, whatever the block's values are.

use blocks::{BlockAccess, NO_VALUE};
use memref::{Access, VirtAddr};

use crate::Count;

/// Accesses that far apart are hardly ever in one variable.
const MOST_SPAN: u64 = 1 << 12;

/// Accesses whose addresses follow from the same values.
#[derive(Clone, Debug)]
pub(crate) struct NearAccesses {
    /// The one with the lowest address.
    pub(crate) lowest: BlockAccess,
    /// From there to the first byte of the one with the highest.
    pub(crate) span: u64,
    /// All of them, the lowest first.
    pub(crate) members: Vec<NearAccess>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NearAccess {
    /// From the address of the lowest one.
    pub(crate) distance: u64,
    pub(crate) access: BlockAccess,
}

/// Divides accesses that are made once each, or under a mask: these are alone, and their span ends with the last byte.
pub(crate) fn near_accesses(accesses: &[BlockAccess]) -> Vec<NearAccesses> {
    let mut accesses = accesses.to_vec();
    let values = |access: &BlockAccess| (access.base, access.index, access.scale, access.fs, access.short);
    accesses.sort_by_key(|access| (values(access), access.displacement));
    let mut groups = Vec::new();
    let mut rest = accesses.as_slice();
    while let Some(&lowest) = rest.first() {
        let is_near = |access: &&BlockAccess| distance(&lowest, access).is_some_and(|far| far <= MOST_SPAN);
        let (near, later) = rest.split_at(rest.iter().take_while(is_near).count().max(1));
        let member = |access: &BlockAccess| NearAccess {
            distance: distance(&lowest, access).unwrap_or(0),
            access: *access,
        };
        let members: Vec<NearAccess> = near.iter().map(member).collect();
        let span = match lowest.masked {
            Some(_) => u64::from(lowest.size) - 1,
            None => members.last().map_or(0, |member| member.distance),
        };
        groups.push(NearAccesses { lowest, span, members });
        rest = later;
    }
    groups
}

/// How far one access of a block is from another, which is not higher; `None` where that is not always the same.
fn distance(from: &BlockAccess, to: &BlockAccess) -> Option<u64> {
    // Where nothing is scaled, by what does not matter.
    let scale = |access: &BlockAccess| if access.index == NO_VALUE { 0 } else { access.scale };
    let values = |access: &BlockAccess| (access.base, access.index, scale(access), access.fs, access.short);
    if from.masked.or(to.masked).is_some() {
        return None;
    }
    // Addresses that wrap at 32 bits may wrap between the two.
    let is_fixed = values(from) == values(to) && (!from.short || from.displacement == to.displacement);
    let distance = to.displacement.checked_sub(from.displacement)?;
    u64::try_from(distance).ok().filter(|_| is_fixed)
}

/// What an access counts as; one under a mask, what each of its elements does.
pub(crate) fn count_of(access: &BlockAccess) -> Count {
    let mut count = Count::default();
    let size = access.masked.map_or(access.size, |masked| masked.bytes.into());
    let (kind, size) = (access.kind, size.into());
    count.add(&Access { cycle: 0, ip: VirtAddr(0), addr: VirtAddr(0), size, kind });
    count
}
