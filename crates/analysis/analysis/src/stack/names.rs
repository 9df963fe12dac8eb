//! Names of contexts: the functions from the outermost to the innermost, with the current line in each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use symbols::{CodeId, CodeName, Names};

use super::context::{ContextId, Contexts, EnteredBy};
use super::place::CallPlace;

/// A function of a stack, and where in it the program was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CalledFunction {
    /// Its name: in brackets what is no function (`[signal 10]`), `libfoo.so+0x1f0` where there are no symbols: where
    /// the function begins, as far as the table that exceptions are unwound with has it.
    pub function: Arc<str>,
    /// The source file of the place in it, where known.
    pub file: Option<Arc<str>>,
    /// The line, where known.
    pub line: Option<u32>,
    /// The file name of its module, where it is in one.
    pub module: Option<Arc<str>>,
    /// Whether the compiler put it into its caller. Then its caller is the element before it.
    pub is_inlined: bool,
}

/// Names what [`Contexts`] numbers. Each instruction is named once; reads debug information.
#[derive(Debug)]
pub struct StackNames<'a> {
    names: &'a Names,
    contexts: &'a Contexts,
    functions: RefCell<HashMap<CodeId, Arc<[CalledFunction]>>>,
}

impl<'a> StackNames<'a> {
    /// Of these contexts.
    pub fn new(names: &'a Names, contexts: &'a Contexts) -> Self {
        Self { names, contexts, functions: RefCell::default() }
    }

    /// The functions at an instruction, outermost first: the one with the symbol, then those that were inlined there.
    pub fn functions(&self, code: CodeId) -> Arc<[CalledFunction]> {
        if let Some(known) = self.functions.borrow().get(&code) {
            return Arc::clone(known);
        }
        let found: Arc<[CalledFunction]> = functions_at(self.names, code).into();
        self.functions.borrow_mut().insert(code, Arc::clone(&found));
        found
    }

    /// The stack of a context, outermost function first. A place in it follows with [`functions`](Self::functions).
    pub fn callers(&self, context: ContextId) -> Vec<CalledFunction> {
        let mut stack = Vec::new();
        let outwards: Vec<EnteredBy> =
            self.contexts.outwards(context).map(|(_, context)| context.entry).collect();
        for entry in outwards.into_iter().rev() {
            match entry {
                EnteredBy::Call(code) => stack.extend(self.functions(code).iter().cloned()),
                EnteredBy::Begin => {}
                root => stack.push(bracketed(root.to_string())),
            }
        }
        stack
    }

    /// The stack of a place, outermost function first.
    pub fn stack(&self, place: CallPlace) -> Vec<CalledFunction> {
        let mut stack = self.callers(place.context);
        stack.extend(self.functions(place.code).iter().cloned());
        stack
    }
}

/// The functions at an instruction, outermost first. Reads debug information.
pub(super) fn functions_at(names: &Names, code: CodeId) -> Vec<CalledFunction> {
    let Some(name) = names.code(code) else { return vec![bracketed("[unknown]".into())] };
    let own = || Arc::from(place_of_function(&name).unwrap_or_else(|| name.to_string()));
    let calls = name.calls().into_iter().rev().enumerate();
    let functions = calls.map(|(index, call)| CalledFunction {
        function: call.function.unwrap_or_else(own),
        file: call.file,
        line: call.line,
        module: name.module.clone(),
        is_inlined: index > 0,
    });
    functions.collect()
}

/// Where the function of an instruction begins, of one that has no symbol: all of its instructions are one function.
fn place_of_function(name: &CodeName) -> Option<String> {
    let (module, address) = name.place().filter(|_| name.function.is_none())?;
    let extent = module.function_extent(address)?;
    Some(format!("{}+{:#x}", module.name(), extent.start.0))
}

fn bracketed(name: String) -> CalledFunction {
    CalledFunction { function: name.into(), file: None, line: None, module: None, is_inlined: false }
}
