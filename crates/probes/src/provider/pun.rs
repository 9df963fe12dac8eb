//! Landing places for punned jumps: short pieces of code at addresses that the program's own bytes dictate.
//!
//! A jump that may only change the first bytes of its displacement reaches a window of addresses; some five bytes there
//! must be free to map. Pages are shared by all landings that fall on them. (The technique is e9patch's.)

use patch::near;
use std::{collections::BTreeMap, sync::Mutex};

const PAGE: usize = patch::PAGE_BYTES;
const LANDING: usize = 5;
/// Pages that may be mapped for landings: each costs the process a mapping.
const MOST_PAGES: usize = 8192;

/// The pages mapped so far and what is taken on each, a bit a byte.
static PAGES: Mutex<BTreeMap<usize, [u64; PAGE / 64]>> = Mutex::new(BTreeMap::new());

/// Five writable, executable bytes whose address lies in `[low, high]`, if there are.
pub fn landing(low: usize, high: usize) -> Option<usize> {
    if low < 0x1_0000 || high < low || high >= 0x7fff_ffff_0000 {
        return None;
    }
    let mut pages = PAGES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known: Vec<usize> = pages.range(low & !(PAGE - 1)..=high).map(|(page, _)| *page).collect();
    for page in known {
        if let Some(at) = free_on(&pages, page, low, high) {
            return Some(take(&mut pages, at));
        }
    }
    // A handful of places over the window; when all are taken by others the function gets a trap instead.
    let step = ((high - low) / 16).max(PAGE);
    for at in (low..=high).step_by(step).take(17) {
        let page = at & !(PAGE - 1);
        let missing: Vec<usize> = [page, page + PAGE]
            .into_iter()
            .filter(|p| !pages.contains_key(p) && (*p == page || at + LANDING > page + PAGE))
            .collect();
        if pages.len() + missing.len() > MOST_PAGES
            || !missing.iter().all(|p| near::map_exactly(*p, PAGE).is_some())
        {
            continue;
        }
        for fresh in missing {
            pages.insert(fresh, [0; PAGE / 64]);
        }
        if let Some(at) = free_on(&pages, page, low, high) {
            return Some(take(&mut pages, at));
        }
    }
    None
}

/// Whether `addr` lies on a page of landings; asked while no other thread runs, so it never waits.
pub(crate) fn contains(addr: usize) -> bool {
    match PAGES.try_lock() {
        Ok(pages) => pages.contains_key(&(addr & !(PAGE - 1))),
        // A stopped thread holds it, so it is inside.
        Err(_) => true,
    }
}

fn is_free(pages: &BTreeMap<usize, [u64; PAGE / 64]>, at: usize) -> bool {
    (at..at + LANDING).all(|byte| {
        let offset = byte % PAGE;
        pages.get(&(byte & !(PAGE - 1))).is_some_and(|bits| bits[offset / 64] >> (offset % 64) & 1 == 0)
    })
}

fn free_on(pages: &BTreeMap<usize, [u64; PAGE / 64]>, page: usize, low: usize, high: usize) -> Option<usize> {
    (low.max(page)..=high.min(page + PAGE - 1)).find(|at| is_free(pages, *at))
}

fn take(pages: &mut BTreeMap<usize, [u64; PAGE / 64]>, at: usize) -> usize {
    for byte in at..at + LANDING {
        if let Some(bits) = pages.get_mut(&(byte & !(PAGE - 1))) {
            bits[byte % PAGE / 64] |= 1 << (byte % PAGE % 64);
        }
    }
    at
}
