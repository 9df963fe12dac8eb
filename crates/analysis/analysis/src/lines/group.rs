//! A summary of the shared lines. Lines that hold the same variables and are shared in the same way form
//! a group, with what each thread accesses there, from where, and what would have to be moved apart.

use std::collections::{BTreeMap, BTreeSet};

use memref::{ProcessId, ThreadId, VirtAddr};
use symbols::{CodeId, VariableId};

use super::LINE_BYTES;
use super::replayed::{LineUses, PartName, PartUse};
use crate::tally::{any_element, family};
use crate::{Count, Owner, Session};

/// How most changes of owner came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SharedBy {
    /// The threads used the same bytes.
    SameBytes,
    /// They used different bytes of one line.
    OtherBytes,
}

impl SharedBy {
    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::SameBytes => "true",
            Self::OtherBytes => "false",
        }
    }
}

/// What one thread accesses of the lines from one line of source.
#[derive(Clone, Debug)]
pub struct LinePart {
    /// The variable with its field, or a forged name.
    pub name: String,
    /// The first byte, from the start of its cache line, and how many; of the first such line.
    pub offset: u8,
    /// Bytes of an access.
    pub size: u8,
    /// Who.
    pub thread: ThreadId,
    /// The function, or what stands for it.
    pub function: String,
    /// The source file, where known.
    pub file: Option<String>,
    /// The line there.
    pub line: Option<u32>,
    /// How often.
    pub count: Count,
    /// Changes of owner at which it took or lost a line.
    pub changes: u64,
}

/// Names that the same threads use: they may lie together, but not with what others use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApartFrom {
    /// The threads.
    pub threads: Vec<ThreadId>,
    /// What they use.
    pub names: Vec<String>,
}

/// Lines that hold the same, shared in the same way.
#[derive(Clone, Debug)]
pub struct LineGroup {
    /// Whose.
    pub process: ProcessId,
    /// The first line.
    pub address: VirtAddr,
    /// How many lines.
    pub lines: u64,
    /// How most changes came about.
    pub shared_by: SharedBy,
    /// Changes of owner between threads that used the same bytes, in the order of the replay.
    pub true_changes: u64,
    /// Between threads that used different bytes.
    pub false_changes: u64,
    /// The most changes that there can have been.
    pub most_changes: u64,
    /// Accesses to these lines.
    pub count: Count,
    /// What lies there.
    pub names: Vec<String>,
    /// Who uses it, most changes first.
    pub parts: Vec<LinePart>,
    /// For false sharing: what has to lie apart. One entry where elements of one array have to.
    pub apart: Vec<ApartFrom>,
    /// Whose memory it is: the program's, where any code of the program uses it.
    pub owner: Owner,
}

/// The parts of one line that took part in changes, or use the same variable as one that did.
fn involved(uses: &LineUses) -> Vec<Vec<&PartUse>> {
    let mut changing: Vec<BTreeSet<VariableId>> = vec![BTreeSet::new(); uses.lines.len()];
    for part in uses.parts.iter().filter(|part| part.changes > 0) {
        changing[part.key.line as usize].insert(part.key.variable);
    }
    let mut parts: Vec<Vec<&PartUse>> = vec![Vec::new(); uses.lines.len()];
    for part in &uses.parts {
        let line = part.key.line as usize;
        if changing[line].contains(&part.key.variable) {
            parts[line].push(part);
        }
    }
    parts
}

/// The key of a group.
type Shape = (ProcessId, SharedBy, Vec<String>);

pub(super) fn groups(mut uses: LineUses, session: &Session) -> Vec<LineGroup> {
    let (marks, lines) = (&uses.marks, &mut uses.lines);
    let most: Vec<u64> = lines.iter_mut().map(|line| line.stretches.most(marks)).collect();
    let parts = involved(&uses);
    let mut shapes: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
    for (index, line) in uses.lines.iter().enumerate() {
        if line.true_changes + line.false_changes == 0 {
            continue;
        }
        let shared_by =
            if line.false_changes > line.true_changes { SharedBy::OtherBytes } else { SharedBy::SameBytes };
        let variables: BTreeSet<VariableId> = parts[index].iter().map(|part| part.key.variable).collect();
        let names: BTreeSet<String> = variables.into_iter().map(|id| stem(session, id)).collect();
        let shape = (uses.places[index].process, shared_by, names.into_iter().collect());
        shapes.entry(shape).or_default().push(index);
    }
    let mut all: Vec<LineGroup> = Vec::new();
    for ((process, shared_by, _), members) in shapes {
        let sum = |of: &dyn Fn(usize) -> u64| members.iter().map(|&line| of(line)).sum::<u64>();
        let address = members.iter().map(|&line| uses.places[line].line).min().unwrap_or(0) * LINE_BYTES;
        let (true_changes, false_changes) =
            (sum(&|line| uses.lines[line].true_changes), sum(&|line| uses.lines[line].false_changes));
        let used: Vec<&PartUse> = members.iter().flat_map(|&line| parts[line].iter().copied()).collect();
        let shown = named_parts(&uses, &used, members.len() > 1, session);
        all.push(LineGroup {
            process,
            address: VirtAddr(address),
            lines: members.len() as u64,
            shared_by,
            true_changes,
            false_changes,
            most_changes: sum(&|line| most[line]).max(true_changes + false_changes),
            count: used.iter().map(|part| part.count).sum(),
            names: names_of(&shown),
            apart: if shared_by == SharedBy::OtherBytes { apart(&shown) } else { Vec::new() },
            parts: shown,
            owner: owner(&used, session),
        });
    }
    all.sort_by(|a, b| b.most_changes.cmp(&a.most_changes).then_with(|| a.address.cmp(&b.address)));
    all
}

