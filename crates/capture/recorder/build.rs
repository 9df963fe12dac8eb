//! Embeds the libraries that go into traced programs in this crate, for programs that are installed without these libraries beside them.
//!
//! `cargo install` installs only programs. A release build therefore contains the libraries ([`bundle`](src/library/bundle.rs)); a
//! development build, which has them beside it, does not. `MEMTAP_BUNDLE=1` and `MEMTAP_BUNDLE=0` override this for any profile: packages
//! ship them as files. Cargo does not give a build script the libraries of another crate, so they are built here, in a separate folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Crate and file of each.
const LIBRARIES: [(&str, &str); 3] = [
    ("interpose", "libmemtap_tracer.so"),
    ("probes-preload", "libmemtap_probes.so"),
    ("tracer-qemu", "libmemtap_qemu.so"),
];

/// What they are made of.
const SOURCES: [&str; 4] = ["crates/base", "crates/capture", "crates/probes", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MEMTAP_BUNDLE");
    let variable = |name: &str| env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"));
    let is_release = variable("PROFILE") == "release";
    let is_bundled = match env::var("MEMTAP_BUNDLE").as_deref() {
        Ok("1") => true,
        Ok("0") => false,
        Ok("") | Err(_) => is_release,
        Ok(other) => panic!("MEMTAP_BUNDLE is {other}; it is 1 or 0"),
    };
    let out = PathBuf::from(variable("OUT_DIR"));
    let mut text = "pub(crate) static LIBRARIES: &[BundledLibrary] = &[".to_owned();
    if is_bundled {
        let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
        let root = manifest.ancestors().nth(3).expect("the crate lies three levels deep");
        let built = build(root, &out.join("bundle"), is_release);
        for (_, name) in LIBRARIES {
            let path = built.join(name);
            let _ = write!(text, "BundledLibrary {{ name: {name:?}, bytes: include_bytes!({path:?}) }},");
        }
    }
    text.push_str("];\n");
    fs::write(out.join("bundle.rs"), text).expect("cargo's folder for this can be written");
}

/// Builds them with another cargo; returns where they are.
fn build(root: &Path, target: &Path, is_release: bool) -> PathBuf {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--lib", "--profile", if is_release { "release" } else { "dev" }]);
    command.args(["--manifest-path"]).arg(root.join("Cargo.toml")).arg("--target-dir").arg(target);
    for (name, _) in LIBRARIES {
        command.args(["-p", name]);
    }
    // Nobody debugs what is unpacked; and a linter of the outer build is no compiler.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo").env("CARGO_PROFILE_DEV_STRIP", "debuginfo");
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    let status = command.status().unwrap_or_else(|error| panic!("cargo can't be started: {error}"));
    assert!(status.success(), "the libraries that go into traced programs can't be built: {status}");
    target.join(if is_release { "release" } else { "debug" })
}
