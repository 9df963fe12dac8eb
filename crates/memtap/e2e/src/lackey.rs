//! Valgrind's Lackey: running it, and its format, which `memtap dump --format lackey` also writes.

use std::path::Path;
use std::process::Command;

use crate::{TestProgram, run, tool};

/// One line of a trace in Lackey's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `L`, `S`, `M`, or `I` for an instruction.
    pub kind: char,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
}

/// Reads a trace: ` L addr,size`, `I  addr,size`, other lines are words for people.
pub fn parse_lackey(text: &str) -> Vec<Reference> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Reference> {
    let bytes = line.as_bytes();
    let kind = match bytes {
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', ..] => *kind as char,
        [b'I', b' ', ..] => 'I',
        _ => return None,
    };
    let (addr, size) = line[2..].trim().split_once(',')?;
    Some(Reference { kind, addr: u64::from_str_radix(addr, 16).ok()?, size: size.parse().ok()? })
}

/// The setting of the C library with which it picks the same string and mathematical functions on every processor, and under
/// Valgrind, whose processor has other features than the one it runs on. The library of a static program honours it as well.
///
/// What this library or a later one does not know is ignored. Without these features only the functions of the x86-64
/// baseline are left to choose from.
pub const BASELINE_FUNCTIONS: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ,-AVX512ER,-AVX512PF,-AVX2,-AVX,-FMA,-FMA4,-BMI1,\
     -BMI2,-LZCNT,-MOVBE,-POPCNT,-SSSE3,-SSE3,-SSE4_1,-SSE4_2,-ERMS,-FSRM,-RTM,-XSAVE,-XSAVEC,-Fast_Rep_String,\
     -Fast_Copy_Backward,-Fast_Unaligned_Load,-Fast_Unaligned_Copy,-AVX_Fast_Unaligned_Load,-Prefer_PMINUB_for_stringop,\
     -Prefer_No_VZEROUPPER,-Prefer_No_AVX512_Probing,-Prefer_ERMS,-Prefer_FSRM,-Slow_BSF,-Slow_SSE4_2",
);

/// Runs a program under Lackey, with the C library's [`BASELINE_FUNCTIONS`], and returns its references, instructions
/// included.
pub fn run_lackey(program: &TestProgram) -> Vec<Reference> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let log = dir.path().join("lackey");
    let line = program.command_line();
    let mut command = Command::new(tool("valgrind"));
    // Without optimisation: Lackey counts after it, and a load whose value nobody uses would be gone. Without chasing: two
    // branches that are joined list the instructions between them even where the first one is taken.
    command
        .args(["--tool=lackey", "--trace-mem=yes", "--vex-iropt-level=0", "--vex-guest-chase=no"])
        .arg(format!("--log-file={}", log.display()))
        .env(BASELINE_FUNCTIONS.0, BASELINE_FUNCTIONS.1)
        .args(&line);
    let outcome = run(&mut command, program.header.stdin.as_bytes());
    program.check(&outcome);
    without_retries(parse_lackey(&read_lossy(&log)))
}

/// Valgrind executes a locked instruction as a load and a compare-and-exchange. The load is not the program's.
fn without_retries(references: Vec<Reference>) -> Vec<Reference> {
    let mut kept: Vec<Reference> = Vec::with_capacity(references.len());
    for next in references {
        let is_retry = |last: &Reference| {
            last.kind == 'L' && next.kind == 'M' && (last.addr, last.size) == (next.addr, next.size)
        };
        if kept.last().is_some_and(is_retry) {
            kept.pop();
        }
        kept.push(next);
    }
    kept
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .into_owned()
}
