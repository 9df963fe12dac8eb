//! From numbers to rows: numbers with the same name form one row. The row names of every table and pair come from here.

use std::collections::HashMap;
use std::sync::Arc;

use memref::{AllocationKind, ProcessId, RegionKind};
use symbols::{BlockState, CodeName, FunctionId, LocalId, Resolver, Variable, VariableId, VariableKind};

use super::allocated::{BlockSite, BlockSites};
use super::locals::LocalThing;
use super::numbering::{FieldThing, Numbering, TypeThing, region_once_at};
use super::{AccessRow, By};
use crate::block_total::BlockTotal;
use crate::inlined_functions::{InnermostFunction, InnermostFunctions};
use crate::stack::SiteStyle;
use crate::{Owner, Session};

/// What makes two numbers one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shared {
    /// Nothing.
    Number(u32),
    Function(InnermostFunction),
    Text(String),
    Owned(Owner, String),
}

/// Makes the rows of one table.
pub(crate) struct Grouper<'a> {
    by: By,
    session: &'a Session,
    numbering: &'a Numbering,
    resolvers: &'a [Resolver],
    functions: Option<InnermostFunctions<'a>>,
    sites: BlockSites<'a>,
    /// All blocks of each site, once they were asked for.
    totals: Option<HashMap<(AllocationKind, Arc<str>), BlockTotal>>,
    rows: Vec<AccessRow>,
    row_of: HashMap<Shared, usize>,
    known: HashMap<u32, Option<usize>>,
}

/// The entries of procedure linkage tables are the linker's, wherever they lie.
fn owner_of_function(function: &str, module: &str) -> Owner {
    match Owner::of_module(module) {
        Owner::Program if function.ends_with("@plt") => Owner::Linker,
        owner => owner,
    }
}

