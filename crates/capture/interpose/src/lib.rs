//! `libmemtap_tracer.so`: crate `tracer` as the library that is loaded into
//! programs, and the functions that the program calls instead of the C library's.
//!
//! It contains only entry points: each passes the caller's address on and jumps to its implementation in the tracer.
//! They are a separate crate for two reasons. First, programs that link `tracer` keep their own malloc, so `tracer`
//! can have unit tests. Second, no object file both defines `memcpy` and calls it: the linker redirects the calls that
//! the compiler makes in the other object files to the tracer's own memory functions (`--wrap`, see `tracee::mem`).
//!
//! The caller's address goes into `r9`, the sixth argument, which none of the wrapped functions has; the functions of the other lists
//! have more arguments or may unwind. Some of those only note their caller in the thread's state and jump on to the real function;
//! OpenMP's regions and tasks are identified by the function that they run, not by their caller. The lists are `tracer::entry_points!`.
#![no_std]

use core::arch::naked_asm;
use core::ffi::{c_char, c_int};

/// In the list of functions that the loader calls before the program starts; the linker's flag makes it the first.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = tracer::construct;

/// Nothing here panics; if it does all the same, the program must not go on with half a step done.
#[panic_handler]
fn on_panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let mut line = tracee::text::Text::<512>::new();
    let _ = writeln!(line, "memtap: a bug in the tracer ({info}); the program ends");
    tracee::sys::complain(line.as_bytes());
    tracer::note_bug();
    tracee::sys::exit_group(134)
}

/// The precompiled core library names this and the next one in its unwinding tables; nothing unwinds here. Wrapped at link
/// time (see build.rs), because a program's own must not be replaced by them.
#[unsafe(no_mangle)]
extern "C" fn __wrap_rust_eh_personality() {}

/// What would go on with unwinding: it never begins.
#[unsafe(no_mangle)]
extern "C" fn __wrap__Unwind_Resume() -> ! {
    tracee::sys::exit_group(134)
}

/// For the instruction decoder; never the program's heap.
#[global_allocator]
static ALLOCATOR: tracee::alloc::Allocator = tracee::alloc::Allocator;

/// Defines the entry points of the tracer's list.
macro_rules! functions {
    (
        entries { $($entry:ident => $implementation:literal,)* }
        plain { $($plain:ident => $direct:literal,)* }
        notes { $($note:ident => $index:literal, $function:literal,)* }
    ) => {
        $(
            /// # Safety
            /// As the C library's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $entry() {
                naked_asm!("mov r9, qword ptr [rsp]", concat!("jmp ", $implementation));
            }
        )*

        $(
            /// # Safety
            /// As the OpenMP library's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $plain() {
                naked_asm!(concat!("jmp ", $direct));
            }
        )*

        $(
            /// # Safety
            /// As the C or C++ library's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $note() {
                naked_asm!(
                    "mov r10, qword ptr [rip + memtap_real@GOTPCREL]",
                    concat!("mov r10, qword ptr [r10 + 8 * ", $index, "]"),
                    "test r10, r10",
                    "jnz 2f",
                    // The first call: ask the loader for the real function, keeping the arguments.
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "sub rsp, 8",
                    concat!("mov edi, ", $index),
                    "call memtap_resolve",
                    "mov r10, rax",
                    "add rsp, 8", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "2:",
                    "mov r11, qword ptr [rip + memtap_tls@gottpoff]",
                    "mov r11, qword ptr fs:[r11]",
                    "test r11, r11",
                    "jz 3f",
                    // One form of operator new calls another: the note of the program's own call stays. A caller within a
                    // MiB of the real function is its library.
                    "mov rax, qword ptr [rsp]",
                    "sub rax, r10",
                    "add rax, 0x100000",
                    "cmp rax, 0x200000",
                    "jb 3f",
                    // One form goes on in another: the same.
                    "mov rax, qword ptr [rsp]",
                    "cmp rax, qword ptr [r11 + 16]",
                    "je 3f",
                    "mov qword ptr [r11 + 16], rax",
                    concat!("mov qword ptr [r11 + 24], ", $function),
                    "3:",
                    "xor eax, eax",
                    "jmp r10",
                );
            }
        )*
    };
}

tracer::entry_points!(functions);

/// The program's entry into its C library: the tracer takes main's place.
///
/// # Safety
/// Called by the program's start-up code.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call memtap_take_main",
        "mov r11, rax",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "mov rdi, qword ptr [rip + memtap_main@GOTPCREL]",
        "jmp r11",
    );
}
