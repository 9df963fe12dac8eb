//! The directory of `--out`: three figures, their data, and one self-contained page.

use std::fmt::Write;
use std::path::Path;

use analysis::realtime::{ComparedRun, MunmapCurve, System};
use rtvm::replay::{Scatter, Series};
use serde_json::{Value, json};

use super::skeleton::{self, escape};
use crate::Error;
use crate::realtime::figure::{footprints, scatters};

const NAMES: [&str; 2] = ["RTMMU: every free is immediate", "conventional: page table, shrinks at its end"];

/// Writes everything; the figures are of the first run. `munmap` is drawn beside the releases, and named after where it was
/// measured.
///
/// # Errors
/// Where a file can't be written.
pub fn write(
    dir: &Path,
    runs: &[ComparedRun],
    table: &Value,
    munmap: Option<&MunmapCurve>,
) -> Result<(), Error> {
    let Some(run) = runs.first() else { return Ok(()) };
    std::fs::create_dir_all(dir).map_err(Error::file(dir))?;
    let (a, b) = (&run.rtmmu, &run.conventional);
    let name = match run.seed {
        Some(seed) => format!("{}, seed {seed}", run.workload),
        None => run.workload.clone(),
    };
    let figures = [
        (
            "figure5.svg",
            scatters(&format!("Allocations: {name}"), NAMES, [&a.alloc_points, &b.alloc_points], None),
        ),
        (
            "figure6.svg",
            scatters(&format!("De-allocations: {name}"), NAMES, [&a.free_points, &b.free_points], munmap),
        ),
        ("figure7.svg", footprints(&format!("Footprint: {name}"), NAMES, [&a.footprint, &b.footprint])),
    ];
    let data = json!({
        "workload": run.workload,
        "seed": run.seed,
        "figure5": of_systems(run, |o| cells(&o.alloc_points)),
        "figure6": of_systems(run, |o| cells(&o.free_points)),
        "figure7": of_systems(run, |o| intervals(&o.footprint)),
        "munmap": munmap.map_or(&[][..], |curve| &curve.points).iter()
            .map(|point| json!({"bytes": point.bytes, "ns": point.time_ns})).collect::<Vec<_>>(),
        "munmap_measured_on": munmap.map(|curve| &curve.measured_on),
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
    put("index.html", &html(&name, table, munmap, &figures))
}

fn of_systems(run: &ComparedRun, get: impl Fn(&rtvm::replay::ReplayOutcome) -> Value) -> Value {
    let pairs = run.systems().map(|(system, outcome): (System, _)| (system.name().to_owned(), get(outcome)));
    Value::Object(pairs.into_iter().collect())
}

fn cells(scatter: &Scatter) -> Value {
    let cells = scatter.cells().into_iter();
    cells.map(|cell| json!({"bytes": cell.x, "ns": cell.y, "calls": cell.count})).collect()
}

fn intervals(series: &Series) -> Value {
    let min_max: Vec<[u32; 2]> = series.intervals().iter().map(|i| [i.low, i.high]).collect();
    json!({"points_per_interval": series.stride(), "min_max_pages": min_max})
}

fn html(name: &str, table: &Value, munmap: Option<&MunmapCurve>, figures: &[(&str, String)]) -> String {
    let mut body = "<div class=\"wide\"><table>\n".to_owned();
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
        "mean_pages",
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
            let class = if row[key].is_number() { " class=\"n\"" } else { "" };
            let _ = write!(body, "<td{class}>{text}</td>");
        }
        body.push_str("</tr>\n");
    }
    let costs = table["costs"].as_str().unwrap_or_default();
    let _ = write!(
        body,
        "</tbody></table></div>\n<p>Touches are exact. Times are modelled with the constants &ldquo;{}&rdquo;.</p>\n",
        escape(costs)
    );
    if let Some(curve) = munmap {
        let _ = writeln!(
            body,
            "<p id=\"munmap\">The dashed line is Linux's munmap of as many bytes, measured when this page was written, on {}.</p>",
            escape(&curve.measured_on)
        );
    }
    for (_, svg) in figures {
        let _ = writeln!(body, "<div class=\"wide\">{svg}</div>");
    }
    let title = format!("memtap rtvm: {name}");
    skeleton::page(&title, &title, &body)
}
