//! Paths of the repository, the binary under test, and the system's tools.

use std::os::unix::fs::PermissionsExt;
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

/// The `memtap` binary and its libraries, copied to where other users can execute them: they may not get through to the project.
/// `open` is a folder that they get through to.
pub fn memtap_for_others(open: &Path) -> PathBuf {
    let (from, to) = (memtap(), open.join("memtap"));
    if to.exists() {
        return to;
    }
    for name in ["libmemtap_tracer.so", "libmemtap_probes.so", "memtap"] {
        let copy = open.join(name);
        std::fs::copy(from.with_file_name(name), &copy)
            .unwrap_or_else(|error| panic!("{name} beside {}: {error}", from.display()));
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    }
    to
}

/// The path of a system's tool, which `cargo xtask test` installs.
pub fn tool(name: &str) -> PathBuf {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is not installed: run `cargo xtask test`"))
}
