//! `memtap watch`: any number of byte-accurate watchpoints on an unmodified program.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use recorder::Tracer;
use recorder::watching::{HitChoices, Unwatched, WatchExpression, WatchKind, Watcher, parse_number};

use crate::recording::{Teller, in_options};
use crate::watching::log::HitLog;

/// Watch variables, heap blocks and addresses of a program, and log each hit with the old and new value
///
/// An EXPR is a variable (`counter`, `frame.pixels[3].red`), a part of one (`table+16:8`), an address (`0x404040:8`), or the blocks that
/// a function allocates (`malloc@make#2`: the second one; without #: all, including future ones). Names are looked up in the program and
/// in the shared libraries it is linked with.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Watch writes to this (may be given several times)
    #[arg(long, value_name = "EXPR")]
    write: Vec<String>,
    /// Watch reads of this (may be given several times)
    #[arg(long, value_name = "EXPR")]
    read: Vec<String>,
    /// Watch reads and writes of this (may be given several times)
    #[arg(long, value_name = "EXPR")]
    access: Vec<String>,
    /// Watch what this file lists: each line is `write EXPR`, `read EXPR` or `access EXPR`
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Log only hits of this thread
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Log only hits that leave this value in the bytes
    #[arg(long, value_name = "VALUE", value_parser = parse_number)]
    value: Option<u64>,
    /// How accesses are found: translate checks before each access, on stacks too, which makes the program several times slower; protect
    /// closes the pages that hold watched bytes, so that accesses to these pages are hundreds of times slower and all others run at full
    /// speed [default: translate]
    #[arg(long, value_enum)]
    tracer: Option<WatchTracer>,
    /// Stop the program at each hit: Enter on the terminal continues, q ends it; without a terminal SIGCONT continues
    #[arg(long)]
    stop: bool,
    /// Log one JSON object per line
    #[arg(long)]
    json: bool,
    /// Log to this file instead of standard error
    #[arg(short, long, value_name = "FILE", value_parser = crate::new_file::name())]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROG")]
    program: Vec<String>,
}

/// How accesses are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WatchTracer {
    Protect,
    Translate,
}

impl Args {
    fn expressions(&self) -> Result<Vec<WatchExpression>> {
        let given = [
            (&self.read, WatchKind::Reads),
            (&self.write, WatchKind::Writes),
            (&self.access, WatchKind::Accesses),
        ];
        let mut all: Vec<WatchExpression> = given
            .into_iter()
            .flat_map(|(list, kind)| {
                list.iter().map(move |text| WatchExpression { text: text.clone(), kind })
            })
            .collect();
        if let Some(list) = &self.list {
            all.extend(WatchExpression::read_list(list)?);
        }
        if all.is_empty() {
            bail!("nothing to watch: give --write, --read or --access with an expression");
        }
        Ok(all)
    }

    /// Where hits are written.
    fn log(&self) -> Result<Box<dyn Write>> {
        Ok(match &self.output {
            Some(path) => {
                Box::new(File::create(path).with_context(|| format!("{}: can't be written", path.display()))?)
            }
            None => Box::new(std::io::stderr()),
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (name, rest) = args.program.split_first().expect("clap requires a program");
    let choices = HitChoices { stop: args.stop, value: args.value, thread: args.thread };
    let tracer = args.tracer.map(|tracer| match tracer {
        WatchTracer::Protect => Tracer::Protect,
        WatchTracer::Translate => Tracer::Translate,
    });
    let watcher = Watcher::new(name, rest, args.expressions()?, choices, tracer).map_err(in_options)?;
    let out = Box::new(BufWriter::with_capacity(1 << 16, args.log()?));
    let mut teller = if args.stop { Teller::of_stopped_program() } else { Teller::new(None) };
    let watched = watcher.watch(HitLog::new(out, args.json), |notice| teller.tell(&notice));
    let watched = teller.end(watched.map_err(in_options))?;
    for damage in &watched.damage {
        say!("memtap: note: {damage}");
    }
    let mut status = watched.run.end.shell_status();
    if let Some(unwatched) = &watched.unwatched {
        say!("memtap: {}", why(unwatched));
        status = status.max(1);
    }
    Ok(ExitCode::from(status))
}

/// Why an expression was without effect.
fn why(Unwatched { expression, kind, more }: &Unwatched) -> String {
    let more = if *more == 0 { String::new() } else { format!(" (and {more} more)") };
    match kind {
        None => format!(
            "{expression}: the program never had memory there, so nothing was watched; where a program lies changes from run to run unless it is linked to fixed addresses{more}"
        ),
        Some(kind) => format!(
            "{expression}: is {} memory, which is not watched; data, bss, heap and anonymous memory are; --tracer translate watches it, too{more}",
            kind.name()
        ),
    }
}
