//! `cargo xtask bench translate`: the cost of recording every access, in one run, as Markdown. With `--verify`
//! the twelve programs are recorded once while memtap compares itself with single-stepping, and nothing is timed.
//!
//! It measures whole processes, and shows medians of rounds. Times are processor times, of the program and of the recorder
//! separately, as `memtap stat` reports them: on two processors the wall clock says more about other running programs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::bench_record::number;
use crate::bench_runs::{Run, Runs, TICK};
use crate::table::{Table, median, short};
use crate::{bench_runs, install, kernel, shell};

/// A shorter native run, in seconds, says more about start-up than about what is recorded.
const SHORT: f64 = 0.05;
/// The interpreter itself: what stands first in `PATH` may be a shell script that looks for it.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
/// So few accesses that start-up is all that recording them costs.
const FEW: f64 = 10e6;

struct Bench {
    runs: Runs,
    /// Text to compress.
    text: String,
    /// A program whose turns are nothing but a few accesses each.
    dense: String,
}

/// Runs everything; `--rounds N` says how often, `--verify` asks for something else.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let verifies = rest == ["--verify"];
    let rounds = if verifies { 1 } else { bench_runs::rounds("translate", rest, 3)? };
    install::tools(install::BENCH)?;
    let dir = shell::target_dir().join("bench-translate");
    let runs = Runs::prepare(&dir, rounds)?;
    let text = dir.join("text");
    std::fs::write(&text, crate::bench_record::words(4_000_000))?;
    let bench = Bench {
        runs,
        text: text.to_str().context("the target directory's path is not UTF-8")?.to_owned(),
        dense: kernel::build("dense")?,
    };
    if verifies {
        return bench.ordinary(&dir, Bench::verify);
    }
    println!("Medians of {rounds} rounds; see docs/overhead.md for the method.");
    bench.ordinary(&dir, |bench, programs| {
        bench.table("### Twelve programs, start-up included; ratios to the native run", programs)
    })?;
    bench.others(&dir)?;
    bench.marginal()?;
    bench.start_up()?;
    bench.report()
}

impl Bench {
    /// The twelve programs that stand for what people record: their means and the worst of them are what is told.
    fn ordinary(
        &self,
        dir: &Path,
        run: impl FnOnce(&Self, &[(&str, Vec<&str>)]) -> Result<()>,
    ) -> Result<()> {
        let text = &*self.text;
        let lines = file(dir, "lines", crate::bench_record::words(1_500_000).replace(' ', "\n").as_bytes())?;
        let script = "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n \
                      where i < 60000) insert into t select i, hex(i * 7919) from n; create index u on t(b); \
                      select count(*), sum(a), max(b) from t where b like '3%';";
        let json = "import json, re; s = json.dumps([{'a': i, 'b': str(i)} for i in range(60000)]); json.loads(s); len(re.findall('[0-9]+', s))";
        let calls = "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(24), sum(len(str(i)) for i in range(200000)))";
        let perl = "my %h; for (1..300000) { $h{$_ % 1000} .= 'x' } print length(join('', values %h))";
        let cc1 = shell::output(Command::new("gcc").arg("-print-prog-name=cc1"))?;
        let source = file(dir, "source.i", functions(250).as_bytes())?;
        let map = kernel::build_cpp_workload("tree_map")?;
        let film = file(dir, "film.yuv", &frames(352, 288, 12))?;
        let programs: Vec<(&str, Vec<&str>)> = vec![
            ("gzip, 4 MB", vec!["gzip", "-c", text]),
            ("bzip2, 4 MB", vec!["bzip2", "-c", text]),
            ("xz -1, 4 MB", vec!["xz", "-1", "-c", text]),
            ("zstd, 4 MB", vec!["zstd", "-q", "-c", text]),
            ("sort, 150,000 lines", vec!["sort", "--parallel=1", &lines]),
            ("sqlite3, 60,000 rows", vec!["sqlite3", ":memory:", script]),
            ("python3, json and re", vec![PYTHON, "-S", "-E", "-c", json]),
            ("python3, calls", vec![PYTHON, "-S", "-E", "-c", calls]),
            ("perl, a hash", vec!["perl", "-e", perl]),
            (
                "cc1 -O2, 250 functions",
                vec![cc1.trim(), "-O2", "-quiet", "-fpreprocessed", &source, "-o", "/dev/null"],
            ),
            ("a std::map, 200,000 words", vec![&map, "200000"]),
            (
                "x264, 12 frames",
                vec![
                    "x264",
                    "--quiet",
                    "--threads",
                    "1",
                    "--input-res",
                    "352x288",
                    "--demuxer",
                    "raw",
                    "-o",
                    "/dev/null",
                    &film,
                ],
            ),
        ];
        run(self, &programs)
    }

