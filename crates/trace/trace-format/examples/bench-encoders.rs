//! `cargo xtask bench store`: compares encoders on accesses, in one table.
//!
//! Inputs are files of 32-byte entries (`memtap dump --format entries64`). Segments are coded
//! independently, in memory, by one thread whose CPU time is measured; every segment is decoded again
//! and compared. The second stage (zstd) and the frames' checksums are included in the figures.
//!
//! `cargo xtask bench store [--segment ENTRIES] [--limit ENTRIES] [--rounds N] [--slow] FILE...`

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use trace_format::{Attribute, Coding, Encoded, Encoder, Encoders, EntryType, Guid};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Settings {
    segment: usize,
    limit: usize,
    rounds: usize,
    slow: bool,
}

/// One way to code a segment.
enum Way<'e> {
    /// By an encoder and zstd.
    Encoder(&'e dyn Encoder, i32),
    /// The entries as they are, by zstd.
    Zstd(i32),
}

/// Sums over the segments of an input.
#[derive(Clone, Copy, Default)]
struct Sums {
    entries: f64,
    bytes: f64,
    encode_ns: f64,
    decode_ns: f64,
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Entries of memtap's, from the 32-byte form: cycle 48 bits, bit 48 full size, bit 49 store; ip; address; data, or size in
/// the upper half.
fn convert(entries: &[u8], data: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() / 32 * if data { 40 } else { 32 });
    for entry in entries.as_chunks::<32>().0 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| entry[at * 8 + byte]));
        let (meta, value) = (word(0), word(3));
        let full = meta >> 48 & 1 != 0;
        out.extend((meta & ((1 << 48) - 1)).to_le_bytes());
        out.extend(&entry[8..24]);
        out.extend((if full { 8 } else { (value >> 32) as u32 }).to_le_bytes());
        let bytes = if full { 8 } else { 4 };
        out.extend([(meta >> 49) as u8 & 1, if data { bytes } else { 0 }, 0, 0]);
        if data {
            out.extend((if full { value } else { value & 0xffff_ffff }).to_le_bytes());
        }
    }
    out
}

/// Whether any value is known: tracers that see none leave zeros.
fn has_data(entries: &[u8]) -> bool {
    entries.as_chunks::<32>().0.iter().any(|entry| {
        let bytes = if entry[6] & 1 == 1 { 8 } else { 4 };
        entry[24..24 + bytes].iter().any(|&byte| byte != 0)
    })
}

fn measure(way: &Way<'_>, entry_type: &EntryType, segment: &[u8], out: &mut Vec<u8>) -> Result<Sums> {
    out.clear();
    let count = segment.len() / entry_type.entry_bytes as usize;
    let start = cpu_ns();
    let (parts, level) = match way {
        Way::Encoder(encoder, level) => (encoder.encode(entry_type, segment), *level),
        Way::Zstd(level) => {
            (vec![Attribute { kind: 0, coding: Coding::Zstd, bytes: segment.to_vec() }], *level)
        }
    };
    let mut stored = Vec::new();
    for part in &parts {
        let (coding, bytes) = part.store(level);
        stored.push((coding, bytes.into_owned()));
    }
    let sums: u64 =
        stored.iter().map(|(_, bytes)| xxhash_rust::xxh3::xxh3_64(bytes)).fold(0, u64::wrapping_add);
    let encoded = cpu_ns();
    let check: u64 =
        stored.iter().map(|(_, bytes)| xxhash_rust::xxh3::xxh3_64(bytes)).fold(0, u64::wrapping_add);
    let mut read = Vec::new();
    for (part, (coding, bytes)) in parts.iter().zip(&stored) {
        let bytes = coding.restore(bytes, part.bytes.len()).ok_or("a payload cannot be decompressed")?;
        read.push(Attribute { kind: part.kind, coding: *coding, bytes });
    }
    match way {
        Way::Encoder(encoder, _) => {
            encoder.decode(&Encoded { entry_type, count, parts: &read, blocks: &[] }, out)?
        }
        Way::Zstd(_) => *out = read.swap_remove(0).bytes,
    }
    let decoded = cpu_ns();
    if sums != check || *out != segment {
        return Err("what was decoded is not what was encoded".into());
    }
    let bytes = stored.iter().map(|(_, bytes)| bytes.len() + 32).sum::<usize>() + 160;
    Ok(Sums {
        entries: count as f64,
        bytes: bytes as f64,
        encode_ns: encoded - start,
        decode_ns: decoded - encoded,
    })
}

/// Two workers against one: segments of all inputs from one queue, by the wall clock, the median of the rounds.
fn workers(files: &[(String, Vec<u8>)], settings: &Settings) -> Result<()> {
    let entry_type = EntryType::accesses();
    let encoders = Encoders::default();
    let segments: Vec<Vec<u8>> = files
        .iter()
        .flat_map(|(_, bytes)| bytes.chunks(settings.segment * 32))
        .map(|segment| convert(segment, false))
        .collect();
    println!(
        "\nTwo workers against one, {} segments\n\n| encoder | times as fast |\n|---|---|",
        segments.len()
    );
    for name in ["access", "live"] {
        let encoder = encoders.by_name(name).ok_or(name)?;
        let level = if name == "live" { 1 } else { 3 };
        let run = |count: usize| {
            let (next, start) = (AtomicUsize::new(0), Instant::now());
            std::thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        while let Some(segment) = segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                            for part in encoder.encode(&entry_type, segment) {
                                std::hint::black_box(part.store(level));
                            }
                        }
                    });
                }
            });
            start.elapsed().as_secs_f64()
        };
        let mut ratios: Vec<f64> = (0..settings.rounds.max(3)).map(|_| run(1) / run(2)).collect();
        ratios.sort_by(f64::total_cmp);
        println!("| {name} | {:.2} |", ratios[ratios.len() / 2]);
    }
    Ok(())
}

