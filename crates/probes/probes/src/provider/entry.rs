//! The entries of unmodified functions, found by their symbols.
//!
//! Only the first instruction is ever changed, so a thread that is past it
//! is never affected. The method depends on the length of that instruction:
//! - five bytes or more: a jump to a detour that holds the displaced instruction;
//! - two to four bytes: a *punned* jump whose last displacement bytes are the program's next bytes, to a landing
//!   place at an address that they dictate (see [`super::pun`]); with one byte the whole displacement is dictated;
//! - where no landing place can be mapped, a jump over several instructions, if the program has not begun (see [`super::several`]);
//! - otherwise, or where the next function begins within five bytes: `int3`, whose handler goes
//!   to the detour (this takes over a microsecond per hit, so it is only bearable with sampling).
//!
//! The inactive probe is the program's own instruction. Functions that a probe would break are listed with a reason.

use super::{Found, pun, several, unprobeable};
use crate::{
    ProbeError, ProbeId, ProbeKind, Provider,
    error::Reason,
    module::{Module, Symbol},
    profile::settings,
    registry::{self, Switch},
    trampoline::{self, DetourSwitch},
};
use patch::{CodeAddr, JMP_REL32, PatchError, Site};
use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use x86::{Disassembler, Instruction, Transfer};

/// Bytes that displaced instructions and the jump back may take.
const BODY_BYTES: usize = 48;
const JUMP_BYTES: usize = 5;

/// Functions without an ordinary return address on top of the stack, or that return twice, and the start-up code.
const NEVER: &[&str] = &[
    "_start",
    "_init",
    "_fini",
    "_dl_relocate_static_pie",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "__libc_csu_init",
    "__libc_csu_fini",
    "setjmp",
    "_setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "vfork",
    "getcontext",
    "setcontext",
    "swapcontext",
    "makecontext",
    "__restore_rt",
    "_dl_runtime_resolve",
    "__vfork",
    "clone",
    "__clone",
    "__clone3",
    "start_thread",
    "__libc_start_main",
    "__libc_start_call_main",
    "__longjmp_chk",
    "____longjmp_chk",
    "__sigsetjmp_cancel",
];

/// Makes probes of the module's functions.
pub fn probe(module: &Module, wants: &dyn Fn(&str) -> bool, found: &mut Found) {
    let executable = executable();
    if module.has_unwinder() {
        for symbol in module.symbols().iter().filter(|s| wants(&s.name)) {
            found.refuse(module, &symbol.name, Reason::StaticUnwinder);
        }
        return;
    }
    for (index, symbol) in module.symbols().iter().enumerate().filter(|(_, s)| wants(&s.name)) {
        found.take(module, &symbol.name, probe_one(module, index, &executable, Traps::of(module)));
    }
}

/// The probes of [`watch`], their numbers plus one, from the first on; 0: no more. Written while code is searched for what to probe, read
/// while all threads are stopped, too: no lock.
static WATCHES: [AtomicU32; MOST_WATCHES] = [const { AtomicU32::new(0) }; MOST_WATCHES];
/// A module with an unwinder of its own needs eight.
const MOST_WATCHES: usize = 4096;

/// Whether a probe is the profiler's own: it measures nothing, and is there as long as the process is attached to.
pub(crate) fn is_watch(id: ProbeId) -> bool {
    let all = WATCHES.iter().map(|watch| watch.load(Ordering::Relaxed));
    all.take_while(|watch| *watch != 0).any(|watch| watch == id.0 + 1)
}

/// Gives the module's function with this index a probe of the profiler's own, which an earlier attachment may have made; whether it has it.
pub(crate) fn watch(
    module: &Module,
    index: usize,
    executable: &[Range<usize>],
    traps: Traps,
    handler: registry::Handler,
) -> bool {
    let addr = CodeAddr(module.bias + module.symbols()[index].offset);
    let known = registry::probe_at(addr).filter(|id| is_watch(*id));
    let id = known.or_else(|| probe_one(module, index, executable, traps).ok());
    id.is_some_and(|id| {
        let is_listed = is_watch(id) || {
            let word =
                |watch: &AtomicU32| watch.compare_exchange(0, id.0 + 1, Ordering::Relaxed, Ordering::Relaxed);
            WATCHES.iter().any(|watch| word(watch).is_ok())
        };
        is_listed && keep(id) && registry::activate(id, handler).is_ok()
    })
}

