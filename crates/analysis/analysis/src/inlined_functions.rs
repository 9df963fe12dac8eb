//! The function that an instruction belongs to. An inlined function is treated like any other.
//!
//! Debug information tells what was inlined. An inlined function and its out-of-line copy are one function.

use std::collections::HashMap;
use std::sync::Arc;

use symbols::{CodeId, CodeName, FunctionId, Names};

/// A function as tables show it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InnermostFunction {
    /// One with an address of its own, or what stands for it: a module without symbols.
    Own(FunctionId),
    /// One that was inlined wherever it ran.
    Inlined {
        /// The file name of its module.
        module: Option<Arc<str>>,
        /// Its name.
        name: Arc<str>,
    },
}

/// The file name of a module, and a function of it.
type NameInModule = (Option<Arc<str>>, Arc<str>);

/// Finds the functions of instructions. Reads debug information.
#[derive(Debug)]
pub struct InnermostFunctions<'a> {
    names: &'a Names,
    /// The functions that were numbered, by name; `None` for several of one name.
    own: HashMap<NameInModule, Option<FunctionId>>,
    found: HashMap<CodeId, (InnermostFunction, Arc<str>)>,
}

impl<'a> InnermostFunctions<'a> {
    /// Of a session whose instructions have been numbered.
    pub fn new(names: &'a Names) -> Self {
        let mut own: HashMap<NameInModule, Option<FunctionId>> = HashMap::new();
        for id in (0..names.function_count() as u32).map(FunctionId) {
            let Some(name) = names.function(id) else { continue };
            own.entry((names.function_module(id), name)).and_modify(|id| *id = None).or_insert(Some(id));
        }
        Self { names, own, found: HashMap::new() }
    }

    /// The function of an instruction, and its name; `None` for a number that is none.
    pub fn of(&mut self, id: CodeId) -> Option<(InnermostFunction, Arc<str>)> {
        if let Some(known) = self.found.get(&id) {
            return Some(known.clone());
        }
        let code = self.names.code(id)?;
        let found = self.find(&code);
        self.found.insert(id, found.clone());
        Some(found)
    }

    fn find(&self, code: &CodeName) -> (InnermostFunction, Arc<str>) {
        let frames = code.frames();
        let inlined = frames.first().filter(|_| frames.len() > 1).and_then(|frame| frame.function.clone());
        if let Some(name) = inlined {
            let key = (code.module.clone(), name);
            let own = self.own.get(&key).copied().flatten();
            let (module, name) = key;
            let function = match own {
                Some(id) => InnermostFunction::Own(id),
                None => InnermostFunction::Inlined { module, name: Arc::clone(&name) },
            };
            return (function, name);
        }
        let name =
            code.function.clone().or_else(|| code.module.clone()).unwrap_or_else(|| "[unknown]".into());
        (InnermostFunction::Own(code.function_id), name)
    }
}
