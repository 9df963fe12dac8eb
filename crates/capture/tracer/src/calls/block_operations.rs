//! Block operations: memcpy, strlen and their relatives (MadT, Table I). Each call is one event. The
//! work is done on the open view, with the C library's own fast functions where the length is known.
//!
//! A range that is closed on one side and open on the other, or that the program may not write, is passed to
//! the real function as it is: the pages fault one access at a time, and the fault handler does the rest.

use core::ffi::{c_char, c_int, c_void};

use buffers::Record;
use memref::{BlockFunction, BlockKind, VirtAddr};

use crate::calls::allocations;
use crate::calls::real::real;
use crate::events::call_site::call_site;
use crate::memory::pages::{self, PAGE_READ, PAGE_VIEWED, PAGE_WRITE};
use crate::signal::busy;
use crate::state::process::PROCESS;
use crate::state::touched::Touched;
use crate::watch::hits::{self, BlockBytes, Origin};

real!(fn real_memmove(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void = c"memmove");

real!(fn real_memset(dst: *mut c_void, byte: c_int, len: usize) -> *mut c_void = c"memset");

real!(fn real_memcmp(a: *const c_void, b: *const c_void, len: usize) -> c_int = c"memcmp");

real!(fn real_memchr(a: *const c_void, byte: c_int, len: usize) -> *mut c_void = c"memchr");

real!(fn real_tolower(byte: c_int) -> c_int = c"tolower");

/// Where `len` bytes at `addr` can be used now for that purpose, or `None` where they can't as one.
fn open(addr: u64, len: usize, write: bool) -> Option<u64> {
    if len == 0 {
        return Some(addr);
    }
    let last = addr.checked_add(len as u64 - 1)?;
    let mut number = addr >> 12;
    let first = pages::page(addr);
    let viewed = first & PAGE_VIEWED;
    let right = if write { PAGE_WRITE } else { PAGE_READ };
    while number <= last >> 12 {
        let flags = pages::page(number << 12);
        if flags & PAGE_VIEWED != viewed || (viewed != 0 && flags & right == 0) {
            return None;
        }
        number += 1;
    }
    Some(if viewed != 0 { pages::view(addr) } else { addr })
}

/// Tells of an operation that wrote nothing.
fn tell(kind: BlockKind, function: BlockFunction, dst: u64, src: u64, len: usize, return_to: u64) {
    tell_written(&mut Touched::new(), kind, function, BlockBytes { dst, src, len }, return_to);
}

/// Tells of an operation. `touched` is what of its destination is watched, noted before.
fn tell_written(
    touched: &mut Touched,
    kind: BlockKind,
    function: BlockFunction,
    bytes: BlockBytes,
    return_to: u64,
) {
    let BlockBytes { dst, src, len } = bytes;
    if len == 0 || !allocations::is_event() {
        return;
    }
    busy::as_thread(|thread| {
        if PROCESS.is_watched() {
            let ip = call_site(return_to);
            hits::block(thread, touched, ip, kind, bytes, &Origin::Call);
            return;
        }
        thread.emit(&Record::Block {
            ip: VirtAddr(call_site(return_to)),
            kind,
            function,
            dst: VirtAddr(dst),
            src: VirtAddr(src),
            len: len as u64,
        });
    });
}

/// Moves bytes, whatever is closed, and notes what of them is watched.
unsafe fn move_bytes(touched: &mut Touched, dst: u64, src: u64, len: usize) {
    touched.note_write(dst, len);
    match (open(dst, len, true), open(src, len, false)) {
        // An overlap of the program's ranges is one of the opened ranges too: both are viewed, or neither is.
        (Some(to), Some(from)) => {
            // SAFETY: the program's own ranges.
            unsafe { real_memmove(to as *mut c_void, from as *const c_void, len) };
        }
        _ => {
            // SAFETY: the program's own ranges.
            allocations::silently(|| unsafe { real_memmove(dst as *mut c_void, src as *const c_void, len) });
        }
    }
}

/// Fills bytes, whatever is closed, and notes what of them is watched.
unsafe fn fill_bytes(touched: &mut Touched, dst: u64, byte: c_int, len: usize) {
    touched.note_write(dst, len);
    match open(dst, len, true) {
        // SAFETY: the program's own range.
        Some(to) => unsafe { real_memset(to as *mut c_void, byte, len) },
        // SAFETY: the program's own ranges.
        None => allocations::silently(|| unsafe { real_memset(dst as *mut c_void, byte, len) }),
    };
}

/// A byte of the program's memory.
#[inline]
unsafe fn byte_at(addr: u64) -> u8 {
    // SAFETY: the caller vouches for the program's memory. Volatile: no library call may come of a loop of these.
    unsafe { (pages::open_address(addr) as *const u8).read_volatile() }
}

#[inline]
unsafe fn wide_at(addr: u64) -> u32 {
    // SAFETY: the caller vouches for the program's memory.
    unsafe { (pages::open_address(addr) as *const u32).read_unaligned() }
}

/// Bytes before the first `byte`, at most `limit`, a page at a time.
unsafe fn span(addr: u64, byte: u8, limit: usize) -> usize {
    let mut done = 0;
    while done < limit {
        let at = addr.wrapping_add(done as u64);
        let part = (pages::rest_of_page(at) as usize).min(limit - done);
        let from = pages::open_address(at);
        // SAFETY: the program's own memory: on this page it reads at least up to what it looks for.
        let found = unsafe { real_memchr(from as *const c_void, byte.into(), part) } as u64;
        if found != 0 {
            return done + (found - from) as usize;
        }
        done += part;
    }
    limit
}

unsafe fn string_len(addr: u64) -> usize {
    // SAFETY: the program's string.
    unsafe { span(addr, 0, usize::MAX >> 1) }
}

/// Elements that are equal and not the end, at most `limit`.
unsafe fn common<T: PartialEq>(limit: usize, get: impl Fn(usize) -> (T, T, bool)) -> usize {
    let mut index = 0;
    while index < limit {
        let (a, b, end) = get(index);
        if a != b || end {
            return index;
        }
        index += 1;
    }
    limit
}

macro_rules! wrapper {
    ($symbol:ident($($arg:ident: $kind:ty),*; $($unused:ident)*; $return_to:ident) $(-> $result:ty)? $body:block) => {
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($arg: $kind,)* $($unused: usize,)* $return_to: u64) $(-> $result)? {
            // SAFETY: the program's own call: it vouches for its pointers.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    };
}

macro_rules! copies {
    ($($symbol:ident, $function:ident, $unit:literal, |$dst:ident, $len:ident| $result:expr;)*) => {
        $(wrapper!($symbol($dst: u64, src: u64, $len: usize; _d _e; return_to) -> u64 {
            let bytes = $len.wrapping_mul($unit);
            let mut touched = Touched::new();
    move_bytes(&mut touched, $dst, src, bytes);
            tell_written(&mut touched, BlockKind::Copy, BlockFunction::$function, BlockBytes { dst: $dst, src, len: bytes }, return_to);
            $result
        });)*
    };
}

copies! {
    memtap_memcpy, Memcpy, 1, |dst, len| dst;
    memtap_memmove, Memmove, 1, |dst, len| dst;
    memtap_mempcpy, Mempcpy, 1, |dst, len| dst.wrapping_add(len as u64);
    memtap_wmemcpy, Wmemcpy, 4, |dst, len| dst;
    memtap_wmemmove, Wmemmove, 4, |dst, len| dst;
    memtap_wmempcpy, Wmempcpy, 4, |dst, len| dst.wrapping_add(len as u64 * 4);
}

wrapper!(memtap_bcopy(src: u64, dst: u64, len: usize; _d _e; return_to) {
    let mut touched = Touched::new();
    move_bytes(&mut touched, dst, src, len);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Bcopy, BlockBytes { dst, src, len }, return_to);
});

wrapper!(memtap_memccpy(dst: u64, src: u64, byte: c_int, limit: usize; _e; return_to) -> u64 {
    let before = span(src, byte as u8, limit);
    let found = before < limit;
    let len = if found { before + 1 } else { limit };
    let mut touched = Touched::new();
    move_bytes(&mut touched, dst, src, len);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Memccpy, BlockBytes { dst, src, len }, return_to);
    if found { dst.wrapping_add(len as u64) } else { 0 }
});

