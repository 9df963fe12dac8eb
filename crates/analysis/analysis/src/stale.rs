//! Accesses to released memory (MadT, section III-F: names that begin with `<freed:` or `<unmap:`), and releases of what is
//! no live block.

use std::collections::BTreeMap;

use memref::{Access, Allocation, AllocationKind};
use symbols::{CodeId, HeapChange, Resolver, VariableId, VariableKind};

use crate::{Count, Error, Moment, Tool};

/// All accesses of one instruction to blocks of one site after their release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleAccess {
    /// The first such block, by its forged name.
    pub variable: String,
    /// The instruction, as function and offset.
    pub code: String,
    /// Source file and line, where known.
    pub line: Option<String>,
    /// How often.
    pub count: Count,
}

/// Whose accesses are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StalePlace {
    variable: VariableId,
    code: CodeId,
}

/// A block that was freed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubleFree {
    /// The block, by its forged name.
    pub block: String,
    /// The call, as function and offset.
    pub call: String,
}

/// Looks for use after free, double frees and frees of unknown addresses.
#[derive(Debug, Default)]
pub struct Stale {
    accesses: BTreeMap<StalePlace, StaleAccess>,
    /// Blocks that were freed again.
    pub double_frees: Vec<DoubleFree>,
    /// Frees of addresses at which no known block begins: how many. Blocks from before the recording count here.
    pub unknown_frees: u64,
}

impl Stale {
    /// What was found, most accesses first.
    pub fn findings(&self) -> Vec<StaleAccess> {
        let mut found: Vec<StaleAccess> = self.accesses.values().cloned().collect();
        found.sort_by(|a, b| {
            b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.variable.cmp(&b.variable))
        });
        found
    }
}

impl Tool for Stale {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let mut last = None;
        for access in accesses {
            let name = at.resolver.resolve_data(access.addr);
            // Most accesses go to the variable of the one before.
            if let Some((variable, false)) = last
                && variable == name.variable
            {
                continue;
            }
            let variable = at.resolver.names().variable(name.variable);
            let stale = variable.as_ref().is_some_and(|variable| {
                matches!(variable.kind, VariableKind::Block { state, .. } if state != symbols::BlockState::Live)
            });
            last = Some((name.variable, stale));
            if !stale {
                continue;
            }
            let code = at.resolver.resolve_code(access.ip);
            let place = StalePlace { variable: name.variable, code };
            let found = self.accesses.entry(place).or_insert_with(|| {
                let code = at.resolver.names().code(code);
                let line = code.as_ref().and_then(|code| {
                    code.line()
                        .map(|(file, line)| line.map_or_else(|| file.to_owned(), |n| format!("{file}:{n}")))
                });
                StaleAccess {
                    variable: variable.map_or_else(String::new, |variable| variable.name.to_string()),
                    code: code.map_or_else(String::new, |code| code.to_string()),
                    line,
                    count: Count::default(),
                }
            });
            found.count.add(access);
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        match change {
            HeapChange::FreedTwice(_) => {
                let block = resolver.resolve_data(event.addr).variable;
                let block = resolver.names().variable(block).map_or_else(String::new, |v| v.name.to_string());
                let call = resolver.code_name(event.ip).map_or_else(String::new, |code| code.to_string());
                self.double_frees.push(DoubleFree { block, call });
            }
            HeapChange::Unknown if event.kind == AllocationKind::Free => self.unknown_frees += 1,
            _ => {}
        }
    }
}

/// Two tools in one pass.
impl<A: Tool, B: Tool> Tool for (A, B) {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.0.accesses(at, accesses)?;
        self.1.accesses(at, accesses)
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &memref::Event<String>) -> Result<(), Error> {
        self.0.event(at, event)?;
        self.1.event(at, event)
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        self.0.change(resolver, event, change);
        self.1.change(resolver, event, change);
    }
}
