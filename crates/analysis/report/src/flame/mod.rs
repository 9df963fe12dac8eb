//! Flame graphs: who called whom, as wide as what happened there. [`FlameGraph`] is the tree, merged by function and with its
//! figures; [`svg`](FlameGraph::svg) draws it as a file that is searched and enlarged in a browser without a network, and shows
//! its first view wherever scripts don't run. `flame.js`, which draws, is the latency profile's page's, too.
//!
//! What is counted, and names, are [`crate::export::CallTree`]'s.

mod svg;
mod tree;

pub use tree::{FlameGraph, FlameNode, FrameKind};

/// What draws a flame graph in a browser: a function of the tree and of what its page does with it.
pub(crate) const SCRIPT: &str = include_str!("flame.js");
