//! Pictures as PNG: the drawings of [`crate::heatmap::to_svg`] and others, rendered with a
//! font that memtap includes, so that the same trace gives the same picture on every machine.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::Error;

/// The family of the font below.
const FAMILY: &str = "DejaVu Sans";
/// See `font/README.md`.
static FONT: &[u8] = include_bytes!("../font/DejaVuSans-subset.ttf");
/// The largest picture: a gigabyte while it is drawn.
const MOST_PIXELS: u64 = 1 << 28;

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(FONT.to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    };
    Arc::clone(FONTS.get_or_init(load))
}

/// Renders a picture at its own size.
///
/// # Errors
/// Where it is no SVG, or too large for a picture of pixels.
pub fn from_svg(svg: &str) -> Result<Vec<u8>, Error> {
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| Error::Picture(error.to_string()))?;
    let size = tree.size().to_int_size();
    let too_large = || Error::Picture(format!("{} x {} pixels are too many", size.width(), size.height()));
    if u64::from(size.width()) * u64::from(size.height()) > MOST_PIXELS {
        return Err(too_large());
    }
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(too_large)?;
    resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| Error::Picture(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that no font has the letters of would leave the picture empty.
    #[test]
    fn letters_are_drawn() {
        let words = |text: &str| {
            from_svg(&format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="200" height="20" font-family="sans-serif"><text y="15">{text}</text></svg>"#
            ))
            .unwrap()
        };
        let empty = words("");
        assert!(empty.starts_with(b"\x89PNG\r\n\x1a\n"));
        for text in ["main.c", "µs – Größe", "[heap] 0x7f00"] {
            assert!(words(text).len() > empty.len() + 100, "{text} is not drawn");
        }
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(from_svg("<html>").is_err());
        let endless = r#"<svg xmlns="http://www.w3.org/2000/svg" width="99999999" height="99999999"/>"#;
        assert!(from_svg(endless).unwrap_err().to_string().contains("too many"));
    }
}
