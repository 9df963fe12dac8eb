//! Allocation sites as rows show them: the function that wanted the
//! block if contexts were followed, otherwise the call of the allocator.

use std::collections::HashMap;
use std::sync::Arc;

use memref::{AllocationKind, ProcessId};
use symbols::{BlockId, BlockState, HeapBlock, Resolver, SiteId};

use super::made::{MadeBlock, MadeObjects};
use crate::Session;
use crate::block_total::BlockTotal;
use crate::stack::{AllocationSites, NamedSite, SiteStyle, Stacks};
use crate::typing::CodeTypes;

/// An allocation site and the kind of its allocations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockSite {
    pub(crate) kind: AllocationKind,
    pub(crate) place: NamedSite,
}

impl BlockSite {
    /// `malloc at func1+230`.
    pub(crate) fn name(&self) -> String {
        format!("{} at {}", self.kind, self.place.text)
    }

    /// The file name of the module with the call; empty where it lies in none.
    pub(crate) fn module(&self) -> &str {
        self.place.module.as_deref().unwrap_or("")
    }
}

/// The allocation sites of all blocks.
#[derive(Debug)]
pub(crate) struct BlockSites<'a> {
    session: &'a Session,
    resolvers: &'a [Resolver],
    in_context: Option<AllocationSites<'a>>,
    style: SiteStyle,
    /// Whether lines are told: that reads debug information.
    with_lines: bool,
    of_call: HashMap<(ProcessId, SiteId), NamedSite>,
    types: CodeTypes,
    /// What blocks of a call and a size were made for.
    made: HashMap<(ProcessId, SiteId, u64), Option<MadeObjects>>,
}

impl<'a> BlockSites<'a> {
    /// Of the blocks that these know of; with the stacks of the replay where it followed them.
    pub(crate) fn new(
        session: &'a Session,
        stacks: Option<&'a Stacks>,
        resolvers: &'a [Resolver],
        style: SiteStyle,
        with_lines: bool,
    ) -> Self {
        let in_context = stacks.map(|stacks| AllocationSites::find(session.names(), stacks, resolvers));
        Self {
            session,
            resolvers,
            in_context,
            style,
            with_lines,
            of_call: HashMap::new(),
            types: CodeTypes::default(),
            made: HashMap::new(),
        }
    }

    /// Whether names of blocks tell another place than the call of the allocator.
    pub(crate) fn is_in_context(&self) -> bool {
        self.in_context.is_some()
    }

    /// The resolver of a process.
    pub(crate) fn resolver(&self, process: ProcessId) -> Option<&'a Resolver> {
        self.resolvers.iter().find(|resolver| resolver.process() == process)
    }

    /// The site of a block.
    pub(crate) fn of(&mut self, process: ProcessId, block: BlockId) -> Option<BlockSite> {
        let resolver = self.resolver(process)?;
        self.of_block(resolver, block, resolver.heap().block(block)?.site)
    }

    /// What the code that allocated a block says of it. Reads debug information.
    pub(super) fn made(
        &mut self,
        process: ProcessId,
        block: BlockId,
        state: BlockState,
    ) -> Option<MadeBlock> {
        let resolver = self.resolver(process)?;
        let HeapBlock { site: id, len, .. } = *resolver.heap().block(block)?;
        let site = *resolver.heap().site(id)?;
        let types = &mut self.types;
        let objects = self.made.entry((process, id, len)).or_insert_with(|| {
            let code = resolver.site_code(id)?;
            MadeObjects::of(types, resolver, site.ip, code, len)
        });
        Some(MadeBlock { kind: site.kind, objects: objects.clone(), state })
    }

    fn of_block(&mut self, resolver: &Resolver, block: BlockId, site: SiteId) -> Option<BlockSite> {
        let called = *resolver.heap().site(site)?;
        let process = resolver.process();
        let in_context =
            self.in_context.as_mut().and_then(|sites| sites.of_block(process, block, self.style));
        let place = match in_context {
            Some(place) => place,
            None => {
                let (session, with_lines) = (self.session, self.with_lines);
                let of_call = self.of_call.entry((process, site)).or_insert_with(|| {
                    let code = resolver.site_code(site).and_then(|code| session.names().code(code));
                    code.map_or_else(
                        || NamedSite::at(called.ip),
                        |code| NamedSite::of_code(&code, with_lines),
                    )
                });
                of_call.clone()
            }
        };
        Some(BlockSite { kind: called.kind, place })
    }

    /// All blocks that were allocated, by kind and place: processes that run the same program have the same sites.
    pub(crate) fn totals(&mut self) -> HashMap<(AllocationKind, Arc<str>), BlockTotal> {
        let mut totals: HashMap<(AllocationKind, Arc<str>), BlockTotal> = HashMap::new();
        for resolver in self.resolvers {
            for (id, block) in resolver.heap().blocks() {
                if let Some(site) = self.of_block(resolver, id, block.site) {
                    totals.entry((site.kind, site.place.text)).or_default().add(block.len);
                }
            }
        }
        totals
    }
}
