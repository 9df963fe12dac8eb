//! Heap blocks by the names that tables show, such as `<malloc0014@func1+230>`.

use analysis::{Moment, Session, Tool};
use memref::Access;
use symbols::{BlockId, BlockState, HeapBlock, Instance, InstanceId, Resolver};
use trace_format::{Filter, KindSet};

use crate::Error;

/// Looks at nothing: the resolvers as they are at the end know all blocks and files that ever were.
struct NamesAlone;

impl Tool for NamesAlone {
    fn accesses(&mut self, _: &mut Moment<'_>, _: &[Access]) -> Result<(), analysis::Error> {
        Ok(())
    }
}

/// All processes at the end of the trace.
#[derive(Debug)]
pub(crate) struct NamedBlocks {
    resolvers: Vec<Resolver>,
}

/// The number of the block that has a name such as `<malloc0014@func1+230>`, and its state.
fn block_of_name(name: &str) -> Option<(BlockId, BlockState)> {
    let (stem, _) = name.strip_prefix('<')?.split_once('@')?;
    let (kind, number) = (stem.get(..6)?, stem.get(6..)?);
    let state = match kind {
        "freed:" => BlockState::Freed,
        "unmap:" => BlockState::Unmapped,
        _ => BlockState::Live,
    };
    let number: u32 = number.parse().ok()?;
    Some((BlockId(number.checked_sub(1)?), state))
}

/// Whether the block with that number has that name in a process.
fn is_called(resolver: &Resolver, block: BlockId, state: BlockState, name: &str) -> bool {
    let heap = resolver.heap();
    let code = heap.block(block).and_then(|block| resolver.site_code(block.site));
    let code = code.and_then(|code| resolver.names().code(code));
    let place = code.map_or_else(String::new, |code| code.to_string());
    heap.forged_name(block, state, &place).is_some_and(|forged| forged == name)
}

impl NamedBlocks {
    pub(crate) fn of(session: &Session) -> Result<Self, Error> {
        let filter = Filter { kinds: KindSet::NONE, ..Filter::default() };
        Ok(Self { resolvers: session.replay(&filter, None, &mut NamesAlone)? })
    }

    /// The processes.
    pub(crate) fn resolvers(&self) -> &[Resolver] {
        &self.resolvers
    }

    /// The blocks of that name: of each process one at most.
    pub(crate) fn find<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a Resolver, BlockId, HeapBlock)> + 'a {
        let named = block_of_name(name);
        self.resolvers.iter().filter_map(move |resolver| {
            let (block, state) = named?;
            let found = *resolver.heap().block(block)?;
            is_called(resolver, block, state, name).then_some((resolver, block, found))
        })
    }
}

/// All files that a process ever mapped as modules.
pub(crate) fn instances(resolver: &Resolver) -> impl Iterator<Item = &Instance> {
    (0..).map(InstanceId).map_while(|id| resolver.image().instance(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_blocks_say_which() {
        let check = |name: &str, expect: Option<(u32, BlockState)>| {
            assert_eq!(block_of_name(name), expect.map(|(block, state)| (BlockId(block), state)), "{name}");
        };
        check("<malloc0014@func1+230>", Some((13, BlockState::Live)));
        check("<calloc123456@main+4>", Some((123_455, BlockState::Live)));
        check("<freed:0001@a::b<c@d>+1>", Some((0, BlockState::Freed)));
        check("<unmap:0002@libx.so+0x1f0>", Some((1, BlockState::Unmapped)));
        check("<malloc0000@main+1>", None);
        check("<lambda@main>", None);
        check("table", None);
        // Six bytes end inside a letter.
        check("<aäöü14@main>", None);
    }
}
