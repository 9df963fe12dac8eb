//! The commands in documents work as they stand: those of README's first screen, docs/tasks.md and docs/slow-to-fixed.md
//! are run, and all commands and options of memtap that documents mention are in its help.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use e2e::{bin_dir, document_commands, guest_command, memtap, not_printed, repository, run, tool};

/// Runs the commands of some sections of a document in a folder, in order, and compares what they print.
fn run_tasks(dir: &Path, document: &str, is_meant: impl Fn(&str) -> bool) {
    symlink(repository().join("examples"), dir.join("examples")).expect("an empty folder");
    let here = format!("{}/", dir.canonicalize().expect("it is there").display());
    let path = format!("{}:{}", bin_dir().display(), std::env::var("PATH").expect("there is a path"));
    let mut count = 0;
    let mut wrong = Vec::new();
    for command in document_commands(&repository().join(document)) {
        if !is_meant(&command.section) {
            continue;
        }
        count += 1;
        // As on a terminal: both outputs in one place.
        let script = format!("exec 2>&1\n{}", command.text);
        let mut shell = Command::new(tool("bash"));
        shell.args(["-o", "pipefail", "-c", &script]).current_dir(&here).env("PATH", &path);
        let outcome = run(&mut shell, b"");
        let printed = outcome.out().replace(&here, "");
        let missing = not_printed(&command.shown, &printed);
        if outcome.status != 0 || missing.is_some() {
            wrong.push(format!(
                "line {}: {}\nstatus {}, not printed: {missing:?}\n{printed}",
                command.line, command.text, outcome.status
            ));
        }
    }
    assert!(count > 0, "no such section in {document}");
    assert!(wrong.is_empty(), "{document}:\n{}", wrong.join("\n"));
}

const MACHINE: &str = "Record a boot";

#[test]
fn the_first_screen_of_readme_is_as_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    run_tasks(dir.path(), "README.md", |section| section == "memtap");
}

#[test]
fn tasks_on_programs_are_as_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    run_tasks(dir.path(), "docs/tasks.md", |section| section != MACHINE);
}

#[test]
fn the_way_from_slow_to_fixed_is_as_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    run_tasks(dir.path(), "docs/slow-to-fixed.md", |_| true);
}

#[test]
fn recording_a_boot_is_as_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let line = guest_command(dir.path(), &[]);
    let kernel = line.iter().skip_while(|word| *word != "-kernel").nth(1).expect("QEMU is given a kernel");
    symlink(kernel, dir.path().join("vmlinuz")).expect("an empty folder");
    run_tasks(dir.path(), "docs/tasks.md", |section| section == MACHINE);
}

/// The documents for users.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec![repository().join("README.md")];
    let entries = fs::read_dir(repository().join("docs")).expect("there are documents");
    paths.extend(entries.map(|entry| entry.expect("an entry").path()));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let read = |path: &Path| fs::read_to_string(path).expect("a document can be read");
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

/// Options in a text: `--name`.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let long = words.filter(|word| word.starts_with("--") && word.len() > 3);
    long.map(str::to_owned).collect()
}

/// The commands that a help lists.
fn listed(help: &str) -> Vec<&str> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split_whitespace().next()?;
        (!line.starts_with("   ")).then_some(name)
    });
    names.collect()
}

/// The commands of memtap, each with its options and those of the commands below it.
fn help() -> BTreeMap<String, BTreeSet<String>> {
    let said = |args: &[&str]| run(Command::new(memtap()).args(args), b"").out();
    let top = said(&["--help"]);
    let of_command = |name: &str| {
        let text = said(&[name, "--help"]);
        let below = listed(&text).into_iter().filter(|below| *below != "help");
        let below: Vec<_> = below.flat_map(|below| options(&said(&[name, below, "--help"]))).collect();
        (name.to_owned(), options(&text).into_iter().chain(below).collect())
    };
    let mut all: BTreeMap<String, BTreeSet<String>> = listed(&top).into_iter().map(of_command).collect();
    all.insert(String::new(), options(&top));
    all
}

#[test]
fn the_guide_has_each_command() {
    let guide = fs::read_to_string(repository().join("docs/guide.md")).expect("the guide can be read");
    for name in help().keys().filter(|name| !name.is_empty() && *name != "help") {
        assert!(guide.contains(&format!("`memtap {name}")), "docs/guide.md says nothing of memtap {name}");
    }
}

/// What of a line of a shell, or of words in backticks, are memtap's own words: each call, without what is run by it.
fn calls(text: &str) -> Vec<&str> {
    text.split(['|', ';', '&', '`', '('])
        .map(|part| part.trim_start_matches("$ ").trim())
        .filter(|part| part.split(' ').next() == Some("memtap"))
        .map(|part| part.split("  # ").next().unwrap_or_default())
        .map(|part| part.split(" -- ").next().unwrap_or_default())
        .collect()
}

#[test]
fn commands_and_options_of_documents_are_in_the_help() {
    let help = help();
    assert!(help.len() > 25 && help["record"].contains("--tracer"), "{help:?}");
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in documents() {
        for (number, line) in (1..).zip(text.lines()) {
            for call in calls(line) {
                let mut words = call.split(' ').skip(1);
                let name = words.next().unwrap_or_default();
                let name = name.trim_end_matches([',', '.', ':']);
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase()) {
                    continue;
                }
                count += 1;
                match help.get(name) {
                    // `race|taint FILE` and prose such as "memtap is" are no calls in backticks or blocks.
                    None if is_code(line, call) => {
                        wrong.push(format!("{path}:{number}: there is no command memtap {name}"));
                    }
                    None => {}
                    Some(known) => wrong.extend(
                        options(call)
                            .into_iter()
                            .filter(|option| !known.contains(option) && !help[""].contains(option))
                            .map(|option| format!("{path}:{number}: memtap {name} has no {option}")),
                    ),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "{count} calls were found");
}

/// Whether a call stands in backticks or is typed.
fn is_code(line: &str, call: &str) -> bool {
    line.starts_with("$ ") || line.contains(&format!("`{call}"))
}
