//! Programs that repeat the same work for so long that it is translated into long paths, and that leave these in every way.

use e2e::{TestProgram, total_of};

/// Records a program whose head says what it must do; all of it holds, and there were paths.
fn check(file: &str, options: &[&str]) {
    let program = TestProgram::named(file);
    let recording = program.record_with("translate", options);
    let stat = recording.trace.stat();
    assert_eq!(stat["gaps"], 0);
    if options.contains(&"--verify") {
        assert_eq!(stat["verified"]["mismatches"], 0);
        assert!(stat["verified"]["windows"].as_u64() > Some(0), "{stat:#}");
    }
    let paths = &stat["tracer_work"]["long paths"];
    assert!(paths.as_u64() > Some(0), "no path was made: {paths}");
    let rows = recording.trace.variables();
    for expectation in &program.header.expect {
        assert_eq!(total_of(&rows, &expectation.name), expectation.tally.total(), "{}", expectation.name);
    }
}

#[test]
fn paths_are_left_by_calls_returns_jumps_and_signals() {
    check("long_paths.c", &[]);
}

#[test]
fn paths_are_as_stepping_sees_them() {
    check("long_paths.c", &["--verify"]);
}

#[test]
fn paths_through_code_that_changes_are_made_anew() {
    check("long_paths_of_new_code.c", &[]);
}
