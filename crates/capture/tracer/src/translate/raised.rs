//! Signal handlers that are entered from the gate, without a signal.
//!
//! Some exits of the cache need the whole state of the processor, or change what a signal's context holds (the mask, the
//! vector registers, where the program continues). For these, the gate calls the handler of the signal with a frame that we
//! build. The frame is as the kernel writes it, on the same stack, and the thread continues through the same return from a
//! signal. Handlers see no difference, but no signal is sent: this costs a third as much, and a debugger sees no stop.
//!
//! Which vector registers the kernel saves, and how long that state is, is learned from the first frame that the kernel
//! itself writes. Until then, and where a thread uses more than that (tiles of matrices), real signals are used.

use core::arch::asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tracee::frame::{FrameState, SigFrame, SigInfo, UContext};
use tracee::sys;

use crate::signal::{actions, stubs};
use crate::state::thread::TracedThread;
use crate::translate::gate;

/// The parts of the processor's state that the kernel keeps in a frame, a bit each; zero: not known yet.
static PARTS: AtomicU64 = AtomicU64::new(0);
/// Bytes of them.
static BYTES: AtomicU32 = AtomicU32::new(0);

/// The configuration of tiles, 64 bytes, which has its place in every frame where the processor has tiles.
const TILE_CONFIGURATION: u64 = 1 << 17;
/// What tiles hold, 8 KiB, which a thread's frames have from its first use of tiles on.
const TILE_DATA: u64 = 1 << 18;
const TILES: u64 = TILE_CONFIGURATION | TILE_DATA;

/// Room for the state: all that processors have but tiles, and the last word.
const ROOM_BYTES: usize = 4096;

/// The state of vector registers in a frame.
#[repr(C, align(64))]
struct StateRoom([u8; ROOM_BYTES]);

/// Where the word is that says which parts are there, and the length of the header that begins with it.
const THERE_AT: usize = 512;
const HEADER_BYTES: usize = 64;

/// A signal's frame, with the state after it.
#[repr(C)]
struct OwnFrame {
    state: StateRoom,
    frame: SigFrame,
}