/// The name that a variable has with others of its kind.
fn stem(session: &Session, id: VariableId) -> String {
    let Some(variable) = session.names().variable(id) else { return String::new() };
    family(&variable, &variable.name).unwrap_or_else(|| variable.name.to_string())
}

/// Who uses it from where. Of several lines, blocks of one call and elements of one array have one name.
fn named_parts(uses: &LineUses, used: &[&PartUse], is_many: bool, session: &Session) -> Vec<LinePart> {
    let mut all: BTreeMap<(String, ThreadId, String, Option<u32>), LinePart> = BTreeMap::new();
    for part in used {
        let PartName { text: mut name, field } = uses.names[part.name as usize].clone();
        if is_many {
            let whole = session.names().variable(part.key.variable);
            if let Some(together) = whole.as_deref().and_then(|variable| family(variable, &variable.name)) {
                name = together + field.as_deref().unwrap_or_default();
            }
            name = any_element(&name).unwrap_or(name);
        }
        let (function, file, line) = place(session, part.key.code);
        let key = (name.clone(), part.key.thread, function.clone(), line);
        let one = all.entry(key).or_insert_with(|| LinePart {
            name,
            offset: part.key.first,
            size: part.key.bytes,
            thread: part.key.thread,
            function,
            file,
            line,
            count: Count::default(),
            changes: 0,
        });
        one.count += part.count;
        one.changes += part.changes;
    }
    let mut all: Vec<LinePart> = all.into_values().collect();
    all.sort_by_key(|part| std::cmp::Reverse((part.changes, part.count.accesses())));
    all
}

fn place(session: &Session, code: CodeId) -> (String, Option<String>, Option<u32>) {
    let Some(code) = session.names().code(code) else { return ("[unknown]".to_owned(), None, None) };
    let function = code.function.as_deref().or(code.module.as_deref()).unwrap_or("[unknown]").to_owned();
    let (file, line) = code.line().map_or((None, None), |(file, line)| (Some(file.to_owned()), line));
    (function, file, line)
}

/// The names in the order in which they lie.
fn names_of(parts: &[LinePart]) -> Vec<String> {
    let mut places: Vec<(u8, &String)> = parts.iter().map(|part| (part.offset, &part.name)).collect();
    places.sort_unstable();
    let mut names: Vec<String> = Vec::new();
    for (_, name) in places {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Names by the threads that take part in changes with them.
fn apart(parts: &[LinePart]) -> Vec<ApartFrom> {
    let mut threads: BTreeMap<&str, BTreeSet<ThreadId>> = BTreeMap::new();
    // One change can be a thread's that made the others and reads what they left.
    let busy = parts.iter().map(|part| part.changes).max().unwrap_or(0) / 8;
    for part in parts.iter().filter(|part| part.changes > busy) {
        threads.entry(&part.name).or_default().insert(part.thread);
    }
    let mut names: BTreeMap<Vec<ThreadId>, Vec<String>> = BTreeMap::new();
    for (name, users) in threads {
        names.entry(users.into_iter().collect()).or_default().push(name.to_owned());
    }
    names.into_iter().map(|(threads, names)| ApartFrom { threads, names }).collect()
}

/// The program's, where any code of the program uses memory of the program.
fn owner(parts: &[&PartUse], session: &Session) -> Owner {
    let changing = parts.iter().filter(|part| part.changes > 0);
    let owners = changing.filter_map(|part| {
        let memory =
            session.names().variable(part.key.variable).map(|variable| Owner::of_variable(&variable));
        let code = session.names().code(part.key.code)?;
        let code = code.module.as_deref().map_or(Owner::Program, Owner::of_module);
        Some(memory.filter(|memory| *memory != Owner::Program).unwrap_or(code))
    });
    owners.min().unwrap_or_default()
}
