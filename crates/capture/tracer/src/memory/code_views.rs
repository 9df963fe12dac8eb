//! The mappings through which the program can write its own code.
//!
//! When code changes, its translation must be discarded. A page that code was read from is therefore write-protected in every
//! writable mapping of it ([`watch`]): in the code's own mapping if that is both writable and executable, and for shared memory also
//! in all other mappings of the same file or the same shared memory. The program's write then faults, the mapping gets its right
//! back ([`open`]), and the code is forgotten. If a mapping becomes writable later, the code that it shows is forgotten at once.
//!
//! Writes to such a file by calls instead of through a mapping, and to the process's own memory
//! as a file, are detected at the call ([`written`]). Writes by other processes are not.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use tracee::lock::{Guard, Lock};
use tracee::maps::{self, Mapping};
use tracee::sys;

use crate::memory::pages::PAGE_BYTES;

/// Devices that no file has: shared memory without a file, by numbers that are counted.
const NO_DEVICE: u64 = u64::MAX;

/// Device and number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    number: u64,
}

/// What a shared mapping shows: a file, and where in it the mapping's first byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    file: FileId,
    offset: u64,
}

/// A mapping that may be written while its bytes are executed: shared memory, or private memory with both rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    end: u64,
    prot: i32,
    shown: Option<Shown>,
}

/// The views of a process by their addresses.
pub(crate) struct Views {
    list: BTreeMap<u64, View>,
    /// Pages that can't be written until the code that was read from them is forgotten, and the rights that the program thinks
    /// it has.
    closed: BTreeMap<u64, i32>,
    /// Shared memory without a file that was made so far.
    anonymous: u64,
    /// Pages that could not be write-protected, since somebody asked.
    unwatched: u64,
    /// Pages that got their rights back, each once, and how many did: a fault of another thread may come to its handler much later.
    opened: [u64; OPENED],
    openings: usize,
    /// Files that are the process's own memory.
    memory: Vec<FileId>,
}

/// See [`is_written_by_calls`].
static BY_CALLS: AtomicBool = AtomicBool::new(false);

/// Pages that are remembered so.
const OPENED: usize = 512;

static VIEWS: Lock<Views> = Lock::new(Views::NONE);
/// CodeStretches of addresses whose code is to be forgotten.
pub(crate) type CodeStretches = Vec<CodeStretch>;

/// Addresses from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeStretch {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

fn is_both(prot: i32) -> bool {
    let both = sys::PROT_WRITE | sys::PROT_EXEC;
    prot & both == both
}

impl View {
    /// The part between two addresses that both lie in it, of a view that begins at `start`.
    fn part(self, start: u64, from: u64, to: u64) -> Self {
        let shown = self.shown.map(|shown| Shown { offset: shown.offset + (from - start), ..shown });
        Self { end: to, shown, ..self }
    }
}

impl Views {
    const NONE: Self = Self {
        list: BTreeMap::new(),
        closed: BTreeMap::new(),
        anonymous: 0,
        unwatched: 0,
        opened: [0; OPENED],
        openings: 0,
        memory: Vec::new(),
    };

