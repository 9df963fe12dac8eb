//! What the recorder reads from a process that it may attach to, without calling any function.

use core::sync::atomic::{AtomicU64, Ordering};

use buffers::attach::{ATTACH_VERSION, RECORDED_AT, RECORDER_AT, STACK_AT, VERSION_AT, WORD_COUNT};
use tracee::sys;

const STACK_BYTES: u64 = 1 << 20;

/// What the recorder reads without calling anything.
#[unsafe(no_mangle)]
static memtap_attach_words: [AtomicU64; WORD_COUNT] =
    [AtomicU64::new(ATTACH_VERSION), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
const _: () = assert!(VERSION_AT == 0);

/// The process is recorded from now on, by that process.
pub(crate) fn note_recorder(recorder: u32) {
    set_word(RECORDER_AT, recorder.into());
    set_word(RECORDED_AT, 1);
}

pub(crate) fn set_word(index: usize, value: u64) {
    if let Some(word) = memtap_attach_words.get(index) {
        word.store(value, Ordering::Release);
    }
}

/// The stack for what the recorder calls, once.
pub(crate) fn make_stack() -> bool {
    if memtap_attach_words.get(STACK_AT).is_some_and(|word| word.load(Ordering::Acquire) != 0) {
        return true;
    }
    let Some(stack) = sys::map_anonymous(STACK_BYTES, sys::PROT_READ | sys::PROT_WRITE) else { return false };
    set_word(STACK_AT, stack as u64 + STACK_BYTES);
    true
}
