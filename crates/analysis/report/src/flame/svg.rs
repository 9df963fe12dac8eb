//! A flame graph as one SVG file: the first view as shapes, and the whole tree with the script that searches and zooms it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{FlameGraph, FlameNode, FrameKind, SCRIPT};
use crate::number::grouped;
use crate::pages::skeleton::escape;

const STYLE: &str = include_str!("style.css");
const CONTROLS: &str = include_str!("controls.js");

/// Pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const TOP: f64 = 66.0;
const ROW: f64 = 18.0;
const LETTER: f64 = 6.7;
/// Frames that would be narrower are not drawn.
const NARROWEST: f64 = 0.5;

impl FlameGraph {
    /// Draws it. The same text is a file and a part of a page: nothing is loaded, and its names can't collide with the page's.
    pub fn svg(&self) -> String {
        let graph = self.simplified();
        let mut shapes = String::new();
        let bottom = graph.shapes(&mut shapes);
        let height = bottom + MARGIN;
        let title = escape(&self.title);
        let shown = if self.title.chars().count() > 110 {
            escape(&self.title.chars().take(109).chain(['…']).collect::<String>())
        } else {
            title.clone()
        };
        let total = grouped(self.root.total);
        let (unit, legend) = (self.unit, self.legend);
        let (style, data) = (STYLE.trim_end(), graph.data());
        let controls = CONTROLS.replace("/*DATA*/null", &data);
        let right = WIDTH - MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"flame graph: {title}\">\n<style>{style}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n<text x=\"{MARGIN}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{shown}</text>\n<text class=\"soft\" x=\"{MARGIN}\" y=\"40\">{total} {unit}. A frame is a function, those that it called are below it, and it is as wide as its share.<tspan class=\"live-only\"> Click: enlarge.</tspan></text>\n<text class=\"details soft\" x=\"{MARGIN}\" y=\"58\">{legend}</text>\n<g class=\"controls\" transform=\"translate({right}, 0)\"><g class=\"live-only\"><foreignObject x=\"-190\" y=\"6\" width=\"190\" height=\"26\"><input xmlns=\"http://www.w3.org/1999/xhtml\" class=\"search\" type=\"search\" placeholder=\"search functions (/)\" aria-label=\"search functions\"/></foreignObject><text class=\"found soft\" x=\"0\" y=\"44\" text-anchor=\"end\"/><text class=\"reset\" x=\"-200\" y=\"23\" text-anchor=\"end\" style=\"display:none\">show all (Esc)</text></g></g>\n<g class=\"frames\" transform=\"translate({MARGIN}, 0)\">\n{shapes}</g>\n<script><![CDATA[\n{SCRIPT}{controls}]]></script>\n</svg>\n"
        )
    }

    /// The first view; returns where it ends.
    fn shapes(&self, shapes: &mut String) -> f64 {
        let mut bottom = TOP;
        let mut open = vec![(&self.root, 0.0, WIDTH - 2.0 * MARGIN, 0.0)];
        while let Some((node, x, wide, level)) = open.pop() {
            let y = TOP + level * ROW;
            bottom = f64::max(bottom, y + ROW);
            let (tip, class, shade) = (escape(&self.words(node)), node.kind.class(), shade(&node.name));
            let rect = (wide - 0.4).max(0.3);
            // Writing to a string can't fail.
            let _ = write!(
                shapes,
                "<g class=\"frame {class} shade{shade}\"><title>{tip}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{rect:.2}\" height=\"{}\" rx=\"1.5\"/>",
                ROW - 1.0
            );
            let letters = ((wide - 6.0) / LETTER) as usize;
            if letters > 2 {
                let name = short(&node.name).unwrap_or_else(|| node.name.to_string());
                let shown = if name.chars().count() <= letters {
                    name
                } else {
                    name.chars().take(letters - 1).chain(['…']).collect()
                };
                let (x, y) = (x + 3.0, y + 12.5);
                let _ = write!(shapes, "<text x=\"{x:.2}\" y=\"{y}\">{}</text>", escape(&shown));
            }
            shapes.push_str("</g>\n");
            let mut at = x;
            for child in &node.children {
                let part = wide * child.total as f64 / node.total.max(1) as f64;
                if part >= NARROWEST {
                    open.push((child, at, part, level + 1.0));
                }
                at += part;
            }
        }
        bottom
    }

    /// What is said of a frame, as the script says it.
    fn words(&self, node: &FlameNode) -> String {
        let (total, unit) = (grouped(node.total), self.unit);
        let (all, itself) = (share(node.total, self.root.total), share(node.own, self.root.total));
        format!("{}: {total} {unit}, {all} of all; {itself} in it itself", node.name)
    }

    /// The tree for the script. No text in it can end the script: `<` and `]` are written as numbers in strings.
    fn data(&self) -> String {
        let mut functions: Vec<Value> = Vec::new();
        let mut number_of: HashMap<(Arc<str>, FrameKind), usize> = HashMap::new();
        let mut nodes: Vec<Value> = Vec::new();
        self.root.visit(&mut |node| {
            let index = *number_of.entry((Arc::clone(&node.name), node.kind)).or_insert_with(|| {
                let mut function = vec![json!(*node.name), json!([node.kind as u8, shade(&node.name)])];
                function.extend(short(&node.name).map(Value::from));
                functions.push(Value::Array(function));
                functions.len() - 1
            });
            nodes.push(json!([index, node.own, node.children.len()]));
        });
        let data = json!({
            "unit": self.unit, "width": WIDTH, "margin": MARGIN, "top": TOP, "functions": functions, "nodes": nodes,
        });
        data.to_string().replace('<', "\\u003c").replace("]]>", "]]\\u003e")
    }
}

