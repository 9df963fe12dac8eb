//! Where things are: the repository, the binary under test, the tools of the system.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .expect("crates/memtap/e2e lies three levels deep")
        .to_path_buf()
}

/// The directory that cargo puts binaries into, in the profile of this test.
pub fn bin_dir() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let dir = test.parent().expect("a file has a directory");
    if dir.ends_with("deps") {
        dir.parent().expect("deps lies in the profile").to_path_buf()
    } else {
        dir.to_path_buf()
    }
}

/// The `memtap` binary: `$MEMTAP_BIN`, or the one built beside this test.
pub fn memtap() -> PathBuf {
    let path = std::env::var_os("MEMTAP_BIN").map_or_else(|| bin_dir().join("memtap"), PathBuf::from);
    assert!(
        path.exists(),
        "{} does not exist: run `cargo xtask test`, or `cargo build --bins --lib` first",
        path.display()
    );
    path
}

/// The path of a system's tool, which `cargo xtask test` installs.
pub fn tool(name: &str) -> PathBuf {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is not installed: run `cargo xtask test`"))
}
