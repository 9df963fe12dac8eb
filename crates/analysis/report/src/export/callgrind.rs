//! The profile format of Callgrind, for KCachegrind and callgrind_annotate:
//! functions with their lines, calls with what happened in them, and data.
//!
//! The format has only functions, so a variable is written as a function that the accessing functions call, once per access.
//! To avoid double counting, there are two families of events: `Loads`, `Stores`, `Modifies` and `Bytes` belong to the
//! accessing function, `DataLoads`, `DataStores` and `DataModifies` to the accessed data. The cost of a call includes both.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::{Count, DataTally, Session};

use super::{CallTree, TreeLine};

/// Figures of a line: the function's own and those of the data.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    own: Count,
    data: Count,
}

impl std::fmt::Display for Costs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (own, data) = (&self.own, &self.data);
        write!(f, "{} {} {} {}", own.loads, own.stores, own.modifies, own.bytes)?;
        write!(f, " {} {} {}", data.loads, data.stores, data.modifies)
    }
}

/// Calls from one line to one function.
#[derive(Clone, Copy, Debug, Default)]
struct CallCost {
    calls: u64,
    inclusive: Count,
}

/// What a function does, by line.
#[derive(Debug, Default)]
struct FunctionCosts {
    lines: BTreeMap<TreeLine, Count>,
    calls: BTreeMap<(TreeLine, u32), CallCost>,
    data: BTreeMap<(TreeLine, u32), Count>,
}

/// Writes the profile of a session.
///
/// # Errors
/// Where the output can't be written.
pub fn callgrind(
    session: &Session,
    tree: &CallTree,
    data: &DataTally,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut functions: BTreeMap<u32, FunctionCosts> = BTreeMap::new();
    let mut total = Count::default();
    let inclusive = tree.inclusive();
    for (index, node) in tree.nodes.iter().enumerate() {
        let costs = functions.entry(node.function).or_default();
        for (line, count) in &node.lines {
            *costs.lines.entry(*line).or_default() += count.count;
            total += count.count;
        }
        if index == 0 || node.parent == 0 {
            continue;
        }
        let caller = &tree.nodes[node.parent as usize];
        let call = functions.entry(caller.function).or_default().calls.entry((node.call, node.function));
        let call = call.or_default();
        call.calls += node.calls;
        // What happens in a function that runs already counts to the call that entered it first.
        if !tree.is_recursive(index as u32) {
            call.inclusive += inclusive[index].count;
        }
    }
    let mut objects: BTreeMap<(String, &str), (u32, Count)> = BTreeMap::new();
    for ((code, name, region), count) in data.by_code(session.names()) {
        let Some((function, line)) = tree.at(code) else { continue };
        let next = objects.len() as u32;
        let object = objects.entry((name, region)).or_insert((next, Count::default()));
        object.1 += count;
        let costs = functions.entry(function).or_default();
        *costs.data.entry((line, object.0)).or_default() += count;
    }
    header(session, total, out)?;
    let mut shown: Vec<(&str, &str)> = vec![("", ""); objects.len()];
    for ((name, region), (number, count)) in &objects {
        shown[*number as usize] = (name, region);
        let costs = Costs { data: *count, ..Costs::default() };
        writeln!(out, "ob=data: {region}\nfl={NO_FILE}\nfn={}\n0 {costs}\n", one_line(name))?;
    }
    for (function, costs) in &functions {
        write(tree, *function, costs, &shown, out)?;
    }
    writeln!(out, "totals: {}", Costs { own: total, data: total })
}

const NO_FILE: &str = "???";

fn header(session: &Session, total: Count, out: &mut dyn Write) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let title = one_line(crate::title(session));
    writeln!(out, "# callgrind format\nversion: 1\ncreator: memtap-{version}\ncmd: {title}\npart: 1\n")?;
    writeln!(out, "desc: Trigger: a trace of memtap\n\npositions: line")?;
    for (event, name) in [
        ("Loads", "loads"),
        ("Stores", "stores"),
        ("Modifies", "modifies (one access that reads and writes)"),
        ("Bytes", "bytes accessed"),
        ("DataLoads", "loads, by what is loaded"),
        ("DataStores", "stores, by what is stored to"),
        ("DataModifies", "modifies, by what is modified"),
        ("Accesses = Loads + Stores + Modifies", "accesses"),
        ("DataAccesses = DataLoads + DataStores + DataModifies", "accesses, by what is accessed"),
    ] {
        writeln!(out, "event: {event} : {name}")?;
    }
    writeln!(out, "events: Loads Stores Modifies Bytes DataLoads DataStores DataModifies")?;
    writeln!(out, "summary: {}\n", Costs { own: total, data: total })
}

fn write(
    tree: &CallTree,
    number: u32,
    costs: &FunctionCosts,
    objects: &[(&str, &str)],
    out: &mut dyn Write,
) -> io::Result<()> {
    if costs.lines.is_empty() && costs.calls.is_empty() {
        return Ok(());
    }
    let function = &tree.functions[number as usize];
    let file = |index: u32| if index == 0 { NO_FILE } else { &*tree.files[index as usize] };
    let module = |function: u32| tree.functions[function as usize].module.as_deref().unwrap_or(NO_FILE);
    writeln!(out, "ob={}\nfl={}\nfn={}", module(number), file(function.file), one_line(&function.name))?;
    let mut lines: Vec<TreeLine> = costs.lines.keys().copied().collect();
    lines.extend(costs.calls.keys().map(|(line, _)| *line));
    lines.extend(costs.data.keys().map(|(line, _)| *line));
    // The file of the function first: what lies in another one is told with a change of the file.
    lines.sort_by_key(|line| (line.file != function.file, *line));
    lines.dedup();
    let mut at = function.file;
    for line in lines {
        if line.file != at && line.file != 0 {
            writeln!(out, "{}={}", if line.file == function.file { "fe" } else { "fi" }, file(line.file))?;
            at = line.file;
        }
        if let Some(own) = costs.lines.get(&line) {
            writeln!(out, "{} {}", line.line, Costs { own: *own, ..Costs::default() })?;
        }
        for ((_, callee), call) in costs.calls.range((line, 0)..=(line, u32::MAX)) {
            let called = &tree.functions[*callee as usize];
            let inclusive = Costs { own: call.inclusive, data: call.inclusive };
            writeln!(
                out,
                "cob={}\ncfi={}\ncfn={}",
                module(*callee),
                file(called.file),
                one_line(&called.name)
            )?;
            // A function that was inlined is not called, but the format needs a number.
            writeln!(out, "calls={} 0\n{} {inclusive}", call.calls.max(1), line.line)?;
        }
        for ((_, object), count) in costs.data.range((line, 0)..=(line, u32::MAX)) {
            let (name, region) = objects[*object as usize];
            let cost = Costs { data: *count, ..Costs::default() };
            writeln!(out, "cob=data: {region}\ncfi={NO_FILE}\ncfn={}", one_line(name))?;
            writeln!(out, "calls={} 0\n{} {cost}", count.accesses().max(1), line.line)?;
        }
    }
    writeln!(out)
}

/// A name is a line of the format; one in round brackets would be a number.
fn one_line(name: &str) -> String {
    let name = name.replace(['\n', '\r'], " ");
    if name.starts_with('(') { format!(" {name}") } else { name }
}
