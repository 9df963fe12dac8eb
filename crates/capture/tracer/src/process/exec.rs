//! exec: the process executes another program, which is traced if possible.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::GapReason;
use tracee::frame::UContext;
use tracee::sys;
use tracee::text::Text;

use crate::memory::{pages, program_memory};
use crate::process::image::{self, VARIABLE};
use crate::process::program::{self, Verdict};
use crate::process::{connect, debugger, library_path, sanitizer};
use crate::signal::actions;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;
use crate::syscall::{limits, paths};
use crate::translate::process;

/// What the loader takes libraries from.
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// The longest string that the kernel takes as a variable, in bytes: `MAX_ARG_STRLEN` of Linux. A longer one is cut after that many,
/// and is refused by the kernel as the program's own would have been.
const LONGEST: u64 = 32 * 4096;

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
        Verdict::Untraced("children are not wanted")
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
    let is_debugged = matches!(verdict, Verdict::Traceable | Verdict::Static)
        && (debugger::has_put_off() || debugger::is_recorded());
    let verdict = if is_debugged { Verdict::Untraced(debugger::WHY) } else { verdict };
    let carrier = image::carrier();
    let has_carrier = CStr::from_bytes_until_nul(carrier.as_bytes()).is_ok_and(sys::can_execute);
    let verdict = match verdict {
        Verdict::Static if !PROCESS.settings().translate => Verdict::Untraced("it is statically linked"),
        Verdict::Static if at => Verdict::Untraced("it is statically linked, and executed by a descriptor"),
        // The carrier needs its own libraries.
        Verdict::Static if !has_carrier || !library_path::is_at_its_path() => {
            Verdict::Untraced("it is statically linked, and memtap's own program can't be executed there")
        }
        verdict => verdict,
    };
    let library = library_path::for_exec();
    let verdict = if verdict == Verdict::Traceable && library.is_none() {
        Verdict::Untraced(
            "memtap's library can't be reached there: another root directory, and no /proc in it",
        )
    } else {
        verdict
    };
    let mut libraries = Text::<1024>::new();
    if let Some(sanitizer) = name.filter(|_| !at).and_then(sanitizer::needed_by) {
        libraries.push(sanitizer.name());
        libraries.push(b":");
    }
    libraries.push(library.unwrap_or_default().as_bytes());
    let image = if verdict == Verdict::Static { pages::open_address(path) } else { 0 };
    let traced = matches!(verdict, Verdict::Traceable | Verdict::Static);
    let announcement = PROCESS.pool().filter(|_| traced).map_or(0, |pool| pool.control().next_announcement());
    call.log_exec(thread, verdict != Verdict::Missing);
    if count(argv).and(count(envp)).is_none() {
        // It fails; whether for that or for the file is the kernel's to say, which looks for the file first.
        let mut args = call.args;
        if let Some(word) = args.get_mut(usize::from(at)) {
            *word = pages::open_address(path) as usize;
        }
        // SAFETY: the program's own call, with a list that can't be read.
        return unsafe { sys::syscall(call.number as usize, args) };
    }
    let Some((argv, envp)) =
        arguments(thread, argv, envp, traced.then_some((announcement, &libraries)), image)
    else {
        return -(sys::EFAULT as isize);
    };
    if let Verdict::Untraced(why) = verdict
        && follow
    {
        let mut words = Text::<{ libc::PATH_MAX as usize }>::new();
        words.push(name.map_or(b"", CStr::to_bytes));
        let _ = write!(words, " ({why})");
        thread.emit_gap(GapReason::UntracedProgram, 1, 0, words.as_bytes());
    }
    if !PROCESS.is_vfork_child() && verdict != Verdict::Missing {
        process::tell_work(thread);
    }
    if traced {
        let name = name.map_or(b"".as_slice(), CStr::to_bytes);
        thread.emit(&Record::Exec { announcement, own_pid: sys::getpid(), name });
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
    if !traced {
        limits::give_back(false);
    }
    // A mask outlives exec, and the new program must find the one that this one set.
    let real = sys::set_mask(context.mask | thread.signals.virtual_mask);
    // As in `exit`.
    thread.system_call.calling.store(core::ptr::null_mut(), Ordering::Release);
    debugger::before_exec();
    let ignored = actions::ignore_for_exec();
    // SAFETY: the program's own call, its strings at open addresses.
    let result = unsafe { sys::syscall(call.number as usize, args) };
    actions::take_again(ignored);
    sys::set_mask(real);
    if traced {
        thread.emit(&Record::ExecFailed { announcement });
        library_path::after_failed_exec();
        connect::after_failed_exec();
    }
    result
}

