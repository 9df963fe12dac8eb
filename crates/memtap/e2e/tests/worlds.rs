//! Programs in restricted environments: filters of system calls, other process ids, other roots, limits.
//! They behave as natively. What can't be recorded there is reported with its reason and in the exit status.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{Finished, Recording, TestProgram, Trace, memtap, record, run, spawn, tool};

const HELLO: &str = "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 0; }\n";

fn hello(flags: &[&str]) -> TestProgram {
    TestProgram::from_source("hello.c", HELLO, flags)
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

fn natively(line: &[String]) -> Finished {
    run(Command::new(&line[0]).args(&line[1..]), b"")
}

/// Recorded completely, and as natively.
fn check_complete(line: &[String]) -> Recording {
    let native = natively(line);
    let recording = record(&[], line, b"");
    assert_eq!(recording.outcome.out(), native.out());
    assert_eq!(recording.outcome.err(), native.err());
    assert_eq!(recording.outcome.status, native.status);
    assert_eq!(recording.trace.number("gaps"), 0, "{}", recording.trace.ask("stat", &[]).out());
    recording
}

/// Programs that the trace says ran untraced. What one was just writing when it was left may be missing as well.
fn untraced_programs(trace: &Trace) -> u64 {
    let stat = trace.stat();
    let causes = stat["gap_causes"].as_array().expect("an array").iter();
    causes
        .filter(|cause| cause["reason"] == "untraced program")
        .filter_map(|cause| cause["count"].as_u64())
        .sum()
}

/// Ran as natively, and it is told that something of it was not recorded, and why.
fn check_told(options: &[&str], line: &[String], program: &str, why: &str) -> Recording {
    let native = natively(line);
    let recording = record(&words(options), line, b"");
    assert_eq!(recording.outcome.out(), native.out());
    assert_eq!(recording.outcome.status, 1, "{}", recording.outcome.err());
    let err = recording.outcome.err();
    let told: Vec<&str> = err.lines().filter(|line| line.starts_with("memtap: not recorded: ")).collect();
    assert_eq!(told.len(), 1, "{err}");
    assert!(told[0].contains(program) && told[0].contains(why), "{err}");
    assert!(recording.trace.number("gaps") > 0);
    let stat = recording.trace.ask("stat", &[]).out();
    assert!(stat.contains("untraced program") && stat.contains(why), "{stat}");
    recording
}

/// The numbers of system calls that filters of containers refuse.
const PTRACE: &str = "101";
const PRCTL: &str = "157";
const PROCESS_VM_READV: &str = "310";

#[test]
fn programs_under_the_filter_of_a_container_are_recorded() {
    let deny = TestProgram::named("deny.c").path.display().to_string();
    let program = TestProgram::named("statics.c");
    let directory = tempfile::tempdir().expect("a directory");
    let whole = record(&[], &program.command_line(), b"").trace.number("accesses");
    for refused in [PTRACE, PROCESS_VM_READV] {
        // Set before memtap runs, and by the program itself.
        let trace = directory.path().join(refused);
        let mut command = Command::new(&deny);
        command.args([refused, "--"]).arg(memtap()).args(["record", "--quiet", "-o"]).arg(&trace).arg("--");
        let outcome = run(command.args(program.command_line()), b"");
        assert_eq!((outcome.status, outcome.err()), (0, String::new()), "{refused}");
        assert_eq!(outcome.out(), natively(&program.command_line()).out());
        let trace = Trace::at(trace);
        assert_eq!((trace.number("accesses"), trace.number("gaps")), (whole, 0), "{refused}");
        let line = [words(&[&deny, refused, "--"]), program.command_line()].concat();
        let inside = check_complete(&line).trace.number("accesses");
        assert!(inside >= whole, "{refused}: {inside} of {whole}");
    }
}

#[test]
fn a_program_without_prctl_is_told() {
    let deny = TestProgram::named("deny.c").path.display().to_string();
    let hello = hello(&[]).path.display().to_string();
    check_told(&[], &words(&[&deny, PRCTL, "--", &hello]), &hello, "no filter (seccomp) that denies prctl");
}

#[test]
fn a_program_that_ends_before_the_tracer_came_up_is_no_success() {
    let quit = "#include <unistd.h>\n__attribute__((constructor)) static void quit(void) { _exit(0); }\n";
    let library = TestProgram::from_source("quit.c", quit, &["-shared", "-fPIC", "-Wl,-z,initfirst"]);
    let hello = hello(&[]).path.display().to_string();
    let preload = format!("LD_PRELOAD={}", library.path.display());
    let line = words(&[&tool("env").display().to_string(), &preload, &hello]);
    check_told(&[], &line, &hello, "the tracer never came up in it");
}

#[test]
fn a_program_under_a_limit_of_address_space_is_told() {
    let hello = hello(&[]).path.display().to_string();
    let shell = tool("bash").display().to_string();
    // A limit that a recorded shell sets is the program's own, without the tracer's memory.
    check_complete(&words(&[&shell, "-c", &format!("ulimit -v 300000; exec {hello}")]));
    // Page protection needs much address space for its table.
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("t.memtap");
    let script = format!(
        "ulimit -v 4000000; exec {} record --quiet --tracer protect -o {} -- {hello}",
        memtap().display(),
        trace.display()
    );
    let outcome = run(Command::new(&shell).args(["-c", &script]), b"");
    assert_eq!((outcome.status, outcome.out()), (1, "hi\n".to_owned()), "{}", outcome.err());
    let told =
        format!("memtap: not recorded: {hello} (no address space for the table of its pages; ulimit -v?)");
    assert!(outcome.err().contains(&told), "{}", outcome.err());
    assert_eq!(Trace::at(trace).number("gaps"), 1);
}

#[test]
fn processes_with_ids_of_their_own_are_recorded() {
    let program = TestProgram::named("pid_namespace.c");
    let recording = check_complete(&program.command_line());
    if recording.outcome.out().contains("no name spaces here") {
        return;
    }
    let stat = recording.trace.stat();
    // The child of vfork is the program that it became.
    assert_eq!(stat["processes"], 5, "{stat}");
    assert!(recording.trace.number("stores") > 3000);
}

#[test]
fn programs_in_another_network_and_without_sockets_are_recorded() {
    let hello = hello(&[]).path.display().to_string();
    let deny = TestProgram::named("deny.c").path.display().to_string();
    // socket: what is there before the filter is kept.
    check_complete(&words(&[&deny, "41", "--", &deny, "41", "--", &hello]));
    let unshare = tool("unshare").display().to_string();
    for names in ["--net", "--map-root-user", "--user", "--mount"] {
        let line = words(&[&unshare, "--map-root-user", "--pid", "--fork", names, &hello]);
        if natively(&line).status == 0 {
            check_complete(&line);
        }
    }
}

/// A directory with a program and the libraries that it needs, and /proc where that is asked for.
fn root_with(program: &Path, directory: &Path) {
    let listed = run(Command::new(tool("ldd")).arg(program), b"").out();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned);
    for file in libraries.chain([program.display().to_string()]) {
        let name = Path::new(&file).file_name().expect("a file");
        let copy = if file == program.display().to_string() {
            directory.join(name)
        } else {
            directory.join(&file[1..])
        };
        fs::create_dir_all(copy.parent().expect("it has one")).expect("a directory");
        fs::copy(&file, copy).expect("a copy");
    }
}

