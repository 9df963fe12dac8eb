//! The report as one self-contained HTML page: nothing is loaded from anywhere, and it works without a network.

use std::fmt::Write;

use crate::heatmap::escape;
use analysis::{Row, Stale, Summary};

/// Rows of a table that the page shows; the rest is counted in a note. Whole traces don't belong into a browser.
const MOST_ROWS: usize = 500;

/// What the page shows.
#[derive(Debug)]
pub struct Content<'a> {
    /// The program and its arguments.
    pub title: &'a str,
    /// What the trace covers.
    pub coverage: Option<&'a str>,
    /// Totals.
    pub summary: &'a Summary,
    /// Tables: title, what the size column says, rows.
    pub tables: &'a [(&'a str, &'a str, Vec<Row>)],
    /// Accesses to released memory.
    pub stale: &'a Stale,
    /// The heat map as SVG.
    pub heatmap: &'a str,
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

const STYLE: &str = "
:root{color-scheme:light dark;--line:#d0d0d0;--soft:#f3f3f3;--mark:#a3282d}
@media(prefers-color-scheme:dark){:root{--line:#444;--soft:#222;--mark:#ff8a80}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{padding:.25rem .6rem;text-align:left;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.name{overflow-wrap:anywhere;font-family:ui-monospace,monospace}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid}
tr:nth-child(even){background:var(--soft)}.wide{overflow-x:auto}.finding{color:var(--mark)}
svg{max-width:100%;height:auto;background:#fafafa}";

const SCRIPT: &str = "
for(const b of document.querySelectorAll('th button'))b.addEventListener('click',()=>{
const h=b.closest('th'),t=h.closest('table'),i=h.cellIndex,d=h.getAttribute('aria-sort')==='descending'?1:-1;
const v=r=>{const c=r.cells[i];return c.dataset.v===undefined?c.textContent:Number(c.dataset.v)};
const rows=[...t.tBodies[0].rows].sort((x,y)=>{const a=v(x),z=v(y);return d*(typeof a==='number'?a-z:a.localeCompare(z))});
t.tBodies[0].append(...rows);for(const o of t.querySelectorAll('th'))o.removeAttribute('aria-sort');
h.setAttribute('aria-sort',d<0?'descending':'ascending')});";

/// Writes the page.
pub fn to_html(content: &Content<'_>) -> String {
    let mut body = String::new();
    if let Some(coverage) = content.coverage {
        // Writing to a string can't fail.
        let _ = writeln!(body, "<p id=\"coverage\">{}</p>", escape(coverage));
    }
    summary(&mut body, content.summary);
    stale(&mut body, content.stale);
    for (title, size, rows) in content.tables {
        table(&mut body, title, size, rows);
    }
    // Writing to a string can't fail.
    let _ = write!(body, "<h2>Heat map</h2>\n<div class=\"wide\">{}</div>\n", content.heatmap);
    let title = escape(content.title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>memtap: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn summary(body: &mut String, summary: &Summary) {
    let row = |body: &mut String, name: &str, number: u64| {
        let _ = writeln!(body, "<tr><td>{name}</td><td class=\"n\">{}</td></tr>", grouped(number));
    };
    body.push_str("<h2>Totals</h2>\n<table id=\"totals\"><tbody>\n");
    row(body, "loads", summary.count.loads);
    row(body, "stores", summary.count.stores);
    row(body, "modifies", summary.count.modifies);
    row(body, "block copies", summary.copies.0);
    row(body, "block fills", summary.fills.0);
    row(body, "block fetches", summary.fetches.0);
    for (kind, count) in &summary.allocations {
        row(body, kind, *count);
    }
    row(body, "missing events", summary.missing());
    body.push_str("</tbody></table>\n");
}

fn stale(body: &mut String, stale: &Stale) {
    let findings = stale.findings();
    body.push_str("<h2>Use after free</h2>\n");
    if findings.is_empty() && stale.double_frees.is_empty() {
        body.push_str("<p id=\"stale\">None was seen.</p>\n");
        return;
    }
    body.push_str("<ul id=\"stale\">\n");
    for finding in findings.iter().take(MOST_ROWS) {
        let line = finding.line.as_deref().map_or_else(String::new, |line| format!(" ({})", escape(line)));
        let _ = writeln!(
            body,
            "<li class=\"finding\">{} accesses to <code>{}</code> by <code>{}</code>{line}</li>",
            grouped(finding.count.accesses()),
            escape(&finding.variable),
            escape(&finding.code)
        );
    }
    for (block, call) in stale.double_frees.iter().take(MOST_ROWS) {
        let (block, call) = (escape(block), escape(call));
        let _ = writeln!(
            body,
            "<li class=\"finding\"><code>{block}</code> was freed again by <code>{call}</code></li>"
        );
    }
    body.push_str("</ul>\n");
}

fn table(body: &mut String, title: &str, size: &str, rows: &[Row]) {
    let _ = write!(body, "<h2>{}</h2>\n<div class=\"wide\"><table><thead><tr>", escape(title));
    for (name, class) in [
        ("name", ""),
        ("memory", ""),
        ("loads", " class=\"n\""),
        ("stores", " class=\"n\""),
        ("modifies", " class=\"n\""),
        ("bytes accessed", " class=\"n\""),
        (size, " class=\"n\""),
    ] {
        let _ = write!(body, "<th{class}><button>{name}</button></th>");
    }
    body.push_str("</tr></thead><tbody>\n");
    for row in rows.iter().take(MOST_ROWS) {
        let line =
            row.line.as_deref().map_or_else(String::new, |line| format!(" title=\"{}\"", escape(line)));
        let _ = write!(
            body,
            "<tr><td class=\"name\"{line}>{}</td><td>{}</td>",
            escape(&row.name),
            escape(&row.region)
        );
        for number in [row.count.loads, row.count.stores, row.count.modifies, row.count.bytes, row.size] {
            let _ = write!(body, "<td class=\"n\" data-v=\"{number}\">{}</td>", grouped(number));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
    if rows.len() > MOST_ROWS {
        let _ = writeln!(
            body,
            "<p>{} more rows: memtap report has them all.</p>",
            grouped((rows.len() - MOST_ROWS) as u64)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::Count;

    #[test]
    fn a_page_is_whole_and_its_names_are_harmless() {
        let rows = vec![Row {
            name: "<malloc0001@main+3>".into(),
            region: "heap".into(),
            count: Count { loads: 12_345, stores: 1, modifies: 0, bytes: 7 },
            size: 40,
            things: 1,
            line: Some("a.c:3".into()),
        }];
        let summary = Summary::default();
        let tables = [("Variables", "size", rows)];
        let content = Content {
            title: "a <b>",
            coverage: Some("recorded by <c>"),
            summary: &summary,
            tables: &tables,
            stale: &Stale::default(),
            heatmap: "<svg></svg>",
        };
        let html = to_html(&content);
        assert!(html.contains("&lt;malloc0001@main+3&gt;"));
        assert!(html.contains("<title>memtap: a &lt;b&gt;</title>"));
        assert!(html.contains("<p id=\"coverage\">recorded by &lt;c&gt;</p>"));
        assert!(html.contains("data-v=\"12345\""));
        assert!(!html.contains("http"), "nothing is loaded");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
