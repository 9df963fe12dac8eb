//! The directory of `--out`: three figures, their data, and one page that needs nothing else.

use std::fmt::Write;
use std::path::Path;

use analysis::realtime::{Run, System};
use rtvm::replay::{Scatter, Series};
use serde_json::{Value, json};

use crate::Error;
use crate::heatmap::escape;
use crate::realtime::figure::{footprints, scatters};

const NAMES: [&str; 2] = ["RTMMU: every free is immediate", "conventional: page table, shrinks at its end"];

const STYLE: &str = "
:root{color-scheme:light dark;--line:#d0d0d0}@media(prefers-color-scheme:dark){:root{--line:#444}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:76rem;padding:1rem}h1{font-size:1.4rem}
table{border-collapse:collapse}th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}
th:first-child,td:first-child,th:nth-child(3),td:nth-child(3){text-align:left}.wide{overflow-x:auto}svg{max-width:100%;height:auto;margin:1rem 0}";

/// Sizes for which munmap is measured: up to the largest that the figure shows, and what a test machine can spare.
const MUNMAP_MOST: u64 = 64 << 20;

fn measure_munmap() -> Vec<(f64, f64)> {
    let mut bytes = 4096;
    let mut curve = Vec::new();
    while bytes <= MUNMAP_MOST {
        // A machine without that much memory has a shorter curve.
        let Ok(ns) = rtvm::munmap_ns(bytes as usize, 5) else { break };
        curve.push((bytes as f64, ns));
        bytes *= 2;
    }
    curve
}

/// Writes everything; the figures are of the first run.
pub fn write(dir: &Path, runs: &[Run], table: &Value) -> Result<(), Error> {
    let Some(run) = runs.first() else { return Ok(()) };
    std::fs::create_dir_all(dir).map_err(Error::file(dir))?;
    let munmap = measure_munmap();
    let (a, b) = (&run.rtmmu, &run.conventional);
    let name = match run.seed {
        Some(seed) => format!("{}, seed {seed}", run.workload),
        None => run.workload.clone(),
    };
    let figures = [
        (
            "figure5.svg",
            scatters(&format!("Allocations: {name}"), NAMES, [&a.alloc_points, &b.alloc_points], &[]),
        ),
        (
            "figure6.svg",
            scatters(&format!("De-allocations: {name}"), NAMES, [&a.free_points, &b.free_points], &munmap),
        ),
        ("figure7.svg", footprints(&format!("Footprint: {name}"), NAMES, [&a.footprint, &b.footprint])),
    ];
    let data = json!({
        "workload": run.workload,
        "seed": run.seed,
        "figure5": of_systems(run, |o| cells(&o.alloc_points)),
        "figure6": of_systems(run, |o| cells(&o.free_points)),
        "figure7": of_systems(run, |o| intervals(&o.footprint)),
        "munmap": munmap.iter().map(|(bytes, ns)| json!({"bytes": bytes, "ns": ns})).collect::<Vec<_>>(),
    });
    let put = |file: &str, text: &str| {
        let path = dir.join(file);
        std::fs::write(&path, text).map_err(Error::file(&path))
    };
    for (file, svg) in &figures {
        put(file, svg)?;
    }
    put("table.json", &format!("{table:#}"))?;
    put("figures.json", &data.to_string())?;
    put("index.html", &html(&name, table, &figures))
}

fn of_systems(run: &Run, get: impl Fn(&rtvm::replay::Outcome) -> Value) -> Value {
    let pairs = run.systems().map(|(system, outcome): (System, _)| (system.name().to_owned(), get(outcome)));
    Value::Object(pairs.into_iter().collect())
}

fn cells(scatter: &Scatter) -> Value {
    scatter.cells().into_iter().map(|(bytes, ns, n)| json!({"bytes": bytes, "ns": ns, "calls": n})).collect()
}

fn intervals(series: &Series) -> Value {
    json!({"points_per_interval": series.stride(), "min_max_pages": series.intervals()})
}

fn html(name: &str, table: &Value, figures: &[(&str, String)]) -> String {
    let title = escape(&format!("memtap rtvm: {name}"));
    let mut body = format!("<h1>{title}</h1>\n<div class=\"wide\"><table>\n");
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let keys = [
        "workload",
        "seed",
        "system",
        "allocations",
        "frees",
        "accesses",
        "max_alloc_touches",
        "max_free_touches",
        "max_alloc_ns",
        "max_free_ns",
        "peak_pages",
        "max_pages_unmapped_by_one_free",
    ];
    body.push_str("<thead><tr>");
    for key in keys {
        let _ = write!(body, "<th>{}</th>", key.replace('_', " "));
    }
    body.push_str("</tr></thead><tbody>\n");
    for row in rows {
        body.push_str("<tr>");
        for key in keys {
            let text = match &row[key] {
                Value::String(text) => escape(text).to_string(),
                Value::Null => "–".to_owned(),
                Value::Number(number) if number.is_f64() => format!("{:.0}", number.as_f64().unwrap_or(0.0)),
                other => other.to_string(),
            };
            let _ = write!(body, "<td>{text}</td>");
        }
        body.push_str("</tr>\n");
    }
    let costs = table["costs"].as_str().unwrap_or_default();
    let _ = write!(
        body,
        "</tbody></table></div>\n<p>Touches are exact. Times are modelled with the constants &ldquo;{}&rdquo;; the munmap curve is measured.</p>\n",
        escape(costs)
    );
    for (_, svg) in figures {
        let _ = writeln!(body, "<div class=\"wide\">{svg}</div>");
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}
