//! `memtap record --report` and `--errors`: the tables of `memtap report` and
//! `memtap errors` after the program has ended, from a trace that is kept only with `-o`.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::{FILLING, Finished, Limited, TestProgram, Trace, memtap, on_small_disk, run, spawn, tool};

// Changes a variable a thousand times and writes one byte after a block.
const COUNTING: &str = "
#include <stdio.h>
#include <stdlib.h>
long counted;
int main(void)
{
    for (int n = 0; n < 1000; n++)
        __asm__ volatile(\"addq $1, %0\" : \"+m\"(counted));
    char *block = malloc(24);
    *(volatile char *)(block + 24) = 1;
    free(block);
    puts(\"counted\");
    fputs(\"said\\n\", stderr);
    return 3;
}
";

fn counting() -> Vec<String> {
    TestProgram::from_source("counting.c", COUNTING, &["-w"]).command_line()
}

fn shell(script: &str) -> Vec<String> {
    [&tool("sh").display().to_string(), "-c", script].map(str::to_owned).to_vec()
}

/// A working directory and one for temporary files.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let place = Self { dir };
        place.folders().iter().for_each(|folder| std::fs::create_dir(folder).expect("it is new"));
        place
    }

    fn folders(&self) -> [PathBuf; 2] {
        ["here", "temporary"].map(|name| self.dir.path().join(name))
    }

    fn command(&self, program: &Path) -> Command {
        let [here, temporary] = self.folders();
        let mut command = Command::new(program);
        command.current_dir(here).env("TMPDIR", temporary).env_remove("COLUMNS");
        command
    }

    fn record(&self, options: &[&str], line: &[String]) -> Finished {
        run(self.command(&memtap()).arg("record").args(options).arg("--").args(line), b"")
    }

    /// The names of all files.
    fn files(&self) -> Vec<String> {
        let entries = self.folders().into_iter().flat_map(|dir| std::fs::read_dir(dir).expect("it is there"));
        entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// The figures of the variable in a table for people, without its share.
fn figures(tables: &str) -> String {
    let row = tables.lines().find(|line| line.split_whitespace().last() == Some("counted"));
    let row = row.unwrap_or_else(|| panic!("no row of it:\n{tables}"));
    row.split_once('%').map_or("", |(_, rest)| rest).chars().filter(char::is_ascii_digit).collect()
}

#[test]
fn tables_are_those_of_report_and_errors_on_the_same_trace() {
    let place = Place::new();
    let options = ["--quiet", "-o", "kept", "--report", "variable,function", "--report=stack", "--errors"];
    let outcome = place.record(&options, &counting());
    assert_eq!((outcome.out().as_str(), outcome.status), ("counted\n", 3), "{}", outcome.err());
    assert_eq!(place.files(), ["kept"]);
    let trace = Trace::at(place.folders()[0].join("kept"));
    let ask = |command: &str, options: &[&str]| {
        let outcome = trace.ask(command, options);
        assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{command} {options:?}");
        outcome.out()
    };
    let [variables, functions, stacks] =
        ["variable", "function", "stack"].map(|by| ask("report", &["--by", by]));
    let errors = ask("errors", &[]);
    assert!(errors.contains("out of bounds") && stacks.contains("main"), "{stacks}{errors}");
    assert_eq!(outcome.err(), format!("said\n{variables}\n{functions}\n{stacks}\n{errors}"));
    assert_eq!(figures(&variables), "00100080008", "loads, stores, modifies, bytes, size");
}

#[test]
fn no_trace_is_left_without_a_name() {
    let place = Place::new();
    let outcome = place.record(&["--report=variable"], &counting());
    assert_eq!((outcome.out().as_str(), outcome.status), ("counted\n", 3));
    let said = outcome.err();
    assert_eq!(figures(&said), "00100080008");
    let words: Vec<&str> = said.lines().filter(|line| line.starts_with("memtap: ")).collect();
    let [recorded] = words[..] else { panic!("one line and no file that is gone: {said}") };
    assert!(
        recorded.starts_with("memtap: recorded ") && recorded.ends_with("; nothing is missing"),
        "{said}"
    );
    assert_eq!(place.files(), [""; 0]);
    let quiet = place.record(&["--quiet", "--errors"], &counting());
    assert!(!quiet.err().contains("memtap: ") && quiet.err().contains("out of bounds"), "{}", quiet.err());
    assert_eq!((quiet.status, place.files().len()), (3, 0));
}

#[test]
fn a_program_that_a_signal_ends_has_its_tables() {
    let place = Place::new();
    let outcome = place.record(&["--report=function"], &shell("kill -KILL $$"));
    assert_eq!(outcome.status, 128 + 9, "{}", outcome.err());
    assert!(outcome.err().contains("% ") && outcome.err().contains("total"), "{}", outcome.err());
    assert_eq!(place.files(), [""; 0]);
}

/// Starts a recording whose program has begun and goes on for a while, in a process group of its own.
fn start(place: &Place) -> Limited {
    let mut command = place.command(&memtap());
    command.args(["record", "--report=function", "--"]).args(shell("echo ready; exec sleep 100"));
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped above"));
    output.read_line(&mut line).expect("a pipe can be read");
    assert_eq!(line, "ready\n");
    child
}

fn signal(name: &str, whom: &str) {
    assert_eq!(run(Command::new("kill").args([name, "--", whom]), b"").status, 0, "{name} {whom}");
}

#[test]
fn signals_that_end_a_recording_leave_no_file() {
    // Ctrl-C reaches all, and the recorder passes on what it is sent: the program ends, and its tables are printed.
    for (name, to_group, status) in [("-INT", true, 130), ("-TERM", false, 143)] {
        let place = Place::new();
        let mut child = start(&place);
        let pid = child.id();
        signal(name, &if to_group { format!("-{pid}") } else { pid.to_string() });
        let mut said = String::new();
        child.stderr.take().expect("piped above").read_to_string(&mut said).expect("UTF-8");
        assert_eq!(child.wait().expect("it was started").code(), Some(status), "{said}");
        assert!(said.contains("% ") && said.contains("total"), "{said}");
        assert_eq!(place.files(), [""; 0]);
    }
    // What nobody can handle, too.
    let place = Place::new();
    let mut child = start(&place);
    assert_eq!(place.files(), [""; 0], "it has no name while it is written");
    signal("-KILL", &format!("-{}", child.id()));
    child.wait().expect("it was started");
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn what_reads_the_program_finds_nothing_else() {
    let place = Place::new();
    let words = place.folders()[0].join("words");
    let text: String = (0..20_000u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761))).collect();
    std::fs::write(&words, &text).expect("written");
    let sort = [tool("sort").display().to_string(), words.display().to_string()];
    let outcome = place.record(&["--quiet", "--report=function"], &sort);
    let native = run(Command::new(&sort[0]).arg(&sort[1]), b"");
    assert!(outcome.stdout == native.stdout && outcome.status == 0, "{}", outcome.err());
    // A reader that goes away ends the program as it does natively, and nothing else.
    let line = format!("{} record --report=function -- {} | head -n 2", memtap().display(), sort.join(" "));
    let head = run(place.command(&tool("bash")).args(["-o", "pipefail", "-c", &line]), b"");
    assert_eq!(head.out(), native.out().lines().take(2).map(|line| format!("{line}\n")).collect::<String>());
    assert!(head.err().contains("total"), "{}", head.err());
    // So does one of what memtap itself says.
    let line = format!("{} record --report=function -- sleep 0.3 2>&1 | true", memtap().display());
    let gone = run(place.command(&tool("bash")).args(["-o", "pipefail", "-c", &line]), b"");
    assert_eq!((gone.status, gone.err().as_str()), (0, ""));
    assert_eq!(place.files(), ["words"]);
}

#[test]
fn a_running_process_has_tables_too() {
    let place = Place::new();
    let mut child = spawn(
        Command::new(tool("sh"))
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    );
    let pid = child.id().to_string();
    let mut command = place.command(&memtap());
    let outcome =
        run(command.args(["record", "--quiet", "--report=function", "--for=0.5", "--pid", &pid]), b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert!(outcome.err().contains("total"), "{}", outcome.err());
    assert_eq!(place.files(), [""; 0]);
    child.kill().expect("it runs natively again");
}

/// The folder for temporary files is small.
#[test]
fn a_trace_that_does_not_fit_has_tables_of_what_is_there_where_a_mount_is_allowed() {
    let place = Place::new();
    let [_, temporary] = place.folders();
    if on_small_disk(&temporary, "true").status != 0 {
        return;
    }
    let program = TestProgram::from_source("filling.c", FILLING, &[]).path;
    let (memtap, program, folder) = (memtap(), program.display(), temporary.display());
    let line = format!("{} record --quiet --report=variable -- {program}", memtap.display());
    let outcome = on_small_disk(
        &temporary,
        &format!("{{ env -u COLUMNS TMPDIR={folder} {line}; echo $?; ls -A {folder}; }}"),
    );
    let said = outcome.err();
    assert_eq!(outcome.out(), "1\n", "the status, and no file: {said}");
    let named = format!("the trace in {}: ", temporary.display());
    assert!(said.contains(&named) && said.contains("the trace is not complete"), "{said}");
    assert!(!said.contains("/proc/self"), "{said}");
    assert!(said.lines().any(|line| line.ends_with("bss     cells")), "what was written is counted: {said}");
}

#[test]
fn what_has_no_tables_is_refused() {
    let place = Place::new();
    for (options, words) in [
        (&["--report=nonsense"][..], "invalid value 'nonsense' for '--report"),
        (&["--report=process"], "invalid value 'process' for '--report"),
        (&["--report=function", "--server=unix:socket"], "cannot be used with"),
        (&["--errors", "--server=unix:socket"], "cannot be used with"),
        (&["--errors", "--tracer=qemu"], "--report and --errors are for programs"),
        (&["--report=stack", "--tracer=protect"], "--report stack: page protection leaves the stack alone"),
        (&["--errors", "-o", "din:a"], "--report and --errors read memtap's own format"),
    ] {
        let outcome = place.record(options, &counting());
        assert_eq!(outcome.status, 2, "{options:?}: {}", outcome.err());
        assert!(outcome.err().lines().next().is_some_and(|line| line.contains(words)), "{}", outcome.err());
        assert_eq!(outcome.out(), "", "nothing was started");
    }
    // Whether stacks are recorded is the recorder's choice here. The other table is printed.
    let outcome = place.record(&["--quiet", "--regions=data,bss", "--report=stack,variable"], &counting());
    assert!(outcome.err().contains("has no accesses to stacks"), "{}", outcome.err());
    assert_eq!((figures(&outcome.err()).as_str(), outcome.status), ("00100080008", 3), "{}", outcome.err());
    assert_eq!(place.files(), [""; 0]);
}