/// The sums of the round with the median encoding time.
fn input(way: &Way<'_>, entry_type: &EntryType, bytes: &[u8], settings: &Settings) -> Result<Sums> {
    let mut rounds = Vec::new();
    // As a cursor does, the same memory is used for all segments.
    let mut out = vec![1; settings.segment.min(bytes.len()) * entry_type.entry_bytes as usize];
    for _ in 0..settings.rounds {
        let mut sums = Sums::default();
        for segment in bytes.chunks(settings.segment * entry_type.entry_bytes as usize) {
            let one = measure(way, entry_type, segment, &mut out)?;
            sums.entries += one.entries;
            sums.bytes += one.bytes;
            sums.encode_ns += one.encode_ns;
            sums.decode_ns += one.decode_ns;
        }
        rounds.push(sums);
    }
    rounds.sort_by(|a, b| (a.encode_ns + a.decode_ns).total_cmp(&(b.encode_ns + b.decode_ns)));
    Ok(rounds[rounds.len() / 2])
}

fn table(data: bool, files: &[(String, Vec<u8>)], settings: &Settings) -> Result<()> {
    let entry_type = EntryType {
        guid: Guid([0; 16]),
        name: "accesses".into(),
        entry_bytes: if data { 40 } else { 32 },
        fields: Vec::new(),
    };
    let encoders = Encoders::default();
    let encoder = |name| encoders.by_name(name).map(AsRef::as_ref).ok_or(name);
    let mut ways = vec![
        ("access", Way::Encoder(encoder("access")?, 3)),
        ("access --archive", Way::Encoder(encoder("access-archive")?, 19)),
        ("live", Way::Encoder(encoder("live")?, 1)),
        ("entries, zstd -3", Way::Zstd(3)),
    ];
    if let Ok(vpc) = encoder("vpc") {
        ways.insert(3, ("vpc, LZMA", Way::Encoder(vpc, 3)));
    }
    if settings.slow {
        ways.push(("entries, zstd -19", Way::Zstd(19)));
    }
    println!(
        "\n{} data: bytes an entry (encode / decode, ns CPU an entry)\n",
        if data { "With" } else { "Without" }
    );
    let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
    println!("| encoder | {} | geometric mean |", names.join(" | "));
    println!("|---|{}---|", "---|".repeat(files.len()));
    let mut means = HashMap::new();
    for (name, way) in &ways {
        let mut cells = Vec::new();
        let mut logs = [0.0; 3];
        for (_, bytes) in files {
            let sums = input(way, &entry_type, &convert(bytes, data), settings)?;
            let cell = [sums.bytes, sums.encode_ns, sums.decode_ns].map(|sum| sum / sums.entries);
            cells.push(format!("{:.3} ({:.0} / {:.0})", cell[0], cell[1], cell[2]));
            for (log, value) in logs.iter_mut().zip(cell) {
                *log += value.ln() / files.len() as f64;
            }
        }
        let [bytes, encode, decode] = logs.map(f64::exp);
        println!("| {name} | {} | {bytes:.3} ({encode:.0} / {decode:.0}) |", cells.join(" | "));
        means.insert(*name, [bytes, encode, decode]);
    }
    if let (Some(access), Some(vpc)) = (means.get("access"), means.get("vpc, LZMA")) {
        let [bytes, encode, decode]: [f64; 3] = std::array::from_fn(|n| vpc[n] / access[n]);
        println!(
            "\nAgainst vpc `access` is {bytes:.1} x smaller, encodes {encode:.1} x and decodes {decode:.1} x as fast."
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut settings = Settings { segment: 1 << 21, limit: usize::MAX, rounds: 3, slow: false };
    let mut files = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || -> Result<usize> { Ok(args.next().ok_or("a number is missing")?.parse()?) };
        match &*arg {
            "--segment" => settings.segment = number()?.clamp(1, trace_format::MAX_FRAME_ENTRIES),
            "--limit" => settings.limit = number()?,
            "--rounds" => settings.rounds = number()?.max(1),
            "--slow" => settings.slow = true,
            "--bench" => {}
            path => {
                let mut bytes = Vec::new();
                let most = (settings.limit as u64).saturating_mul(32);
                File::open(path)
                    .map_err(|error| format!("{path}: {error}"))?
                    .take(most)
                    .read_to_end(&mut bytes)?;
                bytes.truncate(bytes.len() / 32 * 32);
                if bytes.is_empty() {
                    return Err(format!("{path}: holds no entry").into());
                }
                let name = std::path::Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
                files.push((name.into_owned(), bytes));
            }
        }
    }
    if files.is_empty() {
        return Err("name files of 32-byte entries".into());
    }
    println!("Segments of {} entries, the median of {} rounds.", settings.segment, settings.rounds);
    table(false, &files, &settings)?;
    let with_data: Vec<_> = files.iter().filter(|(_, bytes)| has_data(bytes)).cloned().collect();
    if !with_data.is_empty() {
        table(true, &with_data, &settings)?;
    }
    workers(&files, &settings)
}
