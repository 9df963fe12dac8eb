//! `cargo xtask bench probes`: the figures of the probe layer and of other tools, measured
//! in the same run, the paper's beside them, and the cost of the profiler to whole programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{
    bench, install, shell,
    table::{Table, median, short},
};

/// Rounds of the profiler's slowdown: a ratio is taken within a round, then the median.
const ROUNDS: usize = 3;

/// Runs all parts, or those named: `layer`, `others`, `profiler`, `figures`.
pub(crate) fn run(parts: &[&str]) -> Result<()> {
    install::tools(install::BENCH_PROBES)?;
    if let Some(unknown) = parts.iter().find(|p| !["layer", "others", "profiler", "figures"].contains(*p)) {
        bail!("no part {unknown:?}: layer, others, profiler, figures");
    }
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    if wanted("layer") {
        bench::of_crate("probes", &[])?;
    }
    if wanted("others") {
        others()?;
    }
    if wanted("profiler") {
        profiler()?;
    }
    if wanted("figures") {
        let out = shell::repository().join("docs/figures");
        let out = out.to_str().context("the repository's path is not UTF-8")?;
        shell::run(&["cargo", "run", "--release", "-p", "probes", "--example", "figures", "--", out])?;
    }
    Ok(())
}

/// A comparison program: how it is built, or why it is not there.
fn build(words: &[&str]) -> Result<(), String> {
    shell::run(words).map_err(|error| format!("{error:#}"))
}

/// A Python with Frida in an environment of its own, which is made where it is not there.
fn python_with_frida(dir: &Path) -> Result<String, String> {
    let environment = dir.join("frida");
    let python = environment.join("bin/python").display().to_string();
    if !shell::succeeds(&[&python, "-c", "import frida"]) {
        let environment = environment.display().to_string();
        build(&["python3", "-m", "venv", "--clear", &environment])?;
        build(&[&python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "frida"])?;
    }
    Ok(python)
}

