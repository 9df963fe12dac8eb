//! `cargo xtask bench WHAT`: runs the benchmarks of each part, all started in the same way.

use anyhow::{Result, bail};

use crate::{
    bench_answers, bench_findings, bench_load, bench_machine, bench_network, bench_probes, bench_query,
    bench_record, bench_store, bench_translate, bench_types, bench_view, bench_watch, shell,
};

/// Runs the benchmarks of one part.
pub(crate) fn run(what: &str, rest: &[&str]) -> Result<()> {
    match what {
        "record" => bench_record::run(rest),
        "load" => bench_load::run(rest),
        "answers" => bench_answers::run(rest),
        "query" => bench_query::run(rest),
        "view" => bench_view::run(rest),
        "types" => bench_types::run(rest),
        "findings" => bench_findings::run(rest),
        "translate" => bench_translate::run(rest),
        "machine" => bench_machine::run(rest),
        "store" => bench_store::run(rest),
        "network" => bench_network::run(),
        "probes" => bench_probes::run(rest),
        "watch" => bench_watch::run(rest),
        "rtvm" => of_crate("rtvm", rest),
        "rtvm-alloc" => {
            // The library that is preloaded lies beside the example's folder.
            shell::run(&["cargo", "build", "--release", "-p", "rtvm-preload"])?;
            of_crate("rtvm-alloc", rest)
        }
        other => bail!(
            "nothing to measure under the name {other:?}: record, translate, load, answers, query, view, types, findings, machine, store, network, probes, watch, rtvm, rtvm-alloc"
        ),
    }
}

/// A crate has Criterion benchmarks in `benches/`, or one example named `bench-CRATE`: all examples of the workspace are built
/// into one directory, so each needs a name of its own.
pub(crate) fn of_crate(name: &str, rest: &[&str]) -> Result<()> {
    let dir = shell::crate_dir(name)?;
    let example = format!("bench-{name}");
    let mut words = if dir.join("benches").read_dir().is_ok_and(|mut files| files.next().is_some()) {
        vec!["cargo", "bench", "-p", name]
    } else if dir.join("examples").join(&example).with_extension("rs").exists() {
        vec!["cargo", "run", "--release", "-p", name, "--example", &example]
    } else {
        bail!("{} has neither benches/ nor examples/{example}.rs", dir.display());
    };
    if !rest.is_empty() {
        words.push("--");
        words.extend(rest);
    }
    shell::run(&words)
}
