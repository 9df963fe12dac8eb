//! `cargo xtask bench watch`: watchpoint units on programs of ours, race detection end to end, live
//! watchpoints; as Markdown, with the data of the paper's Figures 6 to 11 as SVG in docs/figures.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::bench_record::number;
use crate::table::{Table, median, short};
use crate::{install, kernel, shell};

const PROGRAMS: [&str; 8] =
    ["wordcount", "kmeans", "histogram", "matmul", "stringmatch", "pca", "regression", "pipeline"];
/// Those of them that read a file, so that something is tainted.
const READERS: [&str; 5] = ["wordcount", "kmeans", "histogram", "stringmatch", "regression"];
const UNITS: [&str; 5] = ["vm", "memtracker", "mondriaan", "range", "range+bitmap"];
const COLOURS: [&str; 5] = ["#8c8c8c", "#d1605e", "#e7b04b", "#5778a4", "#6a9f58"];
const ROUNDS: usize = 3;
/// What the costs `paper-2012` give the program itself for each access.
const PROGRAM_CYCLES: f64 = 3.0;

/// What one unit did with one analysis of one program.
#[derive(Clone, Copy)]
struct Figure {
    per_miss: Option<f64>,
    /// Cycles an access for faults, for changes and for misses.
    cycles: [f64; 3],
    performance: f64,
}

/// The units' figures of one program, in the order of [`UNITS`].
type Row<'a> = (&'a str, Vec<Figure>);

/// Runs everything. `--quick` leaves Valgrind out, `--models` all but the models of hardware.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let (quick, models) = match rest {
        [] => (false, false),
        ["--quick"] => (true, false),
        ["--models"] => (true, true),
        _ => bail!("bench watch knows --quick and --models alone"),
    };
    // The models run programs of ours alone.
    install::tools(if models { &[("gcc", "gcc")] } else { install::BENCH })?;
    shell::run(&["cargo", "build", "--release", "-p", "memtap", "-p", "interpose"])?;
    println!("## Simulation");
    shell::run(&["cargo", "run", "--release", "-q", "-p", "watch-models", "--example", "bench-watch"])?;
    let dir = shell::target_dir().join("bench-watch");
    std::fs::create_dir_all(&dir)?;
    let programs = build()?;
    if !models {
        println!("\n## Units and the byte map, 10,000,000 random operations");
        let mut agreement = shell::command(&[
            "cargo",
            "test",
            "--release",
            "-q",
            "-p",
            "watch-models",
            "--test",
            "agreement",
        ]);
        shell::run_command(agreement.env("MEMTAP_WATCH_OPS", "10000000"))?;
        races(&dir, &programs, quick)?;
    }
    let figures = ["watch-figure10-race-misses", "watch-figure11-race-performance"];
    let race = units(&dir, &programs, "race", "protect", figures, None)?;
    let figures = ["watch-figure8-determinism-misses", "watch-figure9-determinism-performance"];
    let determinism = units(&dir, &programs, "determinism", "protect", figures, None)?;
    let input = input(&dir)?;
    let readers: Vec<_> = programs.iter().filter(|(name, _)| READERS.contains(name)).cloned().collect();
    let figures = ["watch-figure6-taint-misses", "watch-figure7-taint-performance"];
    let taint = units(&dir, &readers, "taint", "translate", figures, Some(&input))?;
    beside_the_paper(&race, &determinism, &taint);
    if models { Ok(()) } else { live(&dir) }
}

/// A file with as many letters and spaces as any of the programs reads.
fn input(dir: &Path) -> Result<PathBuf> {
    let path = dir.join("input");
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let text: Vec<u8> =
        (0..1_000_000).map(|_| if next() % 4 == 0 { b' ' } else { b'a' + (next() % 3) as u8 }).collect();
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn build() -> Result<Vec<(&'static str, PathBuf)>> {
    PROGRAMS.into_iter().map(|name| Ok((name, kernel::build_team(name)?.into()))).collect()
}

/// Processor time of a command and its children, the middle of some runs, in seconds.
fn cpu_time(line: &[&str], rounds: usize) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let mut command = Command::new("bash");
        command
            .args(["-c", "TIMEFORMAT='%3U %3S'; { time \"$@\" >/dev/null 2>&1; } 2>&1", "bash"])
            .args(line);
        let text = shell::output(&mut command)?;
        let parts: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [user, system] = parts[..] else { bail!("{line:?}: no times in {text:?}") };
        times.push(user + system);
    }
    Ok(median(times))
}

fn memtap() -> PathBuf {
    shell::profile_dir("release").join("memtap")
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("the path of the target directory is not UTF-8")
}