    /// Compares what is recorded of programs with stepping. A recording that differs fails.
    fn verify(&self, programs: &[(&str, Vec<&str>)]) -> Result<()> {
        let mut table = Table::new(&["program", "windows", "instructions", "accesses compared"]);
        for (name, line) in programs {
            self.runs.recorded(&["--verify"], line)?;
            let stat = self.runs.stat()?;
            let (_, verified) = stat.split_once("\"verified\"").context("stat --json has no \"verified\"")?;
            let mut words = vec![name.to_string()];
            for key in ["windows", "instructions", "accesses"] {
                words.push(format!("{}", number(verified, key)?));
            }
            table.row(words);
        }
        table.print("### The same as by single-stepping, in windows of 1,000 instructions");
        Ok(())
    }

    /// Programs of few accesses, of one kind, or of several threads.
    fn others(&self, dir: &Path) -> Result<()> {
        let (fft, streams) = (kernel::build_workload("fft")?, kernel::build_workload("streams")?);
        let dense = &*self.dense;
        let picture = file(dir, "picture.ppm", &pixels(1536, 1024))?;
        let (mandelbrot, product) = (kernel::build("mandelbrot")?, kernel::build_team("matmul")?);
        let programs: Vec<(&str, Vec<&str>)> = vec![
            ("an FFT, 2^17 points", vec![&fft, "17"]),
            ("streams, 400,000 elements", vec![&streams, "5", "400000"]),
            ("a JPEG codec, 1.5 million pixels", vec!["cjpeg", "-outfile", "/dev/null", &picture]),
            ("a pointer chaser, 30 million steps", vec![dense, "list", "30000000"]),
            ("a matrix product, 4 threads", vec![&product, "500"]),
            ("Mandelbrot, 1,000 rows", vec![&mandelbrot, "1000"]),
        ];
        self.table("### Others", &programs)
    }

    fn table(&self, title: &str, programs: &[(&str, Vec<&str>)]) -> Result<()> {
        let mut table = Table::new(&[
            "program",
            "native s",
            "translated, not recorded",
            "recorded, program alone",
            "all processor time",
            "by the clock",
            "million accesses",
            "ns/access, program",
            "ns/access, all",
            "bytes/access",
        ]);
        let (mut ratios, mut costs): ([Vec<f64>; 4], [Vec<f64>; 3]) = Default::default();
        for (name, line) in programs {
            let native = self.runs.medians(|| self.runs.native(line))?;
            let quiet = self.runs.medians(|| self.runs.recorded(&["--never"], line))?;
            let full = self.runs.medians(|| self.runs.recorded(&[], line))?;
            // The kernel counts in ticks of 10 ms.
            let base = native.program.max(TICK);
            let all = full.program + full.recorder;
            let row =
                [quiet.program.max(TICK) / base, full.program / base, all / base, full.wall / native.wall];
            if base >= SHORT {
                for (side, ratio) in ratios.iter_mut().zip(row) {
                    side.push(ratio);
                }
            }
            let each = |seconds: f64| (seconds - base).max(0.0) * 1e9 / full.accesses;
            let row_costs = [each(full.program), each(all), full.bytes / full.accesses];
            let is_much = full.accesses >= FEW;
            if is_much {
                for (side, cost) in costs.iter_mut().zip(row_costs) {
                    side.push(cost);
                }
            }
            let told = |cost: f64| if is_much { short(cost) } else { "-".to_owned() };
            table.row(
                [
                    vec![name.to_string(), format!("{base:.3}")],
                    row.map(|ratio| format!("{} x", short(ratio))).to_vec(),
                    vec![
                        short(full.accesses / 1e6),
                        told(row_costs[0]),
                        told(row_costs[1]),
                        format!("{:.3}", row_costs[2]),
                    ],
                ]
                .concat(),
            );
        }
        let mut summary = |name: &str, of_ratios: fn(Vec<f64>) -> f64, of_costs: fn(Vec<f64>) -> f64| {
            let ratios = ratios.each_ref().map(|side| format!("{} x", short(of_ratios(side.clone()))));
            let costs = costs.each_ref().map(|side| short(of_costs(side.clone())));
            let words =
                [vec![name.to_owned(), String::new()], ratios.to_vec(), vec![String::new()], costs.to_vec()];
            table.row(words.concat());
        };
        summary("geometric mean of the runs of 50 ms and more; median cost", geometric_mean, median);
        summary("worst", worst, worst);
        table.print(title);
        Ok(())
    }

