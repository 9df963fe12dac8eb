//! The measured programs: built from `benches/` into the target directory.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::shell;

/// Builds a kernel of `benches/kernels` and returns its path.
pub(crate) fn build(name: &str) -> Result<String> {
    // No lazy binding: the two-signal mechanism can't close the table that the loader would write to.
    compile(name, &format!("benches/kernels/{name}.c"), &["-fcf-protection=none", "-Wl,-z,now"])
}

/// Builds a program of `benches/workloads` and returns its path.
pub(crate) fn build_workload(name: &str) -> Result<String> {
    compile(name, &format!("benches/workloads/{name}.c"), &["-lm", "-g", "-pthread"])
}

/// Builds a program of `benches/workloads` in C++ and returns its path.
pub(crate) fn build_cpp_workload(name: &str) -> Result<String> {
    compile_by("g++", name, &format!("benches/workloads/{name}.cpp"), &[])
}

/// Builds a program of `benches/watch`, of four threads and with names and addresses for watchpoints, and returns its path.
pub(crate) fn build_team(name: &str) -> Result<String> {
    compile(name, &format!("benches/watch/{name}.c"), &["-g", "-pthread", "-no-pie"])
}

/// Builds the library that does what the paper's tool did, access by access.
pub(crate) fn build_two_signals() -> Result<String> {
    compile("libtwo_signals.so", "benches/two_signals/two_signals.c", &["-shared", "-fPIC", "-Wl,-z,now"])
}

fn compile(output: &str, source: &str, flags: &[&str]) -> Result<String> {
    compile_by("gcc", output, source, flags)
}

fn compile_by(compiler: &str, output: &str, source: &str, flags: &[&str]) -> Result<String> {
    let dir: PathBuf = shell::target_dir().join("kernels");
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(output).to_str().context("the path of the target directory is not UTF-8")?.to_owned();
    shell::run(&[&[compiler, "-O2", "-Iinclude", "-o", &path, source], flags].concat())?;
    Ok(path)
}
