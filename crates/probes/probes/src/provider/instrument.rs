//! `-finstrument-functions` (sections 7 and 8): calls of `__cyg_profile_func_enter` and `_exit` that the compiler inserted.
//!
//! A site is found when it is first hit. Its call is then redirected to a thunk that carries the probe's
//! identifier, so that later hits need no look-up by address (section 7, "Optimized argument passing"). A call
//! that straddles a line keeps its target and costs a look-up instead, since redirecting it would need barriers
//! in the middle of the program. Nothing here allocates: a first hit may be anywhere, including in the allocator.

use crate::{
    ProbeId, ProbeKind, Provider,
    module::{self, Module},
    registry::{self, Switch},
    thread, thread_words, trampoline,
};
use patch::{CALL_REL32, CallSite, CodeAddr, Encoding, Site, pages, store};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// `nop word ptr [rax + rax]`: six bytes, for calls through the global offset table.
const NOP6: u64 = 0x0000_441f_0f66;

/// Functions to probe, by address; null: all. Written by [`note_wanted`], old ones are kept.
static WANTED: AtomicPtr<Vec<usize>> = AtomicPtr::new(std::ptr::null_mut());
static FILTERED: AtomicBool = AtomicBool::new(false);
/// The addresses of the two functions, for calls that go there without a linkage table.
static HOOKS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Says where `__cyg_profile_func_enter` and `_exit` are.
pub fn set_hooks(enter: usize, exit: usize) {
    HOOKS[0].store(enter, Ordering::Relaxed);
    HOOKS[1].store(exit, Ordering::Relaxed);
}

/// Remembers which functions of an instrumented module are wanted, so that first hits need no names.
pub fn note_wanted(module: &Module, wants: &dyn Fn(&str) -> bool) {
    // SAFETY: null or a leaked list.
    let mut list: Vec<usize> =
        unsafe { WANTED.load(Ordering::Acquire).as_ref() }.cloned().unwrap_or_default();
    let before = list.len();
    list.extend(module.symbols().iter().filter(|s| wants(&s.name)).map(|s| module.bias + s.offset));
    if list.len() - before < module.symbols().len() {
        FILTERED.store(true, Ordering::Release);
    }
    list.sort_unstable();
    WANTED.store(Box::into_raw(Box::new(list)), Ordering::Release);
}

fn is_wanted(function: CodeAddr) -> bool {
    if !FILTERED.load(Ordering::Acquire) {
        return true;
    }
    // SAFETY: null or a leaked list.
    unsafe { WANTED.load(Ordering::Acquire).as_ref() }
        .is_some_and(|list| list.binary_search(&function.0).is_ok())
}

/// A call of `__cyg_profile_func_enter` or `_exit` for `function`; `frame` is the slot of its return address.
///
/// # Safety
/// To be called from those two functions only.
pub unsafe extern "C" fn on_call(function: usize, frame: *mut usize, is_exit: bool) {
    if trampoline::is_guarded(frame as usize) {
        return;
    }
    let before = thread_words::set_guard(frame as usize | thread_words::OPAQUE);
    // SAFETY: the caller says that the slot holds the return address.
    let after = CodeAddr(unsafe { frame.read() });
    let function = CodeAddr(function);
    let id = registry::probe_at(CodeAddr(after.0 - 5))
        .filter(|id| registry::belongs_to(*id, function) && !registry::is_gone(*id))
        .or_else(|| registry::probe_at(fixed_key(function, is_exit)))
        .or_else(|| discover(after, function, is_exit));
    if let Some(id) = id
        && registry::is_active(id)
        && let Some(handler) = registry::handler(id)
    {
        // A thread that cannot count yet goes to the handler and learns to.
        let is_counted = is_exit || thread::count(id);
        if !is_counted || registry::is_gate_open(id) {
            handler(id.0, frame);
        }
    }
    thread_words::set_guard(before);
}

/// The key of calls that cannot be switched: no code lies there.
fn fixed_key(function: CodeAddr, is_exit: bool) -> CodeAddr {
    CodeAddr(function.0 | 1 << 62 | usize::from(is_exit) << 61)
}

fn discover(after: CodeAddr, function: CodeAddr, is_exit: bool) -> Option<ProbeId> {
    if !pages::takes_stores(after.0 - 5) {
        // Loaded again where a library was opened that is gone: the next look at the loader's list finds out.
        return None;
    }
    let id = registry::reserve().ok()?;
    let kind = if is_exit { ProbeKind::Exit } else { ProbeKind::Entry };
    let (key, switch) = switch_for(after, id, registry::counted(function, kind))
        .unwrap_or((fixed_key(function, is_exit), Switch::Fixed));
    registry::complete(id, key, function, kind, Provider::Instrument, switch, true).ok()?;
    if !is_wanted(function) {
        registry::silence(id);
        let _ = registry::deactivate(id);
        return None;
    }
    if let Switch::Call(call) = switch
        && call.site().split().is_none()
    {
        // SAFETY: one call for another of the same site; the thunk ends in the same handler.
        let _ = unsafe { call.site().patch(call.active_bytes()) };
    }
    Some(id)
}

/// How the call that returns to `after` is switched, if it is one of the two forms that compilers use.
fn switch_for(after: CodeAddr, id: ProbeId, counted: Option<u32>) -> Option<(CodeAddr, Switch)> {
    let site = CodeAddr(after.0 - 5);
    let place = module::place(site);
    if place.module == u32::MAX && patch::maps::find(site.0).is_none_or(|m| !m.executable) {
        return None;
    }
    // SAFETY: the bytes before a return address inside executable code, at most six, in the same function.
    let (five, six) = unsafe { (store::read(site.0, 5), store::read(site.0 - 1, 2)) };
    if five as u8 == CALL_REL32 && leads_here(site, five) {
        let (from, old) = (site, five);
        let open = Site::open(from, 5).ok()?;
        let call = if open.split().is_none() {
            let thunk = trampoline::make_thunk(site, id.0, counted)?;
            CallSite::describe(site, thunk, Encoding::OneByte).ok()?
        } else {
            let target =
                CodeAddr(site.0.wrapping_add(5).wrapping_add_signed((old >> 8) as u32 as i32 as isize));
            CallSite::describe(site, target, Encoding::OneByte).ok()?
        };
        return Some((site, Switch::Call(call)));
    }
    if six == 0x15ff {
        // call [rip + displacement], six bytes
        let start = CodeAddr(site.0 - 1);
        let open = Site::open(start, 6).ok()?;
        return Some((site, Switch::Word { site: open, on: open.bytes(), off: NOP6 }));
    }
    None
}

/// Whether the call at `site` goes to one of the two functions, directly or through a linkage table entry.
fn leads_here(site: CodeAddr, call: u64) -> bool {
    let target = site.0.wrapping_add(5).wrapping_add_signed((call >> 8) as u32 as i32 as isize);
    if module::place(CodeAddr(target)).module == u32::MAX {
        return false;
    }
    // SAFETY: inside a loaded module, in reach of a call that was just made; a linkage table entry has sixteen bytes.
    let bytes = unsafe { (store::read(target, 8), store::read(target + 8, 8)) };
    let jump_at = |offset: usize| {
        (((bytes.0 as u128 | (bytes.1 as u128) << 64) >> (8 * offset)) & 0xffff) as u16 == 0x25ff
    };
    HOOKS.iter().any(|hook| hook.load(Ordering::Relaxed) == target)
        || jump_at(0)
        || jump_at(1)
        || jump_at(4)
        || jump_at(5)
}
