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

/// Names of the calls that allocated, each looked up once.
struct CallNames {
    resolver: Option<Resolver>,
    known: HashMap<(AllocationKind, VirtAddr), String>,
}

impl CallNames {
    /// As `report --json` calls the blocks of a call: `<malloc@func1+230>`.
    fn of(&mut self, block: &MapBlock) -> String {
        let Self { resolver, known } = self;
        let make = || {
            let code = resolver.as_mut().and_then(|resolver| resolver.code_name(block.ip));
            let place = code.map_or_else(|| block.ip.to_string(), |code| code.to_string());
            format!("<{}@{place}>", block.kind)
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
        let mut names = CallNames { resolver, known: HashMap::new() };
        let mut block = |block: &&MapBlock| {
            json!({
                "name": names.of(block),
                "start": format!("{:#x}", block.start),
                "bytes": block.len,
                "thread": block.thread.0,
                "from": block.allocated,
                "to": block.released,
            })
        };
        let bytes = |blocks: &[&MapBlock]| blocks.iter().map(|block| block.len).fold(0, u64::saturating_add);
        json!({
            "blocks": shown.iter().map(&mut block).collect::<Vec<_>>(),
            "bytes": bytes(&found),
            "more": rest.len(),
            "more_bytes": bytes(rest),
            "known": self.blocks.len() < MOST_KNOWN,
        })
    }
}
