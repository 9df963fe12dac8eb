//! Counts by variable, function, allocation, page, region and thread.

use std::collections::{BTreeMap, HashMap};

use memref::{Access, ProcessId, ThreadId};
use symbols::{CodeId, Resolver, SiteId, VariableId, VariableKind};

use crate::{Count, Error, Moment, Pages, Session, Tool};

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A static variable, or one heap block.
    Variable,
    /// A variable's field or element, where debug information tells.
    Field,
    /// A function that makes accesses.
    Function,
    /// A call that allocates: all its blocks together.
    Allocation,
    /// A page.
    Page,
    /// A region.
    Region,
    /// A thread.
    Thread,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRow {
    /// What was accessed, or who accessed.
    pub name: String,
    /// The kind of memory, where the row has one.
    pub region: String,
    /// How often.
    pub count: Count,
    /// Size in bytes of what was accessed, where that is known.
    pub size: u64,
    /// How many things the row stands for: blocks of a site; else 1.
    pub things: u64,
    /// Source file and line, where the row has one.
    pub line: Option<String>,
}

/// Counts everything in one pass; asks only for the names that are wanted.
#[derive(Debug)]
pub struct Tally {
    wanted: Vec<By>,
    variables: Vec<Count>,
    fields: HashMap<(VariableId, std::sync::Arc<str>), Count>,
    codes: Vec<Count>,
    threads: BTreeMap<ThreadId, (ProcessId, Count)>,
    pages: Pages,
}