/// `race` end to end against native runs.
fn races(dir: &Path, programs: &[(&str, PathBuf)], quick: bool) -> Result<()> {
    let memtap = memtap();
    let memtap = path(&memtap)?;
    let mut table = Table::new(&[
        "program",
        "native, s",
        "protect: record and race, times (goal 15)",
        "record alone, times",
        "translate: record and race, times (goal 15)",
        "record alone, times",
        "helgrind, times",
        "races",
    ]);
    for (name, program) in programs {
        let program = path(program)?;
        let native = cpu_time(&[program], 9)?.max(0.001);
        let mut row = vec![name.to_string(), format!("{native:.3}")];
        let mut counts = Vec::new();
        for tracer in ["protect", "translate"] {
            let trace = dir.join(format!("{name}.{tracer}.memtap"));
            let trace = path(&trace)?;
            let line = [memtap, "record", "--force", "--tracer", tracer, "-o", trace, "--", program];
            let record = cpu_time(&line, ROUNDS)?;
            let race = cpu_time(&[memtap, "race", trace], ROUNDS)?;
            row.extend([short((record + race) / native), short(record / native)]);
            let found = shell::output(Command::new(memtap).args(["race", trace]).stderr(Stdio::null()))?;
            counts.push(found.lines().filter(|line| line.starts_with("race on")).count().to_string());
        }
        let helgrind = match quick {
            true => "-".to_owned(),
            false => short(cpu_time(&["valgrind", "--tool=helgrind", program], 1)? / native),
        };
        row.extend([helgrind, counts.join(", ")]);
        table.row(row);
    }
    table.print("Race detection end to end, processor time against a native run");
    Ok(())
}

/// Figures of the units of one analysis, of programs that read a file or none.
fn units<'a>(
    dir: &Path,
    programs: &[(&'a str, PathBuf)],
    analysis: &str,
    tracer: &str,
    names: [&str; 2],
    input: Option<&Path>,
) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    let mut causes = Table::new(&[
        "program",
        "accesses",
        "a fault",
        "changes a fault",
        "cycles an access: faults",
        "changes",
        "misses",
        "performance",
        "were it faults alone",
    ]);
    for (name, program) in programs {
        let trace = dir.join(format!("{name}.{tracer}.memtap"));
        let mut record = Command::new(memtap());
        record.args(["record", "--force", "--tracer", tracer, "-o"]).arg(&trace).arg("--").arg(program);
        if let Some(input) = input {
            // 0: as much of it as is usual.
            record.arg("0").arg(input);
        }
        if !record.stdout(Stdio::null()).status()?.success() {
            bail!("{name} can't be recorded");
        }
        let mut command = Command::new(memtap());
        let text = shell::output(command.arg(analysis).arg(&trace).args(["--unit", "all"]))?;
        let figures = parse(&text)?;
        let mut command = Command::new(memtap());
        let json =
            shell::output(command.arg(analysis).arg(&trace).args(["--unit", "range+bitmap", "--json"]))?;
        let (_, counters) = json.rsplit_once("\"counters\"").context("a unit has counters")?;
        let count = |key| number(counters, key);
        let (accesses, faults) = (count("accesses")?, count("faults")?);
        let hybrid = figures[UNITS.len() - 1];
        let cells = [accesses / faults, count("changes")? / faults];
        // Without a cycle for changes and misses.
        let all = PROGRAM_CYCLES + hybrid.cycles.iter().sum::<f64>();
        let faults_alone = hybrid.performance * all / (PROGRAM_CYCLES + hybrid.cycles[0]);
        let performance = [hybrid.performance, faults_alone];
        let cells = cells.into_iter().chain(hybrid.cycles).chain(performance).map(short);
        causes.row([name.to_string(), format!("{accesses:.0}")].into_iter().chain(cells).collect());
        rows.push((*name, figures));
    }
    causes.print(&format!("{analysis}: what range+bitmap takes, and for what"));
    let titles = [
        ("accesses per miss", format!("{analysis}: accesses per miss of the watchpoint cache")),
        ("performance", format!("{analysis}: performance relative to the baseline")),
    ];
    for ((what, title), file) in titles.iter().zip(names) {
        let mut head = vec!["program"];
        head.extend(UNITS);
        let mut table = Table::new(&head);
        let mut bars = Vec::new();
        let mut all = vec![Vec::new(); UNITS.len()];
        for (name, figures) in &rows {
            let values: Vec<Option<f64>> = figures
                .iter()
                .map(|figure| if *what == "performance" { Some(figure.performance) } else { figure.per_miss })
                .collect();
            for (list, value) in all.iter_mut().zip(&values) {
                list.extend(*value);
            }
            let cell = |value: &Option<f64>| value.map_or("-".to_owned(), short);
            table.row(std::iter::once(name.to_string()).chain(values.iter().map(cell)).collect());
            bars.push((name.to_string(), values));
        }
        let means: Vec<Option<f64>> = all.iter().map(|list| geometric_mean(list)).collect();
        let cell = |value: &Option<f64>| value.map_or("-".to_owned(), short);
        table.row(std::iter::once("geometric mean".to_owned()).chain(means.iter().map(cell)).collect());
        bars.push(("mean".to_owned(), means));
        table.print(title);
        let file = shell::repository().join("docs/figures").join(format!("{file}.svg"));
        std::fs::write(&file, draw(title, &bars)).with_context(|| file.display().to_string())?;
    }
    Ok(rows)
}

