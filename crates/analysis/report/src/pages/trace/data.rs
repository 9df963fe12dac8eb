//! The figures in the form that the page's script reads: tables as columns of numbers, names
//! as indices into one list of strings. The script's `model.js` describes how they are used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use analysis::machine::{GuestLinks, GuestPage, GuestPair, Machine};
use analysis::{
    AccessedThing, By, Count, InnermostFunction, InnermostFunctions, PageLink, Pages, ThingId, coverage,
};
use memref::{AllocationKind, ProcessId, VirtAddr};
use serde_json::{Value, json};
use symbols::{BlockState, CodeId, Resolver, SiteId, VariableKind};

use super::source::Excerpts;
use crate::export::Figures;
use crate::heatmap::{HeatMapLayout, LayoutPart, Only, physical_regions};

/// Things that are named on a page of the heat map.
const NAMES_A_PAGE: usize = 3;

/// The columns of the table of variables.
const VARIABLE_COLUMNS: [&str; 7] = [
    "variable_stem",
    "variable_number",
    "variable_name",
    "variable_region",
    "variable_module",
    "variable_size",
    "variable_thing",
];

/// The stems of blocks' names, without the number that follows.
const STEMS: [&str; 7] = ["<malloc", "<calloc", "<reallo", "<memmap", "<mremap", "<freed:", "<unmap:"];

fn stem(kind: AllocationKind, state: BlockState) -> usize {
    match (state, kind) {
        (BlockState::Freed, _) => 6,
        (BlockState::Unmapped, _) => 7,
        (BlockState::Live, AllocationKind::Calloc) => 2,
        (BlockState::Live, AllocationKind::Realloc) => 3,
        (BlockState::Live, AllocationKind::Mmap) => 4,
        (BlockState::Live, AllocationKind::Mremap) => 5,
        (BlockState::Live, _) => 1,
    }
}

/// The object that the script reads, as JSON that is harmless within a script element.
pub(super) fn of(figures: &Figures<'_>, guest: Option<&GuestLinks>) -> String {
    let mut page = PageColumns::default();
    let mut names = Strings::default();
    let sites = Sites::of(figures, &mut page, &mut names);
    let places;
    if let Some(guest) = guest {
        places = guest_tables(guest, &mut page, &mut names);
        let of_page = |(page, count): &(GuestPage, Count)| PageShare {
            process: ProcessId(0),
            page: page.page,
            thing: page.variable as u64,
            count: *count,
        };
        let layout = physical_layout(figures, guest);
        pages(&layout, guest.pages.iter().map(of_page), &mut page);
    } else {
        let things = things(figures, &sites, &mut page, &mut names);
        variables(figures, &things, &mut page, &mut names);
        places = self::places(figures, &things, &mut page, &mut names);
        let of_page = |link: PageLink| PageShare {
            process: link.process,
            page: link.page,
            thing: things.get(link.thing),
            count: link.count,
        };
        let layout =
            HeatMapLayout::new(figures.title(), &figures.regions(), figures.tally.pages(), Only::All);
        pages(&layout, figures.links.by_page().into_iter().map(of_page), &mut page);
    }
    files(&places, &mut page, &mut names);
    let mut text = format!("{{\"head\":{}", head(figures, guest.is_some()));
    page.columns.push(("strings", json_of(&names.list)));
    for (name, column) in page.columns {
        text.push_str(&format!(",\n{}:{column}", json!(name)));
    }
    text.push('}');
    // Within strings alone; an element of script ends at `</`, and `<!--` changes how it is read.
    text.replace('<', "\\u003c")
}

/// Columns in the order in which they were made, each as JSON.
#[derive(Default)]
struct PageColumns {
    columns: Vec<(&'static str, String)>,
}

impl PageColumns {
    fn numbers(&mut self, name: &'static str, numbers: &[u64]) {
        self.columns.push((name, json_of(numbers)));
    }

    /// Loads, stores, modifies and bytes, one row after the other.
    fn counts(&mut self, name: &'static str, counts: &[Count]) {
        let flat: Vec<u64> = counts.iter().flat_map(|c| [c.loads, c.stores, c.modifies, c.bytes]).collect();
        self.numbers(name, &flat);
    }
}

fn json_of<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Each string once.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    index: HashMap<String, u64>,
}

