//! The findings of Valgrind and the compilers' sanitizers on a case.
//!
//! Only whether they complain is checked, not what they report. For races, helgrind and
//! the thread sanitizer are used instead. None of these tools follows tainted input.

use std::path::Path;
use std::process::Command;

use crate::judgement::Judgement;
use crate::process::run;
use crate::{CaseBuild, CaseQuestion, CorpusCase, CorpusError};

/// Words of a sanitizer's report.
const COMPLAINTS: [&str; 4] = ["ERROR: ", "WARNING: ThreadSanitizer", "runtime error: ", "SUMMARY: "];

/// Runs a built case under memcheck, or helgrind; nothing where neither looks for such errors.
pub fn judge_by_valgrind(case: &CorpusCase, binary: &Path) -> Result<Option<Judgement>, CorpusError> {
    let is_about_leaks = case.head.expects.iter().any(|expect| expect.kind == "leak");
    let options: &[&str] = match case.head.question {
        CaseQuestion::Errors if is_about_leaks => &["--leak-check=full", "--show-leak-kinds=all"],
        CaseQuestion::Errors => &["--leak-check=full"],
        CaseQuestion::Race => &["--tool=helgrind"],
        CaseQuestion::Taint => return Ok(None),
    };
    let log = tempfile::NamedTempFile::new()
        .map_err(|error| CorpusError::File { path: std::env::temp_dir(), error })?;
    let mut command = Command::new("valgrind");
    command.args(["-q", &format!("--log-file={}", log.path().display())]).args(options);
    command.arg(binary).args(&case.head.arguments);
    run(&mut command, case.head.input.as_bytes())?;
    let said = std::fs::read_to_string(log.path())
        .map_err(|error| CorpusError::File { path: log.path().to_path_buf(), error })?;
    // Quiet as it is, it says nothing with its mark but what is wrong, after who the threads are, and followed by where that is. Without
    // the mark it says what debug information it does not understand.
    let lines = said.lines().filter(|line| line.starts_with("==")).filter_map(|line| line.split_once("== "));
    let mut complaints = lines
        .map(|(_, words)| words)
        .filter(|words| words.starts_with(char::is_alphanumeric) && !words.starts_with("Thread #"));
    // The same words in each run: not the addresses.
    let complaint = complaints.next().map(|line| line.split(" at 0x").next().unwrap_or(line).to_owned());
    Ok(Some(Judgement::of_complaint(case, complaint)))
}

/// Builds a case with sanitizers and runs it; nothing where there is none for such errors.
pub fn judge_by_sanitizer(
    case: &CorpusCase,
    build: CaseBuild,
    dir: &Path,
) -> Result<Option<Judgement>, CorpusError> {
    let Some(binary) = build.build_sanitized(case, dir)? else { return Ok(None) };
    let mut command = Command::new(binary);
    command.args(&case.head.arguments);
    // Of sizes that are too large for its allocator the address sanitizer makes a report, where malloc gives null.
    command.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_stack_use_after_return=1");
    let ended = run(&mut command, case.head.input.as_bytes())?;
    let complaint = ended.stderr.lines().find(|line| COMPLAINTS.iter().any(|words| line.contains(words)));
    // The same words in each run.
    let complaint = complaint.map(|line| line.split(" (pid=").next().unwrap_or(line).to_owned());
    Ok(Some(Judgement::of_complaint(case, complaint)))
}
