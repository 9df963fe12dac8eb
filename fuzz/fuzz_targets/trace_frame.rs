//! Frames whose checksums hold although their content is arbitrary: the input is a list of header, attribute and payload
//! bytes after a valid file header, sealed here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_format::{Encoders, Filter, Limits, Trace};
use xxhash_rust::xxh3::xxh3_64;

const HEADER_BYTES: usize = 160;
const ATTRIBUTE_BYTES: usize = 32;

/// One frame: the mirrored header fields (136 bytes) are taken from the front of `input`, the payload from the rest.
fn seal(file: &mut Vec<u8>, input: &[u8]) {
    let Some((fields, payload)) = input.split_at_checked(136) else { return };
    let padded = payload.len().next_multiple_of(8);
    let start = file.len();
    file.extend(b"mtFRAME\x1a");
    file.extend([0x5a; 8]);
    file.extend(fields);
    file.extend([0; 8]);
    let total = HEADER_BYTES + ATTRIBUTE_BYTES + padded;
    file[start + 16] &= 3;
    file[start + 17] = 0;
    file[start + 18..start + 20].copy_from_slice(&1_u16.to_le_bytes());
    file[start + 32..start + 40].copy_from_slice(&(total as u64).to_le_bytes());
    file[start + 140..start + 152].fill(0);
    // The attribute's type follows the frame's kind.
    let kind: u16 = match file[start + 16] {
        0 => 1,
        1 => 0,
        other => other.into(),
    };
    file.extend(kind.to_le_bytes());
    file.extend([0; 6]);
    file.extend((payload.len() as u64).to_le_bytes());
    file.extend((payload.len() as u64).to_le_bytes());
    file.extend(xxh3_64(payload).to_le_bytes());
    let checksum = xxh3_64(&file[start..]);
    file[start + 152..start + 160].copy_from_slice(&checksum.to_le_bytes());
    file.extend(payload);
    file.resize(start + total, 0);
}

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let mut file = b"\x89memtap\n\x01\0\0\0\0\0\0\0".to_vec();
    file.extend([0x5a; 16]);
    file.resize(56, 0);
    let checksum = xxh3_64(&file);
    file.extend(checksum.to_le_bytes());
    for frame in &frames {
        seal(&mut file, frame);
    }
    let trace = Trace::open_on(Box::new(file), "fuzz", Encoders::default(), Limits::default());
    let Ok(trace) = trace else { return };
    for record in trace.threads() {
        let shard = trace.shard(record.thread);
        let _ = shard.events(&Filter::default()).count();
        let _ = shard.values(&Filter::default()).count();
    }
    let _ = (trace.regions(), trace.modules(), trace.counters(), trace.check());
});
