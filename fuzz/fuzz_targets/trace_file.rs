//! Any bytes as a trace: opened or refused, and read to the end without a panic. Seed the corpus with
//! `crates/trace/trace-format/tests/golden/v1.memtap`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_format::{Encoders, Filter, Limits, Trace};

fuzz_target!(|bytes: Vec<u8>| {
    let Ok(trace) = Trace::open_on(Box::new(bytes), "fuzz", Encoders::default(), Limits::default()) else { return };
    for record in trace.threads() {
        let shard = trace.shard(record.thread);
        let _ = shard.events(&Filter::default()).count();
        let _ = shard.values(&Filter::default()).count();
    }
    let _ = (trace.regions(), trace.modules(), trace.counters(), trace.check());
});
