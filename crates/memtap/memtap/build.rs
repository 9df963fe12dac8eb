//! The text of `memtap --version`: the version, and in a release build the commit, so that an error report identifies the code.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MEMTAP_COMMIT");
    // A development build would be linked anew at each commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release {
        // The file that a commit on this branch changes, or HEAD alone.
        let branch = git(&["symbolic-ref", "HEAD"]).and_then(|name| git(&["rev-parse", "--git-path", &name]));
        for path in [git(&["rev-parse", "--git-path", "HEAD"]), branch].into_iter().flatten() {
            if Path::new(&path).exists() {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    // Set by whoever builds from an archive without the repository.
    let given = std::env::var("MEMTAP_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_release));
    let text = commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=MEMTAP_VERSION={text}");
}
