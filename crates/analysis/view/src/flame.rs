//! The flame graph of a part of a trace. It is the same as that of `memtap flame`, but for fewer accesses, and drawn by the page.

use std::sync::{Arc, PoisonError};

use analysis::stack::StackTally;
use analysis::{ReadProgress, has_stacks};
use report::export::{CallTree, Measure};
use report::flame::{FlameGraph, FlameNode, FrameKind};
use serde_json::{Value, json};

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::part::MapPart;
use crate::pending_requests::PendingRequests;
use crate::table::superseded;

/// Frames that are narrower than such a part of the picture are left out.
const NARROWEST: u64 = 4_000;
/// Callers of a function that are drawn.
const DEEPEST: usize = 250;

/// What a flame graph is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlameRequest {
    pub(crate) part: MapPart,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

impl TraceMap {
    /// Counts one. All of the trace is read for it, as who called whom is known from what happened before.
    pub(crate) fn flame(&self, request: &FlameRequest, pending: &PendingRequests) -> Result<Value, Refusal> {
        if !has_stacks(&self.session) {
            return Err(Refusal::new(404, "the trace has no accesses to stacks, and so no calls"));
        }
        let waiting = pending.begin(request.asker);
        // One at a time: each needs memory for all stacks.
        let turn = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = self.stacks(&request.part, &waiting);
        drop(turn);
        pending.end(request.asker, &waiting);
        let counted = superseded(counted.map_err(Refusal::from), &waiting)?;
        let mut tree = CallTree::new();
        tree.count(self.session.names(), &counted);
        let graph = FlameGraph::of(&self.session, &tree, Measure::Accesses);
        Ok(json!({"total": graph.root.total, "frames": frames(&graph.root)}))
    }

    pub(crate) fn stacks(
        &self,
        part: &MapPart,
        waiting: &Arc<ReadProgress>,
    ) -> Result<StackTally, analysis::Error> {
        let session = self.session.read_for(waiting.clone());
        let mut tally = StackTally::new(&session);
        tally.replay(&session, &self.trace_part(part))?;
        Ok(tally)
    }
}

/// A frame where it is drawn: how deep, and from which access on.
struct PlacedFrame<'a> {
    node: &'a FlameNode,
    depth: usize,
    at: u64,
}

/// The frames that are wide enough to be seen, callers first.
fn frames(root: &FlameNode) -> Vec<Value> {
    let least = root.total / NARROWEST;
    let mut all = Vec::new();
    let mut open = vec![PlacedFrame { node: root, depth: 0, at: 0 }];
    while let Some(PlacedFrame { node, depth, at }) = open.pop() {
        if node.total <= least || depth > DEEPEST {
            continue;
        }
        let kind = match node.kind {
            FrameKind::Program => "program",
            FrameKind::Library => "library",
            FrameKind::Other => "other",
        };
        all.push(json!({
            "depth": depth, "at": at, "total": node.total, "own": node.own, "name": *node.name, "kind": kind,
        }));
        let mut at = at;
        for child in &node.children {
            open.push(PlacedFrame { node: child, depth: depth + 1, at });
            at += child.total;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, own: u64, children: Vec<FlameNode>) -> FlameNode {
        let total = own + children.iter().map(|child| child.total).sum::<u64>();
        FlameNode { name: name.into(), kind: FrameKind::Program, own, total, children }
    }

    #[test]
    fn callees_lie_within_their_callers() {
        let root = node("all", 0, vec![node("main", 10, vec![node("a", 60, vec![]), node("b", 30, vec![])])]);
        let mut drawn: Vec<_> = frames(&root)
            .iter()
            .map(|frame| format!("{} {} {} {}", frame["name"], frame["depth"], frame["at"], frame["total"]))
            .collect();
        drawn.sort();
        assert_eq!(drawn, [r#""a" 2 0 60"#, r#""all" 0 0 100"#, r#""b" 2 60 30"#, r#""main" 1 0 100"#]);
    }

    #[test]
    fn what_is_too_narrow_or_too_deep_is_left_out() {
        let mut deep = node("leaf", NARROWEST * 10, vec![node("narrow", 1, vec![])]);
        for _ in 0..1_000 {
            deep = node("again", 0, vec![deep]);
        }
        let drawn = frames(&deep);
        assert_eq!(drawn.len(), DEEPEST + 1);
        let wide = node("all", 0, vec![node("wide", NARROWEST * 10, vec![]), node("narrow", 1, vec![])]);
        assert_eq!(frames(&wide).len(), 2);
    }
}