wrapper!(memtap_memset(dst: u64, byte: c_int, len: usize; _d _e; return_to) -> u64 {
    let mut touched = Touched::new();
    fill_bytes(&mut touched, dst, byte, len);
    tell_written(&mut touched, BlockKind::Fill, BlockFunction::Memset, BlockBytes { dst, src: 0, len }, return_to);
    dst
});

wrapper!(memtap_bzero(dst: u64, len: usize; _c _d _e; return_to) {
    let mut touched = Touched::new();
    fill_bytes(&mut touched, dst, 0, len);
    tell_written(&mut touched, BlockKind::Fill, BlockFunction::Bzero, BlockBytes { dst, src: 0, len }, return_to);
});

wrapper!(memtap_explicit_bzero(dst: u64, len: usize; _c _d _e; return_to) {
    let mut touched = Touched::new();
    fill_bytes(&mut touched, dst, 0, len);
    tell_written(&mut touched, BlockKind::Fill, BlockFunction::Bzero, BlockBytes { dst, src: 0, len }, return_to);
});

wrapper!(memtap_wmemset(dst: u64, value: u32, len: usize; _d _e; return_to) -> u64 {
    let mut touched = Touched::new();
    touched.note_write(dst, len.wrapping_mul(4));
    for index in 0..len as u64 {
        (pages::open_address(dst + index * 4) as *mut u32).write_volatile(value);
    }
    tell_written(&mut touched, BlockKind::Fill, BlockFunction::Wmemset, BlockBytes { dst, src: 0, len: len.wrapping_mul(4) }, return_to);
    dst
});

