//! The table of probes and functions: dense arrays in memory that never moves, so that a hit costs one array look-up.
//!
//! This is the data that the trampoline and the handlers read, and the only place that writes it. Probes are created
//! and switched in [`crate::registry`]. Nothing here allocates with the program's allocator on the path of a first hit.

use crate::{
    ProbeError, ProbeId, ProbeKind, ProbeMetadata, Provider,
    address_index::{AddressIndex, mapped_once},
    module::{self, Place},
};
use patch::{CallSite, CodeAddr, Site};
use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering},
};

/// What a probe calls: its identifier, and where on the stack the address after the site lies. Registers are saved by
/// the trampoline; flags, x87 and the upper halves of vector registers must be left alone.
pub type Handler = extern "C" fn(id: u32, frame: *mut usize);

/// How a probe is switched.
#[derive(Clone, Copy)]
pub enum Switch {
    /// A call that is always there for every probe, switched with one store.
    Call(CallSite),
    /// An instruction exchanged for another.
    Word {
        /// The site.
        site: Site,
        /// The bytes of the active probe.
        on: u64,
        /// The bytes of the inactive one.
        off: u64,
    },
    /// A call that cannot be switched: its provider looks whether the probe is active.
    Fixed,
}

/// log2 of the size of a [`Probe`].
pub const PROBE_SHIFT: u32 = 7;
/// The most probes there can be.
pub const CAPACITY: usize = 1 << 19;

/// One probe. The trampoline reads the first word.
#[repr(C, align(128))]
pub(crate) struct Probe {
    /// A [`Handler`]; written by [`set_handler`] and [`set_gated_handler`], relaxed: any earlier one is as good.
    handler: AtomicUsize,
    /// Set (release) when the rest is complete.
    ready: AtomicBool,
    active: AtomicBool,
    kind: ProbeKind,
    provider: Provider,
    function: u32,
    /// The next probe of the same function, plus one; 0: none. Written before the probe is ready.
    next: AtomicU32,
    site: CodeAddr,
    switch: UnsafeCell<Switch>,
}

// SAFETY: all plain fields are written before `ready` is released and never after.
unsafe impl Sync for Probe {}

const _: () = assert!(size_of::<Probe>() == 1 << PROBE_SHIFT);

impl Probe {
    /// How it is switched.
    pub(crate) fn switch(&self) -> Switch {
        // SAFETY: ready, see `Sync for Probe`; a reference to a probe is given out for ready ones only.
        unsafe { *self.switch.get() }
    }

    /// Its site; `None` for one that cannot be switched.
    pub(crate) fn site(&self) -> Option<Site> {
        match self.switch() {
            Switch::Call(call) => Some(call.site()),
            Switch::Word { site, .. } => Some(site),
            Switch::Fixed => None,
        }
    }

    /// Whether it is a trap while it is on.
    pub(crate) fn is_trap(&self) -> bool {
        matches!(self.switch(), Switch::Word { on, .. } if on == u64::from(patch::INT3))
    }

    /// Who found it.
    pub(crate) fn provider(&self) -> Provider {
        self.provider
    }

    /// Notes that it was switched.
    pub(crate) fn set_active(&self, is_active: bool) {
        self.active.store(is_active, Ordering::Release);
    }

    fn is_gone(&self) -> bool {
        self.site().is_some_and(Site::is_gone)
    }
}

/// A function that has probes.
pub(crate) struct Function {
    pub(crate) addr: AtomicUsize,
    /// The probe of this function added last, plus one; 0: none. The others follow by [`Probe::next`].
    pub(crate) probes: AtomicU32,
    /// Address and length of a name that is not in a symbol table; 0: none.
    pub(crate) name: AtomicUsize,
    pub(crate) name_bytes: AtomicUsize,
}

