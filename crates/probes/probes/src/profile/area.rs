//! The file to which a process writes its profile, mapped from the beginning.
//!
//! A server may give up its rights after the profiler started: it changes its user or its root directory,
//! closes all descriptors, sets a limit of no files, or installs a filter that kills for `open`. A shared
//! mapping survives all of that, so the profile is written with plain stores. The file has two halves, and the
//! header says which one is complete, so a process that is killed while it writes leaves the previous profile.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 8 | bit 63: the half; below: bytes of the profile in it; 0: none yet |
//! | 4096 | [`HALF_BYTES`] | the first half |
//! | 4096 + [`HALF_BYTES`] | [`HALF_BYTES`] | the second half |
//!
//! Parts that were never written take no disk space. [`read`] is for the report, in another process.

use std::{
    fs::OpenOptions,
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
    ptr::null_mut,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// The first word of the file: `MEMTAPPR`.
const MAGIC: u64 = u64::from_le_bytes(*b"MEMTAPPR");
const HEADER_BYTES: usize = patch::PAGE_BYTES;
/// The longest profile that has room.
const HALF_BYTES: usize = 64 << 20;
const FILE_BYTES: usize = HEADER_BYTES + 2 * HALF_BYTES;
const HALF: u64 = 1 << 63;

/// The mapping of this process's file; 0: none. Written where no profile is being written: by [`open`].
static BASE: AtomicUsize = AtomicUsize::new(0);

/// The two words of the header.
struct Header<'m> {
    magic: &'m AtomicU64,
    whole: &'m AtomicU64,
}

fn header(base: usize) -> Header<'static> {
    // SAFETY: the mapping stays until a fork's child replaces it, where no other thread is; both words are aligned.
    unsafe { Header { magic: &*(base as *const AtomicU64), whole: &*((base + 8) as *const AtomicU64) } }
}

/// Makes and maps the file. Where that fails, [`write()`] does too, and the profile goes the ordinary way. In a fork's child it
/// takes the place of the parent's.
pub fn open(path: &Path) {
    let before = BASE.swap(0, Ordering::AcqRel);
    if before != 0 {
        // SAFETY: the mapping of this function; nobody writes a profile now.
        unsafe { libc::munmap(before as *mut libc::c_void, FILE_BYTES) };
    }
    if may_not_grow() {
        return;
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
    let Ok(file) = options.open(path) else { return };
    if file.set_len(FILE_BYTES as u64).is_err() {
        return;
    }
    // SAFETY: a new shared mapping of our own file where the kernel likes.
    let base = unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(null_mut(), FILE_BYTES, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if base == libc::MAP_FAILED || !populate(base as usize, HEADER_BYTES) {
        return;
    }
    // An image (core dump) of the process needs none of it.
    // SAFETY: advice on our own mapping.
    unsafe { libc::madvise(base, FILE_BYTES, libc::MADV_DONTDUMP) };
    header(base as usize).magic.store(MAGIC, Ordering::Relaxed);
    BASE.store(base as usize, Ordering::Release);
}

/// Whether the limit of file sizes (whose excess is a signal that kills) forbids such a file.
fn may_not_grow() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills our own structure.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    !known || limit.rlim_cur < FILE_BYTES as u64
}

/// Makes pages present for writing, so that a full disk is an answer here and no SIGBUS later.
fn populate(start: usize, len_bytes: usize) -> bool {
    let len_bytes = len_bytes.next_multiple_of(patch::PAGE_BYTES);
    // SAFETY: pages of our own mapping.
    unsafe { libc::madvise(start as *mut libc::c_void, len_bytes, libc::MADV_POPULATE_WRITE) == 0 }
}

/// Writes a profile. `false`: there is no such file, or no room in it.
pub fn write(profile: &[u8]) -> bool {
    let base = BASE.load(Ordering::Acquire);
    if base == 0 || profile.is_empty() || profile.len() > HALF_BYTES {
        return false;
    }
    let header = header(base);
    let half = match header.whole.load(Ordering::Relaxed) {
        0 => 0,
        whole => (whole ^ HALF) & HALF,
    };
    let at = base + HEADER_BYTES + if half == 0 { 0 } else { HALF_BYTES };
    if !populate(at, profile.len()) {
        return false;
    }
    // SAFETY: inside the half, whose pages are there; nobody reads it before the header says so.
    unsafe { std::ptr::copy_nonoverlapping(profile.as_ptr(), at as *mut u8, profile.len()) };
    header.whole.store(half | profile.len() as u64, Ordering::Release);
    true
}

/// The profile in such a file; `None` where none was written.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(path)?;
    let mut words = [0; 16];
    let [magic, whole] = match file.read_exact_at(&mut words, 0) {
        Ok(()) => [0, 8].map(|at| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"))),
        Err(_) => [0; 2],
    };
    let len_bytes = (whole & !HALF) as usize;
    if magic != MAGIC || len_bytes == 0 || len_bytes > HALF_BYTES {
        return Ok(None);
    }
    let mut profile = vec![0; len_bytes];
    let half = if whole & HALF == 0 { 0 } else { HALF_BYTES };
    file.read_exact_at(&mut profile, (HEADER_BYTES + half) as u64)?;
    Ok(Some(profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the mapping is the process's.
    #[test]
    fn the_latest_whole_profile_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-2.area");
        assert!(!write(b"early"), "no file yet");
        open(&path);
        assert_eq!(read(&path).unwrap(), None);
        for text in ["first", "the second", "3"] {
            assert!(write(text.as_bytes()));
            assert_eq!(read(&path).unwrap().as_deref(), Some(text.as_bytes()));
        }
        assert!(!write(&vec![1; HALF_BYTES + 1]), "no room");
        assert_eq!(read(&path).unwrap().as_deref(), Some(b"3".as_slice()));
        open(&path);
        assert!(!write(b"again"), "a file that is there is somebody else's");
        std::fs::write(&path, b"short").unwrap();
        assert_eq!(read(&path).unwrap(), None);
    }
}
