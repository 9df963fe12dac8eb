//! The action for continuous integration: what its script leaves, and when it fails.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{Finished, TestProgram, bin_dir, fits_sarif, repository, run, tool};

/// Runs the script in a folder, as the action does.
fn act(dir: &Path, variables: &[(&str, &str)]) -> Finished {
    let path = format!("{}:{}", bin_dir().display(), std::env::var("PATH").expect("there is a path"));
    let mut script = Command::new(tool("bash"));
    script.arg(repository().join("action/run.sh")).current_dir(dir).env("PATH", path);
    script.env("GITHUB_STEP_SUMMARY", "summary.md").envs(variables.iter().copied());
    run(&mut script, b"")
}

#[test]
fn a_run_leaves_its_findings_and_fails_where_it_grew() {
    let text = fs::read_to_string(repository().join("examples/inventory.c")).expect("it is there");
    let program = TestProgram::from_source("inventory.c", &text, &["-Og"]).path;
    let program = program.to_str().expect("UTF-8");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first = act(dir.path(), &[("MEMTAP_RUN", program)]);
    assert_eq!(first.status, 0, "{}", first.err());
    let read =
        |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for name in ["errors.sarif", "race.sarif"] {
        fits_sarif(&read(&format!("memtap-results/{name}")));
    }
    assert!(read("memtap-results/report.html").contains("shelf"));
    assert!(read("summary.md").lines().any(|line| line.ends_with(" shelf")));
    fs::rename(dir.path().join("memtap-results/run.memtap"), dir.path().join("before.memtap"))
        .expect("moved");

    // bash accesses about as much as the program, and more the more variables there are in its environment.
    let baseline = [("MEMTAP_BASELINE", "before.memtap"), ("MEMTAP_FAIL_IF", "accesses>10%\nloads>90%\n")];
    let again = act(dir.path(), &[&baseline[..], &[("MEMTAP_RUN", program)]].concat());
    assert_eq!(again.status, 0, "{}", again.err());
    let twice = format!("{program}; {program}");
    let grown = act(dir.path(), &[&baseline[..], &[("MEMTAP_RUN", &twice)]].concat());
    assert_eq!(grown.status, 3, "{}", grown.err());
    assert!(grown.err().contains("which accesses>10% forbids"), "{}", grown.err());
    assert!(read("memtap-results/diff.txt").lines().any(|line| line.ends_with(" total")));
}

#[test]
fn what_fails_is_the_exit_status_and_the_rest_is_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let votes = repository().join("examples/votes.c");
    let text = fs::read_to_string(&votes).expect("it is there");
    let program = TestProgram::from_source("votes.c", &text, &["-O1", "-pthread"]).path;
    let program = program.to_str().expect("UTF-8");
    let races = act(dir.path(), &[("MEMTAP_RUN", program), ("MEMTAP_OUT", "out")]);
    assert_eq!(races.status, 3, "{}", races.err());
    assert!(dir.path().join("out/report.html").exists());
    let harmless = [("MEMTAP_RUN", program), ("MEMTAP_FAIL_ON", "errors")];
    assert_eq!(act(dir.path(), &harmless).status, 0);
    // The command's own status, with all results.
    let ended = act(dir.path(), &[("MEMTAP_RUN", "exit 7"), ("MEMTAP_OUT", "seven")]);
    assert_eq!(ended.status, 7, "{}", ended.err());
    assert!(dir.path().join("seven/errors.sarif").exists());
    assert_ne!(act(dir.path(), &[]).status, 0);
}

/// Each input reaches the script.
#[test]
fn the_action_gives_the_script_its_inputs() {
    let read = |name: &str| fs::read_to_string(repository().join("action").join(name)).expect("it is there");
    let (action, script) = (read("action.yml"), read("run.sh"));
    let given: Vec<&str> = action
        .lines()
        .filter_map(|line| line.trim().split_once(": ${{ inputs."))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("MEMTAP_"))
        .collect();
    assert_eq!(given.len(), 6, "{given:?}");
    for name in given {
        assert!(script.contains(&format!("${{{name}")), "the script does not read {name}");
    }
}