/// Number of pointers before the null of a list; `None` where it can't be read.
fn count(list: u64) -> Option<usize> {
    let mut count = 0;
    // A null list counts as empty, as the kernel has it.
    while list != 0 && program_memory::value_behind::<u64>(list, count as u64 * 8)? != 0 {
        count += 1;
    }
    Some(count)
}

/// Copies of the two lists with open addresses, and our variables where the new program is to be traced, with the number under
/// which it is announced and the libraries that come first; `image` is the path of a static executable, or zero.
fn arguments(
    thread: &mut TracedThread,
    argv: u64,
    envp: u64,
    announced: Option<(u32, &Text<1024>)>,
    image: u64,
) -> Option<(usize, usize)> {
    let (args, variables) = (count(argv)?, count(envp)?);
    let limits = limits::variable();
    let mut channel = Text::<128>::new();
    let mut text_bytes = 0;
    if let Some((announcement, libraries)) = announced {
        let settings = PROCESS.settings();
        channel.push(b"MEMTAP_CHANNEL=");
        channel.push(settings.channel.get(..settings.channel_len).unwrap_or(&[]));
        write!(channel, ":{announcement}").ok()?;
        if let Some(kept) = connect::for_exec() {
            write!(channel, ":{kept}").ok()?;
        }
        let own = [PRELOAD, libraries.as_bytes(), channel.as_bytes(), limits.as_bytes()];
        text_bytes = own.iter().map(|text| text.len()).sum::<usize>() + 3;
        for index in 0..variables {
            let variable = program_memory::value_behind(envp, index as u64 * 8)?;
            if program_memory::starts_with(variable, PRELOAD)? {
                text_bytes += 1 + len(variable + PRELOAD.len() as u64)?;
            }
        }
        if image != 0 {
            text_bytes += VARIABLE.len() + len(image)? + 1;
        }
    }
    let list_bytes = (args + variables + 6) * 8;
    let room = thread.scratch(list_bytes + text_bytes);
    if room.is_null() {
        return None;
    }
    let list = room.cast::<u64>();
    // SAFETY: `room` holds both lists, their nulls, four more entries and the text after them.
    unsafe {
        for index in 0..args {
            let pointer = program_memory::value_behind(argv, index as u64 * 8)?;
            list.add(index).write(pages::open_address(pointer));
        }
        list.add(args).write(0);
        let env = list.add(args + 1);
        let mut used = 0;
        let mut add = |variable: u64| {
            env.add(used).write(variable);
            used += 1;
        };
        let mut text = Variables::new(core::slice::from_raw_parts_mut(room.add(list_bytes), text_bytes));
        if let Some((_, libraries)) = announced {
            text.push(PRELOAD)?;
            text.push(libraries.as_bytes())?;
        }
        for index in 0..variables {
            let variable = program_memory::value_behind(envp, index as u64 * 8)?;
            if announced.is_some() && program_memory::starts_with(variable, PRELOAD)? {
                text.push(b":")?;
                text.push_string(variable + PRELOAD.len() as u64)?;
            } else {
                add(pages::open_address(variable));
            }
        }
        if announced.is_some() {
            add(text.end()?);
            text.push(channel.as_bytes())?;
            add(text.end()?);
            if image != 0 {
                text.push(VARIABLE)?;
                text.push_string(image)?;
                add(text.end()?);
            }
            if !limits.as_bytes().is_empty() {
                text.push(limits.as_bytes())?;
                add(text.end()?);
            }
        }
        add(0);
        Some((list as usize, env as usize))
    }
}

/// Bytes that are copied of a string of the program; `None` where it can't be read.
fn len(string: u64) -> Option<usize> {
    program_memory::string_len(string, LONGEST).map(|len| len as usize)
}

/// Variables for the next program, written one after the other into memory that was measured for them.
struct Variables<'a> {
    /// What is still free.
    room: &'a mut [u8],
    /// Where the variable begins that is being written.
    start: u64,
}

impl<'a> Variables<'a> {
    fn new(room: &'a mut [u8]) -> Self {
        Self { start: room.as_ptr() as u64, room }
    }

    /// Appends to the variable. `None` where there is no room: the program has changed a string since it was measured.
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let (place, rest) = core::mem::take(&mut self.room).split_at_mut_checked(bytes.len())?;
        place.copy_from_slice(bytes);
        self.room = rest;
        Some(())
    }

    /// Appends a string of the program.
    fn push_string(&mut self, addr: u64) -> Option<()> {
        let (place, rest) = core::mem::take(&mut self.room).split_at_mut_checked(len(addr)?)?;
        self.room = rest;
        program_memory::read(addr, place).then_some(())
    }

    /// Ends the variable, and returns its address.
    fn end(&mut self) -> Option<u64> {
        self.push(b"\0")?;
        Some(core::mem::replace(&mut self.start, self.room.as_ptr() as u64))
    }
}

