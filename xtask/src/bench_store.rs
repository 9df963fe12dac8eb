//! `cargo xtask bench store`: costs and savings of the trace store, as Markdown:
//! encoders, producers, workers, clients, files of ten billion entries.
//!
//! Inputs are files of 32-byte entries, plain or compressed by xz; memtap records five programs as well,
//! unless `--no-recording` is given. The measuring itself is done by the examples `bench-encoders` of
//! trace-format, which gets files only, and `bench-store` of trace-server, and by a test of trace-format.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{install, shell};

/// Options of the example that take a number.
const NUMBERS: &[&str] = &["--segment", "--limit", "--rounds"];
/// Entries of each program that are measured.
const LIMIT: &str = "20000000";

/// Prepares the inputs and measures.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let dir = shell::target_dir().join("bench-store");
    std::fs::create_dir_all(&dir)?;
    let (mut options, mut files, mut record) = (Vec::new(), Vec::new(), true);
    let mut words = rest.iter();
    while let Some(&word) = words.next() {
        if NUMBERS.contains(&word) {
            options.extend([word, words.next().with_context(|| format!("{word} needs a number"))?]);
        } else if word == "--no-recording" {
            record = false;
        } else if word.starts_with("--") {
            options.push(word);
        } else {
            files.push(unpacked(Path::new(word), &dir)?);
        }
    }
    shell::build_release()?;
    if record {
        files.extend(recorded(&dir)?);
    }
    if !options.contains(&"--limit") {
        options.extend(["--limit", LIMIT]);
    }
    if !options.contains(&"--rounds") {
        options.extend(["--rounds", "1"]);
    }
    let mut command = shell::command(&[
        "cargo",
        "run",
        "--release",
        "-p",
        "trace-format",
        "--example",
        "bench-encoders",
        "--",
    ]);
    shell::run_command(command.args(options).args(files))?;
    println!("\nThe server\n");
    shell::run(&["cargo", "run", "--release", "-p", "trace-server", "--example", "bench-store"])?;
    println!("\nA large file\n");
    let test = "reader::large::ten_billion_entries_are_opened_and_read_anywhere";
    shell::run(&[
        "cargo",
        "test",
        "--release",
        "--quiet",
        "-p",
        "trace-format",
        "--lib",
        test,
        "--",
        "--exact",
        "--nocapture",
    ])
}

/// The file, or what xz makes of it.
fn unpacked(file: &Path, dir: &Path) -> Result<PathBuf> {
    if file.extension().is_none_or(|extension| extension != "xz") {
        return Ok(file.to_owned());
    }
    install::tools(&[("xz", "xz-utils")])?;
    let to = dir.join(file.file_stem().context("a file has a name")?);
    let out = File::create(&to).with_context(|| to.display().to_string())?;
    let status = Command::new("xz").arg("-dc").arg(file).stdout(out).status()?;
    if !status.success() {
        bail!("{}: xz can't unpack it", file.display());
    }
    Ok(to)
}

/// Records programs with memtap and has it write 32-byte entries.
fn recorded(dir: &Path) -> Result<Vec<PathBuf>> {
    install::tools(install::BENCH)?;
    let memtap = shell::profile_dir("release").join("memtap");
    let lines = dir.join("lines");
    let text: String =
        (0..60_000_u64).map(|n| format!("{:08x}\n", n.wrapping_mul(2_654_435_761) >> 7)).collect();
    std::fs::write(&lines, &text)?;
    let lines = lines.to_str().context("the path of the target directory is not UTF-8")?;
    let source = dir.join("source.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { return 0; }\n",
    )?;
    // The compiler proper does not know where the system's headers are.
    let preprocessed = dir.join("source.i");
    shell::run_command(Command::new("gcc").arg("-E").arg(&source).arg("-o").arg(&preprocessed))?;
    let source = preprocessed.to_str().context("the path of the target directory is not UTF-8")?;
    let sql = "create table t(a integer, b text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
        insert into t select i, hex(i * 7919) from n; \
        create index u on t(b); select count(*), max(b) from t where b like '%F%';";
    let python =
        "d = {}\nfor i in range(30000): d[str(i)] = [i, i * i]\nprint(sum(v[1] for v in d.values()))";
    let cc1 = shell::output(Command::new("gcc").arg("-print-prog-name=cc1"))?;
    let programs: [(&str, Vec<&str>); 5] = [
        ("gzip", vec!["gzip", "-c", lines]),
        ("sqlite", vec!["sqlite3", ":memory:", sql]),
        ("sort", vec!["sort", lines]),
        ("python", vec!["python3", "-S", "-E", "-c", python]),
        ("cc1", vec![cc1.trim(), "-O2", "-quiet", "-fpreprocessed", source, "-o", "/dev/null"]),
    ];
    let mut files = Vec::new();
    for (name, line) in programs {
        let (trace, entries) =
            (dir.join(format!("{name}.memtap")), dir.join(format!("{name}, recorded.mem")));
        let mut record = Command::new(&memtap);
        record.args(["record", "--tracer", "translate", "--force", "--allow-gaps", "-o"]);
        record.arg(&trace).arg("--").args(line);
        if !record.stdout(Stdio::null()).status()?.success() {
            bail!("{name} can't be recorded");
        }
        let out = File::create(&entries)?;
        let mut dump = Command::new(&memtap);
        dump.args(["dump", "--format", "entries64", "--range", &format!("0..{LIMIT}")]).arg(&trace);
        if !dump.stdout(out).status()?.success() {
            bail!("{}: can't be written as 32-byte entries", trace.display());
        }
        files.push(entries);
    }
    Ok(files)
}
