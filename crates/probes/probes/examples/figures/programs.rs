//! Tables 1 and 3 and Figure 14: real programs, as Debian has them. Programs that are not installed are left out.

use crate::svg::Bars;
use object::{Object, ObjectSection};
use probes::joined::Profile;
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
        starts.push((
            format!("{name}: {:.0} ms of {native:.1} s", 1000.0 * start),
            100.0 * start / native,
            false,
        ));
        slowdowns.push((name.to_owned(), median(ratios), false));
        if let Ok(profile) = Profile::read(&results) {
            let seconds = profile.elapsed_ns as f64 / 1e9;
            let samples: u64 = profile.rows.iter().map(|row| row.sampled).sum();
            rates.push((
                format!("{name}: {} probes, samples a second", profile.probes),
                samples as f64 / seconds,
                false,
            ));
        }
        if let Some(share) = straddlers(file) {
            shares.push((name.to_owned(), share, false));
        }
    }
    for file in ["/usr/bin/python3", "/usr/bin/git", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/gcc-12"] {
        if let Some(share) = straddlers(file) {
            shares.push((file.rsplit('/').next().unwrap_or(file).to_owned(), share, false));
        }
    }
    let _ = std::fs::remove_dir_all(&results);
    let paper = |rows: &[(&str, f64)]| {
        rows.iter().map(|(name, v)| (format!("paper: {name}"), *v, true)).collect::<Vec<_>>()
    };
    starts.extend(paper(&PAPER_1));
    slowdowns.extend(paper(&PAPER_3));
    rates.extend(paper(&[
        ("h264ref", 115_526.0),
        ("sjeng", 73_060.0),
        ("perl", 211_346.0),
        ("bzip", 10_638.0),
    ]));
    shares.push(("paper: all seven programs, about".to_owned(), 10.0, true));
    vec![
        (
            "table1-initialisation.svg",
            Bars {
                title: "Table 1: making the probes, as a share of the run",
                paper: "Here all functions of the program at its start, reading its symbols included;|in the paper those that are called.",
                unit: "per cent of the processor time of the run",
                log: true,
                rows: starts.into_iter().map(|(n, v, p)| (n, v.max(0.001), p)).collect(),
            }
            .svg(),
        ),
        (
            "table3-slowdown.svg",
            Bars {
                title: "Table 3: slowdown by the profiler, 10 samples and 10 ms epochs",
                paper: "Processor time. Here Debian's stripped programs as they are;|the paper's are instrumented by their compiler.",
                unit: "per cent",
                log: false,
                rows: slowdowns,
            }
            .svg(),
        ),
        (
            "table3-samples.svg",
            Bars {
                title: "Table 3: samples a second",
                paper: "Calls measured by the profiler in the runs of the figure above.",
                unit: "samples a second",
                log: true,
                rows: rates,
            }
            .svg(),
        ),
        (
            "figure14-straddlers.svg",
            Bars {
                title: "Figure 14: share of five-byte calls that straddle a cache line",
                paper: "All calls in .text here; calls of the instrumentation in the paper, about 10 % in each program.",
                unit: "per cent",
                log: false,
                rows: shares,
            }
            .svg(),
        ),
    ]
}
