//! The latency profile as one self-contained HTML page: a flame graph of the
//! call paths, the table, and a latency histogram of the selected function.

use super::skeleton;
use crate::flame;
use crate::latency::json;
use probes::joined::Profile;
use probes::profile::histogram;
use serde_json::{Value, json};

const BODY: &str = include_str!("latency.html");

/// The page.
#[must_use]
pub fn page(profile: &Profile) -> String {
    let paths: Vec<Value> = profile
        .paths
        .iter()
        .map(|n| json!([n.parent, n.row, n.calls, n.total_ns.round(), n.self_ns.round()]))
        .collect();
    let histograms: Vec<Value> = profile
        .rows
        .iter()
        .map(|row| {
            let ns = |bucket: u32| histogram::middle(bucket as usize) * profile.ns_per_tick;
            row.histogram.iter().map(|of| json!([ns(of.bucket), of.count])).collect()
        })
        .collect();
    let data = json!({
        "program": profile.program,
        "elapsed_ns": profile.elapsed_ns,
        "functions": json::functions(profile),
        "paths": paths,
        "histograms": histograms,
    });
    // Inside a script element only `</` could end it early.
    let body = BODY
        .replace("/*FLAME*/", flame::SCRIPT)
        .replace("/*DATA*/null", &data.to_string().replace("</", "<\\/"));
    skeleton::page("memtap probe", &profile.program, &body)
}
