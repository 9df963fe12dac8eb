//! The library's soname, as include/abi states it: programs that link the library record that name.

fn main() {
    let symbols = include_str!("../../../include/abi/libmemtap_rtmalloc.symbols");
    let soname = symbols.split(' ').next().unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../../include/abi/libmemtap_rtmalloc.symbols");
}
