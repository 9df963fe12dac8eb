//! The list of entry points under the C library's names, and what each of them jumps to.
//!
//! The functions themselves are in crate `interpose`, which is linked around this one: a program or
//! a test harness that links this crate keeps its own malloc. Both crates take the list from here:
//! [`entry_points!`](crate::entry_points) passes it to a macro that defines how it is expanded.

use core::ffi::CStr;

/// Passes the list of entry points to the macro `$each`:
///
/// - `entries`: a name, and the function of this crate that it jumps to with the caller's address as sixth argument;
/// - `plain`: the same, with the arguments as they are;
/// - `notes`: a name, its index among these, and the number of the `AllocationFunction` that it is. They leave a note of
///   their caller, and jump to the C or C++ library's function.
#[macro_export]
macro_rules! entry_points {
    ($each:ident) => {
        $each! {
            entries {
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
            plain {
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
            notes {
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
        }
    };
}

/// A name from its bytes, at compile time.
const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
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

/// The tables of a list of entry points.
macro_rules! tables {
    (
        entries { $($entry:ident => $implementation:literal,)* }
        plain { $($plain:ident => $direct:literal,)* }
        notes { $($note:ident => $index:literal, $function:literal,)* }
    ) => {
        /// Entry points that pass their caller's address on.
        pub(crate) static ENTRIES: &[&CStr] = &[$(name(concat!(stringify!($entry), "\0"))),*];

        /// What they jump to, in the same order.
        pub(crate) static IMPLEMENTATIONS: &[unsafe extern "C" fn()] = &[$({
            unsafe extern "C" {
                #[link_name = $implementation]
                fn implementation();
            }
            implementation
        }),*];

        /// Entry points that pass on their arguments as they are.
        pub(crate) static DIRECT: &[&CStr] = &[$(name(concat!(stringify!($plain), "\0"))),*];

        /// Entry points that leave a note, in the order of their indices: name, and the code of the function that they are.
        pub(crate) static NOTES: &[(&CStr, u8)] =
            &[$((name(concat!(stringify!($note), "\0")), code($function))),*];

        /// How many leave a note.
        pub(crate) const NOTE_COUNT: usize = [$($index),*].len();
    };
}

entry_points!(tables);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_notes_are_numbered_in_their_order() {
        macro_rules! indices {
            (entries { $($_e:tt)* } plain { $($_p:tt)* } notes { $($_n:ident => $index:literal, $_f:literal,)* }) => {
                [$($index),*]
            };
        }
        let all: Vec<&CStr> =
            ENTRIES.iter().chain(DIRECT).copied().chain(NOTES.iter().map(|note| note.0)).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), all.len());
        assert!(!sorted.contains(&c""));
        for (place, index) in entry_points!(indices).iter().enumerate() {
            assert_eq!(*index, place.to_string(), "{:?}", NOTES[place].0);
        }
        assert_eq!(ENTRIES.len(), IMPLEMENTATIONS.len());
    }
}