wrapper!(memtap_strcpy(dst: u64, src: u64; _c _d _e; return_to) -> u64 {
    let len = string_len(src) + 1;
    let mut touched = Touched::new();
    move_bytes(&mut touched, dst, src, len);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Strcpy, BlockBytes { dst, src, len }, return_to);
    dst
});

wrapper!(memtap_stpcpy(dst: u64, src: u64; _c _d _e; return_to) -> u64 {
    let len = string_len(src) + 1;
    let mut touched = Touched::new();
    move_bytes(&mut touched, dst, src, len);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Stpcpy, BlockBytes { dst, src, len }, return_to);
    dst.wrapping_add(len as u64 - 1)
});

/// strncpy and stpncpy: the rest is filled with zeros.
unsafe fn copy_padded(function: BlockFunction, dst: u64, src: u64, limit: usize, return_to: u64) -> usize {
    // SAFETY: the program's own call.
    unsafe {
        let len = span(src, 0, limit);
        let copied = (len + 1).min(limit);
        let mut touched = Touched::new();
        move_bytes(&mut touched, dst, src, copied);
        tell_written(
            &mut touched,
            BlockKind::Copy,
            function,
            BlockBytes { dst, src, len: copied },
            return_to,
        );
        if limit > copied {
            let rest = dst.wrapping_add(copied as u64);
            let mut touched = Touched::new();
            fill_bytes(&mut touched, rest, 0, limit - copied);
            tell_written(
                &mut touched,
                BlockKind::Fill,
                function,
                BlockBytes { dst: rest, src: 0, len: limit - copied },
                return_to,
            );
        }
        len
    }
}

wrapper!(memtap_strncpy(dst: u64, src: u64, limit: usize; _d _e; return_to) -> u64 {
    copy_padded(BlockFunction::Strncpy, dst, src, limit, return_to);
    dst
});