#[test]
fn a_program_under_another_root_without_proc_is_told() {
    let hello = hello(&[]);
    let root = tempfile::tempdir().expect("a directory");
    root_with(&hello.path, root.path());
    let name = format!("/{}", hello.path.file_name().expect("a file").to_string_lossy());
    let new_root = TestProgram::named("new_root.c").path.display().to_string();
    let line = words(&[&new_root, &root.path().display().to_string(), &name]);
    if natively(&line).out() != "hi\n" {
        return;
    }
    check_told(&[], &line, &name, "another root directory, and no /proc in it");
}

#[test]
fn a_program_that_finds_no_proc_is_told_with_its_reason() {
    let hello = hello(&[]).path.display().to_string();
    let hides = TestProgram::named("hides_proc.c").path.display().to_string();
    let line = words(&[&hides, &hello]);
    if natively(&line).out() != "hi\n" {
        return;
    }
    for tracer in ["--tracer=translate", "--tracer=protect"] {
        check_told(&[tracer], &line, &hello, "/proc must be mounted there");
    }
}

/// Its loader would load memtap's library, and the library the other C library.
#[test]
fn programs_with_another_c_library_are_refused_and_as_children_told() {
    let other = hello(&["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]).path.display().to_string();
    let refused = record(&[], &words(&[&other]), b"").outcome;
    assert_eq!((refused.status, refused.out().as_str()), (1, ""));
    assert_eq!(refused.err().lines().count(), 1, "{}", refused.err());
    assert!(
        refused.err().contains("ld-musl-x86_64.so.1") && refused.err().contains("glibc"),
        "{}",
        refused.err()
    );
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("hello.c");
    let program = directory.path().join("hello");
    fs::write(&source, HELLO).expect("a file");
    let mut compiler = Command::new("sh");
    compiler.args(["-c", "musl-gcc \"$0\" -o \"$1\""]).arg(&source).arg(&program);
    let has_musl = run(&mut compiler, b"").status == 0;
    if !has_musl || run(&mut Command::new(&program), b"").out() != "hi\n" {
        eprintln!("musl: not here");
        return;
    }
    let (shell, program) = (tool("sh").display().to_string(), program.display().to_string());
    let line = words(&[&shell, "-c", &format!("{program}; echo $?")]);
    for tracer in ["--tracer=translate", "--tracer=protect"] {
        check_told(&[tracer], &line, &program, "its C library is not GNU's");
    }
}

#[test]
fn a_process_without_memory_for_the_tracer_is_left_and_memtap_ends() {
    let sleep = tool("sleep").display().to_string();
    let prlimit = tool("prlimit").display().to_string();
    let mut child = spawn(Command::new(prlimit).args(["--as=100000000", &sleep, "60"]));
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("t.memtap");
    let mut command = Command::new(memtap());
    command.args(["record", "--pid", &child.id().to_string(), "-o"]).arg(&trace);
    let outcome = run(&mut command, b"");
    assert_eq!(outcome.status, 1, "{}", outcome.err());
    assert_eq!(outcome.err().lines().count(), 1, "{}", outcome.err());
    assert!(!trace.exists());
    assert!(child.try_wait().expect("a child").is_none(), "it goes on");
    child.kill().expect("a child");
    child.wait().expect("a child");
}

#[test]
fn limits_that_a_program_sets_for_its_memory_hold_as_natively() {
    let program = TestProgram::built("own_limits.c", &["-pthread"]).path.display().to_string();
    for limit in ["space", "data", "rights"] {
        check_complete(&words(&[&program, limit]));
    }
}

#[test]
fn limits_to_which_the_tracers_memory_counts_are_told() {
    let program = TestProgram::built("own_limits.c", &["-pthread"]).path.display().to_string();
    for limit in ["space", "data", "rights"] {
        let recording = record(&words(&["--tracer", "protect"]), &words(&[&program, limit]), b"");
        let told = recording.outcome.err().matches("memtap: the program limits its memory").count();
        assert!(told > 0, "{limit}: {}", recording.outcome.err());
    }
}

#[test]
fn a_process_that_outlives_the_program_is_told_where_it_is_not_waited_for() {
    let shell = tool("sh").display().to_string();
    let sleep = tool("sleep").display().to_string();
    let script = format!("{sleep} 100 >/dev/null 2>&1 </dev/null & echo $!");
    let recording = record(&words(&["--wait", "0"]), &words(&[&shell, "-c", &script]), b"");
    let pid = recording.outcome.out();
    let killed = run(Command::new(tool("kill")).arg(pid.trim()), b"");
    assert_eq!(killed.status, 0, "it runs on: {}", killed.err());
    assert_eq!(recording.outcome.status, 1);
    let err = recording.outcome.err();
    let told = format!("(process {} goes on after the end of the recording)", pid.trim());
    assert!(err.contains(&told), "{err}");
    assert_eq!(untraced_programs(&recording.trace), 1);
}

/// A child whose parent has ended may begin after that.
#[test]
fn a_child_whose_parent_has_ended_is_recorded() {
    let program = TestProgram::named("orphan.c");
    for _ in 0..20 {
        let recording = program.record();
        let trace = &recording.trace;
        assert_eq!((recording.outcome.status, trace.number("gaps")), (0, 0), "{}", recording.outcome.err());
        let stores = trace.variables().iter().find(|row| row.name == "cells").map(|row| row.counts.stores);
        assert_eq!(stores, Some(1000));
    }
}

#[test]
fn a_child_whose_parent_has_ended_is_told_where_it_is_not_waited_for() {
    let program = TestProgram::named("orphan.c").path.display().to_string();
    for _ in 0..20 {
        let recording = record(&words(&["--wait", "0"]), &words(&[&program, "stays"]), b"");
        let err = recording.outcome.err();
        assert_eq!(recording.outcome.status, 1, "{err}");
        assert!(err.contains("goes on after the end of the recording"), "{err}");
        assert_eq!(untraced_programs(&recording.trace), 1);
    }
}

/// Whether the compiler can link with that sanitizer: its library need not be installed.
fn has_sanitizer(flag: &str) -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let program = directory.path().join("empty");
    let mut compiler = Command::new("cc");
    compiler.arg(flag).arg(&source).arg("-o").arg(&program);
    run(&mut compiler, b"").status == 0 && run(&mut Command::new(&program), b"").status == 0
}

#[test]
fn programs_with_sanitizers_are_recorded_where_the_compiler_has_them() {
    for flag in ["-fsanitize=address", "-fsanitize=thread", "-fsanitize=undefined"] {
        if !has_sanitizer(flag) {
            eprintln!("{flag}: not here");
            continue;
        }
        let program = TestProgram::built("sanitized.c", &[flag, "-g", "-pthread"]).path.display().to_string();
        let recording = check_complete(&words(&[&program]));
        assert!(recording.trace.number("stores") > 1000);
        // As a child, which a shell starts without anything before it.
        let shell = tool("sh").display().to_string();
        check_complete(&words(&[&shell, "-c", &format!("{program}; echo \"[$LD_PRELOAD]\"")]));
    }
    if has_sanitizer("-fsanitize=address") {
        let program = TestProgram::built("sanitized.c", &["-fsanitize=address", "-g", "-pthread"]);
        let line = words(&[&program.path.display().to_string(), "free"]);
        let (native, recorded) = (natively(&line), record(&[], &line, b"").outcome);
        assert_eq!((recorded.status, recorded.out()), (native.status, native.out()));
        for words in ["heap-use-after-free", "in main", "freed by thread T0"] {
            assert!(native.err().contains(words) && recorded.err().contains(words), "{}", recorded.err());
        }
    }
}

/// clang links its sanitizers into the program. By page protection those that keep a table of all memory find its place taken.
#[test]
fn programs_with_clangs_sanitizers_are_recorded_or_told_where_clang_has_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = e2e::repository().join("tests/programs/sanitized.c");
    for (flag, has_table) in
        [("address", true), ("thread", true), ("memory", true), ("undefined", false), ("leak", false)]
    {
        let program = directory.path().join(flag);
        let mut compiler = Command::new("sh");
        let script = "clang -g -pthread -fsanitize=$0 \"$1\" -o \"$2\"";
        compiler.args(["-c", script, flag]).arg(&source).arg(&program);
        if run(&mut compiler, b"").status != 0 || run(&mut Command::new(&program), b"").status != 0 {
            eprintln!("clang -fsanitize={flag}: not here");
            continue;
        }
        let program = program.display().to_string();
        let line = words(&[&program]);
        let recording = check_complete(&line);
        assert!(recording.trace.number("stores") > 1000);
        if has_table {
            check_told(&["--tracer=protect"], &line, &program, "its sanitizer keeps memory");
        } else {
            let (native, recorded) = (natively(&line), record(&words(&["--tracer=protect"]), &line, b""));
            assert_eq!(
                (recorded.outcome.out(), recorded.outcome.status),
                (native.out(), native.status),
                "{flag}"
            );
        }
    }
}
