//! `cargo xtask bench record`: the cost of recording by page protection, in one run, as Markdown.
//!
//! Everything is measured over whole processes, in rounds: each round runs every variant once, and a ratio is
//! taken within a round, so that a slow minute of the machine affects both sides. The tables show medians over
//! the rounds. Costs per access are marginal: a long run minus a short one, so that start-up counts in neither.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::table::{Table, median, short};
use crate::{bench_runs, install, kernel, shell};

/// A way to run a program.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Variant {
    Native,
    Memtap,
    NoBursts,
    TwoSignals,
    Lackey,
}

use Variant::{Lackey, Memtap, Native, NoBursts, TwoSignals};

struct Bench {
    memtap: String,
    two_signals: String,
    trace: String,
    rounds: usize,
}

/// One run: how long it took, and how many accesses it says it made.
struct Run {
    seconds: f64,
    accesses: u64,
}

/// Runs everything; `--rounds N` says how often.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let rounds = bench_runs::rounds("record", rest, 5)?;
    install::tools(install::BENCH)?;
    shell::build_release()?;
    let text = |path: std::path::PathBuf| {
        path.to_str().map(str::to_owned).context("the path of the target directory is not UTF-8")
    };
    let dir = shell::target_dir().join("bench-record");
    std::fs::create_dir_all(&dir)?;
    let bench = Bench {
        memtap: text(shell::profile_dir("release").join("memtap"))?,
        two_signals: kernel::build_two_signals()?,
        trace: text(dir.join("t.memtap"))?,
        rounds,
    };
    println!("Medians of {rounds} rounds; see docs/overhead.md for the method.");
    bench.accesses()?;
    bench.computation()?;
    bench.programs(&dir)
}

impl Bench {
    /// One line of a command, run in that way.
    fn run(&self, variant: Variant, line: &[&str]) -> Result<Run> {
        let mut words: Vec<&str> = match variant {
            Native | TwoSignals => vec![],
            Memtap | NoBursts => vec![&self.memtap, "record", "--tracer", "protect", "--force"],
            Lackey => vec!["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"],
        };
        if variant == NoBursts {
            words.extend(["--mechanism", "single"]);
        }
        if matches!(variant, Memtap | NoBursts) {
            words.extend(["-o", &self.trace, "--"]);
        }
        words.extend(line);
        let mut command = shell::command(&words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if variant == TwoSignals {
            command.env("LD_PRELOAD", &self.two_signals);
        }
        let start = Instant::now();
        let output = command.output().with_context(|| format!("can't start {}", words[0]))?;
        let seconds = start.elapsed().as_secs_f64();
        let err = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("{variant:?} of {line:?}: {}\n{err}", output.status);
        }
        let accesses = match variant {
            Memtap | NoBursts => self.stat("accesses")? as u64,
            TwoSignals => {
                err.trim().parse().with_context(|| format!("{line:?} under two signals says {err:?}"))?
            }
            Native | Lackey => 0,
        };
        Ok(Run { seconds, accesses })
    }

    /// A number of `stat --json` of the last trace.
    fn stat(&self, key: &str) -> Result<f64> {
        number(&shell::output(Command::new(&self.memtap).args(["stat", &self.trace, "--json"]))?, key)
    }

    /// Nanoseconds an access: a run of `large` turns minus one of `small`, per access that lies between.
    fn marginal(&self, variant: Variant, program: &[&str], accesses_a_turn: f64, large: u64) -> Result<f64> {
        let small = large / 10;
        let (many, few) = (large.to_string(), small.to_string());
        let long = self.run(variant, &[program, &[many.as_str()]].concat())?;
        let short = self.run(variant, &[program, &[few.as_str()]].concat())?;
        let counted = if long.accesses > 0 {
            (long.accesses - short.accesses) as f64
        } else {
            (large - small) as f64 * accesses_a_turn
        };
        Ok((long.seconds - short.seconds) * 1e9 / counted)
    }