/// `file:line` of the innermost function there.
fn line_of(code: &CodeName) -> Option<String> {
    let (file, line) = code.line()?;
    Some(line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
}

impl<'a> Grouper<'a> {
    pub(crate) fn new(
        by: By,
        session: &'a Session,
        numbering: &'a Numbering,
        resolvers: &'a [Resolver],
        style: SiteStyle,
    ) -> Self {
        let with_lines = matches!(by, By::Variable | By::Local | By::Allocation);
        // By field, a block is called by the call of the allocator.
        let stacks = numbering.stacks().filter(|_| matches!(by, By::Local | By::Allocation));
        let sites = BlockSites::new(session, stacks, resolvers, style, with_lines);
        Self {
            by,
            session,
            numbering,
            resolvers,
            functions: None,
            sites,
            totals: None,
            rows: Vec::new(),
            row_of: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// The rows so far. Their counts are left to the caller.
    pub(crate) fn into_rows(self) -> Vec<AccessRow> {
        self.rows
    }

    /// The row of a number; `None` where it is no part of this table.
    pub(crate) fn row(&mut self, number: u32) -> Option<usize> {
        if let Some(&known) = self.known.get(&number) {
            return known;
        }
        let row = self.make(number);
        self.known.insert(number, row);
        row
    }

    fn make(&mut self, number: u32) -> Option<usize> {
        let (shared, row) = match self.by {
            By::Variable => (Shared::Number(number), self.whole_variable(self.numbering.variable(number))?),
            By::Local => match self.numbering.local(number)? {
                LocalThing::Variable(id) => (Shared::Number(number), self.whole_variable(id)?),
                LocalThing::Frame(function) => (Shared::Number(number), self.frame(function)),
                LocalThing::Local(function, id) => (Shared::Number(number), self.local(function, id)?),
            },
            By::Field => (Shared::Number(number), self.field(number)?),
            By::Type => self.type_(number)?,
            By::Function | By::Line => self.code(number)?,
            By::Allocation => self.site(number)?,
            By::Page => (Shared::Number(number), self.page(number)?),
            By::Region => self.region(number)?,
            By::Thread => (Shared::Number(number), self.thread(number)),
        };
        if let Some(&place) = self.row_of.get(&shared) {
            if matches!(self.by, By::Region | By::Type) {
                self.rows[place].things += row.things;
                self.rows[place].size += row.size;
            }
            return Some(place);
        }
        let place = self.rows.len();
        self.rows.push(row);
        self.row_of.insert(shared, place);
        Some(place)
    }

    /// A variable, and of a heap block what the code that allocated it says.
    fn whole_variable(&mut self, id: VariableId) -> Option<AccessRow> {
        let variable = self.session.names().variable(id)?;
        let site = self.site_of(&variable);
        let row = self.row_of_variable(&variable, site.as_ref(), "");
        let VariableKind::Block { process, block, state } = variable.kind else {
            return Some(AccessRow { threads: self.numbering.threads_of_stack(id), ..row });
        };
        let line = site.and_then(|site| site.place.line);
        let made = self.sites.made(process, block, state);
        Some(AccessRow { line: line.as_deref().map(str::to_owned), made, ..row })
    }

    fn variable(&mut self, id: VariableId, path: &str) -> Option<AccessRow> {
        let variable = self.session.names().variable(id)?;
        let site = self.site_of(&variable);
        Some(self.row_of_variable(&variable, site.as_ref(), path))
    }

    fn row_of_variable(&self, variable: &Variable, site: Option<&BlockSite>, path: &str) -> AccessRow {
        let module = match site {
            Some(site) => site.module().to_owned(),
            None => variable.module.as_deref().unwrap_or("").to_owned(),
        };
        let forged = site.and_then(|site| self.name_in_context(variable, site));
        let name: &str = forged.as_deref().unwrap_or(&variable.name);
        AccessRow {
            name: format!("{name}{path}"),
            family: family(variable, name),
            region: variable.region.to_string(),
            size: variable.bytes,
            things: 1,
            owner: match site {
                Some(_) => Owner::of_module(&module),
                None => Owner::of_variable(variable),
            },
            module,
            ..AccessRow::default()
        }
    }

    fn field(&mut self, number: u32) -> Option<AccessRow> {
        let (thing, types) = self.numbering.field(number)?;
        let row = match thing {
            FieldThing::Of(id, path) => {
                let row = self.variable(id, &path)?;
                let family = any_element(&row.name).or(row.family);
                AccessRow { family, ..row }
            }
            FieldThing::Typed { type_, field } => {
                let table = types.table(type_)?;
                let name = match table.fields.get(usize::from(field)) {
                    Some(field) => format!("{}.{}", types.name(type_), field.name),
                    None => format!("{} [between its fields]", types.name(type_)),
                };
                let (blocks, conflicts) = (types.blocks(type_)?, types.conflicts(type_));
                AccessRow { name, family: None, conflicts, ..self.variable(blocks.example, "")? }
            }
            FieldThing::Local { function, id, path } => {
                let row = self.local(function, id)?;
                let name = format!("{}{path}", row.name);
                AccessRow { family: any_element(&name), name, ..row }
            }
        };
        Some(AccessRow { size: 0, ..row })
    }

    fn type_(&mut self, number: u32) -> Option<(Shared, AccessRow)> {
        let (thing, types) = self.numbering.type_(number)?;
        Some(match thing {
            TypeThing::Blocks(type_) => {
                let blocks = types.blocks(type_)?;
                let (size, things) = (blocks.bytes, blocks.count);
                let example = self.variable(blocks.example, "")?;
                let name = types.name(type_).to_string();
                let conflicts = types.conflicts(type_);
                let row = AccessRow { name: name.clone(), size, things, family: None, conflicts, ..example };
                (Shared::Text(name), row)
            }
            TypeThing::Static(id, name) => {
                let variable = self.variable(id, "")?;
                let name = name.to_string();
                (Shared::Text(name.clone()), AccessRow { name, family: None, ..variable })
            }
            TypeThing::Local(function, id, name) => {
                let local = self.local(function, id)?;
                let name = name.to_string();
                (Shared::Text(name.clone()), AccessRow { name, ..local })
            }
            TypeThing::Untyped(id) => {
                let AccessRow { region, owner, .. } = self.variable(id, "")?;
                let name = format!("[{region}: no type known]");
                let row = AccessRow { name: name.clone(), region, owner, things: 1, ..AccessRow::default() };
                (Shared::Owned(owner, name), row)
            }
        })
    }

    fn site_of(&mut self, variable: &Variable) -> Option<BlockSite> {
        let VariableKind::Block { process, block, .. } = variable.kind else { return None };
        self.sites.of(process, block)
    }

    /// A block's forged name with the site that its context tells.
    fn name_in_context(&self, variable: &Variable, site: &BlockSite) -> Option<String> {
        let VariableKind::Block { process, block, state } = variable.kind else { return None };
        let resolver = self.sites.resolver(process).filter(|_| self.sites.is_in_context())?;
        resolver.heap().forged_name(block, state, &site.place.text)
    }

    fn on_stack(&self, function: FunctionId, name: String) -> AccessRow {
        let module = self.session.names().function_module(function);
        let module = module.as_deref().unwrap_or("").to_owned();
        AccessRow {
            name,
            region: RegionKind::Stack.to_string(),
            things: 1,
            owner: owner_of_function(&self.function_name(function), &module),
            module,
            ..AccessRow::default()
        }
    }

    fn function_name(&self, function: FunctionId) -> String {
        self.session.names().function(function).as_deref().unwrap_or("[unknown]").to_owned()
    }

    fn frame(&self, function: FunctionId) -> AccessRow {
        self.on_stack(function, format!("[stack of {}]", self.function_name(function)))
    }

    fn local(&self, function: FunctionId, id: LocalId) -> Option<AccessRow> {
        let local = self.session.names().local(function, id)?;
        let name = format!("{}::{}", self.function_name(function), local.name);
        Some(AccessRow { size: local.bytes, ..self.on_stack(function, name) })
    }

    fn code(&mut self, number: u32) -> Option<(Shared, AccessRow)> {
        let id = self.numbering.code(number);
        let code = self.session.names().code(id)?;
        let names = self.session.names();
        let functions = self.functions.get_or_insert_with(|| InnermostFunctions::new(names));
        let (function, name) = functions.of(id)?;
        let module = code.module.as_deref().unwrap_or("");
        let line = line_of(&code);
        let row = AccessRow {
            name: name.to_string(),
            region: module.to_owned(),
            things: 1,
            line: line.clone(),
            module: module.to_owned(),
            owner: owner_of_function(&name, module),
            ..AccessRow::default()
        };
        Some(match line.filter(|_| self.by == By::Line) {
            Some(line) => (Shared::Text(line.clone()), AccessRow { name: line, ..row }),
            None => (Shared::Function(function), row),
        })
    }

    fn site(&mut self, number: u32) -> Option<(Shared, AccessRow)> {
        let variable = self.session.names().variable(self.numbering.variable(number))?;
        let site = self.site_of(&variable)?;
        let name = site.name();
        let sites = &mut self.sites;
        let totals = self.totals.get_or_insert_with(|| sites.totals());
        let total = totals.get(&(site.kind, Arc::clone(&site.place.text))).copied().unwrap_or_default();
        let row = AccessRow {
            name: name.clone(),
            size: total.bytes,
            things: total.blocks,
            line: site.place.line.as_deref().map(str::to_owned),
            owner: Owner::of_module(site.module()),
            module: site.module().to_owned(),
            ..AccessRow::default()
        };
        Some((Shared::Text(name), row))
    }

    fn page(&self, number: u32) -> Option<AccessRow> {
        let (process, page) = self.numbering.page(number)?;
        Some(page_row(self.resolvers, process, page))
    }

    fn region(&self, number: u32) -> Option<(Shared, AccessRow)> {
        let variable = self.session.names().variable(self.numbering.variable(number))?;
        let module = variable.module.as_deref().unwrap_or("").to_owned();
        let kind = variable.region.to_string();
        let name = if module.is_empty() { format!("[{kind}]") } else { format!("{module} {kind}") };
        let owner = match variable.module {
            Some(_) => Owner::of_module(&module),
            None => Owner::of_variable(&variable),
        };
        let row =
            AccessRow { name: name.clone(), region: kind, module, owner, things: 1, ..AccessRow::default() };
        Some((Shared::Text(name), row))
    }

    fn thread(&self, number: u32) -> AccessRow {
        let thread = self.numbering.thread(number);
        let process = thread.map(|thread| thread.process).unwrap_or_default();
        let record = self.session.trace().process(process);
        // As it was called: the file may have several names.
        let called = record.map_or("", |record| record.args.split(' ').next().unwrap_or(""));
        let exe = record.map_or("", |record| if called.is_empty() { &record.exe } else { called });
        let exe = exe.rsplit('/').next().unwrap_or("");
        let first = thread.and_then(|thread| thread.first).map(|first| self.function_name(first));
        let first = first.map_or_else(String::new, |first| format!(" {first}"));
        AccessRow {
            name: format!("thread {number}{first} ({exe}, process {})", process.0),
            things: 1,
            ..AccessRow::default()
        }
    }
}

/// The name that this field has in every element of its array: `frame.pixels[].red`.
pub(crate) fn any_element(name: &str) -> Option<String> {
    let mut parts = name.split('[');
    let mut text = parts.next()?.to_owned();
    let mut has_elements = false;
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        has_elements |= rest.len() < part.len() && rest.starts_with(']');
        text.push('[');
        text.push_str(if rest.starts_with(']') { rest } else { part });
    }
    has_elements.then_some(text)
}

/// The name that all blocks of a call have together, in their state.
pub(crate) fn family(variable: &Variable, name: &str) -> Option<String> {
    let VariableKind::Block { state, .. } = variable.kind else { return None };
    // `<malloc0014@func1+230>`: the stem has seven characters, with the bracket.
    let (stem, place) = name.split_once('@')?;
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = if state == BlockState::Live { stem } else { stem.trim_end_matches(':') };
    Some(format!("{stem}@{place}"))
}

/// The row of a page, without its count.
pub fn page_row(resolvers: &[Resolver], process: ProcessId, page: memref::VirtAddr) -> AccessRow {
    let resolver = resolvers.iter().find(|resolver| resolver.process() == process);
    let region = resolver.and_then(|resolver| region_once_at(resolver.image(), page));
    AccessRow {
        name: if resolvers.len() > 1 { format!("process {} {page}", process.0) } else { page.to_string() },
        region: region.map_or_else(String::new, |region| region.kind.to_string()),
        size: memref::VirtAddr::PAGE_BYTES,
        things: 1,
        ..AccessRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_arrays_have_a_name_together() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(any_element(name).as_deref(), expect);
        check("frame.pixels[3].red", Some("frame.pixels[].red"));
        check("grid[1][22]", Some("grid[][]"));
        check("counter", None);
        check("[stack]", None);
    }
}
