//! The report as one self-contained HTML page: it loads nothing and works without a network.
//!
//! The page holds the figures as columns of numbers (`data`), excerpts of the source files (`source`), and a script
//! that draws only the visible rows: a million variables are a few megabytes, and no slower to scroll than ten.

mod data;
mod source;

use std::io::Write;

use analysis::By;
use analysis::machine::GuestLinks;

use super::skeleton::escape;
use crate::Error;
use crate::export::{Exporter, Figures, Needs};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 4] =
    [include_str!("model.js"), include_str!("table.js"), include_str!("heatmap.js"), include_str!("page.js")];

/// Writes the page of a trace.
#[derive(Debug, Default)]
pub struct TracePage {
    /// A flame graph of the program's accesses as SVG, where there is one.
    pub flame: Option<String>,
    /// Of a machine, who accesses what.
    pub guest: Option<GuestLinks>,
}

impl Exporter for TracePage {
    fn needs(&self) -> Needs {
        let tables = vec![By::Page, By::Thread];
        Needs { tables, links: self.guest.is_none(), stale: true, summary: true, ..Needs::default() }
    }

    fn finish(&mut self, figures: &Figures<'_>, out: &mut dyn Write) -> Result<(), Error> {
        let page = assemble(figures.title(), &data::of(figures, self.guest.as_ref()), self.flame.as_deref());
        Ok(out.write_all(page.as_bytes())?)
    }
}

fn assemble(title: &str, data: &str, flame: Option<&str>) -> String {
    let mut page = String::with_capacity(PAGE.len() + data.len() + (64 << 10));
    let mut rest = PAGE;
    // In one pass: what is put in may hold the marks of others.
    while let Some((before, after)) = rest.split_once("<!--") {
        let Some((mark, after)) = after.split_once("-->") else { break };
        page.push_str(before);
        match mark {
            "TITLE" => page.push_str(&escape(title)),
            "STYLE" => page.push_str(STYLE),
            "FLAME" => {
                if let Some(flame) = flame {
                    // A document of its own: its style and its keys are its own, too.
                    let flame = escape(&format!(
                        "<style>body{{margin:.6rem}}svg{{width:100%;height:auto}}</style>{flame}"
                    ));
                    page.push_str("<iframe title=\"flame graph\" srcdoc=\"");
                    page.push_str(&flame);
                    page.push_str("\"></iframe>");
                }
            }
            "DATA" => page.push_str(data),
            "SCRIPTS" => SCRIPTS.iter().for_each(|script| page.push_str(script)),
            _ => {}
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_its_names_are_harmless() {
        let page = assemble("a <b>", "{\"x\":1}", Some("<svg id=\"f\"></svg>"));
        assert!(page.contains("<title>memtap: a &lt;b&gt;</title>"));
        assert!(page.contains("{\"x\":1}") && page.contains("&lt;svg id=&quot;f&quot;&gt;"));
        assert!(!page.contains("<!--") && page.trim_end().ends_with("</html>"));
        for outside in ["src=\"http", "href=\"http", "url(http", "@import", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