    fn accesses(&self) -> Result<()> {
        let empty = kernel::build("empty_sigsegv")?;
        let (spread, dense) = (kernel::build("spread")?, kernel::build("dense")?);
        let kernels: [(&str, Vec<&str>); 5] = [
            ("spread: 400 instructions between two", vec![&spread]),
            ("dense: copy words", vec![&dense, "copy"]),
            ("dense: sum words", vec![&dense, "sum"]),
            ("dense: follow a list", vec![&dense, "list"]),
            ("dense: probe a table", vec![&dense, "hash"]),
        ];
        let mut table = Table::new(&[
            "ns an access",
            "native",
            "memtap",
            "without bursts",
            "two signals",
            "Lackey",
            "without bursts / empty SIGSEGV",
            "two signals / without bursts",
            "two signals / memtap",
            "Lackey / memtap",
        ]);
        let mut trips = Vec::new();
        for (name, program) in &kernels {
            let is_spread = name.starts_with("spread");
            let mut costs: [Vec<f64>; 5] = Default::default();
            let mut ratios: [Vec<f64>; 4] = Default::default();
            for _ in 0..self.rounds {
                let trip: f64 = shell::output(&mut shell::command(&[&empty, "100000"]))?.trim().parse()?;
                let many = |n: u64| if is_spread { n / 20 } else { n };
                let native = self.marginal(Native, program, 1.0, many(20_000_000))?;
                // What the program itself takes between two accesses is not a cost of recording.
                let added =
                    |variant, n| -> Result<f64> { Ok(self.marginal(variant, program, 1.0, n)? - native) };
                let memtap = added(Memtap, many(4_000_000))?;
                let no_bursts = added(NoBursts, 200_000)?;
                let two = added(TwoSignals, 20_000)?;
                let lackey = added(Lackey, many(400_000))?;
                for (side, cost) in costs.iter_mut().zip([native, memtap, no_bursts, two, lackey]) {
                    side.push(cost);
                }
                for (side, ratio) in
                    ratios.iter_mut().zip([no_bursts / trip, two / no_bursts, two / memtap, lackey / memtap])
                {
                    side.push(ratio);
                }
                trips.push(trip);
            }
            let cells = costs.into_iter().chain(ratios).map(|side| short(median(side)));
            table.row(std::iter::once(name.to_string()).chain(cells).collect());
        }
        table.print("### An access: cost beyond the native run");
        println!("\nOne empty SIGSEGV round trip took {} ns.", short(median(trips)));
        Ok(())
    }

    fn computation(&self) -> Result<()> {
        let mandelbrot = kernel::build("mandelbrot")?;
        let line = [mandelbrot.as_str(), "20000"];
        let mut table =
            Table::new(&["pure computation", "native s", "memtap s", "memtap / native", "Lackey / native"]);
        let mut sides: [Vec<f64>; 4] = Default::default();
        for _ in 0..self.rounds {
            let native = self.run(Native, &line)?.seconds;
            let memtap = self.run(Memtap, &line)?.seconds;
            let lackey = self.run(Lackey, &[mandelbrot.as_str(), "1000"])?.seconds
                / self.run(Native, &[mandelbrot.as_str(), "1000"])?.seconds;
            for (side, value) in sides.iter_mut().zip([native, memtap, memtap / native, lackey]) {
                side.push(value);
            }
        }
        let cells = sides.into_iter().map(|side| format!("{:.3}", median(side)));
        table.row(std::iter::once("Mandelbrot set, start-up included".to_owned()).chain(cells).collect());
        table.print("### Computation");
        Ok(())
    }

