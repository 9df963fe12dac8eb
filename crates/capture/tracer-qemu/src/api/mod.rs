//! QEMU's plugin interface, looked up by name when QEMU loads us: our own bindings, with a module for each version that differs.
//!
//! A plugin states the version it was built for in the variable `qemu_plugin_version`, and QEMU reads it after our
//! constructor has run. So the constructor checks which functions this QEMU has, and sets the version to one that both
//! sides support. Common parts of all versions are here; `v1` (QEMU 4.2 to 8.2) and `v2` (QEMU 9.0 and later) add the rest.

mod v1;
mod v2;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute_copy;
use core::sync::atomic::{AtomicI32, Ordering};

/// The version that QEMU reads. Written by the constructor alone, before QEMU looks.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Called by the loader, before QEMU reads the version.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = choose;

extern "C" fn choose() {
    qemu_plugin_version.store(detect(), Ordering::Relaxed);
}

/// `QEMU_PLUGIN_CB_NO_REGS`: a callback reads and writes no registers of the guest.
pub(crate) const CB_NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_CB_R_REGS`: a callback reads them.
const CB_READS_REGS: c_int = 1;
/// `QEMU_PLUGIN_MEM_RW`: loads and stores.
pub(crate) const MEM_RW: c_int = 3;
/// `QEMU_PLUGIN_INLINE_ADD_U64`: the only inline operation there is.
const INLINE_ADD_U64: c_int = 0;

/// QEMU's number of a plugin.
pub(crate) type PluginId = u64;
/// A block while it is translated.
pub(crate) type Tb = *mut c_void;
/// An instruction of it.
pub(crate) type Insn = *mut c_void;
/// What is known of an access.
pub(crate) type MemInfo = u32;

/// Called when a block is translated.
pub(crate) type TranslateCallback = unsafe extern "C" fn(PluginId, Tb);
/// Called when a block or an instruction is executed.
pub(crate) type ExecCallback = unsafe extern "C" fn(c_uint, *mut c_void);
/// Called when an instruction accessed memory.
pub(crate) type MemCallback = unsafe extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
/// Called when a vCPU changes its state.
pub(crate) type VcpuCallback = unsafe extern "C" fn(PluginId, c_uint);
/// Called when QEMU ends.
pub(crate) type ExitCallback = unsafe extern "C" fn(PluginId, *mut c_void);

/// What QEMU tells a plugin that it loads (the part that all versions share).
#[repr(C)]
pub struct Info {
    /// The guest's architecture.
    pub(crate) target_name: *const c_char,
    /// The oldest version that this QEMU accepts.
    pub(crate) version_min: c_int,
    /// Its own version.
    pub(crate) version_cur: c_int,
    /// Whether it runs a machine (and not one program).
    pub(crate) system_emulation: bool,
    /// vCPUs at the start.
    pub(crate) smp_vcpus: c_int,
    /// vCPUs at most.
    pub(crate) max_vcpus: c_int,
}

/// The bytes of an access, low bytes first.
pub(crate) type Value = u128;

/// QEMU's functions.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) register_vcpu_tb_trans_cb: unsafe extern "C" fn(PluginId, TranslateCallback),
    pub(crate) register_vcpu_tb_exec_cb: unsafe extern "C" fn(Tb, ExecCallback, c_int, *mut c_void),
    pub(crate) register_vcpu_insn_exec_cb: unsafe extern "C" fn(Insn, ExecCallback, c_int, *mut c_void),
    pub(crate) register_vcpu_mem_cb: unsafe extern "C" fn(Insn, MemCallback, c_int, c_int, *mut c_void),
    pub(crate) register_vcpu_idle_cb: unsafe extern "C" fn(PluginId, VcpuCallback),
    pub(crate) register_vcpu_resume_cb: unsafe extern "C" fn(PluginId, VcpuCallback),
    pub(crate) register_atexit_cb: unsafe extern "C" fn(PluginId, ExitCallback, *mut c_void),
    pub(crate) tb_n_insns: unsafe extern "C" fn(Tb) -> usize,
    pub(crate) tb_vaddr: unsafe extern "C" fn(Tb) -> u64,
    pub(crate) tb_get_insn: unsafe extern "C" fn(Tb, usize) -> Insn,
    pub(crate) insn_size: unsafe extern "C" fn(Insn) -> usize,
    pub(crate) mem_size_shift: unsafe extern "C" fn(MemInfo) -> c_uint,
    pub(crate) mem_is_store: unsafe extern "C" fn(MemInfo) -> bool,
    pub(crate) get_hwaddr: unsafe extern "C" fn(MemInfo, u64) -> *const c_void,
    pub(crate) hwaddr_is_io: unsafe extern "C" fn(*const c_void) -> bool,
    pub(crate) hwaddr_phys_addr: unsafe extern "C" fn(*const c_void) -> u64,
    /// Copies an instruction's first bytes and returns their number.
    pub(crate) insn_data: unsafe fn(Insn, &mut [u8; 16]) -> usize,
    /// Has each execution of the instruction add one to the counter of [`Api::tail`].
    pub(crate) count_insn: unsafe fn(Insn),
    /// The counter.
    pub(crate) tail: unsafe fn(c_uint) -> u64,
    /// What an access read or wrote, where this version can tell.
    pub(crate) value: Option<unsafe fn(MemInfo) -> Value>,
    /// Where 64-bit code is that a callback of a block is for, where this version can tell. QEMU 10 translates a page's code once for all
    /// the virtual addresses that the page has, and [`Api::tb_vaddr`] is the first of them; QEMU 7.2 does so for each.
    pub(crate) ip: Option<unsafe fn() -> Option<u64>>,
}

/// The function of that name; null where this QEMU has none.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a name with a zero at its end; the default handle is always valid.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// The version to claim: the highest that this QEMU and we know, by the functions that came with it.
fn detect() -> c_int {
    let has = |name: &CStr| !symbol(name).is_null();
    match () {
        () if has(c"qemu_plugin_read_memory_vaddr") => 4,
        () if has(c"qemu_plugin_mem_get_value") => 3,
        () if has(c"qemu_plugin_scoreboard_new") => 2,
        () => 1,
    }
}

/// A function as a pointer of its type.
///
/// # Safety
/// `F` must be the type of that function in the version of QEMU that we are loaded into.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = symbol(name);
    if address.is_null() {
        return None;
    }
    // SAFETY: `F` is a function pointer by the caller's promise, as large as an address by the check above.
    Some(unsafe { transmute_copy(&address) })
}

impl Api {
    /// Finds the functions of the version that QEMU accepted.
    pub(crate) fn bind(version_cur: c_int) -> Option<Self> {
        let claimed = qemu_plugin_version.load(Ordering::Relaxed);
        // SAFETY: the types are those of QEMU's header, which for these functions are the same in versions 1 to 4.
        let mut api = unsafe {
            Self {
                register_vcpu_tb_trans_cb: function(c"qemu_plugin_register_vcpu_tb_trans_cb")?,
                register_vcpu_tb_exec_cb: function(c"qemu_plugin_register_vcpu_tb_exec_cb")?,
                register_vcpu_insn_exec_cb: function(c"qemu_plugin_register_vcpu_insn_exec_cb")?,
                register_vcpu_mem_cb: function(c"qemu_plugin_register_vcpu_mem_cb")?,
                register_vcpu_idle_cb: function(c"qemu_plugin_register_vcpu_idle_cb")?,
                register_vcpu_resume_cb: function(c"qemu_plugin_register_vcpu_resume_cb")?,
                register_atexit_cb: function(c"qemu_plugin_register_atexit_cb")?,
                tb_n_insns: function(c"qemu_plugin_tb_n_insns")?,
                tb_vaddr: function(c"qemu_plugin_tb_vaddr")?,
                tb_get_insn: function(c"qemu_plugin_tb_get_insn")?,
                insn_size: function(c"qemu_plugin_insn_size")?,
                mem_size_shift: function(c"qemu_plugin_mem_size_shift")?,
                mem_is_store: function(c"qemu_plugin_mem_is_store")?,
                get_hwaddr: function(c"qemu_plugin_get_hwaddr")?,
                hwaddr_is_io: function(c"qemu_plugin_hwaddr_is_io")?,
                hwaddr_phys_addr: function(c"qemu_plugin_hwaddr_phys_addr")?,
                insn_data: v1::insn_data,
                count_insn: v1::count_insn,
                tail: v1::tail,
                value: None,
                ip: None,
            }
        };
        let bound = if claimed < 2 { v1::bind() } else { v2::bind(&mut api, version_cur) };
        bound.then_some(api)
    }

    /// What the callback of a block does with registers.
    pub(crate) fn block_flags(&self) -> c_int {
        if self.ip.is_some() { CB_READS_REGS } else { CB_NO_REGS }
    }
}
