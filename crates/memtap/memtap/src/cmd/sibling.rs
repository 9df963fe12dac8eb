//! Binaries that belong to memtap and are built apart, so that only those who need them have to build them.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// Where one may be: beside memtap, then where PATH says.
fn places(name: &str) -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(name)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
    beside.into_iter().chain(on_path.collect::<Vec<_>>()).collect()
}

/// The binary of that name, which is also that of its crate.
pub(super) fn find(name: &str) -> Result<PathBuf> {
    match places(name).into_iter().find(|place| place.is_file()) {
        Some(program) => Ok(program),
        None => bail!(
            "{name} is neither beside memtap nor on PATH; build it with cargo build --release -p {name}, and copy target/release/{name} beside memtap"
        ),
    }
}
