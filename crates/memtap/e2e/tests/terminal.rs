//! Output for people goes to terminals: progress and colours are shown only there.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::{TestProgram, memtap, run, tool};

/// Accesses until the file exists that it is told.
const BUSY: &str = "#include <unistd.h>\nvolatile long cell;\nint main(int count, char **words)\n{\n    \
                    while (count == 2 && access(words[1], F_OK) != 0) {\n        \
                    for (int i = 0; i < 1000; i++)\n            cell++;\n        usleep(1000);\n    }\n    return 0;\n}\n";

/// Runs a command that believes that it talks to a terminal; what it writes goes to a file as it is written.
fn on_a_terminal(line: &str, typed: &Path) {
    let outcome = run(Command::new(tool("script")).args(["-qefc", line]).arg(typed), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.out());
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = TestProgram::from_source("busy.c", BUSY, &[]);
    let at = |name: &str| dir.path().join(name);
    let line = |trace: &str, end: &str| {
        let (memtap, program, trace, end) = (memtap(), &program.path, at(trace), at(end));
        format!(
            "{} record -o {} -- {} {}",
            memtap.display(),
            trace.display(),
            program.display(),
            end.display()
        )
    };
    // The program goes on until there is progress to see; a recorder that shows none lets the run reach its limit.
    let (typed, end) = (at("typed"), at("shown"));
    let watches = std::thread::spawn({
        let typed = typed.clone();
        move || loop {
            let shown = std::fs::read_to_string(&typed).unwrap_or_default();
            if shown.contains(" accesses  ") && shown.contains('\r') {
                return std::fs::write(&end, "");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    on_a_terminal(&line("terminal.memtap", "shown"), &typed);
    watches.join().expect("it saw progress").expect("a file can be written");
    // As long as it takes to be shown on a terminal, several times.
    let end = at("enough");
    let waits = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        std::fs::write(&end, "")
    });
    let quiet = run(Command::new(tool("sh")).args(["-c", &line("pipe.memtap", "enough")]), b"");
    // Two lines at the end say what was written; nothing is rewritten on the way.
    assert_eq!((quiet.err().lines().count(), quiet.err().contains('\r'), quiet.status), (2, false, 0));
    waits.join().expect("it only waits").expect("a file can be written");
}

#[test]
fn pipes_get_no_colours() {
    let recording = TestProgram::named("statics.c").record();
    for command in ["stat", "report", "check"] {
        let outcome = recording.trace.ask(command, &[]);
        assert!(!outcome.stdout.is_empty(), "memtap {command} says nothing");
        assert!(!outcome.stdout.contains(&0x1b), "memtap {command} writes escape sequences into a pipe");
    }
}

#[test]
fn every_command_has_help() {
    let help = run(Command::new(memtap()).arg("--help"), b"");
    assert_eq!(help.status, 0);
    for command in ["record", "stat", "dump", "report", "import", "heatmap", "check"] {
        assert!(help.out().contains(command), "memtap --help does not name {command}");
        let own = run(Command::new(memtap()).args([command, "--help"]), b"");
        assert_eq!((own.status, own.err().as_str()), (0, ""), "memtap {command} --help");
    }
}
