//! The guest's memory, as QEMU shares it with us, and a copy of its content as the trace knows it.
//!
//! QEMU shows plugins what instructions write. It does not show what devices write (DMA), what the processor writes by itself
//! (interrupt frames, accessed and dirty bits, descriptors) and what is loaded before the start. These are found by comparing
//! memory with the copy. The copy is made only of recorded data, so after a comparison the trace holds all of memory.

use std::fs::{File, read_dir, read_link};
use std::os::fd::AsFd;

use memref::RamLayout;
use rustix::fs::SeekFrom;
use rustix::mm::{MapFlags, ProtFlags};

use crate::options::NumberRange;

const PAGE: usize = memref::VirtAddr::PAGE_BYTES as usize;
/// Equal words between two differing ones that are not worth a new run.
const BRIDGE_WORDS: usize = 3;
/// What QEMU calls the memory of the backend that the recorder puts on its command line.
const NAME: &str = "memory-backend-memfd";

/// Both mappings. Addresses are physical ones of the guest.
pub(crate) struct Ram {
    memory: *const u8,
    copy: *mut u8,
    layout: RamLayout,
    file: File,
}

// SAFETY: the mappings are ours for ever; who may touch the copy is settled by the lock around the machine.
unsafe impl Send for Ram {}

impl Ram {
    /// Finds the memory of that size among this process's open files.
    pub(crate) fn find(layout: RamLayout) -> Option<Self> {
        let len = usize::try_from(layout.bytes()).ok().filter(|&len| len > 0)?;
        let file = read_dir("/proc/self/fd").ok()?.flatten().find_map(|entry| {
            let name = read_link(entry.path()).ok()?;
            if !name.to_string_lossy().contains(NAME) {
                return None;
            }
            let file = File::open(entry.path()).ok()?;
            (file.metadata().ok()?.len() == len as u64).then_some(file)
        })?;
        // SAFETY: new mappings replace nothing; the file is as long as that.
        let memory = unsafe {
            rustix::mm::mmap(core::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)
        };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping of nobody's memory replaces nothing.
        let copy = unsafe {
            rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        Some(Self { memory: memory.ok()?.cast(), copy: copy.ok()?.cast(), layout, file })
    }

    /// Where it lies.
    pub(crate) fn layout(&self) -> RamLayout {
        self.layout
    }

    /// The place of so many bytes in both mappings; `None` where they are not all there, in one piece.
    #[inline]
    fn place(&self, addr: u64, bytes: usize) -> Option<usize> {
        self.layout.place(addr, bytes as u64).map(|place| place as usize)
    }

    /// The bytes there, low ones first; `None` outside of the memory.
    #[inline]
    pub(crate) fn load(&self, addr: u64, bytes: usize) -> Option<u128> {
        let place = self.place(addr, bytes).filter(|_| bytes <= 16)?;
        let mut value = [0; 16];
        // SAFETY: inside the mapping by the check above. The guest may write at the same time; then any bytes do.
        unsafe { core::ptr::copy_nonoverlapping(self.memory.add(place), value.as_mut_ptr(), bytes) };
        Some(u128::from_le_bytes(value))
    }

    /// Enters what was recorded as written there.
    #[inline]
    pub(crate) fn note(&mut self, addr: u64, value: u128, bytes: usize) {
        let Some(place) = self.place(addr, bytes).filter(|_| bytes <= 16) else { return };
        // SAFETY: inside the copy by the check above; nobody else touches it.
        unsafe { core::ptr::copy_nonoverlapping(value.to_le_bytes().as_ptr(), self.copy.add(place), bytes) };
    }

    /// Reads memory; `false` where it is not all there.
    pub(crate) fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let Some(place) = self.place(addr, out.len()) else { return false };
        // SAFETY: inside the mapping by the check above. The guest may write at the same time; then any bytes do.
        unsafe { core::ptr::copy_nonoverlapping(self.memory.add(place), out.as_mut_ptr(), out.len()) };
        true
    }

    /// The parts of memory that were ever touched: the others are zero and cost nothing.
    pub(crate) fn touched(&self) -> Vec<NumberRange> {
        let mut spans = Vec::new();
        let mut at = 0;
        while let Ok(start) = rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start)).unwrap_or(self.layout.bytes());
            spans.extend(self.layout.addrs(start..end));
            at = end;
        }
        spans
    }

    /// Compares memory with the copy inside `within`, tells `found` of each run of bytes that differ, in multiples of
    /// eight, and brings the copy up to date.
    pub(crate) fn compare(&mut self, within: &NumberRange, mut found: impl FnMut(u64, &[u8])) {
        let mut page = [0u64; PAGE / 8];
        let mut known = [0u64; PAGE / 8];
        for span in self.touched() {
            let first = span.start.max(within.start & !(PAGE as u64 - 1));
            for addr in (first..span.end.min(within.end)).step_by(PAGE) {
                let Some(at) = self.place(addr, PAGE) else { break };
                // SAFETY: both ranges are pages inside the mappings; a device may write meanwhile, then any bytes do.
                unsafe {
                    core::ptr::copy_nonoverlapping(self.memory.add(at), page.as_mut_ptr().cast(), PAGE);
                    core::ptr::copy_nonoverlapping(self.copy.add(at), known.as_mut_ptr().cast(), PAGE);
                }
                if page == known {
                    continue;
                }
                runs(&page, &known, |start, words| {
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    found(addr + start as u64 * 8, &bytes);
                });
                // SAFETY: both ranges are pages inside of the mapping and of `page`; the copy is ours.
                unsafe { core::ptr::copy_nonoverlapping(page.as_ptr().cast(), self.copy.add(at), PAGE) };
            }
        }
    }
}

/// Runs of words that differ, bridging short equal stretches.
fn runs(new: &[u64], old: &[u64], mut found: impl FnMut(usize, &[u64])) {
    let mut at = 0;
    while at < new.len() {
        if new[at] == old[at] {
            at += 1;
            continue;
        }
        let start = at;
        let mut end = at + 1;
        while let Some(step) = (end..new.len().min(end + BRIDGE_WORDS + 1)).find(|&i| new[i] != old[i]) {
            end = step + 1;
        }
        found(start, &new[start..end]);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_bridged() {
        let mut new = [0u64; 32];
        for at in [3, 4, 8, 20] {
            new[at] = 1;
        }
        let mut list = Vec::new();
        runs(&new, &[0; 32], |start, words| list.push((start, words.len())));
        assert_eq!(list, [(3, 6), (20, 1)]);
        runs(&new, &new.clone(), |_, _| panic!("nothing differs"));
    }
}
