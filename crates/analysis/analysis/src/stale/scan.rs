//! Legitimate loads past the end of a string. Functions of the C library read whole vectors. They know
//! that a vector with a byte of the string lies in a readable page, and they ignore the other bytes in it.
//!
//! Such a load begins outside of the string or lies wholly after its
//! end. Two cases are distinguished from a use of released memory:
//!
//! - A vector that also holds bytes of live memory: the string may be there. But a vector
//!   that begins where the released block began is the first one of a string in that block.
//! - Vectors are loaded in groups of up to four whose bytes are examined together. A vector without a live
//!   byte is legitimate if the vectors before it, each adjacent to the next, lead back to live memory.
//!
//! A load under a mask is recorded as single elements. Consecutive elements of one
//! instruction are one vector here. If an element is alone, the vector may begin before it.
//!
//! The allocator's own accesses are not uses either. Parts of the allocator are not called through malloc and
//! free, such as the cleanup at the end of a thread, and `malloc_usable_size` reads what is before a block.

use memref::{Access, AccessKind, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{BlockState, CodeId, CodeName, LinkAddr, Resolver};

use crate::code_files::CodeFiles;

/// Loads of fewer bytes are no vectors, but may be elements of one.
const LEAST_VECTOR: u32 = 16;
/// No vector has more bytes.
const MOST_VECTOR: u64 = 64;
/// The elements that a load under a mask has at most.
const MOST_ELEMENTS: usize = 64;
/// The allocator's functions before `malloc` have no more.
const ALLOCATOR_BYTES: u64 = 0x5000;
/// A string function and its tails are no longer.
const FUNCTION_BYTES: u64 = 8192;
/// Accesses that are looked back at: two strings that are compared, a group and what led to it, and single elements of them.
const LOOK_BACK: usize = 128;

/// What a thread accessed last.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentAccesses(Vec<Access>);

impl RecentAccesses {
    /// They are, in their order.
    pub(crate) fn accesses(&self) -> &[Access] {
        &self.0
    }

    /// It accessed these now.
    pub(crate) fn add(&mut self, accesses: &[Access]) {
        let last = &accesses[accesses.len().saturating_sub(LOOK_BACK)..];
        let kept = LOOK_BACK - last.len();
        self.0.drain(..self.0.len().saturating_sub(kept));
        self.0.extend_from_slice(last);
    }
}

/// Knows such loads.
#[derive(Debug, Default)]
pub(crate) struct StringLoads {
    files: CodeFiles,
    /// Whether an instruction loads under a mask.
    masked: FxHashMap<CodeId, bool>,
}

impl StringLoads {
    /// Whether an access to released memory is such a load, or one of the allocator; `before` is what its thread accessed before, the
    /// last one first, and `after` what it accesses next.
    pub(crate) fn is_right<'a>(
        &mut self,
        resolver: &mut Resolver,
        access: &Access,
        before: impl Iterator<Item = &'a Access> + Clone,
        after: Option<&Access>,
    ) -> bool {
        let Some(code) = resolver.code_name(access.ip) else { return false };
        // Vectors are the most of them.
        access.kind == AccessKind::Load
            && is_of_c_library(&code)
            && (runs_over(resolver, access, before, after) || self.is_lone_lane(resolver, access))
            || is_allocator(resolver, access.ip)
    }

    /// Whether it is an element of a vector in which live memory was masked away.
    fn is_lone_lane(&mut self, resolver: &mut Resolver, access: &Access) -> bool {
        access.size < LEAST_VECTOR
            && may_begin_live(resolver, access.addr, range(access).1)
            && self.is_masked(resolver, access.ip)
    }

    fn is_masked(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> bool {
        let code = resolver.resolve_code(ip);
        let files = &mut self.files;
        *self.masked.entry(code).or_insert_with(|| {
            let instruction = files.instruction(resolver, ip);
            instruction.is_some_and(|instruction| instruction.mask().is_some())
        })
    }
}

/// Whether a vector that holds these bytes may begin with live ones: none was released that begins there.
fn may_begin_live(resolver: &Resolver, low: VirtAddr, high: VirtAddr) -> bool {
    let begins = resolver.heap().get(low).is_some_and(|hit| hit.offset == 0);
    !begins && is_live(resolver, VirtAddr(high.0.saturating_sub(MOST_VECTOR)), low)
}

fn runs_over<'a>(
    resolver: &Resolver,
    access: &Access,
    before: impl Iterator<Item = &'a Access> + Clone,
    after: Option<&Access>,
) -> bool {
    let (mut low, mut high) = range(access);
    // The elements of one load, as far as they are before this one.
    let same = |one: &&Access| one.ip == access.ip && one.kind == AccessKind::Load && one.size < LEAST_VECTOR;
    let elements = before.clone().take(MOST_ELEMENTS).take_while(same);
    for one in elements.filter(|_| access.size < LEAST_VECTOR) {
        if one.addr >= low || high.distance(one.addr) > MOST_VECTOR {
            break;
        }
        low = one.addr;
        if has_live_byte(resolver, one) {
            return true;
        }
    }
    // Where the first string is empty, the elements of the second one that are live are masked away.
    let follows = |next: &Access| {
        next.ip == access.ip && next.addr > access.addr && range(next).1.distance(low) <= MOST_VECTOR
    };
    let is_element = access.size < LEAST_VECTOR && (low < access.addr || after.is_some_and(follows));
    if is_element && may_begin_live(resolver, low, high) {
        return true;
    }
    if has_live_byte(resolver, access) {
        let begins = resolver.heap().get(access.addr).is_some_and(|hit| hit.offset == 0);
        return !begins || access.addr.0.is_multiple_of(u64::from(access.size));
    }
    let (mut met, mut lives, mut last) = (0, false, access.ip);
    for one in before.take(LOOK_BACK) {
        // A call in between, or another function: what was before is another string.
        let call = one.kind == AccessKind::Store && one.size == 8;
        if call || one.ip.distance(access.ip) > FUNCTION_BYTES {
            return false;
        }
        let (start, end) = range(one);
        let element = one.size < LEAST_VECTOR;
        // The elements before the first one that is not masked away are not recorded.
        let apart = if element && access.size < LEAST_VECTOR { MOST_VECTOR } else { 0 };
        if one.kind != AccessKind::Load || start > high || end.offset(apart) < low {
            continue;
        }
        let overlaps = start < high && low < end;
        (low, high) = (low.min(start), high.max(end));
        met += u32::from(one.ip != last);
        last = one.ip;
        lives |= has_live_byte(resolver, one);
        // Of two strings that are compared, one is loaded whole and the other under a mask: both may begin here.
        let alike = element == (access.size < LEAST_VECTOR);
        if lives && (met > 1 || overlaps || alike) {
            return true;
        }
    }
    false
}

