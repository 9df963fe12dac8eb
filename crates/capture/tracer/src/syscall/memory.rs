//! System calls that change the address space.

use memref::{AllocationFunction, AllocationKind, GapReason, RegionChange, RegionKind};
use tracee::sys;
use tracee::text::Text;

use crate::emit::recorder;
use crate::memory::pages::{self, PAGE_BYTES, PAGE_VIEWED, TOP};
use crate::memory::ranges::{RANGES, Range};
use crate::protect::view_copy;
use crate::protect::views::{self, Content};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;
use crate::syscall::paths;
use crate::translate::code_changes::{self, MappingChange};

impl SystemCall {
    pub(crate) unsafe fn mmap(&self, thread: &mut TracedThread) -> isize {
        let [addr, len, prot, flags, fd, offset] = self.args;
        let (prot, flags) = (prot as i32, flags as i32);
        let bytes = pages::whole_pages(len as u64);
        if flags & sys::MAP_FIXED != 0 && pages::is_page_start(addr as u64) && len != 0 {
            views::drop_views(addr as u64, (addr as u64).saturating_add(bytes));
        }
        // SAFETY: the program's own call.
        let result = unsafe { sys::syscall(libc::SYS_mmap as usize, self.args) };
        if sys::failed(result) {
            return result;
        }
        let start = result as u64;
        let anonymous = flags & sys::MAP_ANONYMOUS != 0;
        let is_shared = flags & (sys::MAP_SHARED | sys::MAP_PRIVATE) != sys::MAP_PRIVATE;
        let file = if anonymous { -1 } else { fd as i32 };
        code_changes::on_mapping(MappingChange::Mapped {
            start,
            len: bytes,
            prot,
            shared: is_shared,
            fd: file,
            offset: offset as u64,
        });
        let of_loader = flags & libc::MAP_DENYWRITE != 0;
        let writable = prot & sys::PROT_WRITE != 0;
        let after_data = pages::page(start.wrapping_sub(1)) & PAGE_VIEWED != 0
            && RANGES.lock().find(start.wrapping_sub(1)).is_some_and(|range| range.kind == RegionKind::Data);
        let kind = if prot & sys::PROT_EXEC != 0 {
            RegionKind::Text
        } else if flags & (libc::MAP_STACK | libc::MAP_GROWSDOWN) != 0 {
            RegionKind::Stack
        } else if anonymous && flags & sys::MAP_FIXED != 0 && after_data {
            RegionKind::Bss
        } else if anonymous {
            RegionKind::Anonymous
        } else if of_loader && writable {
            RegionKind::Data
        } else if of_loader {
            RegionKind::Rodata
        } else {
            RegionKind::File
        };
        let traced = matches!(kind, RegionKind::Bss | RegionKind::Anonymous | RegionKind::Data);
        let range = Range {
            start,
            end: start + bytes,
            // Other bits mean nothing to mmap; mprotect refuses them.
            prot: prot & (sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC),
            kind,
            traced,
            shared: flags & sys::MAP_SHARED == sys::MAP_SHARED,
        };
        let mut name = Text::<1024>::new();
        if !anonymous {
            paths::path_of_descriptor(fd as i32, &mut name);
        }
        views::follow(thread, range, kind == RegionKind::Data, offset as u64, name.as_bytes());
        if !of_loader && kind != RegionKind::Stack && kind != RegionKind::Bss {
            let order = recorder::next_order();
            self.allocation(
                thread,
                order,
                AllocationKind::Mmap,
                AllocationFunction::Mmap,
                start,
                len as u64,
                0,
                0,
            );
        }
        result
    }

    pub(crate) unsafe fn munmap(&self, thread: &mut TracedThread) -> isize {
        let [addr, len, ..] = self.args.map(|arg| arg as u64);
        let bytes = pages::whole_pages(len);
        // Drawn before: as soon as the memory is gone, another thread may get the same addresses.
        let (order, region_order) = (recorder::next_order(), recorder::next_order());
        if pages::is_page_start(addr) && len != 0 {
            views::drop_views(addr, addr.saturating_add(bytes));
            code_changes::on_mapping(MappingChange::Unmapped { start: addr, len: bytes });
        }
        // SAFETY: the program's own call.
        let result = unsafe { sys::syscall(libc::SYS_munmap as usize, self.args) };
        if !sys::failed(result) {
            self.allocation(
                thread,
                order,
                AllocationKind::Munmap,
                AllocationFunction::Munmap,
                addr,
                len,
                0,
                0,
            );
            let range = Range {
                start: addr,
                end: addr + bytes,
                prot: 0,
                kind: RegionKind::Anonymous,
                traced: false,
                shared: false,
            };
            views::tell_as_of(region_order, thread, RegionChange::Unmap, &range, 0, b"");
        }
        result
    }