wrapper!(memtap_stpncpy(dst: u64, src: u64, limit: usize; _d _e; return_to) -> u64 {
    let len = copy_padded(BlockFunction::Stpncpy, dst, src, limit, return_to);
    dst.wrapping_add(len as u64)
});

/// strcat and strncat: reads the end of the destination, then copies.
unsafe fn append(function: BlockFunction, dst: u64, src: u64, limit: usize, return_to: u64) {
    // SAFETY: the program's own call.
    unsafe {
        let before = string_len(dst);
        let len = span(src, 0, limit);
        let end = dst.wrapping_add(before as u64);
        tell(BlockKind::Fetch, function, 0, dst, before + 1, return_to);
        let mut touched = Touched::new();
        touched.note_write(end, len + 1);
        move_bytes(&mut Touched::new(), end, src, len);
        (pages::open_address(end.wrapping_add(len as u64)) as *mut u8).write_volatile(0);
        tell_written(
            &mut touched,
            BlockKind::Copy,
            function,
            BlockBytes { dst: end, src, len: len + 1 },
            return_to,
        );
    }
}

wrapper!(memtap_strcat(dst: u64, src: u64; _c _d _e; return_to) -> u64 {
    append(BlockFunction::Strcat, dst, src, usize::MAX >> 1, return_to);
    dst
});

wrapper!(memtap_strncat(dst: u64, src: u64, limit: usize; _d _e; return_to) -> u64 {
    append(BlockFunction::Strncat, dst, src, limit, return_to);
    dst
});

wrapper!(memtap_strlen(text: u64; _b _c _d _e; return_to) -> usize {
    let len = string_len(text);
    tell(BlockKind::Fetch, BlockFunction::Strlen, 0, text, len + 1, return_to);
    len
});

wrapper!(memtap_strnlen(text: u64, limit: usize; _c _d _e; return_to) -> usize {
    let len = span(text, 0, limit);
    tell(BlockKind::Fetch, BlockFunction::Strnlen, 0, text, (len + 1).min(limit), return_to);
    len
});

/// Compares two strings of bytes, as far as they are equal after `fold`. The result's sign is that of the first
/// difference.
unsafe fn compare(
    function: BlockFunction,
    a: u64,
    b: u64,
    limit: usize,
    fold: impl Fn(u8) -> c_int,
    ends: bool,
    return_to: u64,
) -> c_int {
    // SAFETY: the program's own call: it compares up to the first difference or end.
    unsafe {
        let pair = |index: usize| {
            let (x, y) = (byte_at(a.wrapping_add(index as u64)), byte_at(b.wrapping_add(index as u64)));
            (fold(x), fold(y), ends && x == 0)
        };
        let equal = common(limit, pair);
        tell(BlockKind::Fetch, function, b, a, equal.saturating_add(1).min(limit), return_to);
        if equal == limit {
            return 0;
        }
        let (x, y, _) = pair(equal);
        x - y
    }
}

/// The case of a byte in the program's locale.
fn lower(byte: u8) -> c_int {
    if byte < 128 {
        return byte.to_ascii_lowercase().into();
    }
    // SAFETY: any byte is a valid argument. Its table is the C library's: not an access of the program's.
    allocations::silently(|| unsafe { real_tolower(byte.into()) })
}

wrapper!(memtap_strcmp(a: u64, b: u64; _c _d _e; return_to) -> c_int {
    compare(BlockFunction::Strcmp, a, b, usize::MAX, c_int::from, true, return_to)
});

wrapper!(memtap_strncmp(a: u64, b: u64, limit: usize; _d _e; return_to) -> c_int {
    compare(BlockFunction::Strncmp, a, b, limit, c_int::from, true, return_to)
});

wrapper!(memtap_strcasecmp(a: u64, b: u64; _c _d _e; return_to) -> c_int {
    compare(BlockFunction::Strcasecmp, a, b, usize::MAX, lower, true, return_to)
});

wrapper!(memtap_strncasecmp(a: u64, b: u64, limit: usize; _d _e; return_to) -> c_int {
    compare(BlockFunction::Strncasecmp, a, b, limit, lower, true, return_to)
});

