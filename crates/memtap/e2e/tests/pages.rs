//! What memtap draws and writes as pages: whole, self-contained, and with the figures that the other outputs have.

use std::path::Path;
use std::process::Command;

use e2e::{TestProgram, run, tool, total_of};

/// The document as a browser has it after its scripts ran, and what the scripts complained of.
fn browse(page: &Path) -> (String, String) {
    let profile = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(tool("chromium"));
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg("--virtual-time-budget=5000").arg("--dump-dom").arg(format!("file://{}", page.display()));
    let outcome = run(&mut command, b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let complaints = outcome.err().lines().filter(|l| l.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (outcome.out(), complaints)
}

#[test]
fn the_report_opens_in_a_browser() {
    let program = TestProgram::named("heap.c");
    let recording = program.record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let page = dir.path().join("report.html");
    let written = recording.trace.ask("report", &["--html", page.to_str().expect("UTF-8")]);
    assert_eq!(written.status, 0, "{}", written.err());
    let source = std::fs::read_to_string(&page).expect("it was just written");
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!source.contains(outside), "the page asks the network: {outside}");
    }
    let (document, complaints) = browse(&page);
    assert_eq!(complaints, "", "scripts complain");
    assert!(document.contains("by_calloc"), "the name of a block is missing");
    assert!(document.contains("<svg"), "the heat map is missing");
    // The same figure in every output.
    let rows = recording.trace.variables();
    let loads = total_of(&rows, "<calloc@by_calloc>").loads;
    assert_eq!(loads, 30);
    assert!(document.contains(">30<"), "30 loads are not in the table");
}

#[test]
fn use_after_free_is_found() {
    let recording = TestProgram::named("use_after_free.c").record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let page = dir.path().join("report.html");
    assert_eq!(recording.trace.ask("report", &["--html", page.to_str().expect("UTF-8")]).status, 0);
    let source = std::fs::read_to_string(&page).expect("it was just written");
    assert!(
        source.contains("freed:") && source.contains("@make"),
        "the block that is read after it was freed is missing"
    );
}

#[test]
fn heat_maps_are_svg_and_png() {
    let recording = TestProgram::named("statics.c").record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, head) in [("map.svg", &b"<"[..]), ("map.png", &b"\x89PNG\r\n\x1a\n"[..])] {
        for only in [&[][..], &["--only", "loads"], &["--only", "stores"]] {
            let path = dir.path().join(name);
            let options = [&["-o", path.to_str().expect("UTF-8")], only].concat();
            let drawn = recording.trace.ask("heatmap", &options);
            assert_eq!(drawn.status, 0, "{}", drawn.err());
            let bytes = std::fs::read(&path).expect("it was just drawn");
            assert!(bytes.starts_with(head) && bytes.len() > 500, "{name} {only:?} is no picture");
        }
    }
    let unknown = dir.path().join("map.gif");
    let refused = recording.trace.ask("heatmap", &["-o", unknown.to_str().expect("UTF-8")]);
    assert!(
        refused.status != 0 && refused.err().lines().count() == 1 && !unknown.exists(),
        "{}",
        refused.err()
    );
}