#[cfg(test)]
mod tests {
    use core::ptr;
    use std::ffi::CString;

    use super::*;
    use crate::testing;

    /// A list as the program has it.
    fn list(strings: &[&CStr]) -> Vec<u64> {
        strings.iter().map(|string| string.as_ptr() as u64).chain([0]).collect()
    }

    /// The strings of a list that was made.
    fn strings(list: usize) -> Vec<String> {
        let mut list: *const *const core::ffi::c_char = ptr::with_exposed_provenance(list);
        let mut all = Vec::new();
        // SAFETY: pointers to terminated strings, and null at their end.
        unsafe {
            while !(*list).is_null() {
                all.push(CStr::from_ptr(*list).to_str().unwrap().to_owned());
                list = list.add(1);
            }
        }
        all
    }

    /// Compares the arguments and variables of the next program with those expected, where this one gives it the variables.
    fn check(variables: &[&CStr], announced: Option<(u32, &[u8])>, image: &CStr, expect: &[&str]) {
        let thread = testing::thread();
        let (argv, envp) = (list(&[c"ls", c"-l", c""]), list(variables));
        let mut libraries = Text::new();
        libraries.push(announced.map_or(&[], |(_, libraries)| libraries));
        let announced = announced.map(|(number, _)| (number, &libraries));
        let image = if image.is_empty() { 0 } else { image.as_ptr() as u64 };
        let made = arguments(thread, argv.as_ptr() as u64, envp.as_ptr() as u64, announced, image);
        let (args, variables) = made.expect("memory");
        assert_eq!(strings(args), ["ls", "-l", ""]);
        assert_eq!(strings(variables), expect);
    }

    #[test]
    fn a_program_that_is_traced_gets_our_variables_and_keeps_its_own() {
        let given = [c"A=1", c"LD_PRELOAD=x.so y.so", c"LD_PRELOADED=2", c"LD_PRELOAD=z.so", c"B="];
        check(&given, None, c"", &given.map(|variable| variable.to_str().unwrap()));
        let preload = "LD_PRELOAD=/a/asan.so:/a/own.so:x.so y.so:z.so";
        let own = ["A=1", "LD_PRELOADED=2", "B=", preload, "MEMTAP_CHANNEL=:7"];
        check(&given, Some((7, b"/a/asan.so:/a/own.so")), c"", &own);
        // A static executable is named to the program that the kernel starts in its place.
        let expect = ["LD_PRELOAD=/a/own.so", "MEMTAP_CHANNEL=:8", "MEMTAP_STATIC=./run"];
        check(&[], Some((8, b"/a/own.so")), c"./run", &expect);
        check(&[], None, c"", &[]);
    }

    #[test]
    fn lists_end_with_null_and_a_null_list_is_empty() {
        assert_eq!(count(list(&[c"a", c"", c"b"]).as_ptr() as u64), Some(3));
        assert_eq!((count(list(&[]).as_ptr() as u64), count(0)), (Some(0), Some(0)));
    }

    #[test]
    fn long_lists_and_paths_are_whole() {
        let long = CString::new(format!("LD_PRELOAD={}", "/a/library.so:".repeat(2000))).unwrap();
        let path = CString::new(format!("/{}", "directory/".repeat(400))).unwrap();
        let preload = long.to_str().unwrap().replace('=', "=/a/own.so:");
        let image = format!("MEMTAP_STATIC={}", path.to_str().unwrap());
        let expect = ["A=1", &preload, "MEMTAP_CHANNEL=:9", &image];
        check(&[c"A=1", &long], Some((9, b"/a/own.so")), &path, &expect);
    }

    #[test]
    fn no_variable_is_longer_than_its_room() {
        let mut room = [1; 8];
        let mut text = Variables::new(&mut room);
        assert_eq!((text.push(b"A="), text.push_string(c"b".as_ptr() as u64)), (Some(()), Some(())));
        let first = text.end().expect("there is room");
        // As where the program made a string longer since it was measured.
        assert_eq!((text.push(b"B="), text.push_string(c"cde".as_ptr() as u64)), (Some(()), None));
        assert_eq!((first, &room[..6]), (room.as_ptr() as u64, &b"A=b\0B="[..]));
    }
}
