//! Flame graphs: who called whom, each call as wide as what happened in it. [`FlameGraph`] is the tree, merged by function, with
//! its figures. [`svg`](FlameGraph::svg) draws it as a file that can be searched and zoomed in a browser without a network;
//! without scripts it shows the first view. `flame.js`, the drawing code, is also used by the page of the latency profile.
//!
//! Counts and names come from [`crate::export::CallTree`].

mod svg;
mod tree;

pub use tree::{FlameGraph, FlameNode, FrameKind};

/// What draws a flame graph in a browser: a function of the tree and of what its page does with it.
pub(crate) const SCRIPT: &str = include_str!("flame.js");
