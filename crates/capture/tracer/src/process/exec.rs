//! exec: the process becomes another program, which is traced where it can be.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use memref::GapReason;
use tracee::frame::UContext;
use tracee::sys;
use tracee::text::Text;

use crate::process::image::{self, VARIABLE};
use crate::process::program::{self, Verdict};
use crate::protect::pages;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;
use crate::syscall::{paths, program_memory};
use crate::translate::process;

/// What the loader takes libraries from.
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Bytes of `LD_PRELOAD=` and `MEMTAP_CHANNEL=` lines.
const VARIABLE_BYTES: usize = 8192;

/// execve and execveat. Returns only where they fail.
pub(crate) fn exec(thread: &mut TracedThread, context: &mut UContext, call: &SystemCall) -> isize {
    let at = call.number == libc::SYS_execveat;
    let [a, b, c, d, e, _] = call.args.map(|arg| arg as u64);
    let (path, argv, envp) = if at { (b, c, d) } else { (a, b, c) };
    let path = if !at && paths::is_own_link(path) { PROCESS.settings().image.as_ptr() as u64 } else { path };
    let follow = PROCESS.settings().children && PROCESS.ready.load(Ordering::Relaxed);
    let mut own = [0; libc::PATH_MAX as usize];
    // Where the path can't be read the kernel says why.
    let name = program_memory::string(path, &mut own);
    let verdict = if !follow {
        Verdict::Untraced
    } else if at && (a as i32 != libc::AT_FDCWD || e != 0) {
        let mut name = Text::<1024>::new();
        paths::path_of_descriptor(a as i32, &mut name);
        name.push(b"\0");
        // A path relative to an open directory is judged by nobody: most programs can be traced.
        if e as i32 & libc::AT_EMPTY_PATH != 0 {
            CStr::from_bytes_until_nul(name.as_bytes()).map_or(Verdict::Traceable, program::judge)
        } else {
            Verdict::Traceable
        }
    } else {
        name.map_or(Verdict::Missing, program::judge)
    };
    let carrier = image::carrier();
    let verdict = if verdict == Verdict::Static
        && (at || !PROCESS.settings().translate || carrier.as_bytes().is_empty())
    {
        Verdict::Untraced
    } else {
        verdict
    };
    let image = if verdict == Verdict::Static { pages::open_address(path) } else { 0 };
    let traced = matches!(verdict, Verdict::Traceable | Verdict::Static);
    let Some((argv, envp)) = arguments(thread, argv, envp, traced, image) else {
        return -(sys::EFAULT as isize);
    };
    if verdict == Verdict::Untraced && follow {
        thread.emit_gap(GapReason::UntracedProgram, 1, 0, name.map_or(b"", CStr::to_bytes));
    }
    if !PROCESS.is_vfork_child() && verdict != Verdict::Missing {
        process::tell_work(thread);
    }
    thread.submit();
    let mut args = call.args;
    if at {
        args[1] = pages::open_address(path) as usize;
        args[2] = argv;
        args[3] = envp;
    } else {
        args[0] = if image == 0 {
            pages::open_address(path) as usize
        } else {
            carrier.as_bytes().as_ptr() as usize
        };
        args[1] = argv;
        args[2] = envp;
    }
    // A mask outlives exec, and the new program must find the one that this one set.
    let real = sys::set_mask(context.mask | thread.signals.virtual_mask);
    // As in `exit`.
    thread.system_call.calling.store(core::ptr::null_mut(), Ordering::Release);
    // SAFETY: the program's own call, its strings at open addresses.
    let result = unsafe { sys::syscall(call.number as usize, args) };
    sys::set_mask(real);
    result
}

/// Number of pointers before the null of a list; `None` where it can't be read.
fn count(list: u64) -> Option<usize> {
    let mut count = 0;
    // A null list counts as empty, as the kernel has it.
    while list != 0 && program_memory::value::<u64>(list + count as u64 * 8)? != 0 {
        count += 1;
    }
    Some(count)
}

/// Copies of the two lists with open addresses, and our variables where the new program is to be traced; `image` is the
/// path of a static executable, or zero.
fn arguments(
    thread: &mut TracedThread,
    argv: u64,
    envp: u64,
    traced: bool,
    image: u64,
) -> Option<(usize, usize)> {
    let (args, variables) = (count(argv)?, count(envp)?);
    let bytes = (args + variables + 5) * 8;
    let room = thread.scratch(bytes + VARIABLE_BYTES);
    if room.is_null() {
        return None;
    }
    let list = room.cast::<u64>();
    // SAFETY: `room` holds both lists, their nulls, two more entries and the text after them.
    unsafe {
        for index in 0..args {
            let pointer = program_memory::value(argv + index as u64 * 8)?;
            list.add(index).write(pages::open_address(pointer));
        }
        list.add(args).write(0);
        let env = list.add(args + 1);
        let mut used = 0;
        let text = core::slice::from_raw_parts_mut(room.add(bytes), VARIABLE_BYTES);
        let mut preload = Text::<{ VARIABLE_BYTES / 2 }>::new();
        let settings = PROCESS.settings();
        let library = settings.library.get(..settings.library_len).unwrap_or(&[]);
        preload.push(PRELOAD);
        preload.push(library);
        for index in 0..variables {
            let variable = program_memory::value(envp + index as u64 * 8)?;
            if traced && program_memory::starts_with(variable, PRELOAD)? {
                preload.push(b":");
                push_string(variable + PRELOAD.len() as u64, &mut preload);
                continue;
            }
            env.add(used).write(pages::open_address(variable));
            used += 1;
        }
        if traced {
            preload.push(b"\0");
            let mut channel = Text::<128>::new();
            channel.push(b"MEMTAP_CHANNEL=");
            channel.push(settings.channel.get(..settings.channel_len).unwrap_or(&[]));
            channel.push(b"\0");
            let (first, rest) = text.split_at_mut_checked(preload.as_bytes().len())?;
            first.copy_from_slice(preload.as_bytes());
            rest.get_mut(..channel.as_bytes().len())?.copy_from_slice(channel.as_bytes());
            env.add(used).write(first.as_ptr() as u64);
            env.add(used + 1).write(rest.as_ptr() as u64);
            used += 2;
            if image != 0 {
                let mut variable = Text::<{ VARIABLE_BYTES / 4 }>::new();
                variable.push(VARIABLE);
                push_string(image, &mut variable);
                variable.push(b"\0");
                let third = rest.get_mut(channel.as_bytes().len()..)?.get_mut(..variable.as_bytes().len())?;
                third.copy_from_slice(variable.as_bytes());
                env.add(used).write(third.as_ptr() as u64);
                used += 1;
            }
        }
        env.add(used).write(0);
        Some((list as usize, env as usize))
    }
}

/// Appends a string of the program, as far as it can be read and there is room.
fn push_string<const N: usize>(addr: u64, text: &mut Text<N>) {
    let mut byte = [0];
    let mut at = addr;
    while program_memory::read(at, &mut byte) && byte != [0] && text.as_bytes().len() < N {
        text.push(&byte);
        at += 1;
    }
}