/// memcmp and bcmp: the length is known, so equal memory is found fast.
unsafe fn compare_memory(function: BlockFunction, a: u64, b: u64, len: usize, return_to: u64) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        if let (Some(x), Some(y)) = (open(a, len, false), open(b, len, false))
            && real_memcmp(x as *const c_void, y as *const c_void, len) == 0
        {
            tell(BlockKind::Fetch, function, b, a, len, return_to);
            return 0;
        }
        compare(function, a, b, len, c_int::from, false, return_to)
    }
}

wrapper!(memtap_memcmp(a: u64, b: u64, len: usize; _d _e; return_to) -> c_int {
    compare_memory(BlockFunction::Memcmp, a, b, len, return_to)
});

wrapper!(memtap_bcmp(a: u64, b: u64, len: usize; _d _e; return_to) -> c_int {
    compare_memory(BlockFunction::Bcmp, a, b, len, return_to)
});

wrapper!(memtap_memchr(text: u64, byte: c_int, limit: usize; _d _e; return_to) -> u64 {
    let before = span(text, byte as u8, limit);
    tell(BlockKind::Fetch, BlockFunction::Memchr, 0, text, (before + 1).min(limit), return_to);
    if before < limit { text.wrapping_add(before as u64) } else { 0 }
});

wrapper!(memtap_rawmemchr(text: u64, byte: c_int; _c _d _e; return_to) -> u64 {
    let before = span(text, byte as u8, usize::MAX >> 1);
    tell(BlockKind::Fetch, BlockFunction::Rawmemchr, 0, text, before + 1, return_to);
    text.wrapping_add(before as u64)
});

wrapper!(memtap_memrchr(text: u64, byte: c_int, limit: usize; _d _e; return_to) -> u64 {
    let mut index = limit;
    let mut found = 0;
    while index > 0 {
        index -= 1;
        if byte_at(text.wrapping_add(index as u64)) == byte as u8 {
            found = text.wrapping_add(index as u64);
            break;
        }
    }
    tell(BlockKind::Fetch, BlockFunction::Memrchr, 0, text.wrapping_add(index as u64), limit - index, return_to);
    found
});

/// Bytes before `byte` or the end of the string.
unsafe fn span_in_string(text: u64, byte: u8) -> usize {
    let mut index = 0;
    loop {
        // SAFETY: the program's own string.
        let here = unsafe { byte_at(text.wrapping_add(index as u64)) };
        if here == byte || here == 0 {
            return index;
        }
        index += 1;
    }
}

wrapper!(memtap_strchr(text: u64, byte: c_int; _c _d _e; return_to) -> u64 {
    let before = span_in_string(text, byte as u8);
    tell(BlockKind::Fetch, BlockFunction::Strchr, 0, text, before + 1, return_to);
    let at = text.wrapping_add(before as u64);
    if byte_at(at) == byte as u8 { at } else { 0 }
});

wrapper!(memtap_strchrnul(text: u64, byte: c_int; _c _d _e; return_to) -> u64 {
    let before = span_in_string(text, byte as u8);
    tell(BlockKind::Fetch, BlockFunction::Strchrnul, 0, text, before + 1, return_to);
    text.wrapping_add(before as u64)
});

wrapper!(memtap_strrchr(text: u64, byte: c_int; _c _d _e; return_to) -> u64 {
    let len = string_len(text);
    tell(BlockKind::Fetch, BlockFunction::Strrchr, 0, text, len + 1, return_to);
    let mut index = len + 1;
    let mut found = 0;
    while index > 0 {
        index -= 1;
        if byte_at(text.wrapping_add(index as u64)) == byte as u8 {
            found = text.wrapping_add(index as u64);
            break;
        }
    }
    found
});

unsafe fn wide_len(text: u64, limit: usize) -> usize {
    let mut len = 0;
    // SAFETY: the program's own string.
    while len < limit && unsafe { wide_at(text.wrapping_add(len as u64 * 4)) } != 0 {
        len += 1;
    }
    len
}

