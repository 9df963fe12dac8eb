//! The functions that the program calls instead of the C library's.
//!
//! Nothing but entry points: each passes the caller's address on and jumps to its implementation in the tracer. They are
//! a crate of their own so that no object file both defines `memcpy` and calls it: the linker sends the calls that the
//! compiler makes in the other object files to the tracer's own memory functions (`--wrap`, see `tracee::mem`).
//!
//! The caller's address goes into `r9`, the sixth argument, which none of the wrapped functions has; the functions in
//! the second list have more arguments or may unwind, so they only leave a note of their caller in the thread's state and
//! jump on to the real function. OpenMP's regions and tasks have more arguments too; they are known by the function that
//! they run, not by their caller.
#![no_std]

use core::arch::naked_asm;

/// A name from its bytes, at compile time.
const fn name(text: &'static str) -> &'static core::ffi::CStr {
    match core::ffi::CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// A number from its digits, at compile time.
const fn code(text: &str) -> u8 {
    let mut value = 0;
    let mut index = 0;
    while index < text.len() {
        value = value * 10 + (text.as_bytes()[index] - b'0');
        index += 1;
    }
    value
}

/// Defines entry points that jump to `implementation` with the return address as sixth argument.
macro_rules! entries {
    ($($name:ident => $implementation:literal),* $(,)?) => {
        $(
            /// # Safety
            /// As the C library's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name() {
                naked_asm!("mov r9, qword ptr [rsp]", concat!("jmp ", $implementation));
            }
        )*

        /// The names of these entry points.
        pub static ENTRIES: &[&core::ffi::CStr] = &[$(name(concat!(stringify!($name), "\0"))),*];

        /// What they jump to, in the same order.
        pub static IMPLEMENTATIONS: &[unsafe extern "C" fn()] = &[$({
            unsafe extern "C" {
                #[link_name = $implementation]
                fn implementation();
            }
            implementation
        }),*];
    };
}

/// Defines entry points that jump to `implementation` with the arguments as they are.
macro_rules! plain {
    ($($name:ident => $implementation:literal),* $(,)?) => {
        $(
            /// # Safety
            /// As the OpenMP library's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(concat!("jmp ", $implementation));
            }
        )*

        /// The names of these entry points.
        pub static DIRECT: &[&core::ffi::CStr] = &[$(name(concat!(stringify!($name), "\0"))),*];
    };
}

/// Defines entry points that note their caller and what they are, then jump to the real function of that index.
macro_rules! notes {
    ($($name:ident => $index:literal, $function:literal),* $(,)?) => {
        $(
            /// # Safety
            /// As the C or C++ library's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name() {
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
                    "mov rax, qword ptr [rsp]",
                    "mov qword ptr [r11 + 16], rax",
                    concat!("mov qword ptr [r11 + 24], ", $function),
                    "3:",
                    "xor eax, eax",
                    "jmp r10",
                );
            }
        )*

        /// The entry points that leave a note: name, and the code of the function that they are.
        pub static NOTES: &[(&core::ffi::CStr, u8)] =
            &[$((name(concat!(stringify!($name), "\0")), code($function))),*];
    };
}

