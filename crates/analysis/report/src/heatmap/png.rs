//! The heat map as PNG: the same layout, drawn pixel by pixel, with letters of our own.

use super::font::{GLYPH_HEIGHT, GLYPH_WIDTH, glyph};
use super::layout::{Layout, Only, Part};
use super::{EDGE, UNTRACED, colour, legend, short};

const MARGIN: usize = 16;
const LINE: usize = 16;
const WHITE: [u8; 3] = [255, 255, 255];
const PAPER: [u8; 3] = [250, 250, 250];
const INK: [u8; 3] = [20, 20, 20];

/// A picture that grows downwards.
struct Canvas {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Canvas {
    fn fill(&mut self, (x, y): (usize, usize), (wide, high): (usize, usize), colour: [u8; 3]) {
        let rows = y + high;
        if self.pixels.len() < rows * self.width {
            self.pixels.resize(rows * self.width, PAPER);
        }
        for row in y..rows {
            let (from, to) = (x.min(self.width), (x + wide).min(self.width));
            self.pixels[row * self.width + from..row * self.width + to].fill(colour);
        }
    }

    fn text(&mut self, x: usize, y: usize, words: &str) {
        self.fill((0, y), (0, GLYPH_HEIGHT), PAPER);
        for (index, letter) in words.chars().enumerate() {
            let left = x + index * (GLYPH_WIDTH + 1);
            for (row, bits) in glyph(letter).iter().enumerate() {
                for column in 0..GLYPH_WIDTH {
                    if bits >> (GLYPH_WIDTH - 1 - column) & 1 != 0 && left + column < self.width {
                        self.fill((left + column, y + row), (1, 1), INK);
                    }
                }
            }
        }
    }
}

/// Draws a layout.
///
/// # Errors
/// Where the picture is too large for the format.
pub fn to_png(layout: &Layout) -> Result<Vec<u8>, png::EncodingError> {
    let width = layout.columns * layout.cell + 2 * MARGIN;
    let mut canvas = Canvas { width, pixels: Vec::new() };
    let what = match layout.only {
        Only::All => "accesses",
        Only::Loads => "loads",
        Only::Stores => "stores",
    };
    let mut y = MARGIN;
    canvas.text(MARGIN, y, &layout.title);
    y += LINE;
    if let Some(coverage) = &layout.coverage {
        canvas.text(MARGIN, y, coverage);
        y += LINE;
    }
    let mut x = MARGIN;
    canvas.text(x, y + 3, &format!("{what} a page:"));
    x += 120;
    for step in legend(layout.most) {
        canvas.fill((x, y), (14, 14), colour(step, layout.most));
        canvas.text(x + 18, y + 3, &short(step));
        x += 70;
    }
    for (fill, words) in [(WHITE, "none"), (UNTRACED, "not traced")] {
        canvas.fill((x, y), (14, 14), UNTRACED);
        canvas.fill((x + 1, y + 1), (12, 12), fill);
        canvas.text(x + 18, y + 3, words);
        x += 60;
    }
    y += 2 * LINE;
    for part in &layout.parts {
        match part {
            Part::Band { label, traced } => {
                let fill = if *traced { WHITE } else { UNTRACED };
                canvas.fill((MARGIN, y), (layout.columns * layout.cell, LINE), fill);
                canvas.text(MARGIN + 6, y + 4, label);
                y += LINE + 4;
            }
            Part::Pages { label, cells, traced } => {
                canvas.text(MARGIN, y + 4, label);
                y += LINE + 2;
                for row in cells.chunks(layout.columns) {
                    for (index, &count) in row.iter().enumerate() {
                        let place = (MARGIN + index * layout.cell, y);
                        let cell = layout.cell;
                        canvas.fill(place, (cell, cell), EDGE);
                        let line = usize::from(cell > 4);
                        let fill = if count == 0 && !traced { UNTRACED } else { colour(count, layout.most) };
                        canvas.fill(place, (cell - line, cell - line), fill);
                    }
                    y += layout.cell;
                }
                y += 6;
            }
        }
    }
    canvas.fill((0, y), (0, MARGIN), PAPER);
    encode(&canvas)
}

fn encode(canvas: &Canvas) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let height = canvas.pixels.len() / canvas.width;
    let mut encoder = png::Encoder::new(&mut bytes, canvas.width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(canvas.pixels.as_flattened())?;
    writer.finish()?;
    Ok(bytes)
}
