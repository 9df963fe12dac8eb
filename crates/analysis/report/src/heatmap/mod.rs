//! The heat map (MadT, Figure 1): regions in address order, one cell per page, coloured by the logarithm of its accesses.
//! White: no access. Grey: not traced. Ranges of either are drawn as one band. A translating tracer also sees some accesses
//! to regions that it does not trace as a whole, such as the loader's data beside its own; these pages are coloured.
//!
//! `layout` positions everything, and `svg` draws it; [`crate::png`] renders the result as PNG.

mod layout;
mod physical;
mod svg;

pub(crate) use layout::LayoutPart;
pub use layout::{HeatMapLayout, MapRegion, Only};
pub use physical::{physical_memory, physical_regions};
pub use svg::to_svg;

use std::io::Write;

use analysis::{By, coverage};

use crate::export::{Exporter, Figures, Needs};
use crate::{Error, png};

/// Writes the heat map of a program's address space.
#[derive(Debug)]
pub struct HeatMap {
    /// Which accesses count.
    pub only: Only,
    /// As what.
    pub form: PictureForm,
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureForm {
    /// Shapes and text.
    Svg,
    /// Pixels.
    Png,
}

impl PictureForm {
    /// Draws a layout.
    ///
    /// # Errors
    /// Where it is too large for pixels.
    pub fn draw(self, layout: &HeatMapLayout) -> Result<Vec<u8>, Error> {
        let svg = to_svg(layout);
        match self {
            Self::Svg => Ok(svg.into_bytes()),
            Self::Png => png::from_svg(&svg),
        }
    }
}

impl Exporter for HeatMap {
    fn needs(&self) -> Needs {
        Needs { tables: vec![By::Page], ..Needs::default() }
    }

    fn finish(&mut self, figures: &Figures<'_>, out: &mut dyn Write) -> Result<(), Error> {
        let layout =
            HeatMapLayout::new(figures.title(), &figures.regions(), figures.tally.pages(), self.only)
                .with_coverage(coverage(figures.session));
        Ok(out.write_all(&self.form.draw(&layout)?)?)
    }
}

/// The colour of a page with that many accesses, where the most accessed one has `most`: from pale yellow to dark red, by
/// the logarithm.
fn colour(accesses: u64, most: u64) -> [u8; 3] {
    if accesses == 0 {
        return [255, 255, 255];
    }
    let scale = if most <= 1 { 1.0 } else { (accesses as f64).ln() / (most as f64).ln() };
    const STOPS: [[f64; 3]; 5] = [
        [255.0, 237.0, 160.0],
        [254.0, 190.0, 90.0],
        [244.0, 109.0, 67.0],
        [200.0, 30.0, 40.0],
        [103.0, 0.0, 31.0],
    ];
    let place = scale.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (place as usize).min(STOPS.len() - 2);
    let part = place - index as f64;
    std::array::from_fn(|channel| {
        (STOPS[index][channel] + (STOPS[index + 1][channel] - STOPS[index][channel]) * part).round() as u8
    })
}

/// Grey, for what was not traced.
const UNTRACED: [u8; 3] = [190, 190, 190];
/// The edge of cells without an access.
const EDGE: [u8; 3] = [225, 225, 225];

/// The steps of the legend: powers of ten up to the most accessed page, and that one.
fn legend(most: u64) -> Vec<u64> {
    let mut steps: Vec<u64> = std::iter::successors(Some(1u64), |step| step.checked_mul(10))
        .take_while(|&step| step < most)
        .collect();
    if most > 0 {
        steps.push(most);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_accesses_are_darker() {
        let brightness = |accesses| colour(accesses, 1_000_000).iter().map(|&c| u32::from(c)).sum::<u32>();
        let steps: Vec<u32> = [1, 10, 100, 10_000, 1_000_000].into_iter().map(brightness).collect();
        assert!(steps.is_sorted_by(|a, b| a > b), "{steps:?}");
        assert_eq!(colour(0, 10), [255, 255, 255]);
        assert_eq!(colour(1, 1), [103, 0, 31]);
    }

    #[test]
    fn the_legend_ends_with_the_most_accessed_page() {
        assert_eq!(legend(1234), [1, 10, 100, 1000, 1234]);
        assert_eq!(legend(1), [1]);
        assert!(legend(0).is_empty());
    }
}
