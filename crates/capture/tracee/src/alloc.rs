//! An allocator for the few libraries in the traced process that need one (for the tables and buffers of the instruction decoder).
//!
//! Blocks are powers of two in size, taken from the kernel's memory and kept
//! in free lists for ever. The allocator never touches the program's heap.

use core::alloc::{GlobalAlloc, Layout};

use crate::lock::{Guard, Lock};
use crate::sys;

const SMALLEST_LOG2: u32 = 3;
const CLASSES: usize = 22;
/// Bytes that are asked from the kernel at once.
const CHUNK_BYTES: usize = 256 << 10;

#[derive(Debug)]
struct Heap {
    free: [*mut u8; CLASSES],
    chunk: *mut u8,
    left: usize,
}

// SAFETY: the lists are memory that only the holder of the lock touches.
unsafe impl Send for Heap {}

static HEAP: Lock<Heap> =
    Lock::new(Heap { free: [core::ptr::null_mut(); CLASSES], chunk: core::ptr::null_mut(), left: 0 });

/// The allocator; to be named as `#[global_allocator]` by the tracer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Held during a fork: no other thread is in the middle of an allocation, which the child would wait for.
#[derive(Debug)]
pub struct HeldHeap(#[allow(dead_code)] Guard<'static, Heap>);

/// Holds the heap: nothing may be allocated or given back meanwhile.
pub fn hold() -> HeldHeap {
    HeldHeap(HEAP.lock())
}

/// The class of a block: the power of two that holds it.
fn class(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(1 << SMALLEST_LOG2).next_power_of_two();
    (bytes.trailing_zeros() - SMALLEST_LOG2) as usize
}

// SAFETY: blocks are as large and as aligned as their class, which is at least the layout's size and alignment; a block is
// in a free list or given out, never both.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class(layout);
        let bytes = 1usize << (class as u32 + SMALLEST_LOG2);
        if class >= CLASSES || bytes > CHUNK_BYTES / 4 {
            let rw = sys::PROT_READ | sys::PROT_WRITE;
            return sys::map_anonymous(bytes as u64, rw).unwrap_or(core::ptr::null_mut());
        }
        let mut heap = HEAP.lock();
        let Some(head) = heap.free.get(class).copied() else { return core::ptr::null_mut() };
        if !head.is_null() {
            // SAFETY: a free block starts with the link to the next one.
            let next = unsafe { head.cast::<*mut u8>().read() };
            if let Some(place) = heap.free.get_mut(class) {
                *place = next;
            }
            return head;
        }
        let gap = (heap.chunk as usize).wrapping_neg() & (bytes - 1);
        if heap.left < bytes + gap {
            let rw = sys::PROT_READ | sys::PROT_WRITE;
            let Some(chunk) = sys::map_anonymous(CHUNK_BYTES as u64, rw) else {
                return core::ptr::null_mut();
            };
            // The decoder's tables fill three of them as soon as anything is decoded.
            // SAFETY: it is new.
            unsafe { sys::populate(chunk as u64, CHUNK_BYTES as u64) };
            (heap.chunk, heap.left) = (chunk, CHUNK_BYTES);
        }
        let gap = (heap.chunk as usize).wrapping_neg() & (bytes - 1);
        let block = heap.chunk.wrapping_add(gap);
        heap.chunk = block.wrapping_add(bytes);
        heap.left -= bytes + gap;
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = class(layout);
        let bytes = 1usize << (class as u32 + SMALLEST_LOG2);
        if class >= CLASSES || bytes > CHUNK_BYTES / 4 {
            // SAFETY: such blocks are mappings of their own.
            unsafe { sys::munmap(block as u64, (bytes as u64).next_multiple_of(4096)) };
            return;
        }
        let mut heap = HEAP.lock();
        if let Some(place) = heap.free.get_mut(class) {
            // SAFETY: the block is ours again, and at least a pointer long.
            unsafe { block.cast::<*mut u8>().write(*place) };
            *place = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: with that alignment the size is a layout's.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if class(wanted) == class(layout) {
            return block;
        }
        // SAFETY: the caller's promises, and a block of each size for what both have.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn blocks_are_aligned_apart_and_reused() {
        let allocator = Allocator;
        let mut blocks: Vec<(*mut u8, Layout)> = Vec::new();
        for round in 0..3 {
            for (size, align) in [(1, 1), (32, 8), (33, 16), (1000, 64), (100_000, 4096), (300_000, 8)] {
                let layout = Layout::from_size_align(size + round, align).unwrap();
                // SAFETY: the layout is not empty.
                let block = unsafe { allocator.alloc(layout) };
                assert!(!block.is_null() && (block as usize).is_multiple_of(align));
                // SAFETY: the block has that size.
                unsafe { block.write_bytes(round as u8, layout.size()) };
                assert!(blocks.iter().all(|(other, l)| {
                    *other as usize + l.size() <= block as usize
                        || block as usize + layout.size() <= *other as usize
                }));
                blocks.push((block, layout));
            }
        }
        let (first, layout) = blocks[0];
        // SAFETY: allocated above with this layout, and not used again.
        unsafe { allocator.dealloc(first, layout) };
        // SAFETY: the layout is not empty.
        assert_eq!(unsafe { allocator.alloc(layout) }, first);
    }
}
