//! Descriptions of streams, as they come in files and from clients: what is accepted comes back from its own bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_format::StreamDescription;

fuzz_target!(|input: &[u8]| {
    let Some(mut description) = StreamDescription::from_bytes(input) else { return };
    assert_eq!(StreamDescription::from_bytes(&description.to_bytes()).as_ref(), Some(&description));
    description.complete();
    assert_eq!(StreamDescription::from_bytes(&description.to_bytes()), Some(description));
});