/// Its first byte, and the first one after it.
fn range(access: &Access) -> (VirtAddr, VirtAddr) {
    (access.addr, VirtAddr(access.addr.0.saturating_add(access.size.into())))
}

fn has_live_byte(resolver: &Resolver, access: &Access) -> bool {
    let (start, end) = range(access);
    is_live(resolver, start, end)
}

/// Whether one of the bytes is live.
fn is_live(resolver: &Resolver, mut at: VirtAddr, end: VirtAddr) -> bool {
    while at < end {
        let (_, next, hit) = resolver.heap().get_span(at);
        if hit.is_some_and(|hit| hit.state == BlockState::Live) {
            return true;
        }
        at = next.max(at.offset(1));
    }
    false
}

/// Whether an instruction is one of the C library, or, where that is linked in, one of its string functions.
fn is_of_c_library(code: &CodeName) -> bool {
    let module = code.module.as_deref().unwrap_or("");
    let function = code.function.as_deref().unwrap_or("").trim_start_matches('_');
    ["libc.so", "libc-", "libc.musl", "ld-linux", "ld-musl", "ld-2"]
        .iter()
        .any(|stem| module.starts_with(stem))
        || ["str", "mem", "wcs", "wmem", "rawmem", "stp"].iter().any(|stem| function.starts_with(stem))
}

/// Whether an instruction is one of the GNU C library's allocator, whose functions lie together: those without symbols before
/// `malloc`, and after it those that `malloc_info` ends.
fn is_allocator(resolver: &Resolver, ip: VirtAddr) -> bool {
    let Some((_, instance)) = resolver.image().instance_at(ip) else { return false };
    if !instance.module.name().starts_with("libc.so") && !instance.module.name().starts_with("libc-") {
        return false;
    }
    let address = instance.linked(ip);
    let mut ends = (None, None);
    for symbol in instance.module.symbols() {
        match symbol.raw_name {
            "malloc" | "__libc_malloc" => ends.0 = Some(symbol.address),
            "malloc_info" | "__malloc_info" => ends.1 = Some(symbol.address.saturating_offset(symbol.bytes)),
            _ => {}
        }
    }
    let (Some(malloc), Some(end)) = ends else { return false };
    (LinkAddr(malloc.0.saturating_sub(ALLOCATOR_BYTES))..end).contains(&address)
}
