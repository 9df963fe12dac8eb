//! `memtap memory`: the contents of a machine's memory at any time.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::machine::{Machine, checkpoints, memory_at};
use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::inputs;
use crate::output::Out;

/// Rebuild a machine's physical memory as it was at a given point of the recording
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// When, as the number of instructions that the machine had executed; give it several times for several files [default: at the end]
    #[arg(long, value_name = "CYCLE")]
    at: Vec<u64>,
    /// Which bytes [default: all of the guest's memory]
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    physical: Option<Range<u64>>,
    /// The file to write: one for each --at
    #[arg(short, long, value_name = "OUT", value_parser = crate::new_file::name(), required_unless_present = "points")]
    output: Vec<PathBuf>,
    /// Print the points at which all of memory is known instead: cycle and time (ns since 1970)
    #[arg(long)]
    points: bool,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let parsed = text.split_once("..").map(|(start, end)| (number(start), number(end)));
    match parsed {
        Some((Ok(start), Ok(end))) if start < end => Ok(start..end),
        _ => Err(format!(
            "{text:?} is not a range; write A..B, decimal or with 0x, which includes A but not B"
        )),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = inputs::session(&args.file)?;
    let shown = args.file.display();
    let Some(machine) = Machine::of(&session) else {
        bail!("{shown}: is not the trace of a machine; record one with --tracer qemu --data");
    };
    if args.points {
        let mut out = Out::stdout();
        for point in checkpoints(session.trace())? {
            out.line(&format!("{} {}", point.cycle, point.time_ns))?;
        }
        out.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    let range = args.physical.clone().unwrap_or(0..machine.ram.end());
    let at = if args.at.is_empty() { vec![u64::MAX] } else { args.at.clone() };
    if at.len() != args.output.len() {
        return usage(&format!(
            "{} points and {} files; give one -o for each --at",
            at.len(),
            args.output.len()
        ));
    }
    let mut wanted: Vec<_> = at.into_iter().zip(&args.output).collect();
    wanted.sort();
    let cycles: Vec<u64> = wanted.iter().map(|(at, _)| *at).collect();
    memory_at(&session, &cycles, &range, |number, image| {
        let (at, output) = &wanted[number];
        write_image(output, image.bytes).with_context(|| format!("{}: can't be written", output.display()))?;
        if *at != u64::MAX && *at != image.known_at {
            say!(
                "memtap: note: what devices wrote after cycle {} is not in {}; memtap memory --points lists where all is known",
                image.known_at,
                output.display()
            );
        }
        anyhow::Ok(())
    })
    .with_context(|| shown.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes memory, most of which nobody has touched: such parts are holes in the file.
fn write_image(path: &Path, bytes: &[u8]) -> io::Result<()> {
    const PART_BYTES: usize = 1 << 16;
    let mut file = File::create(path)?;
    if !file.metadata()?.is_file() {
        return file.write_all(bytes);
    }
    file.set_len(bytes.len() as u64)?;
    for (number, part) in bytes.chunks(PART_BYTES).enumerate() {
        if part.iter().any(|&byte| byte != 0) {
            file.write_all_at(part, (number * PART_BYTES) as u64)?;
        }
    }
    Ok(())
}

/// The command line is at fault.
fn usage(what: &str) -> Result<ExitCode> {
    say!("memtap: {what}");
    Ok(ExitCode::from(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(parse_range("0x1000..0x2000"), Ok(0x1000..0x2000));
        assert_eq!(parse_range("16..32"), Ok(16..32));
        assert!(parse_range("32..16").is_err());
        assert!(parse_range("a..b").is_err());
    }

    #[test]
    fn what_is_zero_is_a_hole() {
        let mut bytes = vec![0; (64 << 20) + 5];
        bytes[9 << 20] = 1;
        bytes[64 << 20] = 2;
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        // What was there before is gone.
        std::fs::write(file.path(), [9; 100]).expect("it can be written");
        write_image(file.path(), &bytes).expect("it can be written");
        assert!(std::fs::read(file.path()).expect("it can be read") == bytes);
        // In units of 512 bytes.
        let on_disk =
            std::os::unix::fs::MetadataExt::blocks(&file.as_file().metadata().expect("a file")) * 512;
        assert!(on_disk < 1 << 20, "{on_disk}");
    }
}