/// The ranges that are mapped executable and readable now.
pub(crate) fn executable() -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    patch::maps::for_each(|mapping| {
        if mapping.executable && mapping.readable {
            ranges.push(mapping.start..mapping.end);
        }
        true
    });
    ranges
}

/// Whether `int3` may stand in code: as a probe, or for a moment while a site is patched that straddles a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traps {
    Allowed,
    /// The C library executes parts of its own with all signals blocked, where a trap kills; or a thread of the program does so.
    Forbidden,
}

/// Whether some thread may execute the program's own code with SIGTRAP blocked. Written before modules are probed.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Has functions that need a trap refused from now on.
pub(crate) fn forbid_traps() {
    FORBIDDEN.store(true, Ordering::Relaxed);
}

/// Has the program's own functions get traps again where they need them.
pub(crate) fn allow_traps() {
    FORBIDDEN.store(false, Ordering::Relaxed);
}

/// Whether they are refused.
pub(crate) fn are_traps_forbidden() -> bool {
    FORBIDDEN.load(Ordering::Relaxed)
}

impl Traps {
    /// What the module bears.
    pub(crate) fn of(module: &Module) -> Self {
        let is_forbidden = module.is_of_system() || are_traps_forbidden();
        if is_forbidden { Self::Forbidden } else { Self::Allowed }
    }
}

/// Whether no trap may stand at this probe's site, and one would, with the bytes `on`.
pub(crate) fn is_forbidden(site: Site, on: u64) -> bool {
    are_traps_forbidden() && (on as u8 == patch::INT3 || site.split().is_some())
}

/// Makes a probe of the module's function with this index.
pub(crate) fn probe_one(
    module: &Module,
    index: usize,
    executable: &[Range<usize>],
    traps: Traps,
) -> Result<ProbeId, ProbeError> {
    let symbol = &module.symbols()[index];
    let addr = CodeAddr(module.bias + symbol.offset);
    // A jump whose last bytes are the next function's first would change its target with that one's probe.
    let alone = module.symbols().get(index + 1).is_none_or(|next| next.offset >= symbol.offset + 5);
    let first = check(symbol, addr, executable)?;
    let several =
        || if alone && may_displace_several() { several::first_instructions(module, index) } else { None };
    add(symbol, addr, &first, alone, traps, several)
}

/// Whether nobody can stand between two instructions of the program: it has not begun.
fn may_displace_several() -> bool {
    !settings::is_attached() && super::is_single_threaded()
}

/// Whether the function can be probed at all; its first instruction.
fn check(symbol: &Symbol, addr: CodeAddr, executable: &[Range<usize>]) -> Result<Instruction, ProbeError> {
    let refuse = |reason| Err(unprobeable(&symbol.name, addr, reason));
    let name = symbol.name.as_str();
    if NEVER.contains(&name) || name.contains(".cold") || name.starts_with("__x86.get_pc_thunk") {
        return refuse(Reason::NoReturnAddress);
    }
    if symbol.len_bytes == 0 {
        return refuse(Reason::NoSize);
    }
    let end = addr.0 + symbol.len_bytes.max(5);
    if !executable.iter().any(|range| range.start <= addr.0 && end <= range.end) {
        return refuse(Reason::Patch(patch::Refusal::NotExecutable));
    }
    // SAFETY: the function's bytes, inside one readable mapping.
    let code = unsafe { std::slice::from_raw_parts(addr.0 as *const u8, symbol.len_bytes) };
    let mut disassembler = Disassembler::new(code, addr.0 as u64);
    let first = disassembler.next_instruction();
    if !first.is_valid() {
        return refuse(Reason::Undecodable);
    }
    if leaves_its_address(&first) {
        return refuse(Reason::NotRelocatable);
    }
    if may_jump_to_start(code) && jumps_to_start(disassembler, addr) {
        return refuse(Reason::LoopToEntry);
    }
    Ok(first)
}

/// Whether any four bytes, or any one near the start, would as the end of an instruction lead to the first byte: a
/// quick look that finds every jump to the start, and now and then something else.
fn may_jump_to_start(code: &[u8]) -> bool {
    let near = code.iter().take(128).enumerate().any(|(at, byte)| i64::from(*byte as i8) == -(at as i64) - 1);
    near || code.windows(4).enumerate().any(|(at, bytes)| {
        i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])) == -(at as i64) - 4
    })
}

