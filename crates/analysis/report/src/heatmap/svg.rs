//! The heat map as SVG. Neighbouring cells of one colour are one rectangle, so that the file stays small.

use std::fmt::Write;

use super::layout::{Layout, LayoutPart, Only};
use super::{EDGE, UNTRACED, colour, legend, short};
use crate::pages::skeleton::escape;

const MARGIN: usize = 16;
const LINE: usize = 16;

fn hex(colour: [u8; 3]) -> String {
    format!("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2])
}

/// Draws a layout. Lengths are pixels.
pub fn to_svg(layout: &Layout) -> String {
    let width = layout.columns * layout.cell + 2 * MARGIN;
    let mut body = String::new();
    let mut y = MARGIN + LINE;
    // Writing to a string can't fail.
    let text = |body: &mut String, x: usize, y: usize, size: usize, words: &str| {
        let _ = writeln!(body, r##"<text x="{x}" y="{y}" font-size="{size}">{}</text>"##, escape(words));
    };
    let what = match layout.only {
        Only::All => "accesses",
        Only::Loads => "loads",
        Only::Stores => "stores",
    };
    text(&mut body, MARGIN, y, 15, &layout.title);
    y += LINE;
    if let Some(coverage) = &layout.coverage {
        text(&mut body, MARGIN, y + 3, 11, coverage);
        y += LINE;
    }
    let mut x = MARGIN;
    text(&mut body, x, y + 11, 11, &format!("{what} a page:"));
    x += 110;
    for step in legend(layout.most) {
        let fill = hex(colour(step, layout.most));
        let _ = writeln!(body, r##"<rect x="{x}" y="{y}" width="14" height="14" fill="{fill}"/>"##);
        text(&mut body, x + 18, y + 11, 11, &short(step));
        x += 70;
    }
    for (fill, words) in [("#ffffff", "none"), (&*hex(UNTRACED), "not traced")] {
        let edge = hex(UNTRACED);
        let _ = writeln!(
            body,
            r##"<rect x="{x}" y="{y}" width="14" height="14" fill="{fill}" stroke="{edge}"/>"##
        );
        text(&mut body, x + 18, y + 11, 11, words);
        x += 60;
    }
    y += 2 * LINE;
    for part in &layout.parts {
        match part {
            LayoutPart::Band { label, traced } => {
                let fill = if *traced { "#ffffff".into() } else { hex(UNTRACED) };
                let (edge, wide) = (hex(EDGE), layout.columns * layout.cell);
                let _ = writeln!(
                    body,
                    r##"<rect x="{MARGIN}" y="{y}" width="{wide}" height="{LINE}" fill="{fill}" stroke="{edge}"/>"##
                );
                text(&mut body, MARGIN + 6, y + 12, 11, label);
                y += LINE + 4;
            }
            LayoutPart::Pages { label, cells, traced } => {
                text(&mut body, MARGIN, y + 12, 12, label);
                y += LINE + 2;
                y = rows(&mut body, layout, cells, *traced, y) + 6;
            }
        }
    }
    let height = y + MARGIN;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" shape-rendering="crispEdges" role="img" aria-label="heat map of memory accesses">
<rect width="{width}" height="{height}" fill="#fafafa"/>
{body}</svg>
"##
    )
}

/// The cells of one region; returns where they end.
fn rows(body: &mut String, layout: &Layout, cells: &[u64], traced: bool, mut y: usize) -> usize {
    let cell = layout.cell;
    let none = if traced { "#ffffff".into() } else { hex(UNTRACED) };
    for row in cells.chunks(layout.columns) {
        let wide = row.len() * cell;
        let edge = hex(EDGE);
        let _ = writeln!(
            body,
            r##"<rect x="{MARGIN}" y="{y}" width="{wide}" height="{cell}" fill="{none}" stroke="{edge}" stroke-width="0.5"/>"##
        );
        let mut start = 0;
        while start < row.len() {
            let fill = colour(row[start], layout.most);
            let same = row[start..].iter().take_while(|&&count| colour(count, layout.most) == fill).count();
            if row[start] > 0 {
                let (x, wide, fill) = (MARGIN + start * cell, same * cell, hex(fill));
                let title = if same == 1 { format!("<title>{}</title>", row[start]) } else { String::new() };
                let _ = writeln!(
                    body,
                    r##"<rect x="{x}" y="{y}" width="{wide}" height="{cell}" fill="{fill}">{title}</rect>"##
                );
            }
            start += same;
        }
        y += cell;
    }
    y
}
