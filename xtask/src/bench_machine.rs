//! `cargo xtask bench machine`: the cost of recording a whole machine, over a boot of Debian's kernel to a shell
//! that runs a workload: QEMU alone, with a plugin that does nothing at each access, and memtap, in one run.
//!
//! A ratio is taken within a round, so that a slow minute of the system affects both sides. Beside the wall-clock
//! time stands the processor time of all participants, which is less disturbed by other load on the machine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::table::{Table, median, short};
use crate::{bench_runs, install, shell};

/// A way to run the machine: its name, memtap's options if it is recorded, and whether the empty plugin is loaded.
type Variant<'a> = (&'a str, Option<&'a [&'a str]>, bool);

const VARIANTS: &[Variant<'_>] = &[
    ("QEMU alone", None, false),
    ("QEMU, empty plugin", None, true),
    ("memtap, stores", Some(&["--only", "stores"]), false),
    ("memtap, stores with data", Some(&["--only", "stores", "--data"]), false),
    ("memtap, all", Some(&[]), false),
    ("memtap, all with data", Some(&["--data"]), false),
    ("memtap, all with data and flow", Some(&["--data", "--flow"]), false),
];

#[derive(Default)]
struct Figures {
    wall: Vec<f64>,
    processor: Vec<f64>,
    wall_ratio: Vec<f64>,
    processor_ratio: Vec<f64>,
}

/// Runs everything; `--rounds N` says how often.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let rounds = bench_runs::rounds("machine", rest, 3)?;
    install::tools(install::BENCH_MACHINE)?;
    shell::run(&["cargo", "build", "--release", "-p", "memtap", "-p", "tracer-qemu"])?;
    let dir = shell::target_dir().join("bench-machine");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let machine = machine(&dir)?;
    let memtap = shell::profile_dir("release").join("memtap");
    let trace = |number: usize| dir.join(format!("{number}.memtap"));
    let mut figures: Vec<Figures> = VARIANTS.iter().map(|_| Figures::default()).collect();
    for round in 0..rounds {
        let mut first = (0.0, 0.0);
        for (number, (name, options, empty)) in VARIANTS.iter().enumerate() {
            eprintln!("round {}: {name}", round + 1);
            let mut line: Vec<String> = Vec::new();
            if let Some(options) = options {
                line.push(path(&memtap)?);
                line.extend(["record", "--force", "--tracer", "qemu", "-o"].map(str::to_owned));
                line.push(path(&trace(number))?);
                line.extend(options.iter().map(|option| option.to_string()));
                line.push("--".to_owned());
            }
            line.extend(machine.iter().cloned());
            if *empty {
                line.extend(["-plugin".to_owned(), path(&dir.join("empty_plugin.so"))?]);
            }
            let (wall, processor) = timed(&line)?;
            if number == 0 {
                first = (wall, processor);
            }
            let figures = &mut figures[number];
            figures.wall.push(wall);
            figures.processor.push(processor);
            figures.wall_ratio.push(wall / first.0);
            figures.processor_ratio.push(processor / first.1);
        }
    }
    let mut table = Table::new(&["", "s", "times QEMU", "processor s", "times QEMU"]);
    for ((name, ..), figures) in VARIANTS.iter().zip(figures) {
        let columns = [figures.wall, figures.wall_ratio, figures.processor, figures.processor_ratio];
        table.row(std::iter::once(name.to_string()).chain(columns.map(|c| short(median(c)))).collect());
    }
    println!("Medians of {rounds} rounds, a guest with one processor and 128 MiB.");
    table.print("Time to a finished file");
    sizes(&memtap, &trace)?;
    jumps(&memtap, &trace(4))
}

fn path(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).context("the path of the target directory is not UTF-8")
}

/// Makes the guest and the empty plugin. Returns QEMU's command line.
fn machine(dir: &Path) -> Result<Vec<String>> {
    let kernel = install::guest_parts()?;
    let plugin = path(&dir.join("empty_plugin.so"))?;
    shell::run(&["gcc", "-O2", "-shared", "-fPIC", "-o", &plugin, "benches/machine/empty_plugin.c"])?;
    let make = ["sh", "tests/guest/make.sh", &path(dir)?, &path(&kernel)?];
    let line = shell::output(&mut shell::command(&make))?;
    Ok(line.lines().map(str::to_owned).collect())
}

/// Seconds on the clock, and of the processors, of a command and all that it waits for.
fn timed(line: &[String]) -> Result<(f64, f64)> {
    let before = processor_seconds()?;
    let start = Instant::now();
    let output = Command::new(&line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't start {}", line[0]))?;
    let wall = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !text.contains("guest: done") {
        bail!("{line:?}: {}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok((wall, processor_seconds()? - before))
}

/// Processor time of all ended children so far: proc(5), fields 16 and 17 of stat, in hundredths of a second.
fn processor_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

fn number(stat: &str, key: &str) -> Result<f64> {
    let rest = stat.split_once(&format!("\"{key}\":")).map(|(_, rest)| rest.trim_start());
    let digits = rest.and_then(|rest| rest.split([',', '}', '\n']).next());
    digits.and_then(|digits| digits.trim().parse().ok()).with_context(|| format!("stat has no {key}"))
}

fn sizes(memtap: &Path, trace: &dyn Fn(usize) -> std::path::PathBuf) -> Result<()> {
    let mut table = Table::new(&["", "accesses", "writes", "MB", "bytes an access", "bytes a write", "gaps"]);
    for (place, (name, options, _)) in VARIANTS.iter().enumerate() {
        if options.is_none() {
            continue;
        }
        let stat = shell::output(Command::new(memtap).arg("stat").arg(trace(place)).arg("--json"))?;
        let of = |key: &str| number(&stat, key);
        let writes = of("stores")? + of("modifies")?;
        let (bytes, accesses) = (of("file_bytes")?, of("accesses")?);
        table.row(vec![
            name.to_string(),
            format!("{accesses}"),
            format!("{writes}"),
            short(bytes / 1e6),
            short(bytes / accesses),
            short(bytes / writes),
            format!("{}", of("gaps")?),
        ]);
    }
    table.print("Files");
    Ok(())
}

/// How long it takes to open a trace, and to get to some cycles of it: whole commands.
fn jumps(memtap: &Path, trace: &Path) -> Result<()> {
    let stat = shell::output(Command::new(memtap).arg("stat").arg(trace).arg("--json"))?;
    let cycles = number(&stat, "instructions")?;
    let seconds = |words: &[&str]| -> Result<f64> {
        let start = Instant::now();
        let output = Command::new(memtap).args(words).output()?;
        if !output.status.success() {
            bail!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let trace = path(trace)?;
    let open = median((0..5).map(|_| seconds(&["memory", &trace, "--points"])).collect::<Result<_>>()?);
    let mut times = Vec::new();
    for part in 1..10 {
        let at = (cycles * f64::from(part) / 10.0) as u64;
        let range = format!("{at}..{}", at + 100);
        times.push(seconds(&["dump", &trace, "--format", "din", "--cycles", &range])?);
    }
    let mut table =
        Table::new(&["accesses", "open, ms", "open and print 100 cycles somewhere, ms: median", "most"]);
    let most = times.iter().copied().fold(0.0, f64::max);
    table.row(vec![
        format!("{}", number(&stat, "accesses")?),
        short(open * 1e3),
        short(median(times) * 1e3),
        short(most * 1e3),
    ]);
    table.print("Opening the trace of all accesses, and jumping");
    Ok(())
}