    /// The views that have something between two addresses, and where they begin.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &View)> {
        let before = self.list.range(..start).next_back();
        let all = before.into_iter().chain(self.list.range(start..end.max(start)));
        all.map(|(&at, view)| (at, view)).filter(move |(_, view)| view.end > start)
    }

    /// The parts of views between two addresses.
    fn within(&self, start: u64, end: u64) -> Vec<(u64, View)> {
        self.overlapping(start, end)
            .map(|(at, view)| {
                let from = at.max(start);
                (from, view.part(at, from, view.end.min(end)))
            })
            .collect()
    }

    /// Forgets what is between two addresses.
    fn cut(&mut self, start: u64, end: u64) {
        self.closed = {
            let mut rest = core::mem::take(&mut self.closed);
            let mut tail = rest.split_off(&start);
            rest.append(&mut tail.split_off(&end.max(start)));
            rest
        };
        for (from, part) in self.within(start, end) {
            let Some((&at, &view)) = self.list.range(..=from).next_back() else { continue };
            self.list.remove(&at);
            if at < from {
                self.list.insert(at, view.part(at, at, from));
            }
            if view.end > part.end {
                self.list.insert(part.end, view.part(at, part.end, view.end));
            }
        }
    }

    fn add(&mut self, start: u64, end: u64, prot: i32, shown: Option<Shown>) {
        if shown.is_some() && prot & sys::PROT_EXEC != 0 {
            BY_CALLS.store(true, Ordering::Relaxed);
        }
        if start < end && (shown.is_some() || is_both(prot)) {
            self.list.insert(start, View { end, prot, shown });
        }
    }

    /// What is between two addresses has other rights now.
    fn protect(&mut self, start: u64, end: u64, prot: i32) {
        let shared: Vec<(u64, View)> =
            self.within(start, end).into_iter().filter(|(_, part)| part.shown.is_some()).collect();
        self.cut(start, end);
        let mut at = start;
        for (from, part) in shared {
            self.add(at, from, prot, None);
            self.add(from, part.end, prot, part.shown);
            at = part.end;
        }
        self.add(at, end, prot, None);
    }

    /// Where else the bytes of a stretch are shown, itself included.
    fn everywhere(&self, start: u64, end: u64) -> CodeStretches {
        let mut found = Vec::new();
        found.push(CodeStretch { start, end });
        for (from, part) in self.within(start, end) {
            let Some(shown) = part.shown else { continue };
            let places = CodeStretch { start: shown.offset, end: shown.offset + (part.end - from) };
            found.extend(self.showing(shown.file, places));
        }
        found
    }

    /// Where these places of a file are shown.
    fn showing(&self, file: FileId, places: CodeStretch) -> impl Iterator<Item = CodeStretch> {
        self.list.iter().filter_map(move |(&at, view)| {
            let shown = view.shown.filter(|shown| shown.file == file)?;
            let first = places.start.max(shown.offset);
            let last = places.end.min(shown.offset.saturating_add(view.end - at));
            (first < last).then(|| {
                let start = at + (first - shown.offset);
                CodeStretch { start, end: start + (last - first) }
            })
        })
    }

    /// Whether a stretch has shared memory in it.
    fn is_shared(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).any(|(_, view)| view.shown.is_some())
    }

    /// What of the code that was translated can't be relied on, now that a stretch has these rights.
    fn forgotten(&self, start: u64, end: u64, prot: i32) -> CodeStretches {
        if prot & sys::PROT_WRITE != 0 {
            self.everywhere(start, end)
        } else {
            alloc::vec![CodeStretch { start, end }]
        }
    }

    /// The rights that the program has where a page is, if it may write there.
    fn rights_to_write(&self, page: u64) -> Option<i32> {
        let (_, view) = self.list.range(..=page).next_back()?;
        (view.end > page && view.prot & sys::PROT_WRITE != 0).then_some(view.prot)
    }

    fn close(&mut self, page: u64) {
        let Some(prot) = self.rights_to_write(page) else { return };
        if self.closed.contains_key(&page) {
            return;
        }
        let less = prot & !sys::PROT_WRITE | sys::PROT_READ;
        // SAFETY: a page that the program can write; its write faults and is repaired.
        if sys::failed(unsafe { sys::mprotect(page, PAGE_BYTES, less) }) {
            self.unwatched += 1;
        } else {
            self.closed.insert(page, prot);
        }
    }

    /// Gives the program its rights to pages back; `None` where none of them is closed.
    fn open(&mut self, start: u64, end: u64) -> Option<CodeStretches> {
        let pages: Vec<(u64, i32)> = self
            .closed
            .range(start & !(PAGE_BYTES - 1)..end.max(start))
            .map(|(&page, &prot)| (page, prot))
            .collect();
        let mut found = Vec::new();
        for &(page, prot) in &pages {
            self.closed.remove(&page);
            if !self.opened.contains(&page) {
                if let Some(place) = self.opened.get_mut(self.openings % OPENED) {
                    *place = page;
                }
                self.openings = self.openings.wrapping_add(1);
            }
            // SAFETY: gives the program the rights that it thinks it has.
            unsafe { sys::mprotect(page, PAGE_BYTES, prot) };
            found.append(&mut self.everywhere(page, page + PAGE_BYTES));
        }
        (!pages.is_empty()).then_some(found)
    }
}

