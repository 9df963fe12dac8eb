//! Linker arguments of the preloaded library.

fn main() {
    // The library exports these to the program; the compiler's own calls must not end up there (see tracee::mem).
    for name in
        ["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen", "rust_eh_personality", "_Unwind_Resume"]
    {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    // Our own entry points call our own implementations, whatever else exports such names.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Without the compiler's start-up files, which have functions for the loader to call at the end: translated code that calls into us
    // goes on natively, and what the destructors of other libraries do would be lost.
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    // Every import is bound before the program runs: a lazy binding inside a handler would enter the loader.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    // The tracer is ready before any other library's own start-up code runs.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    // It links no library: all that is traced has the C library. Before glibc 2.34 that has no dlsym, and few programs load the one that does.
    println!("cargo:rerun-if-env-changed=MEMTAP_LINK_DL");
    if std::env::var_os("MEMTAP_LINK_DL").is_some() {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed,-l:libdl.so,--as-needed");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
