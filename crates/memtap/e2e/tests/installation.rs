//! What an installation needs beside programs: completions and manual pages; and folders that memtap cannot work from.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use e2e::{bin_dir, memtap, run, tool};

/// What a command of memtap's writes.
fn said(args: &[&str]) -> String {
    let outcome = run(Command::new(memtap()).args(args), b"");
    assert_eq!(outcome.status, 0, "{args:?}: {}", outcome.err());
    outcome.out()
}

#[test]
fn completions_know_commands_and_options() {
    for (shell, option) in [("bash", "--fail-on-race"), ("zsh", "--fail-on-race"), ("fish", "fail-on-race")] {
        let text = said(&["completions", shell]);
        for word in ["record", "heatmap", option] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    let wrong = run(Command::new(memtap()).args(["completions", "csh"]), b"");
    assert_eq!(wrong.status, 2);
    assert!(wrong.err().contains("bash, zsh, fish"), "{}", wrong.err());
}

#[test]
fn bash_completes_an_option() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("memtap");
    fs::write(&file, said(&["completions", "bash"])).expect("it can be written");
    let script = "source \"$1\"; COMP_WORDS=(memtap race --fail); COMP_CWORD=2; COMPREPLY=(); \
                  _memtap memtap --fail race; echo \"${COMPREPLY[@]}\"";
    let outcome = run(Command::new(tool("bash")).args(["-c", script, "bash"]).arg(&file), b"");
    assert_eq!(outcome.out().trim(), "--fail-on-race", "{}", outcome.err());
}

#[test]
fn each_command_has_a_manual_page() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pages = dir.path().join("man/man1");
    said(&["man", pages.to_str().expect("UTF-8")]);
    let page =
        |name: &str| fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let main = page("memtap.1");
    assert!(main.contains(".TH memtap 1"), "{main}");
    assert!(main.contains("Exit status"), "{main}");
    assert!(page("memtap-record.1").contains("regions"));
    assert!(page("memtap-race.1").contains("fail\\-on\\-race"));
    let full = dir.path().join("man/man1/memtap.1/below");
    let outcome = run(Command::new(memtap()).arg("man").arg(full), b"");
    assert_eq!(outcome.status, 1);
    assert!(outcome.err().starts_with("memtap: ") && outcome.err().lines().count() == 1, "{}", outcome.err());
}

/// memtap and its tracer in a folder.
fn installed_in(folder: &Path) -> Command {
    fs::create_dir_all(folder).expect("it can be made");
    fs::copy(memtap(), folder.join("memtap")).expect("the binary is there");
    let library = "libmemtap_tracer.so";
    fs::copy(bin_dir().join(library), folder.join(library)).expect("the tracer is there");
    let mut command = Command::new(folder.join("memtap"));
    command.current_dir(folder).env_remove("MEMTAP_LIB_DIR");
    command
}

#[test]
fn a_folder_from_which_nothing_can_be_preloaded_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["a folder", "a:folder"] {
        let folder = dir.path().join(name);
        let outcome = run(installed_in(&folder).args(["record", "true"]), b"");
        assert_eq!(outcome.status, 1, "{}", outcome.err());
        let path = folder.canonicalize().expect("it is there").join("libmemtap_tracer.so");
        let expect = format!("memtap: {}: libraries can't be preloaded from a folder", path.display());
        assert!(outcome.err().starts_with(&expect), "{}", outcome.err());
    }
}

#[test]
fn every_place_where_a_library_was_looked_for_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let folder = dir.path().join("alone");
    let mut command = installed_in(&folder);
    fs::remove_file(folder.join("libmemtap_tracer.so")).expect("it is there");
    // What a release build has inside it can't unpack.
    for variable in ["XDG_CACHE_HOME", "HOME", "TMPDIR"] {
        command.env(variable, folder.join("memtap"));
    }
    command.env("MEMTAP_LIB_DIR", "/nowhere");
    let outcome = run(command.args(["record", "true"]), b"");
    assert_eq!((outcome.status, outcome.err().lines().count()), (1, 1), "{}", outcome.err());
    let folder = folder.canonicalize().expect("it is there").display().to_string();
    let places = [
        "/nowhere".to_owned(),
        folder.clone(),
        format!("{folder}/../lib/memtap"),
        format!("{folder}/../lib"),
    ];
    let expect = format!("memtap: libmemtap_tracer.so: not found in {}, ", places.join(", "));
    assert!(outcome.err().starts_with(&expect), "{}", outcome.err());
    assert!(
        outcome.err().ends_with("or set MEMTAP_LIB_DIR to the folder that has it\n"),
        "{}",
        outcome.err()
    );
}

#[test]
fn a_link_to_memtap_finds_its_libraries() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let folder = dir.path().join("opt");
    installed_in(&folder);
    let link = dir.path().join("memtap");
    symlink(folder.join("memtap"), &link).expect("a link");
    let mut command = Command::new(&link);
    command.current_dir(&dir).env_remove("MEMTAP_LIB_DIR").args([
        "record",
        "--quiet",
        "-o",
        "run.memtap",
        "true",
    ]);
    let outcome = run(&mut command, b"");
    assert_eq!((outcome.status, outcome.err()), (0, String::new()));
}
