//! Versions 2 to 4: inline counters in scoreboards, one cell per vCPU, and readable registers.
//! From version 3 on, instruction bytes are copied out and the value of an access can be queried.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use super::{Api, INLINE_ADD_U64, Insn, MemInfo, Value, function};

/// `qemu_plugin_u64`: a field of a scoreboard's cells.
#[repr(C)]
#[derive(Clone, Copy)]
struct ScoreboardField {
    score: *mut c_void,
    offset: usize,
}

/// `qemu_plugin_mem_value`.
#[repr(C)]
struct MemValue {
    kind: c_int,
    /// A union: 1, 2, 4 or 8 bytes at its start, or low and high half.
    data: [u64; 2],
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
struct RegisterDescriptor {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

/// The public part of glib's `GArray` and `GByteArray`.
#[repr(C)]
struct GlibArray<T> {
    data: *mut T,
    len: c_uint,
}

type GetRegisters = unsafe extern "C" fn() -> *mut GlibArray<RegisterDescriptor>;
type ReadRegister = unsafe extern "C" fn(*mut c_void, *mut GlibArray<u8>) -> c_int;
type ByteArrayNew = unsafe extern "C" fn() -> *mut GlibArray<u8>;
type ByteArraySetSize = unsafe extern "C" fn(*mut GlibArray<u8>, c_uint) -> *mut GlibArray<u8>;

/// How the instruction pointer is read.
struct IpReader {
    read: ReadRegister,
    set_size: ByteArraySetSize,
    register: *mut c_void,
    /// What it is read into.
    bytes: *mut GlibArray<u8>,
}

// SAFETY: made and used by the vCPU thread alone, as `ip` asks for.
unsafe impl Send for IpReader {}
// SAFETY: only the vCPU thread looks at it, as `ip` asks for.
unsafe impl Sync for IpReader {}

/// Made when a vCPU executes for the first time: before, QEMU has no registers to name. `None` where it does not name this one.
static IP_READER: OnceLock<Option<IpReader>> = OnceLock::new();

type InsnDataPointer = unsafe extern "C" fn(Insn) -> *const u8;
type InsnDataCopy = unsafe extern "C" fn(Insn, *mut c_void, usize) -> usize;
type InsnExecInline = unsafe extern "C" fn(Insn, c_int, ScoreboardField, u64);
type ScoreboardNew = unsafe extern "C" fn(usize) -> *mut c_void;
type ScoreboardFind = unsafe extern "C" fn(*mut c_void, c_uint) -> *mut c_void;
type MemGetValue = unsafe extern "C" fn(MemInfo) -> MemValue;

/// All written by `bind`, before any callback.
static INSN_DATA: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static INSN_EXEC_INLINE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SCOREBOARD: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SCOREBOARD_FIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static MEM_GET_VALUE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Finds these versions' functions.
pub(super) fn bind(api: &mut Api, version_cur: c_int) -> bool {
    // SAFETY: the types are those of versions 2 to 4.
    let found = unsafe {
        (
            function::<ScoreboardNew>(c"qemu_plugin_scoreboard_new"),
            function::<ScoreboardFind>(c"qemu_plugin_scoreboard_find"),
            function::<InsnExecInline>(c"qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu"),
            function::<*mut c_void>(c"qemu_plugin_insn_data"),
        )
    };
    let (Some(new), Some(find), Some(inline), Some(data)) = found else { return false };
    // SAFETY: QEMU lets plugins make scoreboards while they are installed.
    let board = unsafe { new(size_of::<u64>()) };
    SCOREBOARD.store(board, Ordering::Relaxed);
    SCOREBOARD_FIND.store(find as *mut c_void, Ordering::Relaxed);
    INSN_EXEC_INLINE.store(inline as *mut c_void, Ordering::Relaxed);
    INSN_DATA.store(data, Ordering::Relaxed);
    api.insn_data = if version_cur < 3 { insn_data_pointer } else { insn_data_copy };
    api.count_insn = count_insn;
    api.tail = tail;
    // SAFETY: the type of version 3 and later.
    if let Some(value_of) = unsafe { function::<MemGetValue>(c"qemu_plugin_mem_get_value") } {
        MEM_GET_VALUE.store(value_of as *mut c_void, Ordering::Relaxed);
        api.value = Some(value);
    }
    api.ip = Some(ip);
    true
}

impl IpReader {
    /// # Safety
    /// In the callback of a block.
    unsafe fn find() -> Option<Self> {
        // SAFETY: the types are those of versions 2 to 4, and glib's.
        let (get, read, new, set_size) = unsafe {
            (
                function::<GetRegisters>(c"qemu_plugin_get_registers")?,
                function::<ReadRegister>(c"qemu_plugin_read_register")?,
                function::<ByteArrayNew>(c"g_byte_array_new")?,
                function::<ByteArraySetSize>(c"g_byte_array_set_size")?,
            )
        };
        // SAFETY: a vCPU executes, by the caller's promise. Kept as long as QEMU, like all that it names.
        let all = unsafe { &*get() };
        // SAFETY: glib's array of so many descriptors.
        let all = unsafe { core::slice::from_raw_parts(all.data, all.len as usize) };
        let register = all.iter().find(|register| {
            // SAFETY: QEMU's names end with a zero.
            !register.name.is_null() && unsafe { CStr::from_ptr(register.name) } == c"rip"
        })?;
        // SAFETY: the type of that function.
        let bytes = unsafe { new() };
        Some(Self { read, set_size, register: register.handle, bytes })
    }
}

/// `None` in code of 32 and 16 bits, where it is a distance from a base that plugins are not told.
///
/// # Safety
/// In the callback of a block that reads registers.
unsafe fn ip() -> Option<u64> {
    // SAFETY: the caller's promise.
    let reader = IP_READER.get_or_init(|| unsafe { IpReader::find() }).as_ref()?;
    // SAFETY: an array of glib's that only this thread uses; QEMU appends a register's bytes.
    unsafe {
        (reader.set_size)(reader.bytes, 0);
        (reader.read)(reader.register, reader.bytes);
        let bytes = &*reader.bytes;
        (bytes.len == 8).then(|| bytes.data.cast::<u64>().read_unaligned())
    }
}

/// # Safety
/// An instruction of the block that is being translated, in version 2.
unsafe fn insn_data_pointer(insn: Insn, out: &mut [u8; 16]) -> usize {
    // SAFETY: in version 2 it is of that type.
    let data: InsnDataPointer = unsafe { core::mem::transmute(INSN_DATA.load(Ordering::Relaxed)) };
    // SAFETY: the caller's promise; the type of that function in all versions.
    let len = unsafe { function::<unsafe extern "C" fn(Insn) -> usize>(c"qemu_plugin_insn_size") }
        .map_or(0, |size| {
            // SAFETY: the caller's instruction.
            unsafe { size(insn) }
        })
        .min(out.len());
    // SAFETY: the caller's instruction; QEMU keeps as many bytes as the instruction has until the translation is done.
    out[..len].copy_from_slice(unsafe { core::slice::from_raw_parts(data(insn), len) });
    len
}

/// # Safety
/// An instruction of the block that is being translated, in version 3 or later.
unsafe fn insn_data_copy(insn: Insn, out: &mut [u8; 16]) -> usize {
    // SAFETY: from version 3 on it is of that type.
    let data: InsnDataCopy = unsafe { core::mem::transmute(INSN_DATA.load(Ordering::Relaxed)) };
    // SAFETY: QEMU writes as many bytes as we have room for at most.
    unsafe { data(insn, out.as_mut_ptr().cast(), out.len()) }.min(out.len())
}

/// # Safety
/// An instruction of the block that is being translated, after `bind`.
unsafe fn count_insn(insn: Insn) {
    // SAFETY: stored by `bind` from a pointer of that type.
    let inline: InsnExecInline = unsafe { core::mem::transmute(INSN_EXEC_INLINE.load(Ordering::Relaxed)) };
    let field = ScoreboardField { score: SCOREBOARD.load(Ordering::Relaxed), offset: 0 };
    // SAFETY: the scoreboard lives as long as QEMU.
    unsafe { inline(insn, INLINE_ADD_U64, field, 1) };
}

/// # Safety
/// `vcpu` must be one that was initialised.
unsafe fn tail(vcpu: c_uint) -> u64 {
    // SAFETY: stored by `bind` from a pointer of that type.
    let find: ScoreboardFind = unsafe { core::mem::transmute(SCOREBOARD_FIND.load(Ordering::Relaxed)) };
    // SAFETY: QEMU has a cell for each vCPU, and gives its address.
    unsafe { *find(SCOREBOARD.load(Ordering::Relaxed), vcpu).cast::<u64>() }
}

/// # Safety
/// Only in the callback of that access.
unsafe fn value(info: MemInfo) -> Value {
    // SAFETY: stored by `bind` from a pointer of that type.
    let value: MemGetValue = unsafe { core::mem::transmute(MEM_GET_VALUE.load(Ordering::Relaxed)) };
    // SAFETY: the caller's promise.
    let value = unsafe { value(info) };
    let low = match value.kind {
        0 => value.data[0] & 0xff,
        1 => value.data[0] & 0xffff,
        2 => value.data[0] & 0xffff_ffff,
        _ => value.data[0],
    };
    let high = if value.kind > 3 { value.data[1] } else { 0 };
    u128::from(low) | u128::from(high) << 64
}
