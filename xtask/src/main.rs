//! Developer tasks: `cargo xtask test`, `demo`, `bench`, `stress`, `differ`,
//! `long`, `soak`, `fuzz`, `dist`, `book`, `structure`, `install`.
//!
//! Each task installs what it needs on a fresh machine. This crate has few dependencies, so that it
//! builds in seconds; it deliberately links nothing of memtap and runs the built binary instead.
#![forbid(unsafe_code)]

mod bench;
mod bench_answers;
mod bench_findings;
mod bench_load;
mod bench_machine;
mod bench_network;
mod bench_probes;
mod bench_query;
mod bench_record;
mod bench_runs;
mod bench_store;
mod bench_translate;
mod bench_types;
mod bench_view;
mod bench_watch;
mod book;
mod demo;
mod differ;
mod dist;
mod fuzz;
mod install;
mod kernel;
mod long;
mod long_jvm;
mod nextest;
mod progress;
mod python;
mod shell;
mod soak;
mod stress;
mod structure;
mod table;
mod test;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask TASK
  test                       install what is missing, then build, format, lint, document and run every test
  test --query               the same for the query wing and the Python package, which nothing else builds (DataFusion: minutes more)
  demo                       install what is missing, record gzip, print its report, leave demo/report.html
  bench record               page protection, one table: native, memtap, Lackey, and the two-signal mechanism
  bench translate            what recording every access costs: programs, one access, start-up
  bench load                 several threads, many short processes, servers under load, while they are recorded
  bench answers              what answers cost: tables, an index, a long trace, and the first answer beside DHAT
  bench query                what questions in SQL and from Python cost, beside DuckDB on a Parquet file of the same accesses
  bench view                 what people wait for in `memtap view`: the first picture, windows, a table; in headless Chromium
  bench findings [--only KIND[/CASE]] [--tools memtap,memcheck,asan] [--builds gcc-O1,...] [--memtap PATH] [--jobs N] [--record]
                             small programs whose errors are known, judged by memtap, memcheck and AddressSanitizer, in one table
  bench machine              one table: QEMU alone, with an empty plugin, and memtap, over a boot of Linux
  bench store [FILE...]      the encoders, on files of 32-byte entries (also .xz) or on programs that memtap records
  bench network              recording to a server: Unix socket, TCP, and TCP with a round trip of 50 ms
  bench probes [PART...]     probes beside XRay, uprobes, a hooking crate and the paper: layer, others, profiler, figures
  bench rtvm                 the benchmarks of that part
  bench rtvm-alloc [--threads LIST] [--sizes LIST] [--frees own,foreign] [--rounds N] [--mallocs LIST]
                             threads that allocate and release under glibc, libmemtap_rtmalloc, jemalloc and mimalloc, in one table
  stress probes [TOGGLES]    patch sites under load and check each execution; 100,000,000 if not given
  stress kills [KILLS]       recorders and servers killed at random moments, and what is lost; 200 if not given
  differ [SEED[-SEED]]       programs drawn from seeds, natively and by both tracers: what is not the same, by the fewest steps; 1-20
  long [PART...]             what takes hours: the tests of other projects, natively and recorded (stressors, python), and differ, patches, kills
                             and fuzz with large figures; all parts if none is named
  soak [--load N] [FILTER]   the tests beside busy processes, those that trace programs also on one processor; --rounds N, --again
  fuzz [TARGET [SECONDS]]    fuzz one target, or each of them for a minute (needs nightly Rust and cargo-fuzz)
  dist [--check]             packages: a tarball, a .deb and an .rpm in target/packages (--profile NAME builds with another
                             profile); --check runs them in a folder and in new Debian systems, and what cargo install leaves
  book                       the documents as a book in target/book/html (needs mdbook)
  structure                  whether arrows, circles, names and heads of files are as ARCHITECTURE.md and CONTRIBUTING.md say
  install                    only install what the tests need";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        eprintln!("xtask: {error:#}");
        std::process::exit(1);
    }
}

fn run(args: &[&str]) -> Result<()> {
    std::env::set_current_dir(shell::repository())?;
    match args {
        ["test"] => test::run(),
        ["test", "--query"] => test::run_query(),
        ["demo"] => demo::run(),
        ["bench", what, rest @ ..] => bench::run(what, rest),
        ["stress", what, rest @ ..] => stress::run(what, rest),
        ["differ", rest @ ..] => differ::run(rest),
        ["long", rest @ ..] => long::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["dist", rest @ ..] => dist::run(rest),
        ["book"] => book::run(),
        ["structure"] => structure::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["install"] => install::tools(install::TEST).and_then(|()| install::guest_parts()).map(drop),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("no such task\n{USAGE}"),
    }
}