/// Address of the table of probes, 0 before the first one. Read by the trampoline.
pub static PROBES_BASE: AtomicUsize = AtomicUsize::new(0);
static PROBE_COUNT: AtomicU32 = AtomicU32::new(0);
static FUNCTIONS_BASE: AtomicUsize = AtomicUsize::new(0);
static FUNCTION_COUNT: AtomicU32 = AtomicU32::new(0);
/// Identifiers plus one, by the address of the site.
static SITES: AddressIndex = AddressIndex::new();
/// Indices plus one, by the address of the function.
static FUNCTION_INDEX: AddressIndex = AddressIndex::new();
/// What [`set_discovery_callback`] was given; 0: nothing.
static DISCOVERY: AtomicUsize = AtomicUsize::new(0);
/// A gate for each function, close together, because all calls look at one.
static GATES_BASE: AtomicUsize = AtomicUsize::new(0);
/// A gate that nobody shuts.
const ALWAYS_OPEN: i32 = i32::MAX;

extern "C" fn nothing(_id: u32, _frame: *mut usize) {}

/// How many probes there are.
#[must_use]
pub fn probe_count() -> u32 {
    PROBE_COUNT.load(Ordering::Acquire)
}

/// How many functions have probes.
#[must_use]
pub fn function_count() -> u32 {
    FUNCTION_COUNT.load(Ordering::Acquire)
}

pub(crate) fn probe(id: ProbeId) -> Option<&'static Probe> {
    if id.0 >= probe_count() {
        return None;
    }
    let at = PROBES_BASE.load(Ordering::Acquire) + ((id.0 as usize) << PROBE_SHIFT);
    // SAFETY: the table is mapped for ever and zero is a valid value of every field that is read before `ready`.
    let probe: &'static Probe = unsafe { &*(at as *const Probe) };
    probe.ready.load(Ordering::Acquire).then_some(probe)
}

pub(crate) fn function(index: u32) -> Option<&'static Function> {
    if index >= function_count() {
        return None;
    }
    let base = FUNCTIONS_BASE.load(Ordering::Acquire) as *const Function;
    // SAFETY: the table is mapped for ever, `index` is below the count, and zero is a valid value of each field.
    Some(unsafe { &*base.add(index as usize) })
}

/// The index of the function at `addr`, made if it is new.
pub fn function_at(addr: CodeAddr) -> Option<u32> {
    let number = FUNCTION_INDEX.number(addr.0)?;
    let known = number.load(Ordering::Acquire);
    if known != 0 {
        return Some(known - 1);
    }
    let base = mapped_once(&FUNCTIONS_BASE, CAPACITY * size_of::<Function>())? as *const Function;
    let index = FUNCTION_COUNT.fetch_add(1, Ordering::AcqRel);
    if index as usize >= CAPACITY {
        FUNCTION_COUNT.fetch_sub(1, Ordering::AcqRel);
        return None;
    }
    // SAFETY: inside the table, zeroed, and no other thread got this index.
    let function = unsafe { &*base.add(index as usize) };
    function.addr.store(addr.0, Ordering::Relaxed);
    match number.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(index),
        // Another thread met the function at the same time; this index stays unused, without a hit.
        Err(winner) => Some(winner - 1),
    }
}

/// The index of the function at `addr`, if it has one.
pub(crate) fn known_function(addr: usize) -> Option<u32> {
    FUNCTION_INDEX.get(addr)?.checked_sub(1)
}

/// The function whose calls are counted by a probe of this kind.
pub(crate) fn counted(function_addr: CodeAddr, kind: ProbeKind) -> Option<u32> {
    if kind == ProbeKind::Exit { None } else { function_at(function_addr) }
}

/// The probes of a function, the latest first.
pub fn probes_of(function_index: u32) -> impl Iterator<Item = ProbeId> {
    let mut next = function(function_index).map_or(0, |f| f.probes.load(Ordering::Acquire));
    std::iter::from_fn(move || {
        let id = ProbeId(next.checked_sub(1)?);
        next = probe(id).map_or(0, |p| p.next.load(Ordering::Relaxed));
        Some(id)
    })
}

/// Gives the function a name that no symbol table has.
pub(crate) fn name_function(function_index: u32, name: &'static [u8]) {
    if let Some(function) = function(function_index) {
        function.name_bytes.store(name.len(), Ordering::Relaxed);
        function.name.store(name.as_ptr() as usize, Ordering::Release);
    }
}

