//! The accesses of a vCPU with their physical addresses.

use std::collections::HashMap;
use std::ops::Range;

use memref::{Access, ThreadId, VirtAddr};
use trace_format::machine::{PLACE_DEVICE, PageEntry};
use trace_format::{Filter, StreamKind, Trace, TypedCursor};

use crate::Error;

const PAGE: u64 = VirtAddr::PAGE_BYTES;
/// Pages whose place is at hand.
const NEAR: usize = 1 << 12;

/// A virtual page, and the physical one that it lies at.
#[derive(Clone, Copy, Debug)]
struct PlacedPage {
    page: u64,
    place: u64,
}

/// Where virtual pages lie, as far as the walk has come.
#[derive(Debug)]
pub struct Physical {
    near: Box<[PlacedPage]>,
    places: HashMap<u64, u64>,
}

impl Default for Physical {
    fn default() -> Self {
        Self {
            near: vec![PlacedPage { page: u64::MAX, place: 0 }; NEAR].into_boxed_slice(),
            places: HashMap::new(),
        }
    }
}

impl Physical {
    fn set(&mut self, page: u64, place: u64) {
        self.near[page as usize % NEAR] = PlacedPage { page, place };
        self.places.insert(page, place);
    }

    #[inline]
    fn place(&mut self, page: u64) -> Option<u64> {
        let slot = page as usize % NEAR;
        if self.near[slot].page == page {
            return Some(self.near[slot].place);
        }
        let place = *self.places.get(&page)?;
        self.near[slot] = PlacedPage { page, place };
        Some(place)
    }

    /// The parts of the guest's memory that an access touches, in the order of its bytes: where each begins and how many
    /// bytes it has. `None` where a device answers, or the place is not known.
    #[inline]
    pub fn ranges(&mut self, access: &Access) -> Option<[Range<u64>; 2]> {
        let (addr, size) = (access.addr.0, u64::from(access.size));
        let place = self.place(addr / PAGE).filter(|place| place & PLACE_DEVICE == 0)?;
        let start = place * PAGE + addr % PAGE;
        let first = size.min(PAGE - addr % PAGE);
        if first == size {
            return Some([start..start + size, 0..0]);
        }
        let second =
            self.place((addr / PAGE).wrapping_add(1)).filter(|place| place & PLACE_DEVICE == 0)? * PAGE;
        Some([start..start + first, second..second + size - first])
    }

    /// The physical address of an access's first byte, also where a device answers.
    pub fn address(&mut self, access: &Access) -> Option<u64> {
        let place = self.place(access.addr.page_number())?;
        Some((place & !PLACE_DEVICE) * PAGE + access.addr.0 % PAGE)
    }
}

/// Where pages lie, going on with a vCPU's accesses.
pub struct Places {
    pages: Option<TypedCursor>,
    waiting: std::vec::IntoIter<PageEntry>,
    next: Option<PageEntry>,
    /// Where they lie now.
    pub physical: Physical,
}

impl Places {
    /// Before the first access of a vCPU.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn new(trace: &Trace, thread: ThreadId) -> Result<Self, Error> {
        let pages = trace.typed(StreamKind::Pages, Some(thread));
        let mut places =
            Self { pages, waiting: Vec::new().into_iter(), next: None, physical: Physical::default() };
        places.advance()?;
        Ok(places)
    }

    /// Of all vCPUs, by their numbers.
    pub(super) fn of_cpus(trace: &Trace) -> Result<Vec<Self>, Error> {
        trace.threads().iter().map(|record| Self::new(trace, record.thread)).collect()
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.next = self.waiting.next();
        while self.next.is_none() {
            let Some(pages) = &mut self.pages else { return Ok(()) };
            let Some(frame) = pages.next_frame()? else {
                self.pages = None;
                return Ok(());
            };
            let entries: Vec<_> = frame.bytes.chunks_exact(24).map(PageEntry::from_bytes).collect();
            self.waiting = entries.into_iter();
            self.next = self.waiting.next();
        }
        Ok(())
    }

    /// Brings the places up to the access with that number, which grows from call to call.
    ///
    /// # Errors
    /// Where the trace can't be read.
    #[inline]
    pub fn go_to(&mut self, index: u64) -> Result<(), Error> {
        while let Some(entry) = self.next.filter(|entry| entry.index <= index) {
            self.physical.set(entry.page, entry.place);
            self.advance()?;
        }
        Ok(())
    }
}

/// Gives all accesses of a vCPU, with the places of pages, to `each`.
///
/// # Errors
/// Where the trace can't be read.
pub fn walk(
    trace: &Trace,
    thread: ThreadId,
    mut each: impl FnMut(&Access, &mut Physical),
) -> Result<(), Error> {
    walk_until(trace, thread, &Filter::default(), |access, physical| {
        each(access, physical);
        true
    })
}

/// The same with the accesses that match, until `each` ends the walk with `false`.
fn walk_until(
    trace: &Trace,
    thread: ThreadId,
    filter: &Filter,
    mut each: impl FnMut(&Access, &mut Physical) -> bool,
) -> Result<(), Error> {
    let mut places = Places::new(trace, thread)?;
    let mut cursor = trace.shard(thread).accesses(filter);
    while let Some(accesses) = cursor.next_block()? {
        let accesses = accesses.to_vec();
        for (index, access) in (cursor.first_index()..).zip(&accesses) {
            places.go_to(index)?;
            if !each(access, &mut places.physical) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The same with the data that was recorded, if any was, of the accesses with these numbers: `each` ends the walk with `false`.
///
/// # Errors
/// Where the trace can't be read.
pub fn walk_data(
    trace: &Trace,
    thread: ThreadId,
    numbers: Range<u64>,
    mut each: impl FnMut(&Access, &mut Physical, Option<&[u8]>) -> bool,
) -> Result<(), Error> {
    let filter = Filter { index: Some(numbers), ..Default::default() };
    if trace.properties().get("written_data").map(String::as_str) != Some("yes") {
        return walk_until(trace, thread, &filter, |access, physical| each(access, physical, None));
    }
    let mut places = Places::new(trace, thread)?;
    let mut cursor = trace.shard(thread).data_accesses(&filter);
    while let Some(entries) = cursor.next_block()? {
        let entries = entries.to_vec();
        for (index, entry) in (cursor.first_index()..).zip(&entries) {
            places.go_to(index)?;
            let bytes = if entry.value_bytes == 0 { None } else { cursor.bytes(entry)? };
            if !each(&entry.access, &mut places.physical, bytes.as_deref()) {
                return Ok(());
            }
        }
    }
    Ok(())
}
