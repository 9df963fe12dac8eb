//! A store written by Simutrace 3.2.2, compared with the entries that were written into it; and the encoder `vpc` on its types.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use trace_format::{Encoded, Encoders, EntryType, SimStore};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The store's entries as 32 bytes each.
fn entries() -> Vec<u8> {
    let mut store = SimStore::open(data("true.sim")).unwrap();
    let stream = store.streams()[0].clone();
    assert_eq!((store.streams().len(), &*stream.name, stream.write), (1, "reads", false));
    assert_eq!((stream.bits, stream.data, stream.entries()), (64, true, 42_128));
    let mut bytes = Vec::new();
    for segment in 0..stream.segments() {
        store
            .read_segment(0, segment, |entry| {
                let meta = entry.cycle | u64::from(entry.tag) << 48;
                for word in [meta, entry.ip.0, entry.addr.0, entry.data] {
                    bytes.extend(word.to_le_bytes());
                }
            })
            .unwrap();
    }
    bytes
}

#[test]
fn a_store_of_the_original_server_gives_the_entries_that_were_written() {
    let stored = std::fs::read(data("true.mem.zst")).unwrap();
    let expected = zstd::decode_all(&*stored).unwrap();
    assert!(entries() == expected);
}

#[test]
fn vpc_round_trips_all_types_and_comes_near_to_the_original() {
    let all = entries();
    let encoders = Encoders::default();
    let vpc = encoders.by_name("vpc").unwrap();
    for (wide, data) in [(false, false), (false, true), (true, false), (true, true)] {
        let entry_type = EntryType::memory_access(wide, data);
        let mut bytes = Vec::new();
        for entry in all.as_chunks::<32>().0 {
            bytes.extend(&entry[..8]);
            for word in entry[8..].as_chunks::<8>().0.iter().take(2 + usize::from(data)) {
                bytes.extend(&word[..if wide { 8 } else { 4 }]);
            }
        }
        let count = bytes.len() / entry_type.entry_bytes as usize;
        let parts = vpc.encode(&entry_type, &bytes);
        let mut decoded = Vec::new();
        vpc.decode(&Encoded { entry_type: &entry_type, count, parts: &parts, blocks: &[] }, &mut decoded)
            .unwrap();
        assert!(decoded == bytes, "{}", entry_type.name);
        if wide && data {
            // The hidden frames of the original take 76 KB; they compress what is unused of their segments too.
            let stored: usize = parts.iter().map(|part| part.store(3).1.len()).sum();
            assert!((50_000..76_000).contains(&stored), "{stored} bytes");
        }
    }
}

proptest! {
    // Each case may decompress 80 MiB.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn mutated_stores_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut: prop::sample::Index, how: bool,
    ) {
        let mut bytes = std::fs::read(data("true.sim")).unwrap();
        for (at, value) in changes {
            // Most bytes are payloads; what tells where they are is more interesting.
            let at = if how { at.index(8_192) } else { at.index(bytes.len()) };
            bytes[at] = value;
        }
        if !how {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(mut store) = SimStore::open_on(Box::new(bytes), "test") {
            for stream in 0..store.streams().len() {
                let _ = store.read_segment(stream, 0, |_| {});
            }
        }
    }
}