/// The name, file and offset of a function.
#[must_use]
pub fn function_name(function_index: u32) -> (String, Place) {
    let Some(function) = function(function_index) else {
        return ("?".to_owned(), module::place(CodeAddr(0)));
    };
    let addr = CodeAddr(function.addr.load(Ordering::Relaxed));
    let place = module::place(addr);
    let name = function.name.load(Ordering::Acquire);
    let text = if name == 0 {
        module::symbol(place.module, place.offset).unwrap_or_else(|| addr.to_string())
    } else {
        let len = function.name_bytes.load(Ordering::Relaxed);
        // SAFETY: `name_function` stored a static string of that length.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(name as *const u8, len) }).into_owned()
    };
    (text, place)
}

/// The probe whose site is `addr`.
#[must_use]
pub fn probe_at(addr: CodeAddr) -> Option<ProbeId> {
    SITES.get(addr.0)?.checked_sub(1).map(ProbeId)
}

/// Reserves the next identifier. It must be completed by [`complete`], or abandoned.
pub(crate) fn reserve() -> Result<ProbeId, ProbeError> {
    mapped_once(&PROBES_BASE, CAPACITY * size_of::<Probe>()).ok_or(ProbeError::Full(0))?;
    let id = PROBE_COUNT.fetch_add(1, Ordering::AcqRel);
    if id as usize >= CAPACITY {
        PROBE_COUNT.fetch_sub(1, Ordering::AcqRel);
        return Err(ProbeError::Full(CAPACITY));
    }
    let at = PROBES_BASE.load(Ordering::Acquire) + ((id as usize) << PROBE_SHIFT);
    // SAFETY: this thread alone has the identifier; the slot is inside the table.
    let fresh = unsafe { &*(at as *const Probe) };
    fresh.handler.store(nothing as *const () as usize, Ordering::Relaxed);
    Ok(ProbeId(id))
}

/// Fills in a reserved probe, makes it known, and tells the discovery callback.
pub(crate) fn complete(
    id: ProbeId,
    site: CodeAddr,
    function_addr: CodeAddr,
    kind: ProbeKind,
    provider: Provider,
    switch: Switch,
    active: bool,
) -> Result<(), ProbeError> {
    let function_index = function_at(function_addr).ok_or(ProbeError::Full(CAPACITY))?;
    let at = (PROBES_BASE.load(Ordering::Acquire) + ((id.0 as usize) << PROBE_SHIFT)) as *mut Probe;
    // SAFETY: the identifier is reserved by this thread and not ready, so nobody else looks at these fields; the
    // handler word is left as it is, trampolines may read it.
    unsafe {
        (*at).kind = kind;
        (*at).provider = provider;
        (*at).function = function_index;
        (*at).site = site;
        *(*at).switch.get() = switch;
        (*at).active.store(active, Ordering::Relaxed);
        (*at).ready.store(true, Ordering::Release);
    }
    if let Some(function) = function(function_index) {
        let mut first = function.probes.load(Ordering::Acquire);
        loop {
            // SAFETY: this thread alone completes the probe; `next` is atomic.
            unsafe { (*at).next.store(first, Ordering::Relaxed) };
            match function.probes.compare_exchange(first, id.0 + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(other) => first = other,
            }
        }
    }
    let callback = DISCOVERY.load(Ordering::Acquire);
    if callback != 0 {
        // SAFETY: only `set_discovery_callback` stores here, a function of this type.
        let callback: fn(ProbeId) = unsafe { std::mem::transmute(callback) };
        callback(id);
    }
    // Last: a thread that hits this site finds the probe by it, and the callback gives the handler that counts.
    if let Some(number) = SITES.number(site.0) {
        number.store(id.0 + 1, Ordering::Release);
    }
    Ok(())
}

/// Sets what is called for each probe that is found from now on. It may run inside any function of the program: it
/// must not allocate if the program's allocator is probed. [`metadata`] tells the rest.
pub fn set_discovery_callback(callback: Option<fn(ProbeId)>) {
    DISCOVERY.store(callback.map_or(0, |f| f as *const () as usize), Ordering::Release);
}

