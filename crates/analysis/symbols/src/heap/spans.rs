//! The owner of each byte of a 48-bit address space: a radix tree like the page tables of the processor.
//!
//! Each of four levels divides by 512; a page that has several owners keeps a sorted list of parts. A
//! range with one owner takes one slot at the highest level that it covers, so a mapping of a terabyte
//! costs no more than one of a page. Nodes are shared between clones and copied on write: a clone costs
//! nothing, and the first write to each 2 MiB afterwards copies its node and the lists of its pages.

use std::sync::{Arc, LazyLock};

use memref::VirtAddr;

const FANOUT_BITS: u32 = 9;
const FANOUT: usize = 1 << FANOUT_BITS;
const PAGE_BITS: u32 = VirtAddr::PAGE_SHIFT;
const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;
const LEVELS: u32 = 4;
/// Addresses end here; nothing above can be owned.
pub(crate) const END: VirtAddr = VirtAddr(1 << (PAGE_BITS + FANOUT_BITS * LEVELS));

/// A stretch of bytes and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRange {
    /// First byte.
    pub(crate) start: VirtAddr,
    /// First byte after it.
    pub(crate) end: VirtAddr,
    /// The owner, if there is one.
    pub(crate) owner: Option<u32>,
}

/// Bytes of one page with one owner; `end` is up to 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PagePart {
    start: u16,
    end: u16,
    owner: u32,
}

#[derive(Clone, Debug)]
enum RadixSlot {
    Empty,
    Whole(u32),
    Inner(Arc<RadixNode>),
    /// Only in the lowest level: sorted, disjoint, neither empty nor one part over the whole page.
    Parts(Vec<PagePart>),
}

#[derive(Clone, Debug)]
struct RadixNode {
    slots: [RadixSlot; FANOUT],
}

impl RadixNode {
    fn filled(owner: Option<u32>) -> Arc<Self> {
        Arc::new(Self { slots: std::array::from_fn(|_| owner.map_or(RadixSlot::Empty, RadixSlot::Whole)) })
    }
}

/// The map.
#[derive(Clone, Debug)]
pub(crate) struct SpanMap {
    root: Arc<RadixNode>,
}

/// Bits below a slot of a level: the lowest level (1) has pages.
const fn slot_bits(level: u32) -> u32 {
    PAGE_BITS + FANOUT_BITS * (level - 1)
}

const fn index(addr: VirtAddr, level: u32) -> usize {
    (addr.0 >> slot_bits(level)) as usize & (FANOUT - 1)
}

impl SpanMap {
    /// One in which nobody owns anything; all of them share their root until they are written.
    pub(crate) fn new() -> Self {
        static NOTHING: LazyLock<Arc<RadixNode>> = LazyLock::new(|| RadixNode::filled(None));
        Self { root: Arc::clone(&NOTHING) }
    }

    /// The owner of a byte, and the stretch around it of which the tree knows in one place that it has that owner.
    pub(crate) fn get(&self, addr: VirtAddr) -> OwnedRange {
        if addr >= END {
            return OwnedRange { start: END, end: VirtAddr(u64::MAX), owner: None };
        }
        let mut node = &self.root;
        let mut level = LEVELS;
        loop {
            let bytes = 1 << slot_bits(level);
            let start = VirtAddr(addr.0 & !(bytes - 1));
            match node.slots.get(index(addr, level)) {
                None | Some(RadixSlot::Empty) => {
                    return OwnedRange { start, end: start.offset(bytes), owner: None };
                }
                Some(RadixSlot::Whole(owner)) => {
                    return OwnedRange { start, end: start.offset(bytes), owner: Some(*owner) };
                }
                Some(RadixSlot::Inner(child)) => (node, level) = (child, level - 1),
                Some(RadixSlot::Parts(parts)) => return find_part(parts, start, (addr.0 - start.0) as u16),
            }
        }
    }

    /// Gives all bytes of `start..end` an owner, or none.
    pub(crate) fn fill(&mut self, start: VirtAddr, end: VirtAddr, owner: Option<u32>) {
        let end = end.min(END);
        if start < end {
            update(Arc::make_mut(&mut self.root), LEVELS, start, end, &mut |_| owner, true);
        }
    }

    /// Replaces each owner within `start..end`.
    pub(crate) fn replace(&mut self, start: VirtAddr, end: VirtAddr, mut with: impl FnMut(u32) -> u32) {
        let end = end.min(END);
        if start < end {
            update(Arc::make_mut(&mut self.root), LEVELS, start, end, &mut |old| old.map(&mut with), false);
        }
    }

    /// Leaves those bytes of `start..end` without an owner whose owner is not to be kept.
    pub(crate) fn retain(&mut self, start: VirtAddr, end: VirtAddr, keep: impl Fn(u32) -> bool) {
        let end = end.min(END);
        if start < end {
            let mut change = |old: Option<u32>| old.filter(|owner| keep(*owner));
            update(Arc::make_mut(&mut self.root), LEVELS, start, end, &mut change, false);
        }
    }
}

/// So many parts around the guessed one are looked at.
const NEAR_PARTS: usize = 8;

