//! The latest calls as a Chrome trace, which Perfetto can also open.

use probes::joined::Profile;
use serde_json::{Value, json};

/// The trace: complete events in microseconds.
#[must_use]
pub fn chrome(profile: &Profile) -> Value {
    let events: Vec<Value> = profile
        .calls
        .iter()
        .map(|call| {
            json!({
                "name": profile.rows[call.row].function,
                "cat": "probe",
                "ph": "X",
                "ts": call.start_ns / 1e3,
                "dur": call.duration_ns / 1e3,
                "pid": call.pid,
                "tid": call.tid,
            })
        })
        .collect();
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": { "program": profile.program, "overwritten": profile.gaps.events_overwritten },
    })
}
