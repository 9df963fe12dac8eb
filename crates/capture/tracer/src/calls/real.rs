//! The functions of the C library that ours replace, looked up through the loader at their first use.

use core::arch::asm;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use tracee::sys;

use crate::calls::entry_points::{NOTE_COUNT, NOTES};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

/// One function, and its address once it is known.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address.
    pub(crate) fn address(&self) -> usize {
        match self.address.compare_exchange(0, ASKED, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {}
            // The loader itself calls it to answer, or another thread is as early.
            Err(ASKED) if self.name == c"calloc" && own_calloc() != 0 => return own_calloc(),
            Err(ASKED) => {}
            Err(known) => return known,
        }
        let found = find(self.name);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// In the place of an address while the loader is asked for it.
const ASKED: usize = 1;

/// The C library's calloc under the name that no allocator has, or zero. Before glibc 2.34 dlsym keeps its message in memory that it
/// asks calloc for, the first time that a thread calls it.
fn own_calloc() -> usize {
    let address: usize;
    // SAFETY: reads a word of the table of addresses, which is zero where no library has the name.
    unsafe {
        asm!(
            ".weak __libc_calloc",
            "mov {}, qword ptr [rip + __libc_calloc@GOTPCREL]",
            out(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
    address
}

/// The function of that name that the program calls, or zero.
pub(crate) fn first(name: &CStr) -> usize {
    // SAFETY: a terminated name; null asks in the order of the program's own calls.
    unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) as usize }
}

/// The program and the libraries that it was started with.
pub(crate) struct LoadedProgram {
    all: *mut c_void,
    library: *mut c_void,
}

/// Below are executables at a fixed place, where the address of a function of a library may be that of a stub of their own.
const FIXED_END: usize = 1 << 32;

impl LoadedProgram {
    /// Asks the loader.
    pub(crate) fn open() -> Self {
        // SAFETY: no name: the program itself, which is loaded.
        let all = unsafe { libc::dlopen(core::ptr::null(), libc::RTLD_NOW) };
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: a terminated name; nothing is loaded.
        let library = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), flags) };
        Self { all, library }
    }

    /// Their first function of that name, or zero. Asked from here the loader would find ours first, wherever we stand.
    pub(crate) fn function(&self, name: &CStr) -> usize {
        // SAFETY: a terminated name, and the loader's own handles.
        let [first, own] =
            [self.all, self.library].map(|handle| unsafe { dlsym(handle, name.as_ptr()) as usize });
        if first < FIXED_END && !self.library.is_null() { own } else { first }
    }

    /// Takes back the loader's message about the last name that it did not find.
    pub(crate) fn forget_error(&self) {
        // SAFETY: the message is not looked at.
        unsafe { libc::dlerror() };
    }
}

/// The function of that name that ours takes the place of, or zero.
pub(crate) fn look_up(name: &CStr) -> usize {
    // SAFETY: a terminated name.
    unsafe { dlsym(RTLD_NEXT, name.as_ptr()) as usize }
}

/// The function of that name that ours takes the place of. A program that calls it has it, so a missing one is the end.
fn find(name: &CStr) -> usize {
    // The loader's lock is not held by a handler, which never comes here.
    let found = look_up(name);
    if found == 0 {
        sys::complain(b"memtap: the C library has no function named ");
        sys::complain(name.to_bytes());
        sys::complain(b"; the program can't go on\n");
        sys::exit_group(127);
    }
    found
}

/// Addresses for the entry points that only leave a note; read by assembly. Written with the loader's answer.
#[unsafe(no_mangle)]
static memtap_real: [AtomicUsize; NOTE_COUNT] = [const { AtomicUsize::new(0) }; NOTE_COUNT];

/// Called by assembly for the first call of a noted function.
#[unsafe(no_mangle)]
extern "C" fn memtap_resolve(index: usize) -> usize {
    let (Some((name, _)), Some(place)) = (NOTES.get(index), memtap_real.get(index)) else {
        sys::exit_group(127)
    };
    let found = find(name);
    place.store(found, Ordering::Relaxed);
    found
}

/// Declares the real function that a wrapper calls, and a way to call it.
macro_rules! real {
    ($vis:vis fn $name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)? = $symbol:literal) => {
        #[inline]
        $vis unsafe fn $name($($arg: $kind),*) $(-> $result)? {
            static REAL: $crate::calls::real::Real = $crate::calls::real::Real::new($symbol);
            // SAFETY: the loader's function of that name has this signature; the caller vouches for the arguments.
            unsafe {
                let function: unsafe extern "C" fn($($kind),*) $(-> $result)? = core::mem::transmute(REAL.address());
                function($($arg),*)
            }
        }
    };
}

pub(crate) use real;