entries! {
    malloc => "memtap_malloc",
    calloc => "memtap_calloc",
    realloc => "memtap_realloc",
    reallocarray => "memtap_reallocarray",
    free => "memtap_free",
    posix_memalign => "memtap_posix_memalign",
    aligned_alloc => "memtap_aligned_alloc",
    memalign => "memtap_memalign",
    valloc => "memtap_valloc",
    pvalloc => "memtap_pvalloc",
    memcpy => "memtap_memcpy",
    memmove => "memtap_memmove",
    mempcpy => "memtap_mempcpy",
    __mempcpy => "memtap_mempcpy",
    memccpy => "memtap_memccpy",
    memset => "memtap_memset",
    bzero => "memtap_bzero",
    explicit_bzero => "memtap_explicit_bzero",
    bcopy => "memtap_bcopy",
    strcpy => "memtap_strcpy",
    stpcpy => "memtap_stpcpy",
    __stpcpy => "memtap_stpcpy",
    strncpy => "memtap_strncpy",
    stpncpy => "memtap_stpncpy",
    strcat => "memtap_strcat",
    strncat => "memtap_strncat",
    strlen => "memtap_strlen",
    strnlen => "memtap_strnlen",
    strcmp => "memtap_strcmp",
    strncmp => "memtap_strncmp",
    strcasecmp => "memtap_strcasecmp",
    strncasecmp => "memtap_strncasecmp",
    memcmp => "memtap_memcmp",
    bcmp => "memtap_bcmp",
    memchr => "memtap_memchr",
    memrchr => "memtap_memrchr",
    rawmemchr => "memtap_rawmemchr",
    __rawmemchr => "memtap_rawmemchr",
    strchr => "memtap_strchr",
    index => "memtap_strchr",
    strrchr => "memtap_strrchr",
    rindex => "memtap_strrchr",
    strchrnul => "memtap_strchrnul",
    wmemcpy => "memtap_wmemcpy",
    wmemmove => "memtap_wmemmove",
    wmempcpy => "memtap_wmempcpy",
    wmemset => "memtap_wmemset",
    wcscpy => "memtap_wcscpy",
    wcsncpy => "memtap_wcsncpy",
    wcscat => "memtap_wcscat",
    wcslen => "memtap_wcslen",
    wcscmp => "memtap_wcscmp",
    wcsncmp => "memtap_wcsncmp",
    wmemcmp => "memtap_wmemcmp",
    wmemchr => "memtap_wmemchr",
    fread => "memtap_fread",
    fwrite => "memtap_fwrite",
    fread_unlocked => "memtap_fread_unlocked",
    fwrite_unlocked => "memtap_fwrite_unlocked",
    __memcpy_chk => "memtap___memcpy_chk",
    __memmove_chk => "memtap___memmove_chk",
    __mempcpy_chk => "memtap___mempcpy_chk",
    __memset_chk => "memtap___memset_chk",
    __strcpy_chk => "memtap___strcpy_chk",
    __stpcpy_chk => "memtap___stpcpy_chk",
    __strncpy_chk => "memtap___strncpy_chk",
    __strcat_chk => "memtap___strcat_chk",
    __strncat_chk => "memtap___strncat_chk",
    memtap_start => "memtap_on_start",
    memtap_stop => "memtap_on_stop",
    memtap_mark => "memtap_on_mark",
    pthread_mutex_unlock => "memtap_pthread_mutex_unlock",
    pthread_rwlock_unlock => "memtap_pthread_rwlock_unlock",
    pthread_spin_unlock => "memtap_pthread_spin_unlock",
    pthread_cond_signal => "memtap_pthread_cond_signal",
    pthread_cond_broadcast => "memtap_pthread_cond_broadcast",
    sem_post => "memtap_sem_post",
    mtx_unlock => "memtap_mtx_unlock",
    cnd_signal => "memtap_cnd_signal",
    cnd_broadcast => "memtap_cnd_broadcast",
    __cxa_guard_release => "memtap_cxa_guard_release",
    omp_unset_lock => "memtap_omp_unset_lock",
    omp_unset_nest_lock => "memtap_omp_unset_nest_lock",
    GOMP_critical_name_end => "memtap_gomp_critical_name_end",
    pthread_mutex_lock => "memtap_pthread_mutex_lock",
    pthread_mutex_trylock => "memtap_pthread_mutex_trylock",
    pthread_mutex_timedlock => "memtap_pthread_mutex_timedlock",
    pthread_mutex_clocklock => "memtap_pthread_mutex_clocklock",
    pthread_rwlock_rdlock => "memtap_pthread_rwlock_rdlock",
    pthread_rwlock_tryrdlock => "memtap_pthread_rwlock_tryrdlock",
    pthread_rwlock_timedrdlock => "memtap_pthread_rwlock_timedrdlock",
    pthread_rwlock_clockrdlock => "memtap_pthread_rwlock_clockrdlock",
    pthread_rwlock_wrlock => "memtap_pthread_rwlock_wrlock",
    pthread_rwlock_trywrlock => "memtap_pthread_rwlock_trywrlock",
    pthread_rwlock_timedwrlock => "memtap_pthread_rwlock_timedwrlock",
    pthread_rwlock_clockwrlock => "memtap_pthread_rwlock_clockwrlock",
    pthread_spin_lock => "memtap_pthread_spin_lock",
    pthread_spin_trylock => "memtap_pthread_spin_trylock",
    pthread_join => "memtap_pthread_join",
    pthread_tryjoin_np => "memtap_pthread_tryjoin_np",
    pthread_timedjoin_np => "memtap_pthread_timedjoin_np",
    pthread_clockjoin_np => "memtap_pthread_clockjoin_np",
    sem_wait => "memtap_sem_wait",
    sem_trywait => "memtap_sem_trywait",
    sem_timedwait => "memtap_sem_timedwait",
    sem_clockwait => "memtap_sem_clockwait",
    mtx_lock => "memtap_mtx_lock",
    mtx_trylock => "memtap_mtx_trylock",
    mtx_timedlock => "memtap_mtx_timedlock",
    thrd_join => "memtap_thrd_join",
    __cxa_guard_acquire => "memtap_cxa_guard_acquire",
    omp_set_lock => "memtap_omp_set_lock",
    omp_test_lock => "memtap_omp_test_lock",
    omp_set_nest_lock => "memtap_omp_set_nest_lock",
    omp_test_nest_lock => "memtap_omp_test_nest_lock",
    GOMP_critical_name_start => "memtap_gomp_critical_name_start",
    pthread_cond_wait => "memtap_pthread_cond_wait",
    pthread_cond_timedwait => "memtap_pthread_cond_timedwait",
    pthread_cond_clockwait => "memtap_pthread_cond_clockwait",
    cnd_wait => "memtap_cnd_wait",
    cnd_timedwait => "memtap_cnd_timedwait",
    GOMP_barrier => "memtap_gomp_barrier",
    GOMP_barrier_cancel => "memtap_gomp_barrier_cancel",
    GOMP_loop_end => "memtap_gomp_loop_end",
    GOMP_loop_end_cancel => "memtap_gomp_loop_end_cancel",
    GOMP_sections_end => "memtap_gomp_sections_end",
    GOMP_sections_end_cancel => "memtap_gomp_sections_end_cancel",
    GOMP_critical_start => "memtap_gomp_critical_start",
    GOMP_critical_end => "memtap_gomp_critical_end",
    GOMP_atomic_start => "memtap_gomp_atomic_start",
    GOMP_atomic_end => "memtap_gomp_atomic_end",
    GOMP_ordered_start => "memtap_gomp_ordered_start",
    GOMP_ordered_end => "memtap_gomp_ordered_end",
    GOMP_taskwait => "memtap_gomp_taskwait",
    GOMP_taskgroup_end => "memtap_gomp_taskgroup_end",
    pthread_barrier_wait => "memtap_pthread_barrier_wait",
    pthread_once => "memtap_pthread_once",
    GOMP_single_copy_start => "memtap_gomp_single_copy_start",
    GOMP_single_copy_end => "memtap_gomp_single_copy_end",
}