impl Strings {
    fn add(&mut self, text: &str) -> u64 {
        if let Some(&index) = self.index.get(text) {
            return index;
        }
        let index = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.index.insert(text.to_owned(), index);
        index
    }
}

/// What is there once.
fn head(figures: &Figures<'_>, machine: bool) -> Value {
    let summary = &figures.summary;
    let mut totals = vec![
        ("loads".to_owned(), summary.count.loads),
        ("stores".to_owned(), summary.count.stores),
        ("modifies".to_owned(), summary.count.modifies),
        ("bytes accessed".to_owned(), summary.count.bytes),
    ];
    let blocks = [("copies", summary.copies), ("fills", summary.fills), ("fetches", summary.fetches)];
    totals.extend(
        blocks
            .iter()
            .filter(|(_, n)| n.operations > 0)
            .map(|(name, n)| (format!("block {name}"), n.operations)),
    );
    totals.extend(summary.allocations.iter().map(|(kind, calls)| (format!("calls of {kind}"), *calls)));
    let gaps: BTreeMap<_, _> = summary.gaps.iter().filter(|(_, count)| **count > 0).collect();
    let of_count = |count: Count| json!([count.loads, count.stores, count.modifies, count.bytes]);
    let stale: Vec<Value> = figures
        .stale
        .findings()
        .iter()
        .map(|found| {
            json!({
                "block": found.variable, "code": found.code, "line": found.line,
                "released": found.released, "count": of_count(found.count),
            })
        })
        .collect();
    let double: Vec<Value> = figures
        .stale
        .double_frees
        .iter()
        .map(|found| json!({"block": found.block, "call": found.call, "released": found.released}))
        .collect();
    let threads: Vec<Value> =
        figures.rows(By::Thread).iter().map(|row| json!([row.name, of_count(row.count)])).collect();
    json!({
        "title": figures.title(),
        "machine": machine,
        "coverage": coverage(figures.session),
        "lacks": crate::shortfall(figures.session.trace()),
        "count": of_count(summary.count),
        "totals": totals,
        "missing": summary.missing(),
        "gaps": gaps,
        "stems": STEMS,
        "threads": threads,
        "stale": stale,
        "double_frees": double,
        "unknown_frees": figures.stale.unknown_frees,
    })
}

/// Allocation sites by their names: processes of one program have the same.
struct Sites {
    of: HashMap<(ProcessId, SiteId), u64>,
    /// The place of each call, as `make+12`.
    places: Vec<u64>,
}