/// Keeps the list as it is while it is held.
pub(crate) fn hold() -> Guard<'static, Views> {
    VIEWS.lock()
}

/// Whether others than the process's threads may change some of these bytes: other processes, or the kernel, whose own pages
/// (vvar) are its shared memory with everybody. So too where that can't be said just now.
pub(crate) fn is_shared(start: u64, len: u64) -> bool {
    let Some(views) = VIEWS.try_lock() else { return true };
    views.is_shared(start, start.saturating_add(len))
}

/// A mapping that is there when recording begins.
pub(crate) fn note(mapping: &Mapping<'_>) {
    let is_shared = mapping.shared || mapping.name.starts_with(b"[vvar");
    let file = FileId { device: mapping.device, number: mapping.inode };
    let shown = is_shared.then_some(Shown { file, offset: mapping.offset });
    let mut views = VIEWS.lock();
    views.cut(mapping.start, mapping.end);
    views.add(mapping.start, mapping.end, mapping.prot, shown);
}

/// The program mapped memory: a file, or memory without one where the descriptor is -1. Where code is to be forgotten.
pub(crate) fn mapped(
    CodeStretch { start, end }: CodeStretch,
    prot: i32,
    shared: bool,
    fd: i32,
    offset: u64,
) -> CodeStretches {
    let file = (shared && fd >= 0).then(|| file_of(fd)).flatten();
    let mut views = VIEWS.lock();
    views.cut(start, end);
    let shown = shared.then(|| {
        let file = file.unwrap_or_else(|| {
            views.anonymous += 1;
            FileId { device: NO_DEVICE, number: views.anonymous }
        });
        Shown { file, offset: if fd >= 0 { offset } else { 0 } }
    });
    views.add(start, end, prot, shown);
    views.forgotten(start, end, prot)
}

/// The program changed the rights to memory. Where code is to be forgotten.
pub(crate) fn protected(CodeStretch { start, end }: CodeStretch, prot: i32) -> CodeStretches {
    let mut views = VIEWS.lock();
    views.protect(start, end, prot);
    views.forgotten(start, end, prot)
}

/// The program unmaps memory. Where code is to be forgotten.
pub(crate) fn unmapped(stretch: CodeStretch) -> CodeStretches {
    VIEWS.lock().cut(stretch.start, stretch.end);
    alloc::vec![stretch]
}

/// The program attached shared memory at an address. Where code is to be forgotten.
pub(crate) fn attached(start: u64) -> CodeStretches {
    let mut found = Vec::new();
    maps::each(|mapping| {
        if mapping.start == start {
            note(&mapping);
            found = VIEWS.lock().forgotten(mapping.start, mapping.end, mapping.prot);
        }
    });
    found
}

/// The program detaches shared memory that was attached at an address. Where code is to be forgotten.
pub(crate) fn detached(start: u64) -> CodeStretches {
    let mut views = VIEWS.lock();
    let Some(shown) = views.list.get(&start).and_then(|view| view.shown) else { return Vec::new() };
    let is_of_it = |at: u64, view: &View| {
        view.shown.is_some_and(|other| other.file == shown.file && at.wrapping_sub(other.offset) == start)
    };
    let all: CodeStretches = views
        .list
        .iter()
        .filter(|&(&at, view)| is_of_it(at, view))
        .map(|(&start, view)| CodeStretch { start, end: view.end })
        .collect();
    for stretch in &all {
        views.cut(stretch.start, stretch.end);
    }
    all
}