fn slot<T: Clone + Default>(list: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

impl Tally {
    /// Counts for these tables.
    pub fn new(wanted: &[By]) -> Self {
        Self {
            wanted: wanted.to_vec(),
            variables: Vec::new(),
            fields: HashMap::new(),
            codes: Vec::new(),
            threads: BTreeMap::new(),
            pages: Pages::default(),
        }
    }

    fn wants(&self, any: &[By]) -> bool {
        self.wanted.iter().any(|by| any.contains(by))
    }

    /// Adds accesses of an instruction.
    pub(crate) fn add_code(&mut self, code: CodeId, count: Count) {
        *slot(&mut self.codes, code.0) += count;
    }

    /// Adds accesses of a thread.
    pub(crate) fn add_thread(&mut self, thread: ThreadId, process: ProcessId, count: Count) {
        self.threads.entry(thread).or_insert((process, Count::default())).1 += count;
    }

    /// With counts by page that are known already.
    pub fn of_pages(pages: Pages) -> Self {
        Self { pages, ..Self::new(&[By::Page]) }
    }

    /// Counts by page.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The rows of a table, most accessed first, equals by name.
    pub fn rows(&self, by: By, session: &Session, resolvers: &[Resolver]) -> Vec<AccessRow> {
        let mut rows = match by {
            By::Variable => self.by_variable(session),
            By::Field => self.by_field(session),
            By::Function => self.by_function(session),
            By::Allocation => self.by_allocation(session, resolvers),
            By::Page => self.by_page(resolvers),
            By::Region => self.by_region(session),
            By::Thread => self.by_thread(session),
        };
        rows.retain(|row| row.count.accesses() > 0);
        rows.sort_by(|a, b| b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    fn each_variable(&self) -> impl Iterator<Item = (VariableId, Count)> + '_ {
        let counts = self.variables.iter().enumerate();
        counts.filter(|(_, count)| count.accesses() > 0).map(|(id, count)| (VariableId(id as u32), *count))
    }

    fn by_variable(&self, session: &Session) -> Vec<AccessRow> {
        let mut rows = Vec::new();
        for (id, count) in self.each_variable() {
            let Some(variable) = session.names().variable(id) else { continue };
            rows.push(AccessRow {
                name: variable.name.to_string(),
                region: variable.region.to_string(),
                count,
                size: variable.bytes,
                things: 1,
                line: None,
            });
        }
        rows
    }

    fn by_field(&self, session: &Session) -> Vec<AccessRow> {
        let mut rows = Vec::new();
        for ((id, path), count) in &self.fields {
            let Some(variable) = session.names().variable(*id) else { continue };
            rows.push(AccessRow {
                name: format!("{}{path}", variable.name),
                region: variable.region.to_string(),
                count: *count,
                size: 0,
                things: 1,
                line: None,
            });
        }
        rows
    }

    fn by_function(&self, session: &Session) -> Vec<AccessRow> {
        let mut functions: HashMap<symbols::FunctionId, AccessRow> = HashMap::new();
        for (index, count) in self.codes.iter().enumerate().filter(|(_, count)| count.accesses() > 0) {
            let Some(code) = session.names().code(CodeId(index as u32)) else { continue };
            let row = functions.entry(code.function_id).or_insert_with(|| AccessRow {
                name: code.function.as_deref().or(code.module.as_deref()).unwrap_or("[unknown]").to_owned(),
                region: code.module.as_deref().unwrap_or("").to_owned(),
                count: Count::default(),
                size: 0,
                things: 1,
                line: code
                    .line()
                    .map(|(file, line)| line.map_or_else(|| file.to_owned(), |n| format!("{file}:{n}"))),
            });
            row.count += *count;
        }
        functions.into_values().collect()
    }

    fn by_allocation(&self, session: &Session, resolvers: &[Resolver]) -> Vec<AccessRow> {
        let mut sites: HashMap<String, AccessRow> = HashMap::new();
        let mut counts: HashMap<(ProcessId, SiteId), Count> = HashMap::new();
        for (id, count) in self.each_variable() {
            let Some(variable) = session.names().variable(id) else { continue };
            let VariableKind::Block { process, block, .. } = variable.kind else { continue };
            let Some(resolver) = resolvers.iter().find(|resolver| resolver.process() == process) else {
                continue;
            };
            let Some(block) = resolver.heap().block(block) else { continue };
            *counts.entry((process, block.site)).or_default() += count;
        }
        for resolver in resolvers {
            let mut resolver = resolver.clone();
            let mut totals: HashMap<SiteId, (u64, u64)> = HashMap::new();
            for (_, block) in resolver.heap().blocks() {
                let total = totals.entry(block.site).or_default();
                total.0 += 1;
                total.1 += block.len;
            }
            for (site, (blocks, bytes)) in totals {
                let Some(ip) = resolver.heap().site(site).map(|site| (site.ip, site.kind)) else { continue };
                let code = resolver.code_name(ip.0);
                let place = code.as_ref().map_or_else(|| ip.0.to_string(), |code| code.to_string());
                let name = format!("{} at {place}", ip.1);
                let row = sites.entry(name.clone()).or_insert_with(|| AccessRow {
                    name,
                    region: String::new(),
                    count: Count::default(),
                    size: 0,
                    things: 0,
                    line: code.as_ref().and_then(|code| {
                        code.line().map(|(file, line)| {
                            line.map_or_else(|| file.to_owned(), |n| format!("{file}:{n}"))
                        })
                    }),
                });
                row.things += blocks;
                row.size += bytes;
                row.count += counts.get(&(resolver.process(), site)).copied().unwrap_or_default();
            }
        }
        sites.into_values().collect()
    }

    fn by_page(&self, resolvers: &[Resolver]) -> Vec<AccessRow> {
        let several = resolvers.len() > 1;
        let region = |process, page| {
            let resolver: &Resolver = resolvers.iter().find(|resolver| resolver.process() == process)?;
            let regions = resolver.image().regions();
            // At the end of the run it may be unmapped: then the last region that was there.
            let now = resolver.image().region_at(page).and_then(|id| regions.region(id));
            now.or_else(|| {
                regions.regions().iter().rev().find(|r| r.start <= page && page.0 < r.start.0 + r.len)
            })
        };
        let touched = self.pages.touched().into_iter();
        touched
            .map(|(process, page, count)| {
                let found = region(process, page);
                AccessRow {
                    name: if several { format!("process {} {page}", process.0) } else { page.to_string() },
                    region: found.map_or_else(String::new, |region| region.kind.to_string()),
                    count,
                    size: memref::VirtAddr::PAGE_BYTES,
                    things: 1,
                    line: None,
                }
            })
            .collect()
    }

    fn by_region(&self, session: &Session) -> Vec<AccessRow> {
        let mut regions: BTreeMap<(String, String), AccessRow> = BTreeMap::new();
        for (id, count) in self.each_variable() {
            let Some(variable) = session.names().variable(id) else { continue };
            let module = variable.module.as_deref().unwrap_or("").to_owned();
            let kind = variable.region.to_string();
            let name = if module.is_empty() { format!("[{kind}]") } else { format!("{module} {kind}") };
            let row = regions.entry((kind.clone(), module)).or_insert_with(|| AccessRow {
                name,
                region: kind,
                count: Count::default(),
                size: 0,
                things: 0,
                line: None,
            });
            row.count += count;
            row.things += 1;
        }
        regions.into_values().collect()
    }

    fn by_thread(&self, session: &Session) -> Vec<AccessRow> {
        let name = |process: ProcessId, thread: ThreadId| {
            let record = session.trace().processes().iter().find(|record| record.process == process);
            let exe = record.map_or("", |record| record.exe.rsplit('/').next().unwrap_or(""));
            format!("thread {} ({exe}, process {})", thread.0, process.0)
        };
        let threads = self.threads.iter();
        threads
            .map(|(&thread, &(process, count))| AccessRow {
                name: name(process, thread),
                region: String::new(),
                count,
                size: 0,
                things: 1,
                line: None,
            })
            .collect()
    }
}

impl Tool for Tally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        if self.wants(&[By::Variable, By::Allocation, By::Region]) {
            for access in accesses {
                let name = at.resolver.resolve_data(access.addr);
                slot(&mut self.variables, name.variable.0).add(access);
            }
        }
        if self.wants(&[By::Field]) {
            for access in accesses {
                let name = at.resolver.resolve_data(access.addr);
                let path = at.resolver.field_path(access.addr, access.size).unwrap_or_default();
                self.fields.entry((name.variable, path)).or_default().add(access);
            }
        }
        if self.wants(&[By::Function]) {
            for access in accesses {
                let code = at.resolver.resolve_code(access.ip);
                slot(&mut self.codes, code.0).add(access);
            }
        }
        if self.wants(&[By::Page]) {
            self.pages.add(at.process, accesses);
        }
        if self.wants(&[By::Thread]) {
            let entry = self.threads.entry(at.thread).or_insert((at.process, Count::default()));
            for access in accesses {
                entry.1.add(access);
            }
        }
        Ok(())
    }
}
