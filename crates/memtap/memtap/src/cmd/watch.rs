//! `memtap watch`: any number of byte-accurate watchpoints on a program that is not changed for it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use buffers::{Config, MAX_BREAKPOINTS, MAX_LIST_PATH_BYTES};
use clap::{Parser, ValueEnum};
use memref::RegionKind;
use trace_format::Encoders;

use recorder::watching::list::{Choices, Lists, Temporary, Wanted, number, read_list};
use recorder::watching::live::Live;
use recorder::{self as record, Job, Linkage};

use crate::watching::log::Log;

/// Watch variables, heap blocks and addresses of a program, and log each hit with the values before and after
///
/// An EXPR is a variable (`counter`, `frame.pixels[3].red`), a part of one (`table+16:8`), an address (`0x404040:8`), or the
/// blocks that a function allocates (`malloc@make#2`: the second one; without #: all of them, also those to come). Names are
/// those of the program and of the shared libraries that it is linked with.
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
    /// Watch what the lines of this file say: `write EXPR`, `read EXPR` or `access EXPR` each
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Log only hits of this thread
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Log only hits after which the bytes hold this value
    #[arg(long, value_name = "VALUE", value_parser = number)]
    value: Option<u64>,
    /// How accesses are found: protect closes the pages that hold watched bytes, so that all else is as fast as ever;
    /// translate looks before each access, on stacks too, so that the program is slower and a hit cheaper. Without
    /// this: translate for thread-local variables and for watched bytes in more than 8192 places, else protect
    #[arg(long, value_enum)]
    tracer: Option<Tracer>,
    /// Stop the program at each hit: Enter on the terminal continues, q ends it; without a terminal SIGCONT continues
    #[arg(long)]
    stop: bool,
    /// Log one JSON object a line
    #[arg(long)]
    json: bool,
    /// Log to this file instead of standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROG")]
    program: Vec<String>,
}

/// How accesses are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tracer {
    Protect,
    Translate,
}

impl Args {
    /// Whether the program's code is translated: where something can't be watched otherwise.
    fn translates(&self, lists: &Lists) -> Result<bool> {
        match (self.tracer, lists.thread_local()) {
            (Some(Tracer::Protect), Some(expression)) => {
                bail!("{expression}: is a thread-local variable, which --tracer translate watches");
            }
            (Some(tracer), _) => Ok(tracer == Tracer::Translate),
            (None, expression) => Ok(expression.is_some() || lists.is_scattered()),
        }
    }

    fn wanted(&self) -> Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = [(&self.read, 1), (&self.write, 2), (&self.access, 3)]
            .into_iter()
            .flat_map(|(list, bits)| list.iter().map(move |expression| (expression.clone(), bits)))
            .collect();
        if let Some(list) = &self.list {
            wanted.extend(read_list(list)?);
        }
        if wanted.is_empty() {
            bail!("nothing to watch: give --write, --read or --access with an expression");
        }
        Ok(wanted)
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (name, rest) = args.program.split_first().expect("clap requires a program");
    let program = record::find(name)?;
    let linkage = record::check(&program)?;
    if linkage == Linkage::Static {
        bail!("{}: is statically linked, so nothing can be preloaded that watches", program.display());
    }
    let choices = Choices { stop: args.stop, value: args.value, thread: args.thread };
    let lists = Arc::new(Lists::new(&program, args.wanted()?, choices)?);
    let translate = args.translates(&lists)?;
    // Regions and processes are kept for the while, which takes little.
    let trace = Temporary(std::env::temp_dir().join(format!("{}.memtap", record::unique_name())));
    let regions = [RegionKind::Data, RegionKind::Bss, RegionKind::Heap, RegionKind::Anonymous];
    let config = Config {
        regions: regions.iter().fold(0, |mask, kind| mask | 1 << kind.code()),
        children: true,
        bursts: true,
        two_signals: false,
        at_main: true,
        translate,
        data: false,
        flow: false,
        verify: 0,
        watchpoints: [0; MAX_LIST_PATH_BYTES],
        breakpoints: [None; MAX_BREAKPOINTS],
    };
    let job = Job {
        output: trace.0.clone(),
        force: true,
        encoder: Encoders::LIVE,
        sync: Default::default(),
        linkage,
        running: None,
        server: None,
        name: name.clone(),
        program,
        args: rest.to_vec(),
        config,
    };
    let out: Box<dyn Write> = match &args.output {
        Some(path) => {
            Box::new(File::create(path).with_context(|| format!("{}: can't be written", path.display()))?)
        }
        None => Box::new(std::io::stderr()),
    };
    let configure = {
        let lists = Arc::clone(&lists);
        Arc::new(move |pid| {
            let mut config = config;
            config.watchpoints = lists.path(pid);
            config
        })
    };
    let out = Box::new(BufWriter::with_capacity(1 << 16, out));
    let mut live = Live::new(Log::new(out, lists.wanted(), args.json));
    let outcome = record::listen(&job, configure, Some(&mut live))?;
    for damage in live.damage() {
        eprintln!("memtap: note: {damage}");
    }
    let mut status = outcome.status;
    if let Some((expression, why, more)) = live.unwatched(lists.addresses()) {
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        eprintln!("memtap: {expression}: {why}{more}");
        status = status.max(1);
    }
    Ok(ExitCode::from(status))
}
