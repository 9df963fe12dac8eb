//! Static executables: no loader runs in them that would load our library. The kernel starts another program
//! instead, dynamically linked, with our library in it. Before that program's main would run, the executable is
//! mapped at its addresses, the information that the kernel gives to a new program (the auxiliary vector) is
//! changed to describe the executable, and it starts at its entry point with the stack as the kernel created it.
//!
//! The executable sets up its own thread control block, so fs belongs to it. Our pointer to a thread's state is then reached through gs.

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering;

use elf::{ElfHeader, SegmentHeader};
use tracee::text::Text;
use tracee::{sys, tls};

use crate::memory::pages::{self, PAGE_BYTES};
use crate::module_headers::segment_of_file;
use crate::process::namespaces;
use crate::state::process::PROCESS;
use crate::state::settings::Settings;
use crate::syscall::paths;

/// The variable that names the executable.
pub(crate) const VARIABLE: &[u8] = b"MEMTAP_STATIC=";
const MAX_ENTRIES: usize = 64;

/// Maps the executable, and makes the start-up stack its own. Once, by the constructor; `envp` is the list of variables,
/// from which ours are already taken, and `auxiliary` what the kernel laid out after the list.
///
/// # Safety
/// All pointers are those of the kernel's start-up stack; there is one thread.
pub(crate) unsafe fn load(
    settings: &mut Settings,
    path: *const c_char,
    argv: *mut *mut c_char,
    envp: *mut *mut c_char,
    auxiliary: *mut u64,
) -> bool {
    // SAFETY: a terminated string of the kernel's.
    let name = unsafe { CStr::from_ptr(path) };
    let Some(image) = Image::map(name, settings) else { return false };
    let name = settings.image().unwrap_or(&[]);
    let short = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let mut comm = [0u8; 16];
    for (place, byte) in comm.iter_mut().take(15).zip(short) {
        *place = *byte;
    }
    // SAFETY: the caller's pointers: argv, envp and the auxiliary vector stand one after the other, and the last only moves
    // down to where the list of variables ends now. The kernel reads the name.
    unsafe {
        sys::syscall(
            libc::SYS_prctl as usize,
            [libc::PR_SET_NAME as usize, comm.as_ptr() as usize, 0, 0, 0, 0],
        );
        let mut to = envp.cast::<u64>();
        while to.read() != 0 {
            to = to.add(1);
        }
        to = to.add(1);
        let mut from = auxiliary;
        loop {
            let key = from.read();
            let value = match key {
                libc::AT_PHDR => image.headers,
                libc::AT_PHENT => SegmentHeader::BYTES as u64,
                libc::AT_PHNUM => image.count,
                libc::AT_BASE => 0,
                libc::AT_ENTRY => image.entry,
                libc::AT_EXECFN => path as u64,
                _ => from.add(1).read(),
            };
            to.write(key);
            to.add(1).write(value);
            if key == 0 {
                break;
            }
            (from, to) = (from.add(2), to.add(2));
        }
    }
    tls::use_gs();
    let [entry, stack] = &PROCESS.image_entry;
    stack.store(argv as u64 - 8, Ordering::Relaxed);
    entry.store(image.entry, Ordering::Relaxed);
    true
}

/// A mapped executable.
struct Image {
    entry: u64,
    /// Where its program headers are, and how many.
    headers: u64,
    count: u64,
}