impl Sites {
    fn of(figures: &Figures<'_>, page: &mut PageColumns, names: &mut Strings) -> Self {
        let mut sites = Self { of: HashMap::new(), places: Vec::new() };
        let mut by_name: HashMap<(AllocationKind, String), u64> = HashMap::new();
        let (mut kinds, mut lines) = (Vec::new(), Vec::new());
        let [mut blocks, mut bytes, mut live_blocks, mut live_bytes]: [Vec<u64>; 4] = Default::default();
        for resolver in &figures.resolvers {
            let heap = resolver.heap();
            for (index, site) in heap.sites().iter().enumerate() {
                let code = resolver.site_code(SiteId(index as u32));
                let code = code.and_then(|code| figures.session.names().code(code));
                let place = code.as_ref().map_or_else(|| site.ip.to_string(), |code| code.to_string());
                let key = (site.kind, place);
                let row = *by_name.entry(key).or_insert_with_key(|(kind, place)| {
                    sites.places.push(names.add(place));
                    kinds.push(names.add(kind.name()));
                    let line = code.as_ref().and_then(|code| {
                        let (file, line) = code.line()?;
                        Some(line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
                    });
                    lines.push(names.add(line.as_deref().unwrap_or("")));
                    for column in [&mut blocks, &mut bytes, &mut live_blocks, &mut live_bytes] {
                        column.push(0);
                    }
                    blocks.len() as u64 - 1
                });
                sites.of.insert((resolver.process(), SiteId(index as u32)), row);
            }
            for (id, block) in heap.blocks() {
                if let Some(&row) = sites.of.get(&(resolver.process(), block.site)) {
                    blocks[row as usize] += 1;
                    bytes[row as usize] = bytes[row as usize].saturating_add(block.len);
                    if heap.is_live(id) {
                        live_blocks[row as usize] += 1;
                        live_bytes[row as usize] = live_bytes[row as usize].saturating_add(block.len);
                    }
                }
            }
        }
        page.numbers("site_kind", &kinds);
        page.numbers("site_place", &sites.places);
        page.numbers("site_line", &lines);
        page.numbers("site_blocks", &blocks);
        page.numbers("site_bytes", &bytes);
        page.numbers("site_live_blocks", &live_blocks);
        page.numbers("site_live_bytes", &live_bytes);
        sites
    }
}

/// The things of the page. Sites that have one name are one.
struct Things {
    /// By their numbers in the analysis.
    of: Vec<u64>,
}

impl Things {
    fn get(&self, id: ThingId) -> u64 {
        self.of.get(id.0 as usize).copied().unwrap_or(0)
    }
}

fn things(figures: &Figures<'_>, sites: &Sites, page: &mut PageColumns, names: &mut Strings) -> Things {
    let (mut thing_name, mut thing_site) = (Vec::new(), Vec::new());
    let mut of_site: HashMap<u64, u64> = HashMap::new();
    let mut of = Vec::new();
    for thing in figures.links.things() {
        let next = thing_name.len() as u64;
        match thing {
            AccessedThing::Variable(variable) => {
                let variable = figures.session.names().variable(*variable);
                thing_name
                    .push(names.add(variable.as_deref().map_or("[unknown]", |variable| &variable.name)));
                thing_site.push(0);
                of.push(next);
            }
            AccessedThing::Site(process, site) => {
                let row = sites.of.get(&(*process, *site)).copied().unwrap_or(0);
                let id = *of_site.entry(row).or_insert(next);
                if id == next {
                    thing_name.push(sites.places.get(row as usize).copied().unwrap_or(0));
                    // 0 is none.
                    thing_site.push(row + 1);
                }
                of.push(id);
            }
        }
    }
    page.numbers("thing_name", &thing_name);
    page.numbers("thing_site", &thing_site);
    Things { of }
}

fn variables(figures: &Figures<'_>, things: &Things, page: &mut PageColumns, names: &mut Strings) {
    let mut rows: Vec<_> = figures
        .links
        .variables()
        .filter_map(|(id, count)| Some((id, count, figures.session.names().variable(id)?)))
        .collect();
    rows.sort_by(|a, b| {
        b.1.accesses().cmp(&a.1.accesses()).then_with(|| a.2.name.cmp(&b.2.name)).then(a.0.cmp(&b.0))
    });
    let of_process =
        |process| figures.resolvers.iter().find(|resolver: &&Resolver| resolver.process() == process);
    let mut columns: [Vec<u64>; 7] = Default::default();
    for (id, _, variable) in &rows {
        let mut name = 0;
        let (mut stem_of, mut number) = (0, 0);
        if let VariableKind::Block { process, block, state } = variable.kind {
            let heap = of_process(process).map(Resolver::heap);
            let site = heap.and_then(|heap| heap.site(heap.block(block)?.site));
            // Only the place: the stem and the number are numbers here.
            let place = variable.name.split_once('@').map(|(_, place)| place.trim_end_matches('>'));
            if let (Some(site), Some(place)) = (site, place) {
                stem_of = stem(site.kind, state) as u64;
                number = u64::from(block.number());
                name = names.add(place);
            }
        }
        if stem_of == 0 {
            name = names.add(&variable.name);
        }
        let thing = figures.links.thing_of(*id).map_or(0, |thing| things.get(thing));
        let region = names.add(variable.region.name());
        let module = names.add(variable.module.as_deref().unwrap_or(""));
        for (column, value) in
            columns.iter_mut().zip([stem_of, number, name, region, module, variable.bytes, thing])
        {
            column.push(value);
        }
    }
    for (title, column) in VARIABLE_COLUMNS.into_iter().zip(&columns) {
        page.numbers(title, column);
    }
    let counts: Vec<Count> = rows.iter().map(|(_, count, _)| *count).collect();
    page.counts("variable_counts", &counts);
}

/// The variables and functions of a machine. They have modes where others have regions and modules, and no lines.
fn guest_tables(guest: &GuestLinks, page: &mut PageColumns, names: &mut Strings) -> PlaceRows {
    let mut counts = vec![Count::default(); guest.variables.len()];
    for (pair, count) in &guest.pairs {
        counts[pair.variable] += *count;
    }
    let thing_name: Vec<u64> = guest.variables.iter().map(|(_, name)| names.add(name)).collect();
    page.numbers("thing_name", &thing_name);
    page.numbers("thing_site", &vec![0; thing_name.len()]);
    let mut order: Vec<usize> = (0..guest.variables.len()).collect();
    order.sort_by_key(|variable| {
        (std::cmp::Reverse(counts[*variable].accesses()), &guest.variables[*variable])
    });
    let mut columns: [Vec<u64>; 7] = Default::default();
    for variable in &order {
        let (mode, name) = &guest.variables[*variable];
        let row = [0, 0, names.add(name), names.add(mode.name()), names.add(""), 0, *variable as u64];
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    for (title, column) in VARIABLE_COLUMNS.into_iter().zip(&columns) {
        page.numbers(title, column);
    }
    page.counts("variable_counts", &order.iter().map(|variable| counts[*variable]).collect::<Vec<_>>());
    let functions = guest.functions.iter();
    page.numbers("function_name", &functions.clone().map(|(_, name)| names.add(name)).collect::<Vec<_>>());
    page.numbers("function_module", &functions.map(|(mode, _)| names.add(mode.name())).collect::<Vec<_>>());
    let no_file = names.add("");
    page.numbers("place_function", &(0..guest.functions.len() as u64).collect::<Vec<_>>());
    page.numbers("place_file", &vec![no_file; guest.functions.len()]);
    page.numbers("place_line", &vec![0; guest.functions.len()]);
    let of_pairs = |part: fn(&GuestPair) -> usize| guest.pairs.iter().map(move |(pair, _)| part(pair) as u64);
    page.numbers("pair_thing", &of_pairs(|pair| pair.variable).collect::<Vec<_>>());
    page.numbers("pair_place", &of_pairs(|pair| pair.function).collect::<Vec<_>>());
    page.counts("pair_counts", &guest.pairs.iter().map(|(_, count)| *count).collect::<Vec<_>>());
    PlaceRows::default()
}

/// Functions and lines: where instructions are.
#[derive(Default)]
struct PlaceRows {
    /// File, as its number of a string, and line; 0 where unknown.
    lines: BTreeMap<u64, BTreeSet<u32>>,
    /// Accesses by file.
    weights: HashMap<u64, u64>,
}

fn places(figures: &Figures<'_>, things: &Things, page: &mut PageColumns, names: &mut Strings) -> PlaceRows {
    let mut functions: HashMap<InnermostFunction, u64> = HashMap::new();
    let mut innermost = InnermostFunctions::new(figures.session.names());
    let (mut function_name, mut function_module) = (Vec::new(), Vec::new());
    let mut place_of: HashMap<(u64, u64, u32), u64> = HashMap::new();
    let mut columns: [Vec<u64>; 3] = Default::default();
    let mut of_code: HashMap<CodeId, Option<u64>> = HashMap::new();
    let mut pairs: BTreeMap<(u64, u64), Count> = BTreeMap::new();
    let mut found = PlaceRows::default();
    let mut links = figures.links.by_code();
    // So that numbers are the same in each run.
    links.sort_by_key(|link| (link.code, link.thing));
    for link in &links {
        let place = *of_code.entry(link.code).or_insert_with(|| {
            let code = figures.session.names().code(link.code)?;
            let (function, name) = innermost.of(link.code)?;
            let function = *functions.entry(function).or_insert_with(|| {
                function_name.push(names.add(&name));
                function_module.push(names.add(code.module.as_deref().unwrap_or("")));
                function_name.len() as u64 - 1
            });
            let (file, line) = code.line().unwrap_or(("", None));
            let (file, line) = (names.add(file), line.unwrap_or(0));
            Some(*place_of.entry((function, file, line)).or_insert_with(|| {
                for (column, value) in columns.iter_mut().zip([function, file, u64::from(line)]) {
                    column.push(value);
                }
                columns[0].len() as u64 - 1
            }))
        });
        let Some(place) = place else { continue };
        *pairs.entry((things.get(link.thing), place)).or_default() += link.count;
        let (file, line) = (columns[1][place as usize], columns[2][place as usize] as u32);
        if line > 0 {
            found.lines.entry(file).or_default().insert(line);
            *found.weights.entry(file).or_default() += link.count.accesses();
        }
    }
    page.numbers("function_name", &function_name);
    page.numbers("function_module", &function_module);
    for (name, column) in ["place_function", "place_file", "place_line"].into_iter().zip(&columns) {
        page.numbers(name, column);
    }
    page.numbers("pair_thing", &pairs.keys().map(|key| key.0).collect::<Vec<_>>());
    page.numbers("pair_place", &pairs.keys().map(|key| key.1).collect::<Vec<_>>());
    page.counts("pair_counts", &pairs.values().copied().collect::<Vec<_>>());
    found
}

/// Excerpts of the files, the most accessed ones first.
fn files(places: &PlaceRows, page: &mut PageColumns, names: &mut Strings) {
    let mut order: Vec<(&u64, &BTreeSet<u32>)> = places.lines.iter().collect();
    order.sort_by_key(|(file, _)| std::cmp::Reverse(places.weights.get(file).copied().unwrap_or(0)));
    let mut excerpts = Excerpts::default();
    let mut all = serde_json::Map::new();
    for (file, lines) in order {
        let Some(path) = names.list.get(*file as usize) else { continue };
        let parts = excerpts.of(Path::new(path), lines);
        if !parts.is_empty() {
            let parts: Vec<Value> = parts.iter().map(|part| json!([part.first, part.lines])).collect();
            all.insert(file.to_string(), Value::Array(parts));
        }
    }
    page.columns.push(("sources", json_of(&all)));
}

/// What was done to one thing on one page.
struct PageShare {
    process: ProcessId,
    page: u64,
    thing: u64,
    count: Count,
}

/// Where the pages of a machine's memory are.
fn physical_layout(figures: &Figures<'_>, guest: &GuestLinks) -> HeatMapLayout {
    let mut counted = Pages::default();
    for (GuestPage { page, .. }, count) in &guest.pages {
        counted.add_count(ProcessId(0), VirtAddr(page * VirtAddr::PAGE_BYTES), *count);
    }
    let end = guest.pages.last().map_or(0, |(page, _)| (page.page + 1) * VirtAddr::PAGE_BYTES);
    let regions = Machine::of(figures.session).map(|machine| physical_regions(&machine, end));
    HeatMapLayout::new(figures.title(), &regions.unwrap_or_default(), &counted, Only::All)
}

/// The heat map: its parts from top to bottom, and the pages that were accessed. Shares of a page come together, the greatest first.
fn pages(layout: &HeatMapLayout, shares: impl Iterator<Item = PageShare>, page: &mut PageColumns) {
    let parts: Vec<Value> = layout
        .parts
        .iter()
        .map(|part| match part {
            LayoutPart::Band { label, traced } => json!({"label": label, "traced": traced}),
            LayoutPart::Pages { label, process, start, cells, traced } => json!({
                "label": label, "traced": traced, "process": process.0,
                "page": start.page_number(), "pages": cells.len(),
            }),
        })
        .collect();
    page.columns.push(("parts", json_of(&parts)));
    let (mut process, mut number, mut counts) = (Vec::new(), Vec::new(), Vec::<Count>::new());
    let (mut names, mut last) = (Vec::<u64>::new(), None);
    let mut named = 0;
    for link in shares {
        if last != Some((link.process, link.page)) {
            last = Some((link.process, link.page));
            process.push(u64::from(link.process.0));
            number.push(link.page);
            counts.push(Count::default());
            names.extend([0; 2 * NAMES_A_PAGE]);
            named = 0;
        }
        if let Some(sum) = counts.last_mut() {
            *sum += link.count;
        }
        if named < NAMES_A_PAGE {
            let at = names.len() - 2 * (NAMES_A_PAGE - named);
            // 0 is none.
            names[at] = link.thing + 1;
            names[at + 1] = link.count.accesses();
            named += 1;
        }
    }
    page.numbers("page_process", &process);
    page.numbers("page_number", &number);
    page.numbers("page_names", &names);
    page.counts("page_counts", &counts);
}