/// The first part that begins after `at`. Where parts are as long as each other the first guess is right, and none of those between is
/// looked at, which mostly are in no cache.
fn first_after(parts: &[PagePart], at: u16) -> usize {
    let begins_after = |part: &PagePart| part.start > at;
    let mut guess = usize::from(at) * parts.len() / PAGE_BYTES as usize;
    for _ in 0..NEAR_PARTS {
        if parts.get(guess).is_some_and(|part| !begins_after(part)) {
            guess += 1;
        } else if guess.checked_sub(1).and_then(|before| parts.get(before)).is_some_and(begins_after) {
            guess -= 1;
        } else {
            return guess;
        }
    }
    parts.partition_point(|part| !begins_after(part))
}

fn find_part(parts: &[PagePart], page: VirtAddr, at: u16) -> OwnedRange {
    let after = first_after(parts, at);
    let before = after.checked_sub(1).and_then(|i| parts.get(i));
    if let Some(part) = before.filter(|part| at < part.end) {
        return OwnedRange {
            start: page.offset(part.start.into()),
            end: page.offset(part.end.into()),
            owner: Some(part.owner),
        };
    }
    let start = before.map_or(page, |part| page.offset(part.end.into()));
    let end = parts.get(after).map_or(page.offset(PAGE_BYTES), |part| page.offset(part.start.into()));
    OwnedRange { start, end, owner: None }
}

/// Applies `change` to `start..end`, which lies within the node; `constant` says that the old owner doesn't matter.
fn update(
    node: &mut RadixNode,
    level: u32,
    start: VirtAddr,
    end: VirtAddr,
    change: &mut dyn FnMut(Option<u32>) -> Option<u32>,
    constant: bool,
) {
    let bytes = 1u64 << slot_bits(level);
    let mut at = start;
    while at < end {
        let slot_start = VirtAddr(at.0 & !(bytes - 1));
        let slot_end = slot_start.offset(bytes);
        let piece_end = end.min(slot_end);
        let whole = at == slot_start && piece_end == slot_end;
        if let Some(slot) = node.slots.get_mut(index(at, level)) {
            update_slot(slot, level, at, piece_end, whole, change, constant);
        }
        at = piece_end;
    }
}

fn update_slot(
    slot: &mut RadixSlot,
    level: u32,
    start: VirtAddr,
    end: VirtAddr,
    whole: bool,
    change: &mut dyn FnMut(Option<u32>) -> Option<u32>,
    constant: bool,
) {
    let uniform = match slot {
        RadixSlot::Empty => Some(None),
        RadixSlot::Whole(owner) => Some(Some(*owner)),
        RadixSlot::Inner(_) | RadixSlot::Parts(_) => None,
    };
    if let Some(old) = uniform {
        let new = change(old);
        if new == old {
            return;
        }
        if whole {
            *slot = new.map_or(RadixSlot::Empty, RadixSlot::Whole);
            return;
        }
        *slot = if level > 1 {
            RadixSlot::Inner(RadixNode::filled(old))
        } else {
            RadixSlot::Parts(
                old.map(|owner| PagePart { start: 0, end: PAGE_BYTES as u16, owner }).into_iter().collect(),
            )
        };
    } else if whole && constant {
        *slot = change(None).map_or(RadixSlot::Empty, RadixSlot::Whole);
        return;
    }
    match slot {
        RadixSlot::Inner(child) => update(Arc::make_mut(child), level - 1, start, end, change, constant),
        RadixSlot::Parts(parts) => {
            let page = start.page_start();
            let (from, to) = ((start.0 - page.0) as u16, (end.0 - page.0) as u16);
            if constant {
                fill_parts(parts, from, to, change(None))
            } else {
                replace_parts(parts, from, to, change)
            }
            match parts.as_slice() {
                [] => *slot = RadixSlot::Empty,
                [PagePart { start: 0, end, owner }] if u64::from(*end) == PAGE_BYTES => {
                    *slot = RadixSlot::Whole(*owner)
                }
                _ => {}
            }
        }
        RadixSlot::Empty | RadixSlot::Whole(_) => {}
    }
}

/// The parts that touch `from..to`.
fn touched(parts: &[PagePart], from: u16, to: u16) -> std::ops::Range<usize> {
    let first = parts.partition_point(|part| part.end <= from);
    let last = parts.partition_point(|part| part.start < to);
    first..last.max(first)
}

fn fill_parts(parts: &mut Vec<PagePart>, from: u16, to: u16, owner: Option<u32>) {
    let range = touched(parts, from, to);
    let head = parts.get(range.start).filter(|part| !range.is_empty() && part.start < from);
    let head = head.map(|part| PagePart { end: from, ..*part });
    let tail = parts.get(range.end.wrapping_sub(1)).filter(|part| !range.is_empty() && part.end > to);
    let tail = tail.map(|part| PagePart { start: to, ..*part });
    let new = owner.map(|owner| PagePart { start: from, end: to, owner });
    parts.splice(range, [head, new, tail].into_iter().flatten());
}

fn replace_parts(
    parts: &mut Vec<PagePart>,
    from: u16,
    to: u16,
    change: &mut dyn FnMut(Option<u32>) -> Option<u32>,
) {
    let range = touched(parts, from, to);
    let mut cut = Vec::new();
    for part in parts.get(range.clone()).unwrap_or_default() {
        let (start, end) = (part.start.max(from), part.end.min(to));
        let pieces = [
            (part.start < from).then_some(PagePart { end: from, ..*part }),
            change(Some(part.owner)).map(|owner| PagePart { start, end, owner }),
            (part.end > to).then_some(PagePart { start: to, ..*part }),
        ];
        cut.extend(pieces.into_iter().flatten());
    }
    parts.splice(range, cut);
}