/// What the paper says in words of its Figures 6 to 11, what it is here, and why the two differ.
fn beside_the_paper(race: &[Row<'_>], determinism: &[Row<'_>], taint: &[Row<'_>]) {
    // Places in UNITS.
    let [vm, memtracker, mondriaan, range, hybrid] = [0, 1, 2, 3, 4];
    let mean = |rows: &[Row<'_>], of: &dyn Fn(&[Figure]) -> Option<f64>| {
        geometric_mean(&rows.iter().filter_map(|(_, figures)| of(figures)).collect::<Vec<f64>>())
    };
    let ratio = |one: usize, other: usize| {
        move |figures: &[Figure]| Some(figures[one].performance / figures[other].performance)
    };
    let per_miss = |unit: usize| move |figures: &[Figure]| figures[unit].per_miss;
    let fewer = |figures: &[Figure]| Some(figures[hybrid].per_miss? / figures[range].per_miss?);
    let others = |figures: &[Figure]| {
        Some(
            figures[hybrid].performance / figures[memtracker].performance.max(figures[mondriaan].performance),
        )
    };
    let mut table = Table::new(&["figure", "the paper", "here", "why"]);
    let mut row = |what: &str, paper: &str, here: Option<f64>, why: &str| {
        table.row(vec![what.into(), paper.into(), here.map_or("-".to_owned(), short), why.into()]);
    };
    let small =
        "small programs: those that never miss are left out, the others go through more ranges than fit";
    row(
        "7, taint: range+bitmap against range, performance",
        "0.93",
        mean(taint, &ratio(hybrid, range)),
        "words tainted side by side in tables are the bitmaps' best case; the others have few ranges",
    );
    row(
        "7, taint: Mondriaan against MemTracker, performance",
        "below 1",
        mean(taint, &ratio(mondriaan, memtracker)),
        "as there where upper levels come and go; most of our programs taint one buffer",
    );
    row(
        "8, determinism: accesses a miss of range",
        "100,000 (Phoenix)",
        mean(determinism, &per_miss(range)),
        small,
    );
    row(
        "9, determinism: range against 4 KiB pages, performance",
        "0.9",
        mean(determinism, &|figures| Some(figures[range].performance)),
        "ranges lose by misses alone, which small programs have few of; a page fault is dearer than its lines' faults",
    );
    row(
        "9, determinism: 64 bytes against 4 KiB in virtual memory, times as slow",
        "670",
        mean(determinism, &|figures| Some(1.0 / figures[vm].performance)),
        "a false fault costs the same on each program; how many accesses are such differs most of all",
    );
    row("10, race: accesses a miss of range", "10,000 (Phoenix)", mean(race, &per_miss(range)), small);
    row(
        "10, race: misses of range, times those of range+bitmap",
        "5 (PARSEC)",
        mean(race, &fewer),
        "scattered blocks and words are most of what some of our programs access",
    );
    row(
        "11, race: range+bitmap against software, performance",
        "9",
        mean(race, &|figures| Some(figures[hybrid].performance)),
        "the first touch of each byte by each thread faults on any unit, and the programs are small; the baseline is a faster detector",
    );
    row(
        "11, race: range+bitmap against the better of MemTracker and Mondriaan, performance",
        "3",
        mean(race, &others),
        "faults, which cost all of them the same, are most of it, and an entry of our trie is cheap",
    );
    table.print("Beside the paper");
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let positive: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
    (!positive.is_empty())
        .then(|| (positive.iter().map(|value| value.ln()).sum::<f64>() / positive.len() as f64).exp())
}

/// The last rows of `--unit all`, one a unit, as memtap prints them for people.
fn parse(text: &str) -> Result<Vec<Figure>> {
    let mut found = [None; UNITS.len()];
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Of two rows of virtual memory the one of 4 KiB is the baseline itself, and comes first.
        if let [unit, _, per_miss, .., faults, changes, misses, performance] = words[..]
            && let Some(place) = UNITS.iter().position(|name| *name == unit)
        {
            let number = |word: &str| word.parse::<f64>().with_context(|| format!("{word} is no number"));
            found[place] = Some(Figure {
                per_miss: per_miss.parse().ok(),
                cycles: [number(faults)?, number(changes)?, number(misses)?],
                performance: number(performance)?,
            });
        }
    }
    found
        .into_iter()
        .collect::<Option<Vec<Figure>>>()
        .with_context(|| format!("not all units are in {text:?}"))
}

