//! The page: HTML, a style sheet and ES modules, served as they are.
//! There is no build step, and nothing is loaded from elsewhere.

/// A file of the page.
pub(crate) struct PageFile {
    pub(crate) name: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files; the first one is the page itself.
pub(crate) const FILES: [PageFile; 26] = [
    PageFile { name: "", content_type: HTML, text: include_str!("page/index.html") },
    PageFile { name: "icon.svg", content_type: SVG, text: include_str!("page/icon.svg") },
    PageFile { name: "view.css", content_type: CSS, text: include_str!("page/view.css") },
    PageFile { name: "access.js", content_type: SCRIPT, text: include_str!("page/access.js") },
    PageFile { name: "app.js", content_type: SCRIPT, text: include_str!("page/app.js") },
    PageFile { name: "axis.js", content_type: SCRIPT, text: include_str!("page/axis.js") },
    PageFile { name: "calls.js", content_type: SCRIPT, text: include_str!("page/calls.js") },
    PageFile { name: "colors.js", content_type: SCRIPT, text: include_str!("page/colors.js") },
    PageFile { name: "compare.js", content_type: SCRIPT, text: include_str!("page/compare.js") },
    PageFile { name: "counting.js", content_type: SCRIPT, text: include_str!("page/counting.js") },
    PageFile { name: "findings.js", content_type: SCRIPT, text: include_str!("page/findings.js") },
    PageFile { name: "flame.js", content_type: SCRIPT, text: include_str!("page/flame.js") },
    PageFile { name: "labels.js", content_type: SCRIPT, text: include_str!("page/labels.js") },
    PageFile { name: "lanes.js", content_type: SCRIPT, text: include_str!("page/lanes.js") },
    PageFile { name: "lifetimes.js", content_type: SCRIPT, text: include_str!("page/lifetimes.js") },
    PageFile { name: "map.js", content_type: SCRIPT, text: include_str!("page/map.js") },
    PageFile { name: "marks.js", content_type: SCRIPT, text: include_str!("page/marks.js") },
    PageFile { name: "moments.js", content_type: SCRIPT, text: include_str!("page/moments.js") },
    PageFile { name: "pane.js", content_type: SCRIPT, text: include_str!("page/pane.js") },
    PageFile { name: "rows.js", content_type: SCRIPT, text: include_str!("page/rows.js") },
    PageFile { name: "run.js", content_type: SCRIPT, text: include_str!("page/run.js") },
    PageFile { name: "search.js", content_type: SCRIPT, text: include_str!("page/search.js") },
    PageFile { name: "sketch.js", content_type: SCRIPT, text: include_str!("page/sketch.js") },
    PageFile { name: "source.js", content_type: SCRIPT, text: include_str!("page/source.js") },
    PageFile { name: "types.js", content_type: SCRIPT, text: include_str!("page/types.js") },
    PageFile { name: "words.js", content_type: SCRIPT, text: include_str!("page/words.js") },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        assert!(FILES.iter().map(|file| file.text.len()).sum::<usize>() < 200_000);
        for file in FILES {
            // The name space of SVG is no address.
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http://", "https://", "eval(", "innerHTML", "style="] {
                assert!(!text.contains(foreign), "{} has {foreign}", file.name);
            }
        }
    }
}
