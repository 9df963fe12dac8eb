//! Any bytes as a store of Simutrace: read or refused. Seed the corpus with `crates/trace/trace-format/tests/data/true.sim`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_format::SimStore;

fuzz_target!(|input: &[u8]| {
    let path = std::env::temp_dir().join(format!("memtap-fuzz-{}.sim", std::process::id()));
    std::fs::write(&path, input).expect("a temporary directory");
    let Ok(mut store) = SimStore::open(&path) else { return };
    for number in 0..store.streams().len() {
        for segment in 0..store.streams()[number].segments().min(16) {
            let _ = store.read_segment(number, segment, |_| {});
        }
    }
});
