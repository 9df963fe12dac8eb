//! The macros for stable Rust, which has no flag for function instrumentation: each leaves a five-byte nop
//! in the code and a record in the section `memtap_probes`. Without a profiler, the nop is the only cost.

/// Leaves a probe site of this name (a string literal or constant) that marks a point: its passes are counted.
#[macro_export]
macro_rules! probe_site {
    ($name:expr) => {{
        const TEXT: &str = $name;
        static NAME: [u8; TEXT.len()] = *TEXT.as_bytes().first_chunk().expect("as long as itself");
        $crate::probe_nop!(NAME, TEXT.len(), 2)
    }};
}

/// Leaves a probe site here and one where the value it returns is dropped: the time between is measured.
///
/// ```
/// fn work() {
///     let _probe = probes::probe_scope!("work");
/// }
/// work();
/// ```
#[macro_export]
macro_rules! probe_scope {
    ($name:expr) => {{
        const TEXT: &str = $name;
        static NAME: [u8; TEXT.len()] = *TEXT.as_bytes().first_chunk().expect("as long as itself");
        struct Leave;
        impl Drop for Leave {
            #[inline(always)]
            fn drop(&mut self) {
                $crate::probe_nop!(NAME, TEXT.len(), 1)
            }
        }
        $crate::probe_nop!(NAME, TEXT.len(), 0);
        Leave
    }};
}

/// The site itself; use the other two.
#[doc(hidden)]
#[macro_export]
macro_rules! probe_nop {
    ($name:path, $len:expr, $kind:expr) => {
        // SAFETY: a nop of five bytes. Should it become a call, the trampoline saves every register; that it uses the
        // stack and changes flags is what the missing `nostack` and `preserves_flags` say. R: rust-lld keeps it.
        unsafe {
            $crate::macro_support::asm!(
                ".balign 8",
                "771:",
                ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                ".pushsection memtap_probes, \"awR\", @progbits",
                ".balign 8",
                ".quad 771b",
                ".quad {name}",
                ".quad {len}",
                ".quad {kind}",
                ".quad {name}",
                ".popsection",
                name = sym $name,
                len = const $len,
                kind = const $kind,
            )
        }
    };
}