impl FrameKind {
    fn class(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Library => "library",
            Self::Other => "other",
        }
    }
}

/// Neighbours differ a little in colour.
fn shade(name: &str) -> u32 {
    name.bytes().map(u32::from).sum::<u32>() % 4
}

fn share(part: u64, all: u64) -> String {
    if all == 0 {
        return "0 %".to_owned();
    }
    let share = part as f64 / all as f64;
    let digits = if share < 0.1 { 2 } else { 1 };
    format!("{:.digits$} %", 100.0 * share)
}

/// A long name without its arguments: what stands in parentheses and angle brackets is left out. `None`: as it is.
fn short(name: &str) -> Option<String> {
    const LONG: usize = 40;
    if name.len() <= LONG || name.starts_with(['[', '<']) {
        return None;
    }
    let mut depth = 0_usize;
    let mut kept = String::new();
    for letter in name.chars() {
        match letter {
            '<' | '(' => {
                if depth == 0 {
                    kept.push(letter);
                }
                depth += 1;
            }
            '>' | ')' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    kept.push(letter);
                }
            }
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    (kept.len() < name.len()).then(|| kept.replace("<>", "").replace("()", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, own: u64, children: Vec<FlameNode>) -> FlameNode {
        let total = own + children.iter().map(|child| child.total).sum::<u64>();
        FlameNode { name: name.into(), kind: FrameKind::Program, own, total, children }
    }

    fn graph(root: FlameNode) -> FlameGraph {
        FlameGraph { title: "a <b>".to_owned(), unit: "accesses", legend: "", root }
    }

    #[test]
    fn frames_are_as_wide_as_their_share_and_names_are_harmless() {
        let svg = graph(node("all", 0, vec![node("main", 25, vec![node("f<]]>", 75, vec![])])])).svg();
        assert!(svg.contains("<title>f&lt;]]&gt;: 75 accesses, 75.0 % of all; 75.0 % in it itself</title>"));
        // 1,180 pixels are all.
        assert!(svg.contains("width=\"1179.60\"") && svg.contains("width=\"884.60\""), "{svg}");
        assert!(svg.contains("a &lt;b&gt;") && !svg.contains("f<]]>"));
        assert_eq!(svg.matches("]]>").count(), 1, "the script ends once");
        let outside = svg.replace("http://www.w3.org/", "");
        assert!(!outside.contains("http"), "nothing is loaded");
    }

    #[test]
    fn nothing_at_all_is_drawn_too() {
        let svg = graph(node("all", 0, vec![])).svg();
        assert!(svg.contains("0 accesses") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn the_smallest_frames_are_joined_where_there_are_too_many() {
        let many =
            (0..50_000).map(|index| node(&format!("f{index}"), if index < 10 { 100 } else { 1 }, vec![]));
        let graph = graph(node("all", 0, many.collect()));
        let simplified = graph.simplified();
        assert_eq!(simplified.root.children.len(), 11);
        assert_eq!(&*simplified.root.children[0].name, "[49 990 smaller]");
        let sum: u64 = simplified.root.children.iter().map(|child| child.total).sum();
        assert_eq!(sum, graph.root.total);
    }

    #[test]
    fn long_names_lose_their_arguments() {
        assert_eq!(short("main"), None);
        assert_eq!(
            short("std::vector<int, std::allocator<int>>::push_back(int const&)").as_deref(),
            Some("std::vector::push_back")
        );
        assert_eq!(short("<malloc0001@a_function_with_a_very_long_name_in_it+3>"), None);
    }
}
