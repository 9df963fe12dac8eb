//! Why a patch was refused. Each message names the address, the symbol that contains it if one is known, and the reason.
//!
//! An error means that nothing was written.

use std::fmt;

/// An address of executable code in this process. A number, not a pointer: it is only dereferenced where its
/// pages have been checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeAddr(pub usize);

impl CodeAddr {
    /// The address `delta_bytes` further on.
    #[must_use]
    pub fn plus(self, delta_bytes: usize) -> Self {
        Self(self.0.wrapping_add(delta_bytes))
    }

    /// How many bytes lie between this address and the next multiple of `unit_bytes` (at least one).
    #[must_use]
    pub fn bytes_to_boundary(self, unit_bytes: usize) -> usize {
        unit_bytes - self.0 % unit_bytes
    }

    /// `symbol+0xoffset` of the dynamic symbol that covers the address, or `?`.
    #[must_use]
    pub fn symbol(self) -> String {
        // SAFETY: an all-zero Dl_info (null pointers) is a valid value of the C struct.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr reads the loader's tables only; `info` outlives the call.
        let found = unsafe { libc::dladdr(self.0 as *const libc::c_void, &mut info) } != 0;
        if !found || info.dli_sname.is_null() {
            return "?".to_owned();
        }
        // SAFETY: dladdr returned success with a non-null name, a NUL-terminated string of a loaded object.
        let name = unsafe { std::ffi::CStr::from_ptr(info.dli_sname) };
        format!("{}+{:#x}", name.to_string_lossy(), self.0.wrapping_sub(info.dli_saddr as usize))
    }
}

impl fmt::Debug for CodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for CodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The reason in a [`PatchError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No mapping covers the whole site.
    NotMapped,
    /// The mapping is not executable.
    NotExecutable,
    /// The page can be made writable neither by `mprotect` nor through `/proc/self/mem`.
    NotWritable,
    /// A patch has 1 to 8 bytes.
    Length {
        /// The length asked for.
        len_bytes: usize,
    },
    /// The instruction at the site is shorter than the patch, or of another kind than the caller claims.
    TooShort,
    /// Another site covers some of the same bytes.
    Overlap {
        /// Where the other site begins.
        with: usize,
    },
    /// The address lies in the code that does the patching.
    InsidePatcher,
    /// Another thread is patching this site; it won, this call changed nothing.
    Busy,
    /// The first byte is an `int3` that this library did not write (a debugger's breakpoint).
    ForeignTrap,
    /// The site straddles a boundary and this kernel offers no way to separate the steps: `membarrier` SYNC_CORE is
    /// missing and no wait was set.
    NoSeparation,
    /// The target of the call lies further than two gigabytes away.
    OutOfReach {
        /// The target.
        target: usize,
    },
    /// The bytes at the site are not those of the encoding that the caller claims.
    UnexpectedCode,
    /// No room is left for the description of a site.
    TableFull,
    /// The site's code was unloaded.
    Gone,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMapped => write!(f, "no mapping covers the site"),
            Self::NotExecutable => write!(f, "the mapping is not executable"),
            Self::NotWritable => {
                write!(f, "the page can be written neither directly nor through /proc/self/mem")
            }
            Self::Length { len_bytes } => write!(f, "a patch has 1 to 8 bytes, not {len_bytes}"),
            Self::TooShort => write!(f, "the instruction at the site is shorter than the patch"),
            Self::Overlap { with } => write!(f, "it overlaps the live patch site at {with:#x}"),
            Self::InsidePatcher => write!(f, "the site lies in the code that does the patching"),
            Self::Busy => write!(f, "another thread is patching this site"),
            Self::ForeignTrap => write!(f, "a foreign int3 (a debugger's breakpoint?) stands at the site"),
            Self::NoSeparation => {
                write!(
                    f,
                    "the site straddles a boundary and the kernel lacks membarrier SYNC_CORE; set a wait"
                )
            }
            Self::OutOfReach { target } => write!(f, "the target {target:#x} is further away than 2 GiB"),
            Self::UnexpectedCode => {
                write!(f, "the bytes at the site are not those of the expected instruction")
            }
            Self::TableFull => write!(f, "no room for another patch site"),
            Self::Gone => write!(f, "the code of the site was unloaded"),
        }
    }
}

/// A patch that was refused; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot patch {addr} ({}): {refusal}", addr.symbol())]
pub struct PatchError {
    /// The site.
    pub addr: CodeAddr,
    /// The reason.
    pub refusal: Refusal,
}

impl PatchError {
    /// The error for `addr`.
    #[must_use]
    pub fn new(addr: CodeAddr, refusal: Refusal) -> Self {
        Self { addr, refusal }
    }
}
