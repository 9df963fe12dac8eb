//! The types of variables and heap blocks, by the names that tables show.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use analysis::layout::HeapTypes;
use analysis::{Moment, Session, Tool};
use memref::Access;
use symbols::{BlockId, BlockState, InstanceId, LinkAddr, Module, Resolver};
use trace_format::{Filter, KindSet};

use super::agreed;
use crate::Error;

/// Looks at nothing: the resolvers as they are at the end know all blocks and files that ever were.
struct NamesAlone;

impl Tool for NamesAlone {
    fn accesses(&mut self, _: &mut Moment<'_>, _: &[Access]) -> Result<(), analysis::Error> {
        Ok(())
    }
}

/// Finds types by names.
#[derive(Debug)]
pub(super) struct TypeNames {
    resolvers: Vec<Resolver>,
    heap: Arc<HeapTypes>,
    /// The static variables of each name.
    statics: HashMap<String, Vec<(Arc<Module>, LinkAddr)>>,
    known: Mutex<HashMap<String, Option<Arc<str>>>>,
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

impl TypeNames {
    pub(super) fn of(session: &Session) -> Result<Self, Error> {
        let filter = Filter { kinds: KindSet::NONE, ..Filter::default() };
        let resolvers = session.replay(&filter, None, &mut NamesAlone)?;
        let mut statics: HashMap<String, Vec<(Arc<Module>, LinkAddr)>> = HashMap::new();
        let mut seen = HashSet::new();
        for resolver in &resolvers {
            for one in (0..).map(InstanceId).map_while(|id| resolver.image().instance(id)) {
                if seen.insert(one.module.serial()) {
                    for object in one.module.data_objects() {
                        let place = (Arc::clone(&one.module), object.address);
                        statics.entry(object.name).or_default().push(place);
                    }
                }
            }
        }
        Ok(Self { resolvers, heap: session.heap_types()?, statics, known: Mutex::default() })
    }

    /// The type of all that has a name.
    pub(super) fn type_of(&self, name: &str) -> Option<Arc<str>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(name) {
            return found.clone();
        }
        // Not under the lock: it reads debug information.
        let found = agreed(self.blocks(name).chain(self.statics(name)));
        known().insert(name.to_owned(), found.clone());
        found
    }

    /// The type of each block of that name.
    fn blocks<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Option<Arc<str>>> + 'a {
        let named = block_of_name(name);
        self.resolvers.iter().filter_map(move |resolver| {
            let (block, state) = named?;
            let is_one = is_called(resolver, block, state, name);
            is_one.then(|| self.heap.type_name(resolver.process(), block).cloned())
        })
    }

    /// The type of each static variable of that name; of an array that of its elements, as tables by type have it.
    fn statics<'a>(&'a self, name: &str) -> impl Iterator<Item = Option<Arc<str>>> + 'a {
        self.statics.get(name).into_iter().flatten().map(|(module, address)| {
            let layout = module.type_at(*address)?;
            let name = &layout.innermost().name;
            (!name.is_empty()).then(|| Arc::clone(name))
        })
    }
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
        check("<äöü14@main>", None);
    }
}
