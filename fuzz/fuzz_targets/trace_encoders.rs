//! Each encoder, for each type that it has a form of its own for: any attributes are decoded or refused, and what it encodes
//! is decoded to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_format::{Coding, Encoded, Encoders, EntryType, Field, FieldRole, Guid, Attribute};

/// Encoders 0 to 8; number 7 is not given away again.
const ENCODERS: u32 = 9;

/// Accesses without and with data, Simutrace's four types, and one of somebody's own.
fn entry_type(number: u8) -> EntryType {
    let field = |name: &str, offset, bytes, role| Field { name: name.into(), offset, bytes, role };
    let own = |number: u8| Guid([0x6d, 0x74, 0, number, 0x6d, 0x65, 0x6d, 0x74, 0x61, 0x70, 0, 0, 0, 0, 0, 1]);
    let mut fields = vec![
        field("cycle", 0, 8, FieldRole::Growing),
        field("ip", 8, 8, FieldRole::Address),
        field("addr", 16, 8, FieldRole::Address),
        field("size", 24, 4, FieldRole::Plain),
        field("kind", 28, 1, FieldRole::Plain),
    ];
    let (guid, entry_bytes) = match number % 7 {
        0 => (own(6), 32),
        1 => {
            fields.push(field("value_bytes", 29, 1, FieldRole::Plain));
            fields.push(field("value", 32, 8, FieldRole::Plain));
            (own(16), 40)
        }
        word @ 2..6 => {
            fields.clear();
            (own(0x20 + word - 2), [16, 20, 24, 32][usize::from(word) - 2])
        }
        _ => (Guid([0; 16]), 32),
    };
    EntryType { guid, name: "fuzz".into(), entry_bytes, fields }
}

fuzz_target!(|input: (u8, u8, u16, Vec<(u8, Vec<u8>)>, Vec<u8>)| {
    let (encoder, number, count, parts, mut bytes) = input;
    let encoders = Encoders::default();
    let Some(encoder) = encoders.get(u32::from(encoder) % ENCODERS) else { return };
    let entry_type = entry_type(number);
    let parts: Vec<Attribute> = parts
        .into_iter()
        .map(|(kind, bytes)| Attribute { kind: (kind % 64).into(), coding: Coding::Stored, bytes })
        .collect();
    let encoded = Encoded { entry_type: &entry_type, count: count.into(), parts: &parts, blocks: &[] };
    let _ = encoder.decode(&encoded, &mut Vec::new());
    let _ = encoder.decode_accesses(&encoded, None, &mut Vec::new());
    let _ = encoder.decode_accesses(&encoded, Some(count.into()), &mut Vec::new());

    let width = entry_type.entry_bytes as usize;
    bytes.truncate(bytes.len() / width * width);
    if bytes.is_empty() {
        return;
    }
    let parts = encoder.encode(&entry_type, &bytes);
    let encoded = Encoded { entry_type: &entry_type, count: bytes.len() / width, parts: &parts, blocks: &[] };
    let mut decoded = Vec::new();
    assert_eq!(encoder.decode(&encoded, &mut decoded), Ok(()));
    assert_eq!(decoded, bytes);
});