    fn programs(&self, dir: &std::path::Path) -> Result<()> {
        let text = words(200_000);
        let lines = dir.join("lines");
        std::fs::write(&lines, text.replace(' ', "\n"))?;
        let readme = shell::repository().join("README.md");
        let (lines, readme) = (lines.display().to_string(), readme.display().to_string());
        let script = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n \
                      where i < 2000) insert into t select i, hex(i * 7919) from n; create index u on t(b); \
                      select count(*), sum(a), max(b) from t where b like '3%';";
        let programs: [(&str, Vec<&str>); 3] = [
            ("gzip -c README.md", vec!["gzip", "-c", &readme]),
            ("sort, 30,000 lines", vec!["sort", "--parallel=1", &lines]),
            ("sqlite3, 2,000 rows", vec!["sqlite3", ":memory:", script]),
        ];
        let mut table = Table::new(&[
            "program",
            "accesses",
            "native s",
            "memtap s",
            "without bursts s",
            "Lackey s",
            "memtap ns/access",
            "bytes/access",
            "gaps",
            "report: million accesses/s",
        ]);
        for (name, line) in &programs {
            let mut sides: [Vec<f64>; 5] = Default::default();
            let mut last = (0, 0.0, 0.0);
            for _ in 0..self.rounds {
                let native = self.run(Native, line)?.seconds;
                let lackey = self.run(Lackey, line)?.seconds;
                let no_bursts = self.run(NoBursts, line)?.seconds;
                let memtap = self.run(Memtap, line)?;
                last = (memtap.accesses, self.stat("bytes_per_access")?, self.stat("gaps")?);
                let start = Instant::now();
                shell::output(Command::new(&self.memtap).args([
                    "report",
                    &self.trace,
                    "--by",
                    "variable",
                    "--json",
                ]))?;
                let report = memtap.accesses as f64 / start.elapsed().as_secs_f64() / 1e6;
                for (side, value) in sides.iter_mut().zip([native, memtap.seconds, no_bursts, lackey, report])
                {
                    side.push(value);
                }
            }
            let [native, memtap, no_bursts, lackey, report] = sides.map(median);
            table.row(vec![
                name.to_string(),
                last.0.to_string(),
                format!("{native:.4}"),
                format!("{memtap:.3}"),
                format!("{no_bursts:.3}"),
                format!("{lackey:.3}"),
                short((memtap - native) * 1e9 / last.0 as f64),
                format!("{:.3}", last.1),
                last.2.to_string(),
                short(report),
            ]);
        }
        table.print("### Programs, start-up included");
        Ok(())
    }
}

/// The number after a key of a flat JSON object.
pub(crate) fn number(json: &str, key: &str) -> Result<f64> {
    let (_, rest) = json.split_once(&format!("\"{key}\"")).with_context(|| format!("no {key} in {json}"))?;
    let digits: String = rest
        .trim_start_matches([':', ' '])
        .chars()
        .take_while(|c| c.is_ascii_digit() || ".eE+-".contains(*c))
        .collect();
    digits.parse().with_context(|| format!("{key} is no number in {json}"))
}

/// Some text with the look of text.
pub(crate) fn words(len_bytes: usize) -> String {
    let list = ["memory", "access", "load", "store", "page", "frame", "trace", "segment", "cursor", "stream"];
    let mut seed = 1u64;
    let mut text = String::new();
    while text.len() < len_bytes {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(list[(seed >> 40) as usize % list.len()]);
        text.push_str(&(seed >> 52).to_string());
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{number, words};
    use crate::table::{median, short};

    #[test]
    fn numbers_are_found_in_json() {
        let json = "{\n  \"accesses\": 120,\n  \"bytes_per_access\": 0.75,\n  \"instructions\": null\n}";
        assert_eq!(number(json, "accesses").expect("it is there"), 120.0);
        assert_eq!(number(json, "bytes_per_access").expect("it is there"), 0.75);
        assert!(number(json, "instructions").is_err());
        assert!(number(json, "loads").is_err());
    }

    #[test]
    fn medians_and_digits() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(
            (short(1234.5), short(12.345), short(1.2345)),
            ("1234".to_owned(), "12.3".to_owned(), "1.23".to_owned())
        );
    }

    #[test]
    fn text_is_long_enough() {
        assert!(words(1000).len() >= 1000);
    }
}
