//! Lifetimes: heap blocks from their allocation to their release, largest first, and the sum of all others.

use std::collections::HashMap;

use memref::{AllocationKind, VirtAddr};
use serde_json::{Value, json};
use symbols::Resolver;

use crate::blocks::{MOST_KNOWN, MapBlock};
use crate::map::TraceMap;
use crate::part::MapPart;

/// Blocks that are sent one by one at most.
const MOST_SENT: usize = 500;

/// A call that allocated.
#[derive(Clone)]
struct NamedCall {
    /// As `report --json` calls its blocks: `<malloc@func1+230>`.
    name: String,
    /// `file:line`, where it is known.
    line: Option<String>,
}

/// The calls that allocated, each looked up once.
struct NamedCalls {
    resolver: Option<Resolver>,
    known: HashMap<(AllocationKind, VirtAddr), NamedCall>,
}

impl NamedCalls {
    fn of(&mut self, block: &MapBlock) -> NamedCall {
        let Self { resolver, known } = self;
        let make = || {
            let code = resolver.as_mut().and_then(|resolver| resolver.code_name(block.ip));
            let line = code.as_ref().and_then(|code| match code.line()? {
                (file, Some(line)) => Some(format!("{file}:{line}")),
                (_, None) => None,
            });
            let place = code.map_or_else(|| block.ip.to_string(), |code| code.to_string());
            NamedCall { name: format!("<{}@{place}>", block.kind), line }
        };
        known.entry((block.kind, block.ip)).or_insert_with(make).clone()
    }
}

impl TraceMap {
    /// The blocks that lived in a part.
    pub(crate) fn lifetimes(&self, part: &MapPart) -> Value {
        let found = self.blocks_in(part, 1);
        let (shown, rest) = found.split_at(found.len().min(MOST_SENT));
        let resolver = self.resolvers.iter().find(|resolver| resolver.process() == part.process).cloned();
        let mut calls = NamedCalls { resolver, known: HashMap::new() };
        let mut block = |block: &&MapBlock| {
            let NamedCall { name, line } = calls.of(block);
            let [from, to] = self.life_json(part.axis, block);
            json!({
                "name": name,
                "line": line,
                "start": format!("{:#x}", block.start),
                "bytes": block.len,
                "thread": block.thread.0,
                "from": from,
                "to": to,
                "released_by": block.released.map(|(thread, _)| thread.0),
            })
        };
        let unreleased: Vec<&MapBlock> =
            found.iter().copied().filter(|block| block.released.is_none()).collect();
        let bytes = |blocks: &[&MapBlock]| blocks.iter().map(|block| block.len).fold(0, u64::saturating_add);
        json!({
            "blocks": shown.iter().map(&mut block).collect::<Vec<_>>(),
            "bytes": bytes(&found),
            "more": rest.len(),
            "more_bytes": bytes(rest),
            "unreleased": unreleased.len(),
            "unreleased_bytes": bytes(&unreleased),
            "known": self.blocks.len() < MOST_KNOWN,
        })
    }
}
