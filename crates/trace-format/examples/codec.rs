//! Measures the encoder of accesses on files of 32-byte entries (as `memtap dump --format entries64` gives them): bytes and
//! nanoseconds an access to write a trace and to read it.
//!
//! `cargo run --release -p trace-format --example codec -- FILE...`

use std::{path::Path, time::Instant};

use memref::{Access, AccessKind, VirtAddr};
use trace_format::{CreateOptions, Filter, ProcessRecord, SyncPolicy, ThreadRecord, Trace, TraceWriter};

/// Cycle 48 bits, bit 48 full size, bit 49 store; ip; address; data, or size in the upper half.
fn access(entry: &[u8; 32]) -> Access {
    let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
    let meta = word(0);
    Access {
        cycle: meta & ((1 << 48) - 1),
        ip: VirtAddr(word(8)),
        addr: VirtAddr(word(16)),
        size: if meta >> 48 & 1 != 0 { 8 } else { (word(24) >> 32) as u32 },
        kind: if meta >> 49 & 1 != 0 { AccessKind::Store } else { AccessKind::Load },
    }
}

fn measure(file: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let accesses: Vec<Access> = std::fs::read(file)?.as_chunks().0.iter().map(access).collect();
    let count = accesses.len() as f64;
    let options = CreateOptions { force: true, sync: SyncPolicy::Never, ..Default::default() };
    let start = Instant::now();
    let writer = TraceWriter::create(path, options)?;
    let process = writer.add_process(&ProcessRecord::default())?;
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() })?;
    let mut shard = writer.shard(thread)?;
    for chunk in accesses.chunks(1 << 12) {
        shard.push_accesses(chunk)?;
    }
    writer.finish()?;
    let written = start.elapsed().as_nanos() as f64 / count;

    let trace = Trace::open(path)?;
    let read = |filter: &Filter| -> Result<(f64, u64), trace_format::Error> {
        let start = Instant::now();
        let mut cursor = trace.shard(thread).accesses(filter);
        let mut found = 0;
        while let Some(block) = cursor.next_block()? {
            found += block.len() as u64;
        }
        Ok((start.elapsed().as_nanos() as f64 / count, found))
    };
    let (decoded, found) = read(&Filter::default())?;
    assert_eq!(found, accesses.len() as u64, "all accesses are read");
    let mut written_ones = accesses.as_slice();
    let mut cursor = trace.shard(thread).accesses(&Filter::default());
    while let Some(block) = cursor.next_block()? {
        let (front, rest) = written_ones.split_at(block.len());
        assert!(front == block, "what is read is what was written");
        written_ones = rest;
    }
    let addresses = vec![VirtAddr(0)..VirtAddr(1 << 40)];
    let (filtered, _) = read(&Filter { addresses, ..Default::default() })?;
    let start = Instant::now();
    let merged = trace.shard(thread).events(&Filter::default()).count();
    let merged = start.elapsed().as_nanos() as f64 / merged as f64;
    let bytes = trace.file_bytes() as f64 / count;
    println!(
        "{file}: {bytes:.3} bytes, write {written:.1} ns, read {decoded:.1} ns, filtered by address {filtered:.1} ns, merged one by one {merged:.1} ns an access"
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("codec-{}.memtap", std::process::id()));
    let result = std::env::args().skip(1).try_for_each(|file| measure(&file, &path));
    std::fs::remove_file(path)?;
    result
}