wrapper!(memtap_wcslen(text: u64; _b _c _d _e; return_to) -> usize {
    let len = wide_len(text, usize::MAX);
    tell(BlockKind::Fetch, BlockFunction::Wcslen, 0, text, (len + 1) * 4, return_to);
    len
});

wrapper!(memtap_wcscpy(dst: u64, src: u64; _c _d _e; return_to) -> u64 {
    let bytes = (wide_len(src, usize::MAX) + 1) * 4;
    let mut touched = Touched::new();
    move_bytes(&mut touched, dst, src, bytes);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Wcscpy, BlockBytes { dst, src, len: bytes }, return_to);
    dst
});

wrapper!(memtap_wcsncpy(dst: u64, src: u64, limit: usize; _d _e; return_to) -> u64 {
    let len = wide_len(src, limit);
    let copied = (len + 1).min(limit);
    let mut touched = Touched::new();
    move_bytes(&mut touched, dst, src, copied * 4);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Wcsncpy, BlockBytes { dst, src, len: copied * 4 }, return_to);
    if limit > copied {
        let rest = dst.wrapping_add(copied as u64 * 4);
        let mut touched = Touched::new();
    fill_bytes(&mut touched, rest, 0, (limit - copied) * 4);
        tell_written(&mut touched, BlockKind::Fill, BlockFunction::Wcsncpy, BlockBytes { dst: rest, src: 0, len: (limit - copied) * 4 }, return_to);
    }
    dst
});

wrapper!(memtap_wcscat(dst: u64, src: u64; _c _d _e; return_to) -> u64 {
    let before = wide_len(dst, usize::MAX);
    let bytes = (wide_len(src, usize::MAX) + 1) * 4;
    let end = dst.wrapping_add(before as u64 * 4);
    tell(BlockKind::Fetch, BlockFunction::Wcscat, 0, dst, (before + 1) * 4, return_to);
    let mut touched = Touched::new();
    move_bytes(&mut touched, end, src, bytes);
    tell_written(&mut touched, BlockKind::Copy, BlockFunction::Wcscat, BlockBytes { dst: end, src, len: bytes }, return_to);
    dst
});

/// Compares wide strings; wchar_t is signed here.
unsafe fn compare_wide(
    function: BlockFunction,
    a: u64,
    b: u64,
    limit: usize,
    ends: bool,
    return_to: u64,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        let pair = |index: usize| {
            let (x, y) =
                (wide_at(a.wrapping_add(index as u64 * 4)), wide_at(b.wrapping_add(index as u64 * 4)));
            (x as i32, y as i32, ends && x == 0)
        };
        let equal = common(limit, pair);
        tell(BlockKind::Fetch, function, b, a, equal.saturating_add(1).min(limit).wrapping_mul(4), return_to);
        if equal == limit {
            return 0;
        }
        let (x, y, _) = pair(equal);
        x.cmp(&y) as c_int
    }
}

wrapper!(memtap_wcscmp(a: u64, b: u64; _c _d _e; return_to) -> c_int {
    compare_wide(BlockFunction::Wcscmp, a, b, usize::MAX, true, return_to)
});

wrapper!(memtap_wcsncmp(a: u64, b: u64, limit: usize; _d _e; return_to) -> c_int {
    compare_wide(BlockFunction::Wcsncmp, a, b, limit, true, return_to)
});

wrapper!(memtap_wmemcmp(a: u64, b: u64, limit: usize; _d _e; return_to) -> c_int {
    compare_wide(BlockFunction::Wmemcmp, a, b, limit, false, return_to)
});

wrapper!(memtap_wmemchr(text: u64, value: u32, limit: usize; _d _e; return_to) -> u64 {
    let mut before = 0;
    while before < limit && wide_at(text.wrapping_add(before as u64 * 4)) != value {
        before += 1;
    }
    tell(BlockKind::Fetch, BlockFunction::Wmemchr, 0, text, (before + 1).min(limit).wrapping_mul(4), return_to);
    if before < limit { text.wrapping_add(before as u64 * 4) } else { 0 }
});