/// Bars on a logarithmic scale.
fn draw(title: &str, groups: &[(String, Vec<Option<f64>>)]) -> String {
    let values =
        groups.iter().flat_map(|(_, values)| values.iter().flatten().copied()).filter(|value| *value > 0.0);
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let (left, top, height, bar, gap) = (60.0, 50.0, 260.0, 11.0, 16.0);
    let group = bar * UNITS.len() as f64 + gap;
    // Room for the legend, too.
    let width = left + (group * groups.len() as f64 + 20.0).max(110.0 * UNITS.len() as f64);
    let y = |value: f64| top + height * (high - value.log10().clamp(low, high)) / (high - low);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} 380\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{left}\" y=\"20\" font-size=\"14\">{title}</text>\n"
    );
    let mut out = |text: String| _ = writeln!(svg, "{text}");
    for power in low as i32..=high as i32 {
        let at = y(10f64.powi(power));
        let label = if power.abs() > 3 { format!("1e{power}") } else { format!("{}", 10f64.powi(power)) };
        out(format!(
            "<line x1=\"{left}\" x2=\"{width}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 6.0,
            at + 4.0
        ));
    }
    for (index, (name, values)) in groups.iter().enumerate() {
        let start = left + group * index as f64 + gap / 2.0;
        for (unit, value) in values.iter().enumerate() {
            let Some(value) = value.filter(|value| *value > 0.0) else { continue };
            let (x, at) = (start + bar * unit as f64, y(value));
            out(format!(
                "<rect x=\"{x:.1}\" y=\"{at:.1}\" width=\"{}\" height=\"{:.1}\" fill=\"{}\"><title>{name}, {}: {value:.3}</title></rect>",
                bar - 1.0,
                top + height - at,
                COLOURS[unit],
                UNITS[unit]
            ));
        }
        out(format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            start + bar * UNITS.len() as f64 / 2.0,
            top + height + 16.0
        ));
    }
    for (unit, name) in UNITS.iter().enumerate() {
        let x = left + 110.0 * unit as f64;
        out(format!(
            "<rect x=\"{x}\" y=\"350\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"359\">{name}</text>",
            COLOURS[unit],
            x + 14.0
        ));
    }
    svg + "</svg>\n"
}

/// A million live watchpoints, with both tracers.
fn live(dir: &Path) -> Result<()> {
    let program = PathBuf::from(kernel::build_team("million")?);
    let symbols = shell::output(Command::new("nm").arg(&program))?;
    let line = symbols.lines().find(|line| line.ends_with(" cells")).context("nm does not list cells")?;
    let cells = u64::from_str_radix(line.split(' ').next().unwrap_or_default(), 16)?;
    let list = dir.join("million.list");
    let text: String = (0..1_000_000_u64).map(|n| format!("write {:#x}:4\n", cells + n * 8)).collect();
    std::fs::write(&list, text)?;
    let (program, list) = (path(&program)?, path(&list)?);
    let memtap = memtap();
    let memtap = path(&memtap)?;
    let mut table = Table::new(&["program", "native, s", "protect, times", "translate, times", "goal"]);
    // What never is there after a write: all is looked at, and nothing told.
    let none = &["--value", "0xdeadbeef"][..];
    for (what, args, options, goal) in [
        ("writes them all, each hit told", ["touch", "1"], &[][..], "30"),
        ("writes them all five times, none has the value asked for", ["touch", "5"], none, "30"),
        ("reads them all twenty times", ["read", "20"], &[], "30"),
        ("its hot pages hold none", ["others", "4000000"], &[], "1.1"),
    ] {
        let native = cpu_time(&[&[program][..], &args].concat(), ROUNDS)?.max(0.001);
        let mut row = vec![what.to_owned(), format!("{native:.3}")];
        for tracer in ["protect", "translate"] {
            let watch = [memtap, "watch", "--tracer", tracer, "--list", list, "-o", "/dev/null"];
            let watched = cpu_time(&[&watch, options, &["--", program], &args].concat(), 1)?;
            row.push(short(watched / native));
        }
        row.push(goal.into());
        table.row(row);
    }
    table.print("Live: a million watchpoints on writes, processor time");
    Ok(())
}
