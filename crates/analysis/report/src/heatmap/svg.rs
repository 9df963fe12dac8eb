//! The heat map as SVG. Neighbouring cells of one colour are one rectangle, which keeps the file small.

use super::layout::{HeatMapLayout, LayoutPart, Only};
use super::{EDGE, UNTRACED, colour, legend};
use crate::svg::{Drawing, short};

const MARGIN: usize = 16;
const LINE: usize = 16;

fn hex(colour: [u8; 3]) -> String {
    format!("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2])
}

/// Draws a layout. Lengths are pixels.
pub fn to_svg(layout: &HeatMapLayout) -> String {
    let width = layout.columns * layout.cell + 2 * MARGIN;
    let mut drawing = Drawing::default();
    let mut y = MARGIN + LINE;
    let text = |drawing: &mut Drawing, x: usize, y: usize, size: usize, words: &str| {
        drawing.text(x as f64, y as f64, &format!("font-size=\"{size}\""), words);
    };
    let what = match layout.only {
        Only::All => "accesses",
        Only::Loads => "loads",
        Only::Stores => "stores",
    };
    text(&mut drawing, MARGIN, y, 15, &layout.title);
    y += LINE;
    if let Some(coverage) = &layout.coverage {
        text(&mut drawing, MARGIN, y + 3, 11, coverage);
        y += LINE;
    }
    let mut x = MARGIN;
    text(&mut drawing, x, y + 11, 11, &format!("{what} a page:"));
    x += 110;
    for step in legend(layout.most) {
        let fill = hex(colour(step, layout.most));
        drawing.shape(format_args!(r##"<rect x="{x}" y="{y}" width="14" height="14" fill="{fill}"/>"##));
        text(&mut drawing, x + 18, y + 11, 11, &short(step as f64));
        x += 70;
    }
    for (fill, words) in [("#ffffff", "none"), (&*hex(UNTRACED), "not traced")] {
        let edge = hex(UNTRACED);
        drawing.shape(format_args!(
            r##"<rect x="{x}" y="{y}" width="14" height="14" fill="{fill}" stroke="{edge}"/>"##
        ));
        text(&mut drawing, x + 18, y + 11, 11, words);
        x += 60;
    }
    y += 2 * LINE;
    for part in &layout.parts {
        match part {
            LayoutPart::Band { label, traced } => {
                let fill = if *traced { "#ffffff".into() } else { hex(UNTRACED) };
                let (edge, wide) = (hex(EDGE), layout.columns * layout.cell);
                drawing.shape(format_args!(
                    r##"<rect x="{MARGIN}" y="{y}" width="{wide}" height="{LINE}" fill="{fill}" stroke="{edge}"/>"##
                ));
                text(&mut drawing, MARGIN + 6, y + 12, 11, label);
                y += LINE + 4;
            }
            LayoutPart::Pages { label, cells, traced, .. } => {
                text(&mut drawing, MARGIN, y + 12, 12, label);
                y += LINE + 2;
                y = rows(&mut drawing, layout, cells, *traced, y) + 6;
            }
        }
    }
    let height = y + MARGIN;
    drawing.finish(
        width as f64,
        height as f64,
        "heat map of memory accesses",
        "shape-rendering=\"crispEdges\"",
    )
}

/// The cells of one region; returns where they end.
fn rows(drawing: &mut Drawing, layout: &HeatMapLayout, cells: &[u64], traced: bool, mut y: usize) -> usize {
    let cell = layout.cell;
    let none = if traced { "#ffffff".into() } else { hex(UNTRACED) };
    for row in cells.chunks(layout.columns) {
        let wide = row.len() * cell;
        let edge = hex(EDGE);
        drawing.shape(format_args!(
            r##"<rect x="{MARGIN}" y="{y}" width="{wide}" height="{cell}" fill="{none}" stroke="{edge}"/>"##
        ));
        let mut start = 0;
        while start < row.len() {
            let fill = colour(row[start], layout.most);
            let same = row[start..].iter().take_while(|&&count| colour(count, layout.most) == fill).count();
            if row[start] > 0 {
                let (x, wide, fill) = (MARGIN + start * cell, same * cell, hex(fill));
                let title = if same == 1 { format!("<title>{}</title>", row[start]) } else { String::new() };
                drawing.shape(format_args!(
                    r##"<rect x="{x}" y="{y}" width="{wide}" height="{cell}" fill="{fill}">{title}</rect>"##
                ));
            }
            start += same;
        }
        y += cell;
    }
    y
}