/// What is known of a probe.
pub fn metadata(id: ProbeId) -> Result<ProbeMetadata, ProbeError> {
    let probe = probe(id).ok_or(ProbeError::Unknown(id))?;
    let function_addr =
        CodeAddr(function(probe.function).map_or(probe.site.0, |f| f.addr.load(Ordering::Relaxed)));
    let (function_name, place) = function_name(probe.function);
    Ok(ProbeMetadata {
        id,
        function: probe.function,
        function_name,
        function_addr,
        site: probe.site,
        kind: probe.kind,
        provider: probe.provider,
        module: place.path,
        module_offset: place.offset,
    })
}

/// Whether the probe belongs to the function at `addr`.
pub(crate) fn belongs_to(id: ProbeId, addr: CodeAddr) -> bool {
    probe(id).and_then(|p| function(p.function)).is_some_and(|f| f.addr.load(Ordering::Relaxed) == addr.0)
}

/// Gives a probe the empty handler.
pub(crate) fn silence(id: ProbeId) {
    let _ = set_gated_handler(id, nothing);
}

/// The function index and kind of a probe, without a look-up of names.
#[inline]
#[must_use]
pub fn function_of(id: u32) -> Option<(u32, ProbeKind)> {
    probe(ProbeId(id)).map(|p| (p.function, p.kind))
}

/// Whether a probe is switched on.
#[must_use]
pub fn is_active(id: ProbeId) -> bool {
    probe(id).is_some_and(|p| p.active.load(Ordering::Acquire) && !p.is_gone())
}

/// Whether the probe is a trap while it is on.
pub(crate) fn is_trap(id: ProbeId) -> bool {
    probe(id).is_some_and(Probe::is_trap)
}

/// Whether the code of a probe was unloaded.
#[must_use]
pub fn is_gone(id: ProbeId) -> bool {
    probe(id).is_some_and(Probe::is_gone)
}

/// Sets the handler of a probe; no code changes. An active probe calls the new one from its next hit on. The gate of its
/// function is opened for good.
pub fn set_handler(id: ProbeId, handler: Handler) -> Result<(), ProbeError> {
    set_gated_handler(id, handler)?;
    if let Some(gate) = probe(id).and_then(|probe| gate(probe.function)) {
        gate.store(ALWAYS_OPEN, Ordering::Release);
    }
    Ok(())
}

/// As [`set_handler`], and leaves the gate of the function as it is.
pub(crate) fn set_gated_handler(id: ProbeId, handler: Handler) -> Result<(), ProbeError> {
    let probe = probe(id).ok_or(ProbeError::Unknown(id))?;
    probe.handler.store(handler as *const () as usize, Ordering::Release);
    Ok(())
}

/// The gate of a function: hits of its probes reach their handlers only while it is above zero; they are counted all the same.
/// Exits are never kept out. `None` where memory is out.
#[inline]
pub(crate) fn gate(function: u32) -> Option<&'static AtomicI32> {
    let address = gate_address(function)?;
    // SAFETY: inside the gates, which are mapped for ever.
    Some(unsafe { &*(address as *const AtomicI32) })
}

/// Where the gate of a function is.
#[inline]
pub(crate) fn gate_address(function: u32) -> Option<usize> {
    let base = mapped_once(&GATES_BASE, CAPACITY * size_of::<AtomicI32>())?;
    Some(base + function as usize * size_of::<AtomicI32>())
}

/// Whether hits reach the handler, for providers whose calls do not come through a thunk.
pub(crate) fn is_gate_open(id: ProbeId) -> bool {
    probe(id).and_then(|probe| gate(probe.function)).is_some_and(|gate| gate.load(Ordering::Relaxed) > 0)
}

/// The handler of a probe, for providers whose calls do not come through the trampoline.
#[must_use]
pub fn handler(id: ProbeId) -> Option<Handler> {
    let word = probe(id)?.handler.load(Ordering::Acquire);
    // SAFETY: the word of a ready probe always holds a Handler.
    (word != 0).then(|| unsafe { std::mem::transmute::<usize, Handler>(word) })
}
