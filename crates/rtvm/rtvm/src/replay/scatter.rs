//! Many points of a picture with logarithmic axes, in little memory: how many lie in each of its cells.

use std::collections::HashMap;

/// Cells of an octave.
const CELLS_PER_OCTAVE: f64 = 12.0;

/// Points (x, y), both positive.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    cells: HashMap<(i16, i16), u64>,
    /// The last value and its cell, which most often comes again.
    last_y: Option<(u64, i16)>,
}

fn cell(value: f64) -> i16 {
    (value.max(0.5).log2() * CELLS_PER_OCTAVE).floor() as i16
}

/// The middle of a cell.
fn middle(cell: i16) -> f64 {
    ((f64::from(cell) + 0.5) / CELLS_PER_OCTAVE).exp2()
}

impl Scatter {
    /// Adds a point.
    pub fn add(&mut self, x: f64, y: f64) {
        let bits = y.to_bits();
        let row = match self.last_y {
            Some((same, row)) if same == bits => row,
            _ => cell(y),
        };
        self.last_y = Some((bits, row));
        let place = (cell(x), row);
        *self.cells.entry(place).or_default() += 1;
    }

    /// Cells with points: x, y and how many, in order.
    pub fn cells(&self) -> Vec<(f64, f64, u64)> {
        let mut keys: Vec<_> = self.cells.iter().collect();
        keys.sort_unstable();
        keys.into_iter().map(|(&(x, y), &count)| (middle(x), middle(y), count)).collect()
    }
}
