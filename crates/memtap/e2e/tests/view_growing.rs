//! `memtap view` of traces that are still being written, here and at a server.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{Limited, TestProgram, Trace, ViewPage, Viewer, memtap, run, serve, spawn};
use serde_json::Value;

/// Writes `first`, says so, and looks for a byte until there is one; then it writes `second`. A thread that waits in the kernel would not
/// hand over what it did before.
const IN_TWO_PARTS: &str = "\
#include <poll.h>
#include <unistd.h>
int first[1000], second[1000];
int main(void) {
    char byte = 0;
    for (int i = 0; i < 1000; i++)
        *(volatile int *)&first[i] = i;
    if (write(1, &byte, 1) != 1)
        return 1;
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 0) == 0)
        usleep(1000);
    for (int i = 0; i < 1000; i++)
        *(volatile int *)&second[i] = i;
    return 0;
}
";

/// Records the first part, and returns when it is in the file.
fn begin(options: &[&str], file: &Path) -> Limited {
    let program = TestProgram::from_source("in_two_parts.c", IN_TWO_PARTS, &["-g"]);
    let mut command = Command::new(memtap());
    command.args(["record", "--quiet"]).args(options).arg("--").args(program.command_line());
    let mut recorder = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    recorder.stdout.as_mut().expect("piped above").read_exact(&mut [0]).expect("it says that it has begun");
    // There is nothing to read before the first second is over.
    let has_first = || {
        let told = run(Command::new(memtap()).args(["report", "--json"]).arg(file), b"");
        let rows: Value = serde_json::from_str(&told.out()).unwrap_or_default();
        let first = rows.as_array().into_iter().flatten().find(|row| row["name"] == "first");
        first.is_some_and(|row| row["stores"] == 1000)
    };
    assert!(
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            has_first()
        }),
        "what was written is not in the file"
    );
    recorder
}

fn end(mut recorder: Limited) {
    recorder.stdin.take().expect("piped above").write_all(b"\n").expect("it reads");
    assert!(recorder.wait().expect("it is ours").success());
}

/// What came is offered, and shown when it is asked for.
fn grows(mut page: ViewPage, recorder: Limited) {
    let has = |page: &mut ViewPage, name: &str| page.browser.text("#pane").contains(name);
    assert!(has(&mut page, "first") && !has(&mut page, "second"));
    end(recorder);
    page.browser.wait("document.querySelector('#notice button')");
    assert!(page.browser.text("#notice").contains("has grown"), "{}", page.browser.text("#notice"));
    page.browser.value("globalThis.memtapView.before = true");
    page.browser.click("#notice button");
    page.browser.wait("globalThis.memtapView && !globalThis.memtapView.before");
    page.settle();
    assert!(has(&mut page, "first") && has(&mut page, "second"));
    assert_eq!(page.table(), page.report(&["--by", "variable"]));
    assert!(page.browser.value("document.querySelector('#notice').hidden").as_bool().unwrap_or_default());
    page.quiet();
}

#[test]
fn a_trace_of_a_server_is_shown_while_it_grows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_server, url) = serve(dir.path());
    let file = dir.path().join("t.memtap");
    let recorder = begin(&["--server", &url, "-o", "t.memtap"], &file);
    let viewer = Viewer::with(["--server", &url, "t.memtap"]);
    grows(ViewPage::at(viewer, Trace::at(file)), recorder);
    let names =
        std::fs::read_dir(dir.path()).expect("it is ours").map(|entry| entry.expect("a name").file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["socket", "t.memtap"], "nothing else is written there");
}

#[test]
fn a_file_is_shown_while_it_grows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("t.memtap");
    let recorder = begin(&["-o", file.to_str().expect("UTF-8")], &file);
    grows(ViewPage::of(Trace::at(file)), recorder);
}

#[test]
fn a_server_that_has_no_such_trace_is_one_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_server, url) = serve(dir.path());
    let ask = |args: &[&str]| run(Command::new(memtap()).args(["view", "--no-open"]).args(args), b"");
    let nowhere = format!("unix:{}", dir.path().join("nowhere").display());
    for (url, name, words) in [
        (url.as_str(), "none.memtap", "none.memtap: cannot be opened"),
        (&url, "../none", "outside the server's root"),
        (&nowhere, "t.memtap", "cannot connect"),
        ("tcp:127.0.0.1:1", "t.memtap", "/nonexistent: cannot read"),
    ] {
        let refused = ask(&["--server", url, "--token-file", "/nonexistent", name]);
        let err = refused.err();
        assert_eq!((refused.status, err.lines().count()), (1, 1), "{url} {name}: {err}");
        assert!(err.contains(words), "{url} {name}: {err}");
    }
    assert_eq!(ask(&["--token-file", "x", "t.memtap"]).status, 2);
    assert_eq!(ask(&["--server", "http://x", "t.memtap"]).status, 2);
}
