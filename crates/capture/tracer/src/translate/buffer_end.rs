//! The end of a buffer: switches to the next one, carrying over what is already written of the current block.

use core::sync::atomic::Ordering;

use buffers::{BUFFER_COUNT, FLOW_BYTES};
use code_cache::Mode;
use tracee::frame::{SigInfo, UContext};
use tracee::sys;

use crate::emit::thread_buffers::{WINDOW_STRIDE, WINDOWS};
use crate::emit::work::Work;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::translate::engine::{Around, ENGINE};
use crate::translate::verify;

/// A fault at the end of a buffer: the next one, with what is written of the present block. `false`: no such fault.
pub(crate) fn on_buffer_end(thread: &mut TracedThread, info: &SigInfo, context: &mut UContext) -> bool {
    let windows = WINDOWS.load(Ordering::Relaxed);
    if windows == 0 || !(windows..windows + WINDOW_STRIDE * BUFFER_COUNT as u64).contains(&info.addr) {
        return false;
    }
    let (Some(live), Some(pool)) = (thread.translation.live(), PROCESS.pool()) else { return false };
    let mut engine = ENGINE.lock();
    let Some(register) = engine.pointer(context.gregs.rip) else { return false };
    let sample = live.look(&pool, |words| engine.sample(words)).flatten();
    drop(engine);
    let position = live.position();
    let mut carried = [0u64; blocks::MAX_VALUES];
    // The header comes last, and stands before the values.
    let count = (info.addr.saturating_sub(position + 8) / 8).min(carried.len() as u64) as usize;
    for (index, place) in carried.iter_mut().enumerate().take(count) {
        *place = live.open_value(&pool, index as u8);
    }
    if !thread.refill_flow(live, &pool) {
        // Nobody reads any more: the thread writes the same buffer again and again.
        let Some(base) = void(thread) else { return false };
        live.begin(u32::MAX, base);
        live.begin_entries();
    } else {
        thread.note_order_now(&pool);
        verify::on_buffer(thread, context);
        live.carry(&pool, carried.get(..count).unwrap_or(&[]));
        if let Some(sample) = sample {
            let made = ENGINE.lock().lengthen(&sample, &mut Around { mode: Mode::Record });
            Work::Paths.add(made as u64);
        }
    }
    // What counts writes to the last header, and all else to what comes after it.
    let place = if info.addr < position { live.last() } else { live.position() };
    context.gregs.set_number(register, place);
    true
}

/// Private memory in the place of a buffer.
fn void(thread: &mut TracedThread) -> Option<u64> {
    let _ = thread;
    let base = WINDOWS.load(Ordering::Relaxed) + (BUFFER_COUNT as u64 - 1) * WINDOW_STRIDE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED;
    // SAFETY: the last window, which only threads use for which nobody reads any more.
    let result =
        unsafe { sys::mmap(base, FLOW_BYTES as u64, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) };
    (!sys::failed(result)).then_some(base)
}