/// The program is about to move memory, which the kernel does where all of it has the same rights. Where code is to be
/// forgotten.
pub(crate) fn moving(stretch: CodeStretch) -> CodeStretches {
    let mut views = VIEWS.lock();
    let mut found = views.open(stretch.start, stretch.end).unwrap_or_default();
    found.push(stretch);
    found
}

/// It moved memory, or gave it another length, or made a second view of it (its old length is zero); `keeps`: what is left
/// there stays mapped. Where code is to be forgotten.
pub(crate) fn moved(old: CodeStretch, new: CodeStretch, keeps: bool) -> CodeStretches {
    let mut views = VIEWS.lock();
    let (from, to) = (old.start, new.start);
    let view = views.within(from, from + 1).first().copied();
    if old.end > old.start && !keeps {
        views.cut(old.start, old.end);
    }
    views.cut(new.start, new.end);
    if let Some((_, view)) = view {
        views.add(to, new.end, view.prot, view.shown);
    }
    views.everywhere(new.start, new.end)
}

/// What is shown in a stretch changes, otherwise than by writing. Where code is to be forgotten.
pub(crate) fn changed(stretch: CodeStretch) -> CodeStretches {
    VIEWS.lock().everywhere(stretch.start, stretch.end)
}

/// Code is about to be read from there, or from a part of it: pages of it that are executed can't be written any more without our
/// being told.
pub(crate) fn watch(addr: u64, len: u64) {
    let mut views = VIEWS.lock();
    for (from, part) in views.within(addr, addr + len) {
        if part.prot & sys::PROT_EXEC == 0 {
            // Data after the code.
            continue;
        }
        for page in (from & !(PAGE_BYTES - 1)..part.end).step_by(PAGE_BYTES as usize) {
            for stretch in views.everywhere(page, page + PAGE_BYTES) {
                views.close(stretch.start);
            }
        }
    }
}

/// The program, or the kernel for it, writes there: it gets its rights back. Where code is to be forgotten; `None`: no page of
/// it is closed.
pub(crate) fn open(start: u64, end: u64) -> Option<CodeStretches> {
    VIEWS.lock().open(start, end)
}

/// Whether calls may write what the program executes: it executes a file that is mapped shared, or has opened its own memory as a file.
pub(crate) fn is_written_by_calls() -> bool {
    BY_CALLS.load(Ordering::Relaxed)
}

/// A file was opened that is the process's own memory.
pub(crate) fn note_memory(file: FileId) {
    BY_CALLS.store(true, Ordering::Relaxed);
    let mut views = VIEWS.lock();
    if !views.memory.contains(&file) {
        views.memory.push(file);
    }
}

/// Whether a file is the process's own memory.
pub(crate) fn is_memory(file: FileId) -> bool {
    VIEWS.lock().memory.contains(&file)
}

/// A file was written at these places. Where code is to be forgotten.
pub(crate) fn written(file: FileId, places: CodeStretch) -> CodeStretches {
    VIEWS.lock().showing(file, places).collect()
}

/// Whether a page has, or had, translated code, for which it was kept from being written.
pub(crate) fn had_code(addr: u64) -> bool {
    let page = addr & !(PAGE_BYTES - 1);
    let views = VIEWS.lock();
    views.closed.contains_key(&page) || views.opened.contains(&page)
}

/// Whether a page that was just found not to be writable is by now: another thread has opened it.
pub(crate) fn was_opened(addr: u64) -> bool {
    let page = addr & !(PAGE_BYTES - 1);
    // Held to the end: nobody closes it meanwhile.
    let views = VIEWS.lock();
    if views.closed.contains_key(&page) {
        // It was opened, and closed once more: its next fault opens it.
        return true;
    }
    if !views.opened.contains(&page) {
        return false;
    }
    // It may have lost the right otherwise since then.
    let mut is_writable = false;
    maps::each(|mapping| is_writable |= mapping.contains(addr) && mapping.prot & sys::PROT_WRITE != 0);
    is_writable
}

