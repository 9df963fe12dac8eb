//! The report as one self-contained HTML page: nothing is loaded from anywhere, and it works without a network.

use std::fmt::Write as _;
use std::io::Write;

use analysis::{AccessRow, By, Stale, Summary, coverage};

use super::skeleton::{self, escape};
use crate::Error;
use crate::export::{Exporter, Figures, Needs};
use crate::heatmap::{HeatMapLayout, Only, to_svg};
use crate::number::grouped_html as grouped;

/// Rows of a table that the page shows; the rest is counted in a note. Whole traces don't belong into a browser.
const MOST_ROWS: usize = 500;

/// Writes the page of a trace.
#[derive(Debug)]
pub struct TracePage;

impl Exporter for TracePage {
    fn needs(&self) -> Needs {
        let tables = vec![By::Variable, By::Function, By::Allocation, By::Page];
        Needs { tables, stale: true, summary: true, ..Needs::default() }
    }

    fn finish(&mut self, figures: &Figures<'_>, out: &mut dyn Write) -> Result<(), Error> {
        let table = |title, size, by| PageTable { title, size, rows: figures.rows(by) };
        let tables = [
            table("Variables and blocks", "size", By::Variable),
            table("Functions", "", By::Function),
            table("Allocation sites", "bytes allocated", By::Allocation),
        ];
        let map = HeatMapLayout::new(figures.title(), &figures.regions(), figures.tally.pages(), Only::All);
        let coverage = coverage(figures.session);
        let content = PageContent {
            title: figures.title(),
            coverage: coverage.as_deref(),
            summary: &figures.summary,
            tables: &tables,
            stale: &figures.stale,
            heatmap: &to_svg(&map),
        };
        Ok(out.write_all(to_html(&content).as_bytes())?)
    }
}

/// A table of the page.
struct PageTable<'a> {
    title: &'a str,
    /// What the column of sizes says.
    size: &'a str,
    rows: Vec<AccessRow>,
}

/// What the page shows.
struct PageContent<'a> {
    /// The program and its arguments.
    title: &'a str,
    /// What the trace covers.
    coverage: Option<&'a str>,
    /// Totals.
    summary: &'a Summary,
    /// Tables, in their order.
    tables: &'a [PageTable<'a>],
    /// Accesses to released memory.
    stale: &'a Stale,
    /// The heat map as SVG.
    heatmap: &'a str,
}

const SCRIPT: &str = "
for(const b of document.querySelectorAll('th button'))b.addEventListener('click',()=>{
const h=b.closest('th'),t=h.closest('table'),i=h.cellIndex,d=h.getAttribute('aria-sort')==='descending'?1:-1;
const v=r=>{const c=r.cells[i];return c.dataset.v===undefined?c.textContent:Number(c.dataset.v)};
const rows=[...t.tBodies[0].rows].sort((x,y)=>{const a=v(x),z=v(y);return d*(typeof a==='number'?a-z:a.localeCompare(z))});
t.tBodies[0].append(...rows);for(const o of t.querySelectorAll('th'))o.removeAttribute('aria-sort');
h.setAttribute('aria-sort',d<0?'descending':'ascending')});";

fn to_html(content: &PageContent<'_>) -> String {
    let mut body = String::new();
    if let Some(coverage) = content.coverage {
        // Writing to a string can't fail.
        let _ = writeln!(body, "<p id=\"coverage\">{}</p>", escape(coverage));
    }
    summary(&mut body, content.summary);
    stale(&mut body, content.stale);
    for one in content.tables {
        table(&mut body, one.title, one.size, &one.rows);
    }
    // Writing to a string can't fail.
    let _ = write!(body, "<h2>Heat map</h2>\n<div class=\"wide\">{}</div>\n", content.heatmap);
    skeleton::page(
        &format!("memtap: {}", content.title),
        content.title,
        &format!("{body}<script>{SCRIPT}</script>\n"),
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
    row(body, "block copies", summary.copies.operations);
    row(body, "block fills", summary.fills.operations);
    row(body, "block fetches", summary.fetches.operations);
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
    for freed in stale.double_frees.iter().take(MOST_ROWS) {
        let (block, call) = (escape(&freed.block), escape(&freed.call));
        let _ = writeln!(
            body,
            "<li class=\"finding\"><code>{block}</code> was freed again by <code>{call}</code></li>"
        );
    }
    body.push_str("</ul>\n");
}

fn table(body: &mut String, title: &str, size: &str, rows: &[AccessRow]) {
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
        let rows = vec![AccessRow {
            name: "<malloc0001@main+3>".into(),
            region: "heap".into(),
            count: Count { loads: 12_345, stores: 1, modifies: 0, bytes: 7 },
            size: 40,
            things: 1,
            line: Some("a.c:3".into()),
            ..AccessRow::default()
        }];
        let summary = Summary::default();
        let tables = [PageTable { title: "Variables", size: "size", rows }];
        let content = PageContent {
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
    }
}