fn jumps_to_start(mut rest: Disassembler<'_>, start: CodeAddr) -> bool {
    rest.any(|instruction| match instruction.transfer() {
        Transfer::Call(_) => false,
        transfer => transfer.target() == Some(start.0 as u64),
    })
}

/// Whether an instruction tells somebody where it is: whom it calls, the kernel, or the handler of a signal.
fn leaves_its_address(instruction: &Instruction) -> bool {
    matches!(
        instruction.transfer(),
        Transfer::Call(_)
            | Transfer::CallIndirect
            | Transfer::FarCall
            | Transfer::Syscall
            | Transfer::Kernel
            | Transfer::Interrupt
    )
}

fn add(
    symbol: &Symbol,
    addr: CodeAddr,
    first: &Instruction,
    alone: bool,
    traps: Traps,
    several: impl FnOnce() -> Option<Vec<Instruction>>,
) -> Result<ProbeId, ProbeError> {
    let refused = |e: PatchError| unprobeable(&symbol.name, addr, Reason::Patch(e.refusal));
    let id = registry::reserve()?;
    let mut has_room = false;
    let body = |at| {
        has_room = true;
        first.displaced(at as u64)
    };
    let function = registry::function_at(addr);
    let detour = trampoline::make_detour(addr, id.0, function, DetourSwitch::AtSite, BODY_BYTES, body)
        .ok_or_else(|| {
            let reason = if has_room { Reason::NotRelocatable } else { Reason::NoRoom };
            unprobeable(&symbol.name, addr, reason)
        })?;
    let jump = if alone { jump(addr, first.len_bytes(), detour) } else { None };
    let switch = match jump {
        Some((len_bytes, on)) => {
            let site = Site::open(addr, len_bytes).map_err(refused)?;
            if traps == Traps::Forbidden && site.split().is_some() {
                return Err(unprobeable(&symbol.name, addr, Reason::NeedsTrap));
            }
            Switch::Word { site, on, off: site.bytes() }
        }
        None => match displace(several(), addr, id, traps) {
            Some(switch) => switch,
            None if traps == Traps::Forbidden => {
                return Err(unprobeable(&symbol.name, addr, Reason::NeedsTrap));
            }
            None => {
                let site = Site::open(addr, 1).map_err(refused)?;
                site.set_trap_target(Some(detour));
                trampoline::count_traps(detour);
                Switch::Word { site, on: u64::from(patch::INT3), off: site.bytes() }
            }
        },
    };
    registry::complete(id, addr, addr, ProbeKind::EntryWithReturn, Provider::Entry, switch, false)?;
    Ok(id)
}

/// Has the function at `addr` begin with a jump in the place of its first few instructions. The probe is switched at the detour.
fn displace(
    instructions: Option<Vec<Instruction>>,
    addr: CodeAddr,
    id: ProbeId,
    traps: Traps,
) -> Option<Switch> {
    let instructions = instructions?;
    let body = |at| x86::displaced(&instructions, at as u64);
    let function = registry::function_at(addr);
    let detour = trampoline::make_detour(addr, id.0, function, DetourSwitch::InDetour, BODY_BYTES, body)?;
    let (len_bytes, on) = jump(addr, JUMP_BYTES, detour)?;
    let first = Site::open(detour, 1).ok()?;
    let site = Site::open(addr, len_bytes).ok()?;
    if traps == Traps::Forbidden && site.split().is_some() {
        return None;
    }
    // SAFETY: whoever executes the jump executes the displaced instructions after it, and nobody stands between them.
    unsafe { site.patch(on) }.ok()?;
    let (on, off) = (u64::from(trampoline::DETOUR_ON), u64::from(trampoline::DETOUR_OFF));
    Some(Switch::Word { site: first, on, off })
}

