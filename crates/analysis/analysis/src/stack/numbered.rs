//! The number of the stack of each access, in memory that does not grow with the trace.

use std::sync::Arc;

use memref::{Access, Event};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Names};

use super::context::{ContextId, EnteredBy};
use super::names::functions_at;
use super::number::StackNumber;
use super::place::CallPlace;
use super::shadow::Stacks;
use crate::{Moment, Session};

/// Contexts and pairs of a context and an instruction that are held, besides what threads are in and its callers.
const MOST_HELD: usize = 1 << 18;

/// Follows the stacks of a replay of everything, and numbers the stack of each access: the callers and the functions at the instruction,
/// inlined ones included, as [`StackTable`](super::StackTable) has them.
#[derive(Debug)]
pub struct NumberedStacks {
    stacks: Stacks,
    /// The stack of the callers, of each context; of those that came last not yet.
    of_context: Vec<StackNumber>,
    functions: FxHashMap<CodeId, Box<[Arc<str>]>>,
    known: FxHashMap<CallPlace, StackNumber>,
    last: Option<(CallPlace, StackNumber)>,
    most_contexts: usize,
}

impl NumberedStacks {
    /// Of that session. Nothing has happened yet.
    pub fn new(session: &Session) -> Self {
        Self {
            stacks: Stacks::without_blocks(session),
            of_context: Vec::new(),
            functions: FxHashMap::default(),
            known: FxHashMap::default(),
            last: None,
            most_contexts: MOST_HELD,
        }
    }

    /// Appends the numbers of accesses, which are the thread's next events.
    pub fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access], numbers: &mut Vec<StackNumber>) {
        self.relieve(at.resolver.names());
        for access in accesses {
            let place = self.stacks.access(at, access);
            numbers.push(self.number(at.resolver.names(), place));
        }
    }

    /// Any other event.
    pub fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) {
        self.stacks.event(at, event);
    }

    #[inline]
    fn number(&mut self, names: &Names, place: CallPlace) -> StackNumber {
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == place) {
            return number;
        }
        let number = match self.known.get(&place) {
            Some(&number) => number,
            None => self.find(names, place),
        };
        self.last = Some((place, number));
        number
    }

    #[cold]
    fn find(&mut self, names: &Names, place: CallPlace) -> StackNumber {
        self.number_contexts(names);
        let callers = self.of_context[place.context.0 as usize];
        let number = self.at(names, callers, place.code);
        self.known.insert(place, number);
        number
    }

    /// Numbers the contexts that are new.
    fn number_contexts(&mut self, names: &Names) {
        for number in self.of_context.len() as u32..self.stacks.contexts().len() as u32 {
            let Some(context) = self.stacks.contexts().get(ContextId(number)) else { break };
            let number = match context.entry {
                // A caller's context has a lower number.
                EnteredBy::Call(code) => self.at(names, self.of_context[context.parent.0 as usize], code),
                EnteredBy::Begin => StackNumber::BEGIN,
                root => StackNumber::BEGIN.callee(&root.to_string()),
            };
            self.of_context.push(number);
        }
    }

    /// The stack of the functions at an instruction, which these callers call.
    fn at(&mut self, names: &Names, callers: StackNumber, code: CodeId) -> StackNumber {
        let functions = self
            .functions
            .entry(code)
            .or_insert_with(|| functions_at(names, code).into_iter().map(|called| called.function).collect());
        functions.iter().fold(callers, |stack, function| stack.callee(function))
    }

    /// Forgets what can be found again, where there is much of it.
    fn relieve(&mut self, names: &Names) {
        if self.known.len() > MOST_HELD {
            self.known.clear();
        }
        if self.stacks.contexts().held() > self.most_contexts {
            self.number_contexts(names);
            let kept = self.stacks.keep_live();
            let numbers = kept.iter().zip(&self.of_context);
            self.of_context = numbers.filter(|(kept, _)| kept.is_some()).map(|(_, number)| *number).collect();
            // They are called by other numbers now.
            self.known.clear();
            self.last = None;
            self.most_contexts = MOST_HELD.max(2 * self.of_context.len());
        }
    }
}
