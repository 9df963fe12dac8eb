//! Words for people go to terminals: progress only there, colours only there.

use std::process::Command;

use e2e::{TestProgram, memtap, run, tool};

/// What a command writes when it believes that it talks to a terminal.
fn on_a_terminal(line: &str) -> String {
    run(Command::new(tool("script")).args(["-qec", line, "/dev/null"]), b"").out()
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // A second of accesses.
    let program = TestProgram::from_source(
        "busy.c",
        "#include <time.h>\nvolatile long cell;\nint main(void)\n{\n    time_t end = time(0) + 3;\n    while (time(0) < end)\n        cell++;\n    return 0;\n}\n",
        &[],
    );
    let line = |name: &str| {
        let path = dir.path().join(name);
        format!("{} record -o {} -- {}", memtap().display(), path.display(), program.path.display())
    };
    let shown = on_a_terminal(&line("terminal.memtap"));
    assert!(shown.contains("accesses") && shown.contains('\r'), "no progress: {shown:?}");
    let quiet = run(Command::new(tool("sh")).args(["-c", &line("pipe.memtap")]), b"");
    assert_eq!((quiet.err().as_str(), quiet.status), ("", 0));
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
