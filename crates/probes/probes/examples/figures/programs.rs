//! Tables 1 and 3 and Figure 14: real programs, as packaged by Debian. Programs that are not installed are left out.

use object::{Object, ObjectSection};
use probes::joined::Profile;
use report::svg::{Bar, Bars};
use std::{path::PathBuf, process::Command};
use x86::{Disassembler, Transfer};

/// Name, file, and a run of some seconds.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("perl", "/usr/bin/perl", &["-e", "my %h; for my $i (1..30000000){ $h{$i%1000}.=\"x\"; }"]),
    ("bash", "/bin/bash", &["-c", "for ((i=0;i<1000000;i++)); do x=$((i*2)); [[ $x == 4 ]] && y=$x; done"]),
    (
        "sqlite3",
        "/usr/bin/sqlite3",
        &[
            ":memory:",
            "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<5000000) insert into t select x,x*7%1000 from c; select max(n) from (select count(*) n from t group by b);",
        ],
    ),
    (
        "gzip",
        "/bin/gzip",
        &[
            "-9",
            "-c",
            "/usr/bin/perl",
            "/usr/bin/perl",
            "/usr/bin/perl",
            "/usr/bin/perl",
            "/bin/bash",
            "/bin/bash",
        ],
    ),
];
/// A run that does nothing: what is left is start-up.
const EMPTY: [(&str, &[&str]); 4] = [
    ("perl", &["-e", "1"]),
    ("bash", &["-c", ":"]),
    ("sqlite3", &[":memory:", "select 1"]),
    ("gzip", &["--version"]),
];

const PAPER_1: [(&str, f64); 7] = [
    ("h264ref", 0.8),
    ("bzip", 0.01),
    ("sjeng", 0.1),
    ("perl", 0.07),
    ("nbody", 0.05),
    ("hull", 0.02),
    ("blackscholes", 0.001),
];
const PAPER_3: [(&str, f64); 7] = [
    ("h264ref", 6.0),
    ("bzip", 0.6),
    ("sjeng", 3.0),
    ("perl", 11.0),
    ("nbody", 2.0),
    ("hull", 0.2),
    ("blackscholes", 1.0),
];

fn library() -> PathBuf {
    let example = std::env::current_exe().expect("this program has a file");
    let profile = example.ancestors().nth(2).expect("target/PROFILE/examples").to_path_buf();
    profile.join("libmemtap_probes.so")
}