// The forms that a fortified build calls: the last argument is the size of the destination. What would overflow goes to
// the C library, which ends the program with its own message.
real!(fn overflow() = c"__chk_fail");

macro_rules! checked {
    ($($symbol:ident($($arg:ident),*; $($unused:ident)*; $needed:expr) = $plain:ident($($filler:literal)*);)*) => {
        $(wrapper!($symbol($($arg: u64,)* size: u64; $($unused)*; return_to) -> u64 {
            if $needed > size {
                overflow();
            }
            checked_call!($plain, ($($arg),*), ($($filler)*), return_to)
        });)*
    };
}

macro_rules! checked_call {
    ($plain:ident, ($($arg:ident),*), ($($filler:literal)*), $return_to:ident) => {
        $plain($($arg as _,)* $($filler,)* $return_to) as u64
    };
}

checked! {
    memtap___memcpy_chk(dst, src, len; _e; len) = memtap_memcpy(0 0);
    memtap___memmove_chk(dst, src, len; _e; len) = memtap_memmove(0 0);
    memtap___mempcpy_chk(dst, src, len; _e; len) = memtap_mempcpy(0 0);
    memtap___memset_chk(dst, byte, len; _e; len) = memtap_memset(0 0);
    memtap___strcpy_chk(dst, src; _d _e; string_len(src) as u64 + 1) = memtap_strcpy(0 0 0);
    memtap___stpcpy_chk(dst, src; _d _e; string_len(src) as u64 + 1) = memtap_stpcpy(0 0 0);
    memtap___strncpy_chk(dst, src, len; _e; len) = memtap_strncpy(0 0);
    memtap___strcat_chk(dst, src; _d _e; (string_len(dst) + string_len(src)) as u64 + 1) = memtap_strcat(0 0 0);
    memtap___strncat_chk(dst, src, len; _e; (string_len(dst) + span(src, 0, len as usize)) as u64 + 1) = memtap_strncat(0 0);
}

// fread and fwrite: the C library moves the bytes through its own buffer; the event is what the program asked for.
real!(fn real_fread(to: *mut c_void, size: usize, count: usize, file: *mut c_char) -> usize = c"fread");

real!(fn real_fwrite(from: *const c_void, size: usize, count: usize, file: *mut c_char) -> usize = c"fwrite");

real!(fn real_fread_unlocked(to: *mut c_void, size: usize, count: usize, file: *mut c_char) -> usize = c"fread_unlocked");

real!(fn real_fwrite_unlocked(from: *const c_void, size: usize, count: usize, file: *mut c_char) -> usize = c"fwrite_unlocked");

macro_rules! stdio {
    ($($symbol:ident, $real:ident, $kind:ident, $function:ident, |$addr:ident| ($dst:expr, $src:expr);)*) => {
        $(wrapper!($symbol($addr: u64, size: usize, count: usize, file: *mut c_char; _e; return_to) -> usize {
            let mut touched = Touched::new();
            touched.note_write($dst, size.saturating_mul(count));
            let moved = allocations::silently(|| $real($addr as *mut c_void, size, count, file));
            let bytes = moved.wrapping_mul(size);
            tell_written(&mut touched, BlockKind::$kind, BlockFunction::$function, BlockBytes { dst: $dst, src: $src, len: bytes }, return_to);
            moved
        });)*
    };
}

stdio! {
    memtap_fread, real_fread, Fill, Fread, |addr| (addr, 0);
    memtap_fread_unlocked, real_fread_unlocked, Fill, Fread, |addr| (addr, 0);
    memtap_fwrite, real_fwrite, Fetch, Fwrite, |addr| (0, addr);
    memtap_fwrite_unlocked, real_fwrite_unlocked, Fetch, Fwrite, |addr| (0, addr);
}
