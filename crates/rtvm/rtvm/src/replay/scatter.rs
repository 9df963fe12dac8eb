//! Many points of a plot with logarithmic axes, in little memory: the number of points in each of its cells.

use std::collections::HashMap;

/// Cells of an octave.
const CELLS_PER_OCTAVE: f64 = 12.0;

/// Points (x, y), both positive.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    cells: HashMap<CellPlace, u64>,
    /// The last value, which most often comes again.
    last_y: Option<PlacedValue>,
}

/// Where a cell is: its number on each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CellPlace {
    x: i16,
    y: i16,
}

/// The bits of a value, and the number of its cell.
#[derive(Clone, Copy, Debug)]
struct PlacedValue {
    bits: u64,
    cell: i16,
}

/// A cell with points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScatterCell {
    /// The middle of it.
    pub x: f64,
    /// The middle of it.
    pub y: f64,
    /// How many points lie in it.
    pub count: u64,
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
        let last = self.last_y.filter(|last| last.bits == bits);
        let row = last.map_or_else(|| cell(y), |last| last.cell);
        self.last_y = Some(PlacedValue { bits, cell: row });
        let place = CellPlace { x: cell(x), y: row };
        *self.cells.entry(place).or_default() += 1;
    }

    /// Cells with points, in order.
    pub fn cells(&self) -> Vec<ScatterCell> {
        let mut keys: Vec<_> = self.cells.iter().collect();
        keys.sort_unstable();
        keys.into_iter()
            .map(|(place, &count)| ScatterCell { x: middle(place.x), y: middle(place.y), count })
            .collect()
    }
}
