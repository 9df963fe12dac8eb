//! The types of variables and heap blocks, by the names that tables show.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use analysis::Session;
use analysis::layout::HeapTypes;
use symbols::{LinkAddr, Module};

use super::agreed;
use crate::Error;
use crate::named_blocks::{NamedBlocks, instances};

/// Finds types by names.
#[derive(Debug)]
pub(super) struct TypeNames {
    blocks: NamedBlocks,
    heap: Arc<HeapTypes>,
    /// The static variables of each name.
    statics: HashMap<String, Vec<(Arc<Module>, LinkAddr)>>,
    known: Mutex<HashMap<String, Option<Arc<str>>>>,
}

impl TypeNames {
    pub(super) fn of(session: &Session) -> Result<Self, Error> {
        let blocks = NamedBlocks::of(session)?;
        let mut statics: HashMap<String, Vec<(Arc<Module>, LinkAddr)>> = HashMap::new();
        let mut seen = HashSet::new();
        for one in blocks.resolvers().iter().flat_map(instances) {
            if seen.insert(one.module.serial()) {
                for object in one.module.data_objects() {
                    let place = (Arc::clone(&one.module), object.address);
                    statics.entry(object.name).or_default().push(place);
                }
            }
        }
        Ok(Self { blocks, heap: session.heap_types()?, statics, known: Mutex::default() })
    }

    /// The type of all that has a name.
    pub(super) fn type_of(&self, name: &str) -> Option<Arc<str>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(name) {
            return found.clone();
        }
        // Not under the lock: it reads debug information.
        let found = agreed(self.of_blocks(name).chain(self.of_statics(name)));
        known().insert(name.to_owned(), found.clone());
        found
    }

    /// The type of each block of that name.
    fn of_blocks<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Option<Arc<str>>> + 'a {
        let found = self.blocks.find(name);
        found.map(|(resolver, block, _)| self.heap.type_name(resolver.process(), block).cloned())
    }

    /// The type of each static variable of that name; of an array that of its elements, as tables by type have it.
    fn of_statics<'a>(&'a self, name: &str) -> impl Iterator<Item = Option<Arc<str>>> + use<'a> {
        self.statics.get(name).into_iter().flatten().map(|(module, address)| {
            let layout = module.type_at(*address)?;
            let name = &layout.innermost().name;
            (!name.is_empty()).then(|| Arc::clone(name))
        })
    }
}