    /// mprotect or pkey_mprotect, which was made.
    pub(crate) fn protected(&self, result: isize) -> isize {
        let [start, len, prot, ..] = self.args.map(|arg| arg as u64);
        if !sys::failed(result) {
            code_changes::on_mapping(MappingChange::Protected { start, len, prot: prot as i32 });
        }
        result
    }

    pub(crate) unsafe fn mremap(&self, thread: &mut TracedThread) -> isize {
        let [old, old_len, new_len, ..] = self.args.map(|arg| arg as u64);
        code_changes::on_mapping(MappingChange::Moving { start: old, len: old_len });
        let range = RANGES.lock().find(old);
        match range.filter(|_| pages::whole_pages(new_len) != 0 && pages::is_page_start(old)) {
            // SAFETY: the program's own call.
            Some(range) => unsafe { self.mremap_of_views(thread, range) },
            // SAFETY: the program's own call.
            None => unsafe { self.mremap_of_others(thread) },
        }
    }

    /// mremap of memory that we leave alone, or that the kernel refuses.
    unsafe fn mremap_of_others(&self, thread: &mut TracedThread) -> isize {
        let [old, old_len, new_len, flags, new, _] = self.args.map(|arg| arg as u64);
        let (old_bytes, new_bytes) = (pages::whole_pages(old_len), pages::whole_pages(new_len));
        let flags = flags as i32;
        if flags & sys::MREMAP_FIXED != 0 {
            views::drop_views(new, new.saturating_add(new_bytes));
        }
        // SAFETY: the program's own call.
        let result = unsafe { sys::syscall(libc::SYS_mremap as usize, self.args) };
        if sys::failed(result) {
            return result;
        }
        if new_bytes < old_bytes {
            // What is given up may reach into other memory.
            views::drop_views(old + new_bytes, old.saturating_add(old_bytes));
        }
        let keeps = flags & libc::MREMAP_DONTUNMAP != 0;
        code_changes::on_mapping(MappingChange::Moved { old, old_len, new: result as u64, new_len, keeps });
        let order = recorder::next_order();
        let (kind, function) = (AllocationKind::Mremap, AllocationFunction::Mremap);
        self.allocation(thread, order, kind, function, result as u64, new_len, old, old_len);
        result
    }

