//! From numbers to rows: what several numbers have in common is one row. The names come from here, for every table and pair.

use std::collections::HashMap;

use memref::{ProcessId, RegionKind};
use symbols::{BlockState, CodeName, FunctionId, Resolver, SiteId, Variable, VariableId, VariableKind};

use super::locals::LocalThing;
use super::numbering::{Numbering, region_once_at};
use super::{AccessRow, By};
use crate::{Owner, Session};

/// What makes two numbers one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shared {
    /// Nothing.
    Number(u32),
    Function(FunctionId),
    Text(String),
}

/// An allocation site of a process, as a row shows it.
#[derive(Clone, Debug)]
struct Site {
    kind: memref::AllocationKind,
    place: String,
    line: Option<String>,
    module: String,
    blocks: u64,
    bytes: u64,
}

/// Makes the rows of one table.
pub(crate) struct Grouper<'a> {
    by: By,
    session: &'a Session,
    numbering: &'a Numbering,
    resolvers: &'a [Resolver],
    sites: HashMap<(ProcessId, SiteId), Site>,
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
    ) -> Self {
        let has_blocks = matches!(by, By::Variable | By::Local | By::Field | By::Allocation);
        let sites = if has_blocks { sites(resolvers, by == By::Allocation) } else { HashMap::new() };
        Self {
            by,
            session,
            numbering,
            resolvers,
            sites,
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
            By::Variable => (Shared::Number(number), self.variable(self.numbering.variable(number), "")?),
            By::Local => match self.numbering.local(number)? {
                LocalThing::Variable(id) => (Shared::Number(number), self.variable(id, "")?),
                LocalThing::Frame(function) => (Shared::Number(number), self.frame(function)),
                LocalThing::Local(function, offset) => {
                    (Shared::Number(number), self.local(function, offset)?)
                }
            },
            By::Field => {
                let (id, path) = self.numbering.field(number)?;
                let row = self.variable(id, &path)?;
                let family = any_element(&row.name).or(row.family);
                (Shared::Number(number), AccessRow { size: 0, family, ..row })
            }
            By::Function | By::Line => self.code(number)?,
            By::Allocation => self.site(number)?,
            By::Page => (Shared::Number(number), self.page(number)?),
            By::Region => self.region(number)?,
            By::Thread => (Shared::Number(number), self.thread(number)),
        };
        let several = matches!(self.by, By::Region);
        let rows = &mut self.rows;
        let place = *self.row_of.entry(shared).or_insert_with(|| {
            rows.push(AccessRow { things: if several { 0 } else { row.things }, ..row });
            rows.len() - 1
        });
        self.rows[place].things += u64::from(several);
        Some(place)
    }

    fn variable(&self, id: VariableId, path: &str) -> Option<AccessRow> {
        let variable = self.session.names().variable(id)?;
        let site = self.site_of(&variable);
        let module = match &site {
            Some(site) => site.module.clone(),
            None => variable.module.as_deref().unwrap_or("").to_owned(),
        };
        Some(AccessRow {
            name: format!("{}{path}", variable.name),
            region: variable.region.to_string(),
            size: variable.bytes,
            things: 1,
            owner: match site {
                Some(_) => Owner::of_module(&module),
                None => Owner::of_variable(&variable),
            },
            module,
            family: family(&variable),
            ..AccessRow::default()
        })
    }

    fn site_of(&self, variable: &Variable) -> Option<&Site> {
        let VariableKind::Block { process, block, .. } = variable.kind else { return None };
        let resolver = self.resolvers.iter().find(|resolver| resolver.process() == process)?;
        self.sites.get(&(process, resolver.heap().block(block)?.site))
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

    fn local(&self, function: FunctionId, offset: i64) -> Option<AccessRow> {
        let local = self.session.names().local(function, offset)?;
        let name = format!("{}::{}", self.function_name(function), local.name);
        Some(AccessRow { size: local.bytes, ..self.on_stack(function, name) })
    }

    fn code(&self, number: u32) -> Option<(Shared, AccessRow)> {
        let code = self.session.names().code(self.numbering.code(number))?;
        let module = code.module.as_deref().unwrap_or("");
        let function = code.function.as_deref().or(code.module.as_deref()).unwrap_or("[unknown]");
        let line = line_of(&code);
        let row = AccessRow {
            name: function.to_owned(),
            region: module.to_owned(),
            things: 1,
            line: line.clone(),
            module: module.to_owned(),
            owner: owner_of_function(function, module),
            ..AccessRow::default()
        };
        Some(match line.filter(|_| self.by == By::Line) {
            Some(line) => (Shared::Text(line.clone()), AccessRow { name: line, ..row }),
            None => (Shared::Function(code.function_id), row),
        })
    }

    fn site(&self, number: u32) -> Option<(Shared, AccessRow)> {
        let variable = self.session.names().variable(self.numbering.variable(number))?;
        let site = self.site_of(&variable)?;
        let name = format!("{} at {}", site.kind, site.place);
        // Processes that run the same program have the same sites.
        let all = self.sites.values().filter(|other| (other.kind, &other.place) == (site.kind, &site.place));
        let (things, size) = all.fold((0, 0), |sum, site| (sum.0 + site.blocks, sum.1 + site.bytes));
        let row = AccessRow {
            name: name.clone(),
            size,
            things,
            line: site.line.clone(),
            module: site.module.clone(),
            owner: Owner::of_module(&site.module),
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
        let row = AccessRow { name: name.clone(), region: kind, module, owner, ..AccessRow::default() };
        Some((Shared::Text(name), row))
    }

    fn thread(&self, number: u32) -> AccessRow {
        let thread = self.numbering.thread(number);
        let process = thread.map(|thread| thread.process).unwrap_or_default();
        let record = self.session.trace().processes().iter().find(|record| record.process == process);
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
pub(crate) fn family(variable: &Variable) -> Option<String> {
    let VariableKind::Block { state, .. } = variable.kind else { return None };
    // `<malloc0014@func1+230>`: the stem has seven characters, with the bracket.
    let (stem, place) = variable.name.split_once('@')?;
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = if state == BlockState::Live { stem } else { stem.trim_end_matches(':') };
    Some(format!("{stem}@{place}"))
}

/// The row of a page, without its count.
pub(super) fn page_row(resolvers: &[Resolver], process: ProcessId, page: memref::VirtAddr) -> AccessRow {
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

/// All allocation sites, with their lines where these are wanted: that reads debug information.
fn sites(resolvers: &[Resolver], with_lines: bool) -> HashMap<(ProcessId, SiteId), Site> {
    let mut all = HashMap::new();
    for resolver in resolvers {
        let mut named = resolver.clone();
        for (index, site) in resolver.heap().sites().iter().enumerate() {
            let code = named.code_name(site.ip);
            let code = code.as_deref();
            let new = Site {
                kind: site.kind,
                place: code.map_or_else(|| site.ip.to_string(), ToString::to_string),
                line: code.filter(|_| with_lines).and_then(line_of),
                module: code.and_then(|code| code.module.as_deref()).unwrap_or("").to_owned(),
                blocks: 0,
                bytes: 0,
            };
            all.insert((resolver.process(), SiteId(index as u32)), new);
        }
        for (_, block) in resolver.heap().blocks() {
            if let Some(site) = all.get_mut(&(resolver.process(), block.site)) {
                site.blocks += 1;
                site.bytes += block.len;
            }
        }
    }
    all
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
