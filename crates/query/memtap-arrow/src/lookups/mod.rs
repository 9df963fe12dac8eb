//! Names that do not come with a row: what SQL functions look up. Each of them agrees with the columns of the tables.
//!
//! An address means different things in different processes and at different times. An answer is given where it
//! is the only one; where several are possible there is none, rather than one of them.

mod code_lines;
mod type_names;

use std::collections::HashMap;
use std::sync::Arc;

use analysis::{AskedMoment, Moments, Session};
use memref::{ThreadId, VirtAddr};
use symbols::Resolver;

use self::code_lines::{CodeLines, line_text};
use self::type_names::TypeNames;
use crate::figures::{StackFunctions, stacks_by_number};
use crate::kept::Kept;
use crate::{Error, TraceTables};

/// An address, and when it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAddress {
    /// The address.
    pub addr: VirtAddr,
    /// The cycle; `None` asks for what holds at all times.
    pub cycle: Option<u64>,
    /// The thread on whose clock that cycle is; `None` asks for what holds for all threads that come to it.
    pub thread: Option<ThreadId>,
}

/// The answer that all agree on, if there is one.
pub fn agreed<T: PartialEq>(answers: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    let mut answers = answers.into_iter();
    let first = answers.next()??;
    answers.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Looks up names of one trace. What it takes to look up is read when somebody asks, and kept.
#[derive(Debug)]
pub struct Lookups {
    session: Session,
    moments: Kept<Moments>,
    lines: Kept<CodeLines>,
    types: Kept<TypeNames>,
    stacks: Kept<HashMap<u64, StackFunctions>>,
}

impl Lookups {
    /// Of that trace.
    pub fn of(tables: &TraceTables) -> Self {
        Self {
            session: tables.session().clone(),
            moments: Kept::default(),
            lines: Kept::default(),
            types: Kept::default(),
            stacks: Kept::default(),
        }
    }

    /// The variables or heap blocks at addresses, as the column `variable` of `accesses` names them. None where no cycle is given, the
    /// trace does not have the thread, or threads disagree.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn variables(&self, asked: &[AskedAddress]) -> Result<Vec<Option<Arc<str>>>, Error> {
        let name = |resolver: &mut Resolver, addr| {
            let id = resolver.resolve_data(addr).variable;
            resolver.names().variable(id).map(|variable| Arc::clone(&variable.name))
        };
        self.at_moments(asked, name)
    }

    /// The source lines of instructions, as `file:line`: file and line as `accesses` has them. Without a cycle, the line that all code has
    /// which was ever mapped there, in any process. None where debug information does not tell it.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn lines(&self, asked: &[AskedAddress]) -> Result<Vec<Option<Arc<str>>>, Error> {
        let line = |resolver: &mut Resolver, ip| {
            let code = resolver.code_name(ip)?;
            let (file, line) = code.line()?;
            Some(line_text(file, line))
        };
        let mut answers = match asked.iter().any(|one| one.cycle.is_some()) {
            true => self.at_moments(asked, line)?,
            false => vec![None; asked.len()],
        };
        for (answer, one) in answers.iter_mut().zip(asked).filter(|(_, one)| one.cycle.is_none()) {
            *answer = self.lines.get(|| CodeLines::of(&self.session))?.line(one.addr);
        }
        Ok(answers)
    }

    /// The type of variables and heap blocks that have these names in the tables, as `report --by type` names it. None where none is known, and
    /// where things of several types have the name.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn types(&self, names: &[&str]) -> Result<Vec<Option<Arc<str>>>, Error> {
        let types = self.types.get(|| TypeNames::of(&self.session))?;
        Ok(names.iter().map(|name| types.type_of(name)).collect())
    }

    /// The functions of the stacks that have these numbers, outermost first, as `contexts` has them. None for what is no number of a stack,
    /// and for rare stacks that `contexts` sums.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn stacks(&self, numbers: &[u64]) -> Result<Vec<Option<StackFunctions>>, Error> {
        let stacks = self.stacks.get(|| stacks_by_number(&self.session))?;
        Ok(numbers.iter().map(|number| stacks.get(number).cloned()).collect())
    }

    /// What threads agree on at the moments of addresses that have one.
    fn at_moments(
        &self,
        asked: &[AskedAddress],
        name: impl Fn(&mut Resolver, VirtAddr) -> Option<Arc<str>>,
    ) -> Result<Vec<Option<Arc<str>>>, Error> {
        let moments = self.moments.get(|| Ok(Moments::of(&self.session)?))?;
        let (mut all, mut ends) = (Vec::new(), Vec::with_capacity(asked.len()));
        for one in asked {
            if let Some(cycle) = one.cycle {
                match one.thread {
                    Some(thread) => all.push((one.addr, AskedMoment { thread, cycle })),
                    None => all.extend(
                        moments.threads_at(cycle).map(|thread| (one.addr, AskedMoment { thread, cycle })),
                    ),
                }
            }
            ends.push(all.len());
        }
        let asked: Vec<AskedMoment> = all.iter().map(|(_, moment)| *moment).collect();
        let answers = moments.resolve(&asked, |place, resolver| name(resolver, all[place].0));
        let mut begin = 0;
        let of_one = |end: usize| {
            let own = &answers[begin..end];
            begin = end;
            agreed(own.iter().map(|answer| answer.clone().flatten()))
        };
        Ok(ends.into_iter().map(of_one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_is_given_and_several_are_not() {
        assert_eq!(agreed([Some(1), Some(1)]), Some(1));
        assert_eq!(agreed([Some(1), Some(2)]), None);
        assert_eq!(agreed([Some(1), None]), None);
        assert_eq!(agreed([None, Some(1)]), None);
        assert_eq!(agreed::<u32>([]), None);
    }
}