plain! {
    GOMP_parallel => "memtap_gomp_parallel",
    GOMP_parallel_reductions => "memtap_gomp_parallel_reductions",
    GOMP_parallel_sections => "memtap_gomp_parallel_sections",
    GOMP_parallel_loop_static => "memtap_gomp_parallel_loop_static",
    GOMP_parallel_loop_dynamic => "memtap_gomp_parallel_loop_dynamic",
    GOMP_parallel_loop_guided => "memtap_gomp_parallel_loop_guided",
    GOMP_parallel_loop_runtime => "memtap_gomp_parallel_loop_runtime",
    GOMP_parallel_loop_nonmonotonic_dynamic => "memtap_gomp_parallel_loop_nonmonotonic_dynamic",
    GOMP_parallel_loop_nonmonotonic_guided => "memtap_gomp_parallel_loop_nonmonotonic_guided",
    GOMP_parallel_loop_nonmonotonic_runtime => "memtap_gomp_parallel_loop_nonmonotonic_runtime",
    GOMP_parallel_loop_maybe_nonmonotonic_runtime => "memtap_gomp_parallel_loop_maybe_nonmonotonic_runtime",
    GOMP_task => "memtap_gomp_task",
}

notes! {
    _Znwm => "0", "9",
    _Znam => "1", "10",
    _ZnwmRKSt9nothrow_t => "2", "9",
    _ZnamRKSt9nothrow_t => "3", "10",
    _ZnwmSt11align_val_t => "4", "9",
    _ZnamSt11align_val_t => "5", "10",
    _ZnwmSt11align_val_tRKSt9nothrow_t => "6", "9",
    _ZnamSt11align_val_tRKSt9nothrow_t => "7", "10",
    _ZdlPv => "8", "11",
    _ZdaPv => "9", "12",
    _ZdlPvm => "10", "11",
    _ZdaPvm => "11", "12",
    _ZdlPvSt11align_val_t => "12", "11",
    _ZdaPvSt11align_val_t => "13", "12",
    _ZdlPvmSt11align_val_t => "14", "11",
    _ZdaPvmSt11align_val_t => "15", "12",
    _ZdlPvRKSt9nothrow_t => "16", "11",
    _ZdaPvRKSt9nothrow_t => "17", "12",
    mmap => "18", "13",
    mmap64 => "19", "13",
    mremap => "20", "14",
    munmap => "21", "15",
}

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

/// Names of the functions behind `notes!`, in the order of their indices: what the loader is asked for.
pub const NOTED: [&core::ffi::CStr; 22] = [
    c"_Znwm",
    c"_Znam",
    c"_ZnwmRKSt9nothrow_t",
    c"_ZnamRKSt9nothrow_t",
    c"_ZnwmSt11align_val_t",
    c"_ZnamSt11align_val_t",
    c"_ZnwmSt11align_val_tRKSt9nothrow_t",
    c"_ZnamSt11align_val_tRKSt9nothrow_t",
    c"_ZdlPv",
    c"_ZdaPv",
    c"_ZdlPvm",
    c"_ZdaPvm",
    c"_ZdlPvSt11align_val_t",
    c"_ZdaPvSt11align_val_t",
    c"_ZdlPvmSt11align_val_t",
    c"_ZdaPvmSt11align_val_t",
    c"_ZdlPvRKSt9nothrow_t",
    c"_ZdaPvRKSt9nothrow_t",
    c"mmap",
    c"mmap64",
    c"mremap",
    c"munmap",
];
