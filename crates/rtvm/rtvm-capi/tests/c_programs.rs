//! C programs that use libmemtap_rtheap.so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_path_buf()
}

/// Where cargo put the library for this test.
fn library_dir() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let dirs = [deps.clone(), deps.parent().unwrap().to_path_buf()];
    dirs.into_iter().find(|dir| dir.join("libmemtap_rtheap.so").exists()).expect("the library is built")
}

fn build_and_run(source: &Path) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    // Under the name for linking and that for the loader, as an installation has it.
    let library = dir.path().join("lib");
    std::fs::create_dir(&library).unwrap();
    for name in ["libmemtap_rtheap.so", "libmemtap_rtheap.so.0"] {
        std::os::unix::fs::symlink(library_dir().join("libmemtap_rtheap.so"), library.join(name)).unwrap();
    }
    let built = Command::new("gcc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(repository().join("include"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .arg("-lmemtap_rtheap")
        .status()
        .expect("gcc is installed");
    assert!(built.success());
    Command::new(&program).env("LD_LIBRARY_PATH", &library).output().unwrap()
}

/// Runs a program and returns what it wrote.
fn check(source: &str) -> String {
    let output = build_and_run(&repository().join(source));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {err}", output.status);
    out.into_owned()
}

#[test]
fn the_example_never_waits_for_memory() {
    let out = check("examples/rtheap/control_loop.c");
    let messages = out.strip_suffix(" messages, none waited for memory\n").expect(&out);
    assert!(messages.parse::<u32>().unwrap() > 90_000);
}

#[test]
fn every_function_does_what_its_header_says() {
    assert_eq!(check("crates/rtvm/rtvm-capi/tests/functions.c"), "ok\n");
}

#[test]
fn the_header_is_cplusplus_too() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("header.cpp");
    std::fs::write(
        &source,
        "#include <memtap_rtheap.h>\nint main() { return memtap_rtheap_check(nullptr) + 1; }\n",
    )
    .unwrap();
    assert!(build_and_run(&source).status.success());
}