    fn marginal(&self) -> Result<()> {
        let mut table =
            Table::new(&["marginal cost of an access, ns", "program", "program and recorder", "bytes"]);
        for what in ["copy", "sum", "list", "hash"] {
            let (few, many) = ("4000000", "40000000");
            let side = |turns: &str| -> Result<(Run, Run)> {
                let line = [&*self.dense, what, turns];
                Ok((
                    self.runs.medians(|| self.runs.native(&line))?,
                    self.runs.medians(|| self.runs.recorded(&[], &line))?,
                ))
            };
            let ((native_few, few), (native_many, many)) = (side(few)?, side(many)?);
            let accesses = many.accesses - few.accesses;
            let program = (many.program - few.program) - (native_many.program - native_few.program);
            let all = program + many.recorder - few.recorder;
            table.row(vec![
                format!("dense: {what}"),
                short(program * 1e9 / accesses),
                short(all * 1e9 / accesses),
                format!("{:.3}", (many.bytes - few.bytes) / accesses),
            ]);
        }
        table.print("### A long run minus a short one");
        Ok(())
    }

    fn start_up(&self) -> Result<()> {
        let mut table = Table::new(&["start-up, ms", "native", "recorded", "blocks", "us a block"]);
        for line in [&["true"][..], &[PYTHON, "-S", "-E", "-c", "pass"]] {
            let native = self.runs.medians(|| self.runs.native(line))?;
            let full = self.runs.medians(|| self.runs.recorded(&[], line))?;
            let stat = self.runs.stat()?;
            let blocks = number(&stat, "blocks translated")?;
            let ns = number(&stat, "nanoseconds of translating")?;
            table.row(vec![
                line.join(" "),
                short(native.wall * 1e3),
                short(full.wall * 1e3),
                blocks.to_string(),
                short(ns / blocks / 1e3),
            ]);
        }
        table.print("### Start-up, by the clock");
        Ok(())
    }

    /// From the program's start to the table of its variables.
    fn report(&self) -> Result<()> {
        let mut table =
            Table::new(&["record and report, by the clock", "million accesses", "s", "ns/access"]);
        for line in
            [&["gzip", "-c", &self.text][..], &["perl", "-e", "my %h; $h{$_ % 999} .= 'x' for 1..900000"]]
        {
            let run = self.runs.medians(|| {
                let start = Instant::now();
                let run = self.runs.recorded(&[], line)?;
                self.runs.report()?;
                Ok(Run { wall: start.elapsed().as_secs_f64(), ..run })
            })?;
            let each = run.wall * 1e9 / run.accesses;
            table.row(vec![line[0].to_owned(), short(run.accesses / 1e6), short(run.wall), short(each)]);
        }
        table.print("### From the program's start to its report");
        Ok(())
    }
}

fn geometric_mean(ratios: Vec<f64>) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn worst(figures: Vec<f64>) -> f64 {
    figures.into_iter().fold(0.0, f64::max)
}

/// Writes a file and returns its path.
fn file(dir: &Path, name: &str, bytes: &[u8]) -> Result<String> {
    let path = dir.join(name);
    std::fs::write(&path, bytes).with_context(|| format!("{} can't be written", path.display()))?;
    Ok(path.display().to_string())
}

/// A source as the compiler proper reads it: that many functions with a loop and a switch each.
pub(crate) fn functions(count: usize) -> String {
    let one = |number: usize| {
        format!(
            "int f{number}(int *a, int n)\n{{\n    int s = {number};\n    for (int i = 0; i < n; i++)\n        switch (a[i] % 5) {{\n        \
             case 0: s += a[i] * {number}; break;\n        case 1: s ^= a[i] << {}; break;\n        case 2: a[i] = s - i; break;\n        \
             case 3: s -= a[(i + {number}) % n]; break;\n        default: s = s * 31 + 7;\n        }}\n    return s;\n}}\n",
            number % 7 + 1
        )
    };
    (0..count).map(one).collect()
}

/// Frames as x264 reads them: a slope that moves, with a little noise, and colours that are all the same.
fn frames(width: usize, height: usize, count: usize) -> Vec<u8> {
    let mut noise = 1u32;
    let mut film = Vec::new();
    for frame in 0..count {
        for at in 0..width * height {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            film.push((at % width + 3 * frame + at / width / 2 + (noise >> 29) as usize) as u8);
        }
        film.resize(film.len() + width * height / 2, 128);
    }
    film
}

/// A picture as cjpeg reads it: slopes with a little noise.
fn pixels(width: usize, height: usize) -> Vec<u8> {
    let mut picture = format!("P6 {width} {height} 255\n").into_bytes();
    let mut noise = 1u32;
    for at in 0..width * height * 3 {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        picture.push((at / 3 % width / 8 + at / 3 / width / 8 + (noise >> 28) as usize) as u8);
    }
    picture
}