/// How many pages with code could not be write-protected since this was asked last.
pub(crate) fn take_unwatched() -> u64 {
    core::mem::take(&mut VIEWS.lock().unwatched)
}

/// Gives the program all its rights back.
pub(crate) fn forget_all() {
    let mut views = VIEWS.lock();
    let _ = views.open(0, u64::MAX);
    views.list = BTreeMap::new();
}

/// Device and number of the file that a descriptor stands for.
/// What a descriptor stands for; `None` where it is none.
pub(crate) fn file_of(fd: i32) -> Option<FileId> {
    // SAFETY: zeros are a valid structure.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let args = [fd as usize, &raw mut stat as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes the structure.
    let result = unsafe { sys::syscall(libc::SYS_fstat as usize, args) };
    (!sys::failed(result)).then_some(FileId { device: stat.st_dev, number: stat.st_ino })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const R: i32 = sys::PROT_READ;
    const RW: i32 = sys::PROT_READ | sys::PROT_WRITE;
    const RX: i32 = sys::PROT_READ | sys::PROT_EXEC;
    const RWX: i32 = RW | RX;

    /// Start, end, rights; of what is shared the file and the offset.
    type Listed = (u64, u64, i32, Option<(u64, u64)>);

    fn views(list: &[Listed]) -> Views {
        let mut views = Views::NONE;
        for &(start, end, prot, shown) in list {
            let shown =
                shown.map(|(inode, offset)| Shown { file: FileId { device: 1, number: inode }, offset });
            views.add(start, end, prot, shown);
        }
        views
    }

    fn check(views: &Views, expect: &[(u64, u64, i32, Option<u64>)]) {
        let found: Vec<_> = views
            .list
            .iter()
            .map(|(&at, view)| (at, view.end, view.prot, view.shown.map(|shown| shown.offset)))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn private_memory_counts_where_it_can_be_written_and_executed() {
        let views =
            views(&[(0x1000, 0x2000, RX, None), (0x2000, 0x3000, RWX, None), (0x3000, 0x4000, RW, None)]);
        check(&views, &[(0x2000, 0x3000, RWX, None)]);
    }

    #[test]
    fn a_cut_leaves_what_is_around_it_with_its_offsets() {
        let mut views = views(&[(0x1000, 0x6000, RX, Some((7, 0x10_0000)))]);
        views.closed.insert(0x2000, RWX);
        views.closed.insert(0x3000, RWX);
        views.cut(0x3000, 0x4000);
        check(&views, &[(0x1000, 0x3000, RX, Some(0x10_0000)), (0x4000, 0x6000, RX, Some(0x10_3000))]);
        assert_eq!(views.closed.keys().copied().collect::<Vec<_>>(), [0x2000]);
        views.cut(0, u64::MAX);
        check(&views, &[]);
    }

    #[test]
    fn bytes_of_a_file_are_found_wherever_it_is_shown() {
        let views = views(&[
            (0x1_0000, 0x1_4000, RX, Some((7, 0))),
            (0x2_0000, 0x2_2000, RW, Some((7, 0x2000))),
            (0x3_0000, 0x3_4000, RW, Some((8, 0))),
            (0x4_0000, 0x4_1000, R, Some((7, 0x3000))),
        ]);
        let check = |start: u64, expect: &[(u64, u64)]| {
            let mut found: Vec<_> =
                views.everywhere(start, start + 0x1000).iter().map(|at| (at.start, at.end)).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, expect, "{start:#x}");
        };
        check(0x1_0000, &[(0x1_0000, 0x1_1000)]);
        check(0x1_2000, &[(0x1_2000, 0x1_3000), (0x2_0000, 0x2_1000)]);
        check(0x2_1000, &[(0x1_3000, 0x1_4000), (0x2_1000, 0x2_2000), (0x4_0000, 0x4_1000)]);
        check(0x3_2000, &[(0x3_2000, 0x3_3000)]);
        assert_eq!(views.rights_to_write(0x2_1000), Some(RW));
        assert_eq!(views.rights_to_write(0x4_0000), None);
        assert_eq!(views.rights_to_write(0x5_0000), None);
    }

    #[derive(Clone, Debug)]
    enum Change {
        /// Rights, and the file that is shown with the page of it that comes first; none: private memory.
        Map(i32, Option<(u64, u64)>),
        Unmap,
        Protect(i32),
    }

    fn changes() -> impl Strategy<Value = Vec<(u64, u64, Change)>> {
        let rights = prop::sample::select(vec![0, R, RW, RX, RWX]);
        let change = prop_oneof![
            (rights.clone(), prop::option::of((0u64..3, 0u64..8)))
                .prop_map(|(prot, shown)| Change::Map(prot, shown)),
            Just(Change::Unmap),
            rights.prop_map(Change::Protect),
        ];
        prop::collection::vec((0u64..24, 1u64..12, change), 1..30)
    }

    proptest! {
        /// The list says of each page what a plain table of pages says, and finds the same bytes in other places.
        #[test]
        fn views_are_pages_with_rights_and_what_they_show(changes in changes()) {
            let mut found = views(&[]);
            // Of each page the rights, and the page of a file that it shows.
            let mut model: BTreeMap<u64, (i32, Option<(u64, u64)>)> = BTreeMap::new();
            for (first, count, change) in changes {
                let (start, end) = (first * PAGE_BYTES, (first + count) * PAGE_BYTES);
                match change {
                    Change::Map(prot, shown) => {
                        found.cut(start, end);
                        let file = |(number, page): (u64, u64)| Shown {
                            file: FileId { device: 1, number },
                            offset: page * PAGE_BYTES,
                        };
                        found.add(start, end, prot, shown.map(file));
                        for index in 0..count {
                            let shown = shown.map(|(number, page)| (number, page + index));
                            model.insert(first + index, (prot, shown));
                        }
                    }
                    Change::Unmap => {
                        found.cut(start, end);
                        model.retain(|page, _| !(first..first + count).contains(page));
                    }
                    Change::Protect(prot) => {
                        found.protect(start, end, prot);
                        for page in first..first + count {
                            model.entry(page).or_insert((prot, None)).0 = prot;
                        }
                    }
                }
                for page in 0..40 {
                    let at = page * PAGE_BYTES;
                    // Private memory without both rights is nobody's view.
                    let known = model.get(&page).filter(|(prot, shown)| shown.is_some() || is_both(*prot));
                    let part = found.within(at, at + PAGE_BYTES);
                    let shown = part.first().map(|(_, view)| {
                        (view.prot, view.shown.map(|shown| (shown.file.number, shown.offset / PAGE_BYTES)))
                    });
                    prop_assert_eq!(shown, known.copied(), "page {}", page);
                    let can_write = known.filter(|(prot, _)| prot & sys::PROT_WRITE != 0).map(|(prot, _)| *prot);
                    prop_assert_eq!(found.rights_to_write(at), can_write);
                    let mut places: Vec<u64> =
                        found.everywhere(at, at + PAGE_BYTES).iter().map(|place| place.start / PAGE_BYTES).collect();
                    places.sort_unstable();
                    places.dedup();
                    let same = |other: &(i32, Option<(u64, u64)>)| {
                        other.1.is_some() && known.is_some_and(|known| known.1 == other.1)
                    };
                    let mut expect: Vec<u64> =
                        model.iter().filter(|(_, other)| same(other)).map(|(&page, _)| page).collect();
                    expect.push(page);
                    expect.sort_unstable();
                    expect.dedup();
                    prop_assert_eq!(places, expect, "page {}", page);
                }
            }
        }
    }
}
