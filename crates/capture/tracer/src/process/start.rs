//! From the loader's call to the program's first instruction: connect, take over, follow what is mapped.

use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering;

use tracee::sys;

use crate::process::image::{self, VARIABLE};
use crate::process::{attach_words, breakpoint, connect, identity, regions};
use crate::protect::ranges::RANGES;
use crate::router;
use crate::signal::{actions, rseq, waiting};
use crate::state::process::PROCESS;
use crate::state::settings::Settings;
use crate::state::thread::TracedThread;
use crate::translate::{process, translated_thread};
use crate::watch::watchpoints;

const CHANNEL: &[u8] = b"MEMTAP_CHANNEL=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Connects to the recorder, where there is one, and takes the program over: the library's constructor.
///
/// # Safety
/// Called by the loader, once, with the program's arguments, while there is one thread.
pub unsafe extern "C" fn construct(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) {
    // SAFETY: the loader's arguments.
    let Some(Own { channel, channel_len, image, auxiliary }) = (unsafe { take_own(envp) }) else { return };
    let Some((pool, config)) = connect::connect(channel.get(..channel_len).unwrap_or(&[])) else {
        sys::complain(b"memtap: no recorder answers; the program runs untraced\n");
        return;
    };
    let control = pool.control();
    if !control.is_valid() {
        sys::complain(b"memtap: the recorder is of another version; the program runs untraced\n");
        return;
    }
    let Some(process) = control.next_process() else { return };
    let mut settings = Settings::new(&config, channel, channel_len);
    rseq::find();
    rseq::forget();
    // SAFETY: the loader's arguments, and what the kernel laid out after them.
    if !image.is_null() && !unsafe { image::load(&mut settings, image, argv, envp, auxiliary) } {
        sys::complain(b"memtap: the static program can't be mapped here; run it without memtap\n");
        sys::exit_group(127);
    }
    // SAFETY: the loader's arguments.
    unsafe { identity::note_arguments(argc, argv) };
    identity::find_library(&mut settings);
    // SAFETY: one thread, and nobody has read them yet.
    unsafe { *PROCESS.settings.get() = settings };
    PROCESS.pool.store(pool.span().0 as usize, Ordering::Release);
    PROCESS.number.store(process, Ordering::Relaxed);
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    if let Some(slot) = pool.process(process) {
        slot.enter(sys::getpid(), None, sys::realtime_ns());
    }
    if !config.translate && !RANGES.lock().prepare() {
        sys::complain(
            b"memtap: no address space for the page table (ulimit -v?); the program runs untraced\n",
        );
        return;
    }
    // SAFETY: prepared here and entered at once.
    let Some(thread) = TracedThread::prepare().and_then(|thread| unsafe { TracedThread::enter(thread) })
    else {
        sys::complain(b"memtap: no memory for the tracer; the program runs untraced\n");
        return;
    };
    if config.translate && !(process::prepare(thread) && attach_words::make_stack()) {
        sys::complain(b"memtap: no memory for translated code; the program runs untraced\n");
        return;
    }
    if config.translate {
        process::find_functions(true);
    }
    thread.install_handler_stack();
    actions::take_over(router::HANDLERS);
    waiting::take_over_mask(thread);
    identity::tell_program(thread);
    regions::follow_mappings(thread, None);
    watchpoints::load(&config.watchpoints);
    translated_thread::begin_locals(thread);
    if !TracedThread::watch_system_calls(true) {
        sys::complain(
            b"memtap: this kernel has no system call user dispatch (Linux 5.11); the program runs untraced\n",
        );
        return;
    }
    PROCESS.ready.store(true, Ordering::Release);
    attach_words::note_recorder(control.recorder().unwrap_or(0));
    breakpoint::plant(&config.breakpoints);
    thread.settled = true;
}

/// What the recorder tells by variables.
struct Own {
    /// Its socket's name.
    channel: [u8; 64],
    channel_len: usize,
    /// The static executable in whose place this program was started; null: none.
    image: *const c_char,
    /// The auxiliary vector: after the null of the list as the kernel made it.
    auxiliary: *mut u64,
}

/// Finds the recorder's name among the variables, and takes what is ours out of them: the program shall not see it.
unsafe fn take_own(envp: *mut *mut c_char) -> Option<Own> {
    let mut name = [0; 64];
    let mut len = None;
    let mut image = core::ptr::null();
    let mut to = envp;
    let mut from = envp;
    // SAFETY: the list ends with a null, its strings with a zero; what is moved stays inside the list.
    unsafe {
        while !(*from).is_null() {
            let mut variable = *from;
            from = from.add(1);
            if let Some(value) = value_of(variable, CHANNEL) {
                let mut index = 0;
                while let Some(place) = name.get_mut(index).filter(|_| *value.add(index) != 0) {
                    *place = *value.add(index) as u8;
                    index += 1;
                }
                len = Some(index);
                continue;
            }
            if let Some(value) = value_of(variable, VARIABLE) {
                image = value.cast_const();
                continue;
            }
            if let Some(value) = value_of(variable, PRELOAD) {
                // Our library is the first of the list; what the user had follows after a colon.
                let mut rest = value;
                while *rest != 0 && *rest != b':' as c_char {
                    rest = rest.add(1);
                }
                if *rest == 0 {
                    continue;
                }
                // The name moves up to the rest of its value.
                let start = rest.add(1).sub(PRELOAD.len());
                core::ptr::copy(variable, start, PRELOAD.len());
                variable = start;
            }
            *to = variable;
            to = to.add(1);
        }
        if len.is_some() {
            *to = core::ptr::null_mut();
        }
    }
    // The null is the last that was read.
    let auxiliary = from.wrapping_add(1).cast();
    len.map(|len| Own { channel: name, channel_len: len, image, auxiliary })
}

unsafe fn value_of(variable: *mut c_char, name: &[u8]) -> Option<*mut c_char> {
    for (index, byte) in name.iter().enumerate() {
        // SAFETY: reads no further than the first difference.
        if unsafe { *variable.add(index) } as u8 != *byte {
            return None;
        }
    }
    Some(variable.wrapping_add(name.len()))
}
