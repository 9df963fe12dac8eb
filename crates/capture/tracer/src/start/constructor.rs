//! From the loader's call to the program's first instruction: connects, takes over, and follows what is mapped.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;

use buffers::{Arrival, Config, FIRST_ANNOUNCEMENT, Pool, Refusal};
use tracee::{maps, sys};

use crate::memory::program_memory;
use crate::memory::ranges::RANGES;
use crate::process::connect::{self, Answer};
use crate::process::image::{self, VARIABLE};
use crate::process::{identity, library_path, namespaces, regions, sanitizer};
use crate::recording::breakpoint;
use crate::router::signals;
use crate::signal::{actions, alt_stack, rseq, waiting};
use crate::start::attach_words;
use crate::state::process::PROCESS;
use crate::state::settings::Settings;
use crate::state::thread::TracedThread;
use crate::syscall::limits;
use crate::translate::{process, translated_thread};
use crate::watch::watchpoints;

const CHANNEL: &[u8] = b"MEMTAP_CHANNEL=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Connects to the recorder, where there is one, and takes the program over: the library's constructor. Where that can't be
/// done the program runs on without a tracer, and the recorder is told why.
///
/// # Safety
/// Called by the loader, once, with the program's arguments, while there is one thread.
pub unsafe extern "C" fn construct(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) {
    // SAFETY: the loader's arguments.
    let Some(own) = (unsafe { take_own(envp) }) else { return };
    let channel = own.channel.get(..own.channel_len).unwrap_or(&[]);
    let Some(Answer { pool, config, is_own }) = connect::connect(channel, own.connection) else {
        sys::complain(b"memtap: no recorder answers; the program runs untraced\n");
        return;
    };
    let config = Config { pid: if is_own { config.pid } else { 0 }, ..config };
    let control = pool.control();
    if !control.is_valid() {
        sys::complain(b"memtap: the recorder is of another version; the program runs untraced\n");
        return;
    }
    let Some(number) = control.next_process() else { return };
    let Some(slot) = pool.process(number) else { return };
    slot.enter(&Arrival {
        pid: config.pid,
        own_pid: sys::getpid(),
        parent: None,
        announcement: own.announcement,
        start_ns: sys::realtime_ns(),
    });
    // SAFETY: the loader's arguments, and what the kernel laid out after them.
    if let Err(refusal) = unsafe { begin(&pool, &config, number, &own, (argc, argv, envp)) } {
        slot.refuse(refusal);
        limits::give_back(true);
        if refusal == Refusal::NotMapped {
            // What runs here is not the program, and can't become it.
            sys::exit_group(127);
        }
    }
}

/// The loader's arguments.
type Arguments = (c_int, *mut *mut c_char, *mut *mut c_char);

/// Takes the program over, as the process of that number.
///
/// # Safety
/// As for [`construct`].
unsafe fn begin(
    pool: &Pool,
    config: &Config,
    number: u32,
    own: &Own,
    (argc, argv, envp): Arguments,
) -> Result<(), Refusal> {
    let has_table = sanitizer::begin();
    if has_table && !config.translate {
        return Err(Refusal::Sanitizer);
    }
    if !maps::each(|_| ()) {
        return Err(Refusal::NoProc);
    }
    let mut settings = Settings::new(config, own.channel, own.channel_len);
    rseq::find();
    let rseq_len = rseq::forget();
    // SAFETY: the caller's promise.
    if !own.image.is_null() && !unsafe { image::load(&mut settings, own.image, argv, envp, own.auxiliary) } {
        return Err(Refusal::NotMapped);
    }
    // SAFETY: the loader's arguments.
    unsafe { identity::note_arguments(argc, argv) };
    namespaces::note_own(config.pid);
    program_memory::note_filter();
    identity::find_library(&mut settings);
    // SAFETY: one thread, and nobody has read them yet.
    unsafe { *PROCESS.settings.get() = settings };
    PROCESS.pool.store(pool.span().0 as usize, Ordering::Release);
    PROCESS.number.store(number, Ordering::Relaxed);
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    if !config.translate && !RANGES.lock().prepare() {
        return Err(Refusal::NoAddressSpace);
    }
    // SAFETY: prepared here and entered at once.
    let thread = TracedThread::prepare().and_then(|thread| unsafe { TracedThread::enter(thread) });
    let thread = thread.ok_or(Refusal::NoMemory)?;
    rseq::note_forgotten(thread, rseq_len);
    if config.translate && !(process::prepare(thread) && attach_words::make_stack()) {
        return Err(Refusal::NoMemory);
    }
    if !TracedThread::can_watch_system_calls() {
        return Err(Refusal::NoDispatch);
    }
    if config.translate {
        process::find_functions(true);
    }
    thread.install_handler_stack();
    thread.signals.alt_stack = alt_stack::AFTER_EXEC;
    if own.announcement == Some(FIRST_ANNOUNCEMENT) {
        actions::undo_spawn();
    }
    actions::take_over(signals::HANDLERS);
    waiting::take_over_mask(thread);
    identity::tell_program(thread);
    regions::follow_mappings(thread, None);
    watchpoints::load(&config.watchpoints);
    translated_thread::begin_locals(thread);
    TracedThread::watch_system_calls(true);
    PROCESS.ready.store(true, Ordering::Release);
    attach_words::note_recorder(pool.control().recorder().unwrap_or(0));
    breakpoint::plant(&config.breakpoints);
    thread.settled = true;
    Ok(())
}

/// What the recorder tells by variables.
struct Own {
    /// Its socket's name.
    channel: [u8; 64],
    channel_len: usize,
    /// Under which number the program was announced.
    announcement: Option<u32>,
    /// A connection to the recorder that was kept.
    connection: Option<i32>,
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
            if let Some(value) = value_of(variable, limits::VARIABLE) {
                limits::adopt(CStr::from_ptr(value));
                continue;
            }
            if let Some(value) = value_of(variable, VARIABLE) {
                image = value.cast_const();
                continue;
            }
            if let Some(value) = value_of(variable, PRELOAD) {
                // Our library is the first of the list, but for a sanitizer's; what the user had follows after a colon.
                let is_sanitizer = sanitizer::is_first(CStr::from_ptr(value).to_bytes());
                let own = if is_sanitizer { after_element(value) } else { value };
                library_path::adopt(CStr::from_ptr(own));
                let rest = end_of_element(own);
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
    let given = name.get(..len?)?;
    let channel_len = given.iter().position(|&byte| byte == b':').unwrap_or(given.len());
    let mut numbers = given.get(channel_len..).unwrap_or(&[]);
    let mut number = || {
        let (number, rest) = proc_files::number(numbers.strip_prefix(b":")?, 10)?;
        numbers = rest;
        u32::try_from(number).ok()
    };
    let announcement = number();
    let connection = number().map(|number| number as i32);
    Some(Own { channel: name, channel_len, announcement, connection, image, auxiliary })
}

/// Where an element of a list ends: at a colon, or with the list.
///
/// # Safety
/// The list is a terminated string.
unsafe fn end_of_element(mut at: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's promise; not beyond the zero.
    unsafe {
        while *at != 0 && *at != b':' as c_char {
            at = at.add(1);
        }
    }
    at
}

/// The element that follows; the list's end where there is none.
///
/// # Safety
/// The list is a terminated string.
unsafe fn after_element(at: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's promise; a colon is not the zero.
    unsafe {
        let end = end_of_element(at);
        if *end == 0 { end } else { end.add(1) }
    }
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