    /// mremap of viewed memory: the kernel can't move or grow both views as one, so the bytes are copied.
    unsafe fn mremap_of_views(&self, thread: &mut TracedThread, range: Range) -> isize {
        let [old, old_len, new_len, flags, new, _] = self.args.map(|arg| arg as u64);
        let flags = flags as i32;
        let (mut old_bytes, new_bytes) = (pages::whole_pages(old_len), pages::whole_pages(new_len));
        let fixed = flags & sys::MREMAP_FIXED != 0;
        let overlaps = new < old.saturating_add(old_bytes) && old < new.saturating_add(new_bytes);
        if fixed && (flags & sys::MREMAP_MAYMOVE == 0 || !pages::is_page_start(new) || overlaps) {
            return -(sys::EINVAL as isize);
        }
        let stays = !fixed && new_bytes <= old_bytes;
        let old_end = old.saturating_add(old_bytes);
        if !stays && !views::is_one_mapping(old, old_end.min(old.saturating_add(new_bytes))) {
            return -(sys::EFAULT as isize);
        }
        if new_bytes < old_bytes {
            // The end is given up, whatever is there.
            if old_end > TOP {
                return -(sys::EINVAL as isize);
            }
            views::drop_views(old + new_bytes, old_end);
            // SAFETY: the program's own wish.
            unsafe { sys::munmap(old + new_bytes, old_bytes - new_bytes) };
            old_bytes = new_bytes;
        }
        let anonymous = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        let order;
        let start;
        if stays {
            start = old;
            order = recorder::next_order();
        } else {
            let grown = if fixed {
                -(sys::ENOMEM as isize)
            } else {
                let flags = anonymous | sys::MAP_FIXED_NOREPLACE;
                // SAFETY: NOREPLACE replaces nothing.
                unsafe { sys::mmap(old + old_bytes, new_bytes - old_bytes, range.prot, flags, -1, 0) }
            };
            if grown as u64 == old + old_bytes {
                start = old;
                order = recorder::next_order();
                let more = Range { start: old + old_bytes, end: old + new_bytes, ..range };
                views::adopt(more, Content::Zeros);
            } else if flags & sys::MREMAP_MAYMOVE == 0 {
                return -(sys::ENOMEM as isize);
            } else {
                if fixed {
                    views::drop_views(new, new.saturating_add(new_bytes));
                }
                let place = if fixed { anonymous | sys::MAP_FIXED } else { anonymous };
                let rw = sys::PROT_READ | sys::PROT_WRITE;
                // SAFETY: a new place, or the one that the program wants replaced.
                let moved = unsafe { sys::mmap(new, new_bytes, rw, place, -1, 0) };
                if sys::failed(moved) {
                    return moved;
                }
                start = moved as u64;
                order = recorder::next_order();
                let target = Range { start, end: start + new_bytes, ..range };
                if !views::adopt(target, Content::Of { start: old, end: old + old_bytes }) {
                    // SAFETY: just mapped, and not shorter.
                    if !unsafe { view_copy::copy_views(old, old + old_bytes, start) } {
                        // SAFETY: nobody knows of it.
                        unsafe { sys::munmap(start, new_bytes) };
                        return -(sys::ENOMEM as isize);
                    }
                    views::apply(&target, false);
                    views::tell(thread, RegionChange::Map, &Range { traced: false, ..target }, 0, b"");
                }
                if flags & libc::MREMAP_DONTUNMAP == 0 {
                    views::drop_views(old, old + old_bytes);
                    // SAFETY: what the program gives up.
                    unsafe { sys::munmap(old, old_bytes) };
                }
            }
        }
        let (kind, function) = (AllocationKind::Mremap, AllocationFunction::Mremap);
        self.allocation(thread, order, kind, function, start, new_len, old, old_len);
        if start != old {
            let gone = Range { start: old, end: old + old_bytes, ..range };
            views::tell(thread, RegionChange::Unmap, &gone, 0, b"");
        }
        views::tell(thread, RegionChange::Map, &Range { start, end: start + new_bytes, ..range }, 0, b"");
        start as isize
    }

    pub(crate) unsafe fn brk(&self, thread: &mut TracedThread) -> isize {
        // SAFETY: asking for the present end changes nothing.
        let before = unsafe { sys::syscall(libc::SYS_brk as usize, [0; 6]) } as u64;
        let wanted = self.args[0] as u64;
        let old_end = before.next_multiple_of(PAGE_BYTES);
        if wanted != 0 && wanted < before {
            views::drop_views(wanted.next_multiple_of(PAGE_BYTES), old_end);
        }
        // SAFETY: the program's own call.
        let after = unsafe { sys::syscall(libc::SYS_brk as usize, self.args) } as u64;
        let new_end = after.next_multiple_of(PAGE_BYTES);
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let range = Range {
            start: old_end.min(new_end),
            end: old_end.max(new_end),
            prot: rw,
            kind: RegionKind::Heap,
            traced: true,
            shared: false,
        };
        if new_end > old_end {
            views::follow(thread, range, false, 0, b"[heap]");
        } else if new_end < old_end {
            views::tell(thread, RegionChange::Unmap, &range, 0, b"[heap]");
        }
        if after != before {
            let order = recorder::next_order();
            let (kind, function) = (AllocationKind::Brk, AllocationFunction::Brk);
            self.allocation(thread, order, kind, function, after, after.abs_diff(before), before, 0);
        }
        after as isize
    }

    pub(crate) unsafe fn shmat(&self, thread: &mut TracedThread) -> isize {
        // SAFETY: the program's own call. System V memory is shared with others that we may not see: it stays open.
        let result = unsafe { sys::syscall(libc::SYS_shmat as usize, self.args) };
        if sys::failed(result) {
            return result;
        }
        code_changes::on_mapping(MappingChange::Attached { start: result as u64 });
        if !PROCESS.settings().translate {
            thread.emit_gap(GapReason::UntracedMapping, 1, result as u64, b"shmat");
        }
        result
    }
}
