//! Each encoder: any bytes are decoded or refused, and what it encodes is decoded to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_format::{Coding, Encoders, EntryType, Field, FieldRole, Guid, Part};

/// The layout of accesses, without bytes that no field covers.
fn entry_type() -> EntryType {
    let field = |name: &str, offset, bytes, role| Field { name: name.into(), offset, bytes, role };
    EntryType {
        guid: Guid([0; 16]),
        name: "fuzz".into(),
        entry_bytes: 32,
        fields: vec![
            field("cycle", 0, 8, FieldRole::Growing),
            field("ip", 8, 8, FieldRole::Address),
            field("addr", 16, 8, FieldRole::Address),
            field("size", 24, 4, FieldRole::Plain),
            field("kind", 28, 1, FieldRole::Plain),
        ],
    }
}

fuzz_target!(|input: (u8, u16, Vec<u8>)| {
    let (encoder, count, mut bytes) = input;
    let encoders = Encoders::default();
    let Some(encoder) = encoders.get(u32::from(encoder) % 3) else { return };
    let entry_type = entry_type();
    let part = Part { kind: 0, coding: Coding::Stored, bytes: bytes.clone() };
    let _ = encoder.decode(&entry_type, count.into(), &[part], &mut Vec::new());

    bytes.truncate(bytes.len() / 32 * 32);
    if bytes.is_empty() {
        return;
    }
    for entry in bytes.chunks_exact_mut(32) {
        entry[29..].fill(0);
    }
    let parts = encoder.encode(&entry_type, &bytes);
    let mut decoded = Vec::new();
    encoder.decode(&entry_type, bytes.len() / 32, &parts, &mut decoded).expect("what was encoded");
    assert_eq!(decoded, bytes);
});
