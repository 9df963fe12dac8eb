//! A test program: its source, its head, and its binary, which is built once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{BASELINE_FUNCTIONS, Finished, Header, bin_dir, repository, run};

/// A program of `tests/programs`, built.
#[derive(Debug)]
pub struct TestProgram {
    /// The binary, or the script.
    pub path: PathBuf,
    /// What the head of its source says.
    pub header: Header,
    args: Vec<String>,
    /// Whether its runs pick the C library's functions as the runs under Valgrind do.
    baseline: bool,
}

impl TestProgram {
    /// The program with that file name, built with its own flags.
    pub fn named(file: &str) -> Self {
        Self::built(file, &[])
    }

    /// The program with that file name, built with more flags, which win. It needs the processor feature that such a flag has
    /// the compiler use: `-mavx2`.
    pub fn built(file: &str, flags: &[&str]) -> Self {
        let source = repository().join("tests/programs").join(file);
        let mut header = Header::read(&source);
        header.needs.extend(flags.iter().filter_map(|flag| flag.strip_prefix("-m")).map(str::to_owned));
        let other = |name: &String| {
            let source = repository().join("tests/programs").join(name).with_extension("c");
            build(&source, &Header::read(&source), &[]).display().to_string()
        };
        let mut flags: Vec<&str> = flags.to_vec();
        let library = header.links.as_ref().map(other);
        if let Some(library) = &library {
            flags.extend(["-Wl,--no-as-needed", library]);
        }
        let path = build(&source, &header, &flags);
        let mut args = Vec::new();
        args.extend(header.uses.as_ref().map(other));
        args.extend(header.args.iter().cloned());
        Self { path, header, args, baseline: false }
    }

    /// A program that is written by the test itself.
    pub fn from_source(name: &str, text: &str, flags: &[&str]) -> Self {
        let dir = bin_dir().join("e2e-programs");
        std::fs::create_dir_all(&dir).expect("the target directory can be written");
        let source = dir.join(format!("{:016x}-{name}", hash(&[text])));
        write_whole(&source, |path| std::fs::write(path, text).expect("the target directory can be written"));
        let header = Header::read(&source);
        Self { path: build(&source, &header, flags), header, args: Vec::new(), baseline: false }
    }

    /// The same program, whose runs pick the [`BASELINE_FUNCTIONS`] of the C library: to be compared with one under Valgrind
    /// where the functions of the C library matter.
    pub fn with_baseline_functions(self) -> Self {
        Self { baseline: true, ..self }
    }

    /// What is added to the environment of its runs.
    pub(crate) fn environment(&self) -> Option<(&'static str, &'static str)> {
        self.baseline.then_some(BASELINE_FUNCTIONS)
    }

    /// Whether the processor has what the program needs.
    pub fn can_run(&self) -> bool {
        let info = std::fs::read_to_string("/proc/cpuinfo").expect("Linux has it");
        let flags: Vec<&str> =
            info.lines().find(|l| l.starts_with("flags")).unwrap_or("").split_whitespace().collect();
        self.header.needs.iter().all(|need| flags.contains(&need.as_str()))
    }

    /// The command line: the binary and its arguments.
    pub fn command_line(&self) -> Vec<String> {
        std::iter::once(self.path.display().to_string()).chain(self.args.iter().cloned()).collect()
    }

    /// A native run.
    pub fn run(&self) -> Finished {
        let line = self.command_line();
        run(Command::new(&line[0]).args(&line[1..]).envs(self.environment()), self.header.stdin.as_bytes())
    }

    /// Whether a run did what the head says.
    pub(crate) fn is_as_natively(&self, outcome: &Finished) -> bool {
        let (out, err) = (outcome.out(), outcome.err());
        out == self.header.stdout && err == self.header.stderr && outcome.status == self.header.status
    }

    /// Asserts that a run did what the head says.
    pub fn check(&self, outcome: &Finished) {
        assert_eq!(outcome.out(), self.header.stdout, "standard output of {:?}", self.path);
        assert_eq!(outcome.err(), self.header.stderr, "standard error of {:?}", self.path);
        assert_eq!(outcome.status, self.header.status, "exit status of {:?}", self.path);
    }
}

fn hash(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Writes a file beside its place and gives it its name there: tests run in parallel.
fn write_whole(path: &Path, write: impl FnOnce(&Path)) {
    if path.exists() {
        return;
    }
    let mut part = path.to_path_buf();
    part.set_file_name(format!(
        "{}-{}-{}",
        std::process::id(),
        part_number(),
        path.file_name().expect("a file").display()
    ));
    write(&part);
    // Who comes second leaves the first one's, which may run already.
    let _ = std::fs::hard_link(&part, path);
    std::fs::remove_file(&part).expect("our own file");
}

fn part_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn build(source: &Path, header: &Header, flags: &[&str]) -> PathBuf {
    let extension = source.extension().and_then(|e| e.to_str()).unwrap_or("");
    if extension == "sh" {
        return source.to_path_buf();
    }
    let programs = repository().join("tests/programs");
    let include = repository().join("include");
    let (compiler, base): (_, &[&str]) = match extension {
        "c" | "S" => ("gcc", &["-O1", "-g", "-no-pie", "-fcf-protection=none"]),
        "cpp" => ("g++", &["-O1", "-g", "-no-pie", "-fcf-protection=none", "-std=c++17"]),
        "rs" => (
            "rustc",
            &["--edition=2024", "-g", "-Copt-level=1", "-Crelocation-model=static", "-Cpanic=abort"],
        ),
        other => panic!("no compiler for .{other}"),
    };
    let mut line: Vec<String> = base.iter().map(|s| s.to_string()).collect();
    if compiler != "rustc" {
        line.extend([format!("-I{}", include.display()), format!("-I{}", programs.display())]);
    }
    line.extend(header.build.iter().cloned());
    line.extend(flags.iter().map(|s| s.to_string()));
    let shared = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let text =
        shared(source.to_path_buf()) + &shared(programs.join("access.h")) + &shared(include.join("memtap.h"));
    // The path too: it is in the debug information, and a target directory may have been moved.
    let key = hash(&[compiler, &line.join(" "), &source.display().to_string(), &text]);
    let name = source.file_stem().and_then(|n| n.to_str()).expect("a name in ASCII");
    // The binary keeps the source's name: reports and forged names of Rust contain it.
    let dir = bin_dir().join("e2e-programs").join(format!("{key:016x}"));
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    let path = dir.join(name);
    write_whole(&path, |part| {
        let mut command = Command::new(compiler);
        command.args(&line).arg("-o").arg(part);
        if compiler == "rustc" {
            command.arg("--crate-name").arg(name);
        }
        let built = run(command.arg(source), b"");
        assert_eq!(built.status, 0, "{compiler} {line:?} {}: {}", source.display(), built.err());
    });
    path
}