/// Looks at a frame of the kernel's, as long as none is known.
pub(crate) fn learn(context: &UContext) {
    if PARTS.load(Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: what the kernel has written.
    let Some(state) = (unsafe { FrameState::of(context.fpstate) }) else { return };
    if state.parts & TILE_DATA == 0
        && state.parts & SSE != 0
        && state.bytes as usize + size_of::<u32>() <= ROOM_BYTES
    {
        BYTES.store(state.bytes, Ordering::Relaxed);
        PARTS.store(state.parts, Ordering::Release);
    }
}

/// The part with the lower halves of vector registers.
const SSE: u64 = 1 << 1;

/// Whether the calling thread's whole state would fit in a frame of ours.
pub(crate) fn is_possible() -> bool {
    PARTS.load(Ordering::Acquire) != 0 && !uses_tiles()
}

/// Whether the thread uses more of the processor than frames of ours hold.
fn uses_tiles() -> bool {
    // SAFETY: xsave is used at all, so the kernel lets programs ask; processors with tiles say what is in use, too.
    unsafe { extended_control(0) & TILES != 0 && extended_control(1) & TILES != 0 }
}

/// # Safety
/// The processor has that register.
unsafe fn extended_control(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("xgetbv", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Enters the handler of a signal with the program's registers, which are in the gate, and goes on where it says. All signals that
/// the handler blocks are blocked from here on.
///
/// # Safety
/// `gregs` are the registers that the gate keeps of the calling thread, and are complete. [`is_possible`] was true.
pub(crate) unsafe fn enter_handler(
    thread: *mut TracedThread,
    gregs: *const x86::Registers,
    signal: i32,
    code: i32,
) -> ! {
    // Kicks, too, as long as the thread counts as one in the gate: it would have to step from there, and keep this mask as the program's.
    let mask = sys::set_mask(u64::MAX);
    let mut own = MaybeUninit::<OwnFrame>::uninit();
    // SAFETY: words and bytes, of which zeros are valid ones, as is what was there before: of the state what is not written is not
    // looked at.
    let own = unsafe {
        (&raw mut (*own.as_mut_ptr()).frame).write_bytes(0, 1);
        (&raw mut (*own.as_mut_ptr()).state.0).cast::<u8>().add(THERE_AT).write_bytes(0, HEADER_BYTES);
        &mut *own.as_mut_ptr()
    };
    let state = FrameState { parts: PARTS.load(Ordering::Acquire), bytes: BYTES.load(Ordering::Relaxed) };
    // SAFETY: the gate keeps the vector registers' lower halves below the others.
    let lower = unsafe { &*gregs.cast::<[u8; gate::VECTOR_BYTES]>().sub(1) };
    keep_state(&mut own.state, state, lower);
    let context = &mut own.frame.context;
    // SAFETY: read once more, because a signal may have changed the flags: they step through what is left to do.
    context.gregs = unsafe { gregs.read_volatile() };
    context.flags = tracee::frame::CONTEXT_FLAGS;
    context.segments = tracee::frame::SEGMENTS;
    (context.mask, context.old_mask) = (mask, mask);
    context.fpstate = own.state.0.as_ptr() as u64;
    let mut info = SigInfo::fault(signal, code, 0);
    // SAFETY: this thread's state; nobody else uses it, now that signals are blocked.
    unsafe {
        context.stack = (*thread).signals.handler_stack;
        if let Some(live) = (*thread).translation.live() {
            live.leave_gate();
        }
        sys::set_mask(actions::handler_mask(signal));
        actions::call_fault_handler(signal, &mut info, context);
        asm!(
            "mov rsp, {context}",
            "jmp {restorer}",
            context = in(reg) &raw const own.frame.context,
            restorer = in(reg) stubs::restorer(),
            options(noreturn),
        )
    }
}

/// Writes the state as the kernel does.
fn keep_state(room: &mut StateRoom, state: FrameState, lower: &[u8; gate::VECTOR_BYTES]) {
    /// Where the lower halves are.
    const LOWER_AT: usize = 160;
    let (low, high) = (state.parts as u32, (state.parts >> 32) as u32);
    // SAFETY: the room is aligned, its header zero, and as long as the kernel's own (`learn`).
    unsafe {
        asm!("xsave64 [{}]", in(reg) room.0.as_mut_ptr(), in("eax") low, in("edx") high, options(nostack, preserves_flags));
    }
    if let Some(place) = room.0.get_mut(LOWER_AT..LOWER_AT + lower.len()) {
        place.copy_from_slice(lower);
    }
    if let Some(there) = room.0.get_mut(THERE_AT) {
        *there |= SSE as u8;
    }
    state.write(&mut room.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// What the kernel kept of the thread in a signal's frame.
    static KEPT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

    extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the context that the kernel gives to a handler.
        let context = unsafe { &*context.cast::<UContext>() };
        learn(context);
        // SAFETY: the kernel's address.
        if let Some(FrameState { parts, bytes }) = unsafe { FrameState::of(context.fpstate) } {
            KEPT[0].store(parts, Ordering::Relaxed);
            KEPT[1].store(bytes.into(), Ordering::Relaxed);
        }
    }

    /// What the kernel keeps of this thread.
    fn kept() -> FrameState {
        // SAFETY: zeros are a structure; the handler is for a signal that nobody else in this process uses.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()), 0);
            assert_eq!(libc::raise(libc::SIGUSR1), 0);
        }
        let [parts, bytes] = KEPT.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_ne!(parts, 0, "the kernel uses xsave");
        FrameState { parts, bytes: bytes as u32 }
    }

    #[test]
    fn the_state_is_kept_as_the_kernel_keeps_it() {
        // A frame is not learned from that says nothing, whose state has no place here, or that has tiles.
        let mut bytes = [0u64; 1024];
        let mut context = testing::context();
        learn(&context);
        context.fpstate = bytes.as_mut_ptr() as u64;
        // SAFETY: the words as bytes.
        let room = unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<u8>(), 8192) };
        for (parts, bytes) in [(1, 832), (SSE | TILE_DATA, 832), (7, ROOM_BYTES as u32 - 3)] {
            FrameState { parts, bytes }.write(room);
            learn(&context);
            assert!(!is_possible(), "{parts:#x} {bytes}");
        }
        let state = kept();
        assert_eq!(is_possible(), state.parts & TILE_DATA == 0);
        let mut room = Box::new(StateRoom([0; ROOM_BYTES]));
        let lower: [u8; gate::VECTOR_BYTES] = core::array::from_fn(|at| at as u8);
        keep_state(&mut room, state, &lower);
        // SAFETY: the state has just been kept there.
        assert_eq!(unsafe { FrameState::of(room.0.as_ptr() as u64) }, Some(state));
        // The processor takes the lower halves from there.
        let mut taken = [0u8; gate::VECTOR_BYTES];
        // SAFETY: a state in the standard form. All vector registers are named as clobbered, and the control word is as it was.
        unsafe {
            asm!(
                "xrstor64 [{room}]",
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
                "movups [{taken} + 16 * \\n], xmm\\n",
                ".endr",
                room = in(reg) room.0.as_ptr(),
                taken = in(reg) taken.as_mut_ptr(),
                in("eax") SSE as u32,
                in("edx") 0,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
        assert_eq!(taken, lower);
    }
}