/// Seconds of processor time of a run.
fn cpu(file: &str, arguments: &[&str], results: Option<&PathBuf>) -> f64 {
    fn used() -> f64 {
        // SAFETY: all-zero is a valid rusage, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
            usage
        };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
    let before = used();
    let mut command = Command::new(file);
    command.args(arguments).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    if let Some(results) = results {
        command.env("LD_PRELOAD", library()).env("MEMTAP_PROBES_OUT", results);
    }
    command.status().expect("the program starts");
    used() - before
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The share of five-byte calls in a file's code that straddle a cache line, in per cent.
fn straddlers(file: &str) -> Option<f64> {
    let bytes = std::fs::read(file).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let text = file.section_by_name(".text")?;
    let code = text.data().ok()?;
    let (mut calls, mut across) = (0u32, 0u32);
    for instruction in Disassembler::new(code, text.address()) {
        if matches!(instruction.transfer(), Transfer::Call(_)) && instruction.len_bytes() == 5 {
            calls += 1;
            across += u32::from(instruction.addr() % 64 > 59);
        }
    }
    (calls > 0).then(|| 100.0 * f64::from(across) / f64::from(calls))
}

fn here(label: String, value: f64) -> Bar {
    Bar { label, value, is_reference: false }
}

fn paper_bar(name: &str, value: f64) -> Bar {
    Bar { label: format!("paper: {name}"), value, is_reference: true }
}

pub(crate) fn figures() -> Vec<(&'static str, String)> {
    let results = std::env::temp_dir().join(format!("memtap-figures-{}", std::process::id()));
    std::fs::create_dir_all(&results).expect("a directory for results");
    let (mut starts, mut slowdowns, mut rates, mut shares) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, file, arguments) in PROGRAMS {
        if !std::path::Path::new(file).exists() {
            continue;
        }
        let empty = EMPTY.iter().find(|e| e.0 == name).map_or(&[] as &[&str], |e| e.1);
        let start =
            median((0..9).map(|_| cpu(file, empty, Some(&results)) - cpu(file, empty, None)).collect());
        let (mut native, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let without = cpu(file, arguments, None);
            // The profile that is read below is that of the last run.
            let _ = std::fs::remove_dir_all(&results);
            std::fs::create_dir_all(&results).expect("a directory for results");
            ratios.push(100.0 * (cpu(file, arguments, Some(&results)) / without - 1.0));
            native.push(without);
        }
        let native = median(native);
        starts
            .push(here(format!("{name}: {:.0} ms of {native:.1} s", 1000.0 * start), 100.0 * start / native));
        slowdowns.push(here(name.to_owned(), median(ratios)));
        if let Ok(profile) = Profile::read(&results) {
            let seconds = profile.elapsed_ns as f64 / 1e9;
            let samples: u64 = profile.rows.iter().map(|row| row.sampled).sum();
            rates.push(here(
                format!("{name}: {} probes, samples a second", profile.probes),
                samples as f64 / seconds,
            ));
        }
        if let Some(share) = straddlers(file) {
            shares.push(here(name.to_owned(), share));
        }
    }
    for file in ["/usr/bin/python3", "/usr/bin/git", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/gcc-12"] {
        if let Some(share) = straddlers(file) {
            shares.push(here(file.rsplit('/').next().unwrap_or(file).to_owned(), share));
        }
    }
    let _ = std::fs::remove_dir_all(&results);
    let paper = |rows: &[(&str, f64)]| {
        let bar = |(name, value): &(&str, f64)| paper_bar(name, *value);
        rows.iter().map(bar).collect::<Vec<_>>()
    };
    starts.extend(paper(&PAPER_1));
    slowdowns.extend(paper(&PAPER_3));
    rates.extend(paper(&[
        ("h264ref", 115_526.0),
        ("sjeng", 73_060.0),
        ("perl", 211_346.0),
        ("bzip", 10_638.0),
    ]));
    shares.push(paper_bar("all seven programs, about", 10.0));
    vec![
        (
            "table1-initialisation.svg",
            Bars {
                title: "Table 1: making the probes, as a share of the run",
                subtitle: "Here all functions of the program at its start, reading its symbols included;\nin the paper those that are called.",
                note: "per cent of the processor time of the run, logarithmic; blue: this machine, grey: the paper",
                log: true,
                bars: starts.into_iter().map(|bar| Bar { value: bar.value.max(0.001), ..bar }).collect(),
            }
            .svg(),
        ),
        (
            "table3-slowdown.svg",
            Bars {
                title: "Table 3: slowdown by the profiler, 10 samples and 10 ms epochs",
                subtitle: "Processor time. Here Debian's stripped programs as they are;\nthe paper's are instrumented by their compiler.",
                note: "per cent; blue: this machine, grey: the paper",
                log: false,
                bars: slowdowns,
            }
            .svg(),
        ),
        (
            "table3-samples.svg",
            Bars {
                title: "Table 3: samples a second",
                subtitle: "Calls measured by the profiler in the runs of the figure above.",
                note: "samples a second, logarithmic; blue: this machine, grey: the paper",
                log: true,
                bars: rates,
            }
            .svg(),
        ),
        (
            "figure14-straddlers.svg",
            Bars {
                title: "Figure 14: share of five-byte calls that straddle a cache line",
                subtitle: "All calls in .text here; calls of the instrumentation in the paper, about 10 % in each program.",
                note: "per cent; blue: this machine, grey: the paper",
                log: false,
                bars: shares,
            }
            .svg(),
        ),
    ]
}