/// A jump from `addr` to `detour` that changes at most `len_bytes` bytes: how many, and which.
fn jump(addr: CodeAddr, len_bytes: usize, detour: CodeAddr) -> Option<(usize, u64)> {
    if len_bytes >= 5 {
        let displacement = patch::callpatch::displacement(addr, detour).ok()?;
        return Some((5, u64::from(JMP_REL32) | u64::from(displacement) << 8));
    }
    // The displacement's bytes that belong to the next instructions stay.
    let free_bits = 8 * (len_bytes - 1) as u32;
    // SAFETY: five bytes of the module's text; a function is followed by more of it or by padding.
    let kept = (unsafe { patch::store::read(addr.0, 5) } >> 8) as u32 & !((1u64 << free_bits) - 1) as u32;
    let base = addr.0.wrapping_add(5).wrapping_add_signed(kept as i32 as isize);
    let at = pun::landing(base, base.checked_add((1 << free_bits) - 1)?, detour)?;
    let displacement = (at.wrapping_sub(addr.0 + 5)) as u32;
    let mask = (1u64 << (8 * len_bytes)) - 1;
    Some((len_bytes, (u64::from(JMP_REL32) | u64::from(displacement) << 8) & mask))
}

/// The landing place that the probe of this site, with the bytes `on`, jumps to, if it needs one.
fn landing(site: Site, on: u64) -> Option<usize> {
    let len_bytes = site.len_bytes();
    if on as u8 != JMP_REL32 || len_bytes >= 5 {
        return None;
    }
    let addr = site.addr().0;
    let mask = (1u64 << (8 * len_bytes)) - 1;
    // SAFETY: five bytes of a module that is loaded.
    let jump = unsafe { patch::store::read(addr, 5) } & !mask | on & mask;
    Some(addr.wrapping_add(5).wrapping_add_signed((jump >> 8) as u32 as i32 as isize))
}

/// Whether the probe of this site, with the bytes `on`, leads to code that is there: landing places are given back when an
/// attachment ends, and by the next one others may have mapped something in their place.
pub(crate) fn leads_somewhere(site: Site, on: u64) -> bool {
    landing(site, on).is_none_or(pun::is_landing)
}

/// Has this probe's landing place kept when an attachment ends; whether it leads to code that is there, as [`leads_somewhere`].
pub(crate) fn keep(id: ProbeId) -> bool {
    let landing = registry::site_bytes(id, true).and_then(|(site, on)| landing(site, on));
    landing.is_none_or(|at| {
        let leads = pun::is_landing(at);
        if leads {
            pun::keep(at);
        }
        leads
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_look_finds_every_jump_to_the_start() {
        // jne rel8 and jne rel32 at each offset, after nops.
        for at in 0..200i64 {
            let mut code = vec![0x90; at as usize];
            let mut near = code.clone();
            near.extend([0x0f, 0x85]);
            near.extend((-(at as i32) - 6).to_le_bytes());
            assert!(may_jump_to_start(&near), "rel32 at {at}");
            if let Ok(displacement) = i8::try_from(-at - 2) {
                code.extend([0x75, displacement as u8, 0xc3]);
                assert!(may_jump_to_start(&code), "rel8 at {at}");
            }
        }
        assert!(!may_jump_to_start(&[0x55, 0x48, 0x89, 0xe5, 0xc3]));
    }

    #[test]
    fn loops_to_the_entry_and_start_up_code_are_refused() {
        // dec eax; jne entry; ret
        static LOOP: [u8; 5] = [0xff, 0xc8, 0x75, 0xfc, 0xc3];
        let place = patch::near::allocate_near(
            loops_to_the_entry_and_start_up_code_are_refused as *const () as usize,
            16,
        )
        .unwrap();
        // SAFETY: fresh memory of this test.
        unsafe { std::ptr::copy_nonoverlapping(LOOP.as_ptr(), place as *mut u8, 5) };
        let reason = |name: &str, len_bytes| {
            let symbol = Symbol { offset: place, len_bytes, name: name.to_owned() };
            match check(&symbol, CodeAddr(place), std::slice::from_ref(&(place..place + 16))) {
                Err(ProbeError::Unprobeable { reason, .. }) => Some(reason),
                _ => None,
            }
        };
        assert_eq!(reason("spin", 5), Some(Reason::LoopToEntry));
        assert_eq!(reason("spin", 2), None);
        assert_eq!(reason("spin", 0), Some(Reason::NoSize));
        assert_eq!(reason("_start", 5), Some(Reason::NoReturnAddress));
        assert_eq!(reason("work.cold", 5), Some(Reason::NoReturnAddress));
    }
}