fn others() -> Result<()> {
    let dir: PathBuf = shell::target_dir().join("probes");
    std::fs::create_dir_all(&dir)?;
    let path = |name: &str| dir.join(name).display().to_string();
    let sources = shell::repository().join("benches/probes");
    let source = |name: &str| sources.join(name).display().to_string();
    if !shell::succeeds(&[
        "test",
        "-e",
        "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.xray-x86_64.a",
    ]) {
        // The runtime lies in a package whose name has clang's version; without it the row says so.
        let _ =
            shell::run(&["apt-get", "install", "-q", "-y", "--no-install-recommends", "libclang-rt-14-dev"]);
    }
    if !shell::succeeds(&["uftrace", "--version"]) {
        let _ = shell::run(&["apt-get", "install", "-q", "-y", "--no-install-recommends", "uftrace"]);
    }
    let (xray, uprobe) = (path("xray"), path("uprobe"));
    let (frida, uftrace) = (path("frida_target"), path("uftrace"));
    let hooking = source("hooking/Cargo.toml");
    let hooking_target = path("hooking");
    let programs = [
        (
            "XRay",
            build(&["clang++", "-O2", "-pthread", "-fxray-instrument", "-o", &xray, &source("xray.cc")])
                .map(|()| vec![xray]),
        ),
        (
            "uprobe",
            build(&["gcc", "-O2", "-pthread", "-o", &uprobe, &source("uprobe.c")]).map(|()| vec![uprobe]),
        ),
        (
            "uftrace",
            build(&[
                "gcc",
                "-O2",
                "-pthread",
                "-fpatchable-function-entry=5",
                "-o",
                &uftrace,
                &source("uftrace.c"),
            ])
            .map(|()| {
                let data = path("uftrace.data");
                ["uftrace", "record", "-d", &data, "-P", "probed", &uftrace].map(str::to_owned).to_vec()
            }),
        ),
        (
            "Frida",
            build(&["gcc", "-O2", "-pthread", "-rdynamic", "-o", &frida, &source("frida_target.c")])
                .and_then(|()| python_with_frida(&dir))
                .map(|python| vec![python, source("frida_attach.py"), frida]),
        ),
        (
            "retour",
            build(&[
                "cargo",
                "build",
                "-q",
                "--release",
                "--manifest-path",
                &hooking,
                "--target-dir",
                &hooking_target,
            ])
            .map(|()| vec![format!("{hooking_target}/release/hooking")]),
        ),
    ];
    let mut table =
        Table::new(&["ticks", "activation", "deactivation", "activation, another thread runs", "invocation"]);
    for (name, built) in programs {
        let output = built.and_then(|words| {
            let (program, args) = words.split_first().ok_or("nothing to run")?;
            let output = std::process::Command::new(program).args(args).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.is_empty() {
                return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
            Ok(text + if output.status.success() { "" } else { "contended\tcrashed\n" })
        });
        match output {
            Ok(text) => {
                let mut cells: Vec<String> =
                    text.lines().next().unwrap_or("").split('\t').map(thousands).collect();
                if let Some(contended) = text.lines().find_map(|line| line.strip_prefix("contended\t")) {
                    cells[3] = thousands(contended);
                }
                table.row(cells);
            }
            Err(reason) => table.row([name, "-", "-", "-", &reason].map(str::to_owned).to_vec()),
        }
    }
    for (name, on, off, hit) in [
        ("paper: fastinst, in a line", "300", "120", "35"),
        ("paper: fastinst, straddlers", "8850", "8435", "35"),
        ("paper: fastinst, callpatch", "432", "315", "35"),
        ("paper: JVM VolatileCallSite", "995", "-", "55"),
        ("paper: JVM MutableCallSite", "1432", "-", "83"),
        ("paper: Dyninst", "1929244", "995447", "320"),
        ("paper: DTrace", "70771", "-", "1176"),
    ] {
        table.row([name, on, off, "-", hit].map(thousands).to_vec());
    }
    table.print("Others, measured in this run; and the paper's Table 2, on another machine");
    Ok(())
}

/// A figure with its thousands apart.
fn thousands(text: &str) -> String {
    let Ok(value) = text.parse::<f64>() else { return text.to_owned() };
    if value.abs() < 1000.0 {
        return short(value);
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Real programs as Debian has them, stripped, and what they do; seconds each, so that the
/// tens of milliseconds of start-up do not decide.
const REAL: [(&str, &str); 6] = [
    ("gzip -3 of 120 MB text", "gzip -3 -c $TEXT $TEXT $TEXT >/dev/null"),
    ("xz -0 of 40 MB text", "xz -0 -c $TEXT >/dev/null"),
    ("sort -n of 4,500,000 lines", "sort -n --parallel=1 $NUMBERS $NUMBERS $NUMBERS >/dev/null"),
    (
        "perl, strings and hashes",
        "perl -e 'my %h; for my $i (1..40000000){ $h{$i%1000}.=\"x\"; } print scalar keys %h' >/dev/null",
    ),
    (
        "bash, arithmetic loop",
        "bash -c 'for ((i=0;i<1500000;i++)); do x=$((i*2)); [[ $x == 4 ]] && y=$x; done'",
    ),
    (
        "sqlite3, insert and group 6,000,000 rows",
        "sqlite3 :memory: 'create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<6000000) insert into t select x,x*7%1000 from c; select b,count(*),sum(a) from t group by b order by 2 limit 3;' >/dev/null",
    ),
];

/// Programs of tests/programs that run by themselves; they take milliseconds, so their cost is a time, not a share.
const SMALL: [&str; 5] = ["algorithms.c", "boxes", "containers.cpp", "exceptions.cpp", "many_threads.c"];

fn profiler() -> Result<()> {
    let dir: PathBuf = shell::target_dir().join("probes");
    let results = dir.join("results");
    std::fs::create_dir_all(&results)?;
    shell::run(&["cargo", "build", "--release", "-p", "probes-preload"])?;
    let library = shell::profile_dir("release").join("libmemtap_probes.so");
    let (text, numbers) = (dir.join("text"), dir.join("numbers"));
    let make = "awk 'BEGIN { srand(1); for (i = 0; i < 700000; i++) { s = \"\"; for (w = 0; w < 9; w++) s = s sprintf(\"%x \", int(rand() * 20000) * 7919); print s } }'";
    shell::run(&["sh", "-c", &format!("{make} > {}", text.display())])?;
    let make = "awk 'BEGIN { srand(2); for (i = 0; i < 1500000; i++) print int(rand() * 1000000000) }'";
    shell::run(&["sh", "-c", &format!("{make} > {}", numbers.display())])?;
    let measure = |script: &str, probed: bool| -> Result<f64> {
        let mut command = shell::command(&["bash", "-c"]);
        command.arg("TIMEFORMAT='%3U %3S'; time env $PROBES bash -c \"$0\" 2>/dev/null");
        command.arg(format!("exec {script}"));
        command.env("TEXT", &text).env("NUMBERS", &numbers).env("MEMTAP_PROBES_SAMPLE", "10");
        let probes = format!("LD_PRELOAD={} MEMTAP_PROBES_OUT={}", library.display(), results.display());
        command.env("PROBES", if probed { probes } else { "MEMTAP_PROBES_OUT=".to_owned() });
        let output = command.output()?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let times: Vec<f64> = words.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if times.len() != 2 {
            bail!("{script}: {words}");
        }
        Ok(times[0] + times[1])
    };
    let mut table = Table::new(&["program", "processor time, s", "with the profiler, s", "slowdown, %"]);
    let mut slowdowns = Vec::new();
    for (name, script) in REAL {
        let (mut native, mut probed, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (without, with) = (measure(script, false)?, measure(script, true)?);
            native.push(without);
            probed.push(with);
            ratios.push(100.0 * (with / without - 1.0));
        }
        let slowdown = median(ratios);
        slowdowns.push(slowdown);
        table.row(vec![
            name.to_owned(),
            short(median(native)),
            short(median(probed)),
            format!("{slowdown:+.1}"),
        ]);
    }
    table.print("The profiler at 10 samples and 10 ms epochs; start-up included");
    let worst = slowdowns.iter().copied().fold(f64::MIN, f64::max);
    println!(
        "\nmedian {:+.1} %, worst {worst:+.1} % (goals 3 and 10; the paper: 2 and 11)",
        median(slowdowns)
    );
    small(&dir, &measure)
}

fn small(dir: &Path, measure: &dyn Fn(&str, bool) -> Result<f64>) -> Result<()> {
    const RUNS: usize = 20;
    let mut table = Table::new(&["program", "processor time of a run, ms", "with the profiler, ms"]);
    for name in SMALL {
        let source = shell::repository().join("tests/programs").join(name);
        if !source.exists() {
            continue;
        }
        let program = dir.join("small").display().to_string();
        let compiler = if name.ends_with(".c") { "gcc" } else { "g++" };
        let include = shell::repository().join("include");
        let flags = ["-O2", "-g", "-pthread", "-I"];
        let mut command = shell::command(&[compiler]);
        command.args(flags).arg(include).arg("-o").arg(&program).arg(&source);
        shell::run_command(&mut command)?;
        let script = format!("bash -c 'for i in {{1..{RUNS}}}; do {program} >/dev/null </dev/null; done'");
        // The loop's own shell is profiled too, once: it is the same for all and taken off.
        let empty = format!("bash -c 'for i in {{1..{RUNS}}}; do /bin/true; done'");
        let each = |probed| -> Result<f64> {
            Ok(1000.0 * (measure(&script, probed)? - measure(&empty, false)?).max(0.0) / RUNS as f64)
        };
        let (mut native, mut probed) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            native.push(each(false)?);
            probed.push(each(true)?);
        }
        table.row(vec![name.to_owned(), short(median(native)), short(median(probed))]);
    }
    table.print("Programs of tests/programs: they end within milliseconds, so what is seen is start-up");
    Ok(())
}