impl Image {
    fn map(path: &CStr, settings: &mut Settings) -> Option<Self> {
        let file = sys::open_read(path)?;
        let mut name = Text::<1024>::new();
        paths::path_of_descriptor(file.0, &mut name);
        let name = name.as_bytes();
        settings.image.get_mut(..name.len())?.copy_from_slice(name);
        settings.image_len = name.len();
        let mut bytes = [0u8; ElfHeader::BYTES];
        let len = file.read_at(&mut bytes, 0);
        let header = ElfHeader::parse(bytes.get(..len)?).ok()?;
        if usize::from(header.segment_bytes) != SegmentHeader::BYTES {
            return None;
        }
        let (table, count) = (header.segments_at, header.segment_count.min(MAX_ENTRIES as u16));
        let mut loads = [None; MAX_ENTRIES];
        for (index, place) in (0..count).zip(&mut loads) {
            let segment = segment_of_file(&file, &header, index)?;
            *place = (segment.kind == libc::PT_LOAD).then_some(segment);
        }
        let first = loads.iter().flatten().map(|load| pages::start_of_page(load.start.0)).min()?;
        let last =
            loads.iter().flatten().map(|load| load.start.saturating_offset(load.memory_bytes).0).max()?;
        let len = last.checked_sub(first)?.next_multiple_of(PAGE_BYTES);
        let fixed = header.is_fixed;
        let flags = sys::MAP_PRIVATE
            | sys::MAP_ANONYMOUS
            | sys::MAP_NORESERVE
            | if fixed { sys::MAP_FIXED_NOREPLACE } else { 0 };
        // SAFETY: reserves address space, and replaces nothing.
        let at = unsafe { sys::mmap(if fixed { first } else { 0 }, len, sys::PROT_NONE, flags, -1, 0) };
        if sys::failed(at) || fixed && at as u64 != first {
            return None;
        }
        let bias = (at as u64).wrapping_sub(first);
        let mut headers = 0;
        for load in loads.iter().flatten() {
            if (load.offset..load.offset + load.file_bytes).contains(&table) {
                headers = load.start.placed(bias) + (table - load.offset);
            }
            map_segment(load, &file, bias)?;
        }
        Some(Self { entry: header.entry.placed(bias), headers, count: count.into() })
    }
}

/// Maps a segment into the reserved range.
fn map_segment(load: &SegmentHeader, file: &sys::Fd, bias: u64) -> Option<()> {
    let prot = load.protection();
    let start = load.start.placed(bias);
    let page = pages::start_of_page(start);
    let file_end = start + load.file_bytes;
    let end = start + load.memory_bytes;
    let fixed = sys::MAP_PRIVATE | sys::MAP_FIXED;
    // SAFETY: all inside the range that `Image::map` has reserved.
    unsafe {
        if load.file_bytes > 0 {
            let offset = pages::start_of_page(load.offset);
            let result = sys::mmap(page, file_end - page, prot, fixed, file.0, offset);
            (!sys::failed(result)).then_some(())?;
        }
        let zeros = if load.file_bytes > 0 { file_end.next_multiple_of(PAGE_BYTES) } else { page };
        if load.memory_bytes > load.file_bytes && load.file_bytes > 0 && prot & sys::PROT_WRITE != 0 {
            core::ptr::write_bytes(file_end as *mut u8, 0, (zeros.min(end) - file_end) as usize);
        }
        if end > zeros {
            let flags = fixed | sys::MAP_ANONYMOUS;
            let result = sys::mmap(zeros, end - zeros, prot, flags, -1, 0);
            (!sys::failed(result)).then_some(())?;
        }
    }
    Some(())
}

/// The path of the program that this process is, as /proc/self/exe would name it natively.
pub(crate) fn program() -> Text<1024> {
    let mut path = Text::new();
    match PROCESS.settings().image() {
        Some(image) => path.push(image),
        None => paths::push_target(c"/proc/self/exe", &mut path),
    }
    path
}

/// The program in whose place the kernel starts another one: the recorder's own, which stays there as long as there is
/// something to record; where the recorder is not seen, the one that is installed with this library. Empty where there is none.
pub(crate) fn carrier() -> Text<1024> {
    let settings = PROCESS.settings();
    if !namespaces::is_elsewhere() {
        return recorders_program(settings);
    }
    let library = settings.library.get(..settings.library_len).unwrap_or(&[]);
    let directory =
        library.iter().rposition(|&byte| byte == b'/').and_then(|at| library.get(..=at)).unwrap_or(&[]);
    for place in [c"memtap", c"../memtap", c"../bin/memtap", c"../../bin/memtap"] {
        let mut path = Text::new();
        path.push(directory);
        path.push(place.to_bytes_with_nul());
        if CStr::from_bytes_until_nul(path.as_bytes()).is_ok_and(sys::can_execute) {
            return path;
        }
    }
    Text::new()
}

/// The program that the recorder runs; empty where the channel's name does not tell.
fn recorders_program(settings: &Settings) -> Text<1024> {
    use core::fmt::Write;
    let channel = settings.channel.get(..settings.channel_len).unwrap_or(&[]);
    let mut path = Text::new();
    if let Some((pid, _)) = channel.strip_prefix(b"memtap-").and_then(|rest| proc_files::number(rest, 10))
        && write!(path, "/proc/{pid}/exe\0").is_err()
    {
        return Text::new();
    }
    path
}
