//! What is watched: from expressions to the list that a traced process gets.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use buffers::MAX_LIST_PATH_BYTES;
use buffers::list::{
    ABSOLUTE, CHOICE_STOP, CHOICE_THREAD, CHOICE_VALUE, KIND_ADDRESS, KIND_CHOICES, KIND_LOCAL, KIND_MODULE,
    KIND_SITE,
};
use symbols::{Module, SearchPath};

use super::libraries::{self, Identity, Library, base_in, identity};
use crate as record;

/// A number in decimal, or in hexadecimal with 0x in front.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no number"))
}

/// One entry of the list that the traced program gets: see [`buffers::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u64,
    address: u64,
    len: u64,
    number: u64,
    /// The library that it is in, which may lie elsewhere in each process; `None`: the program's own module.
    library: Option<Identity>,
}

/// More runs of neighbouring pages than that are not closed one by one: the kernel has a limit of mappings, 65,530.
const MOST_RUNS: usize = 8192;
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "new", "alloc"];

/// Where expressions are looked up: in the program's own module, then in the libraries that it needs.
struct Names {
    module: Module,
    program: PathBuf,
    libraries: OnceCell<Vec<Library>>,
}

impl Names {
    fn open(program: &Path) -> Result<Self> {
        let module = Module::open(program, None, &SearchPath::default())
            .with_context(|| program.display().to_string())?;
        Ok(Self { module, program: program.to_owned(), libraries: OnceCell::new() })
    }

    /// Of a program's own module alone.
    fn of_module(program: &Path) -> Result<Self> {
        Ok(Self { libraries: OnceCell::from(Vec::new()), ..Self::open(program)? })
    }

    fn libraries(&self) -> &[Library] {
        self.libraries.get_or_init(|| libraries::of_program(&self.program))
    }

    /// What `find` finds in the program's module, else what it finds in a library. The error is the most telling one: it
    /// says what is wrong with something that is there, or has near names.
    fn look_up(&self, find: impl Fn(&Module) -> Found) -> Found {
        let mut problem = match find(&self.module) {
            Err(error) if is_unknown(&error) => error,
            found => return found,
        };
        for library in self.libraries() {
            let Some(module) = library.module() else { continue };
            match find(module) {
                Ok(mut found) => {
                    found.iter_mut().for_each(|entry| entry.library = Some(library.identity));
                    return Ok(found);
                }
                Err(error) if !is_unknown(&error) => return Err(error),
                Err(error) if !has_suggestions(&problem) && has_suggestions(&error) => problem = error,
                Err(_) => {}
            }
        }
        Err(problem)
    }

    /// What an expression names.
    fn resolve(&self, expression: &str) -> Result<Vec<Entry>> {
        if let Some(rest) = expression.strip_prefix("0x") {
            return Ok(vec![address(expression, rest)?]);
        }
        let told = |error: symbols::Error| match error {
            // It says which.
            symbols::Error::BadExpression { .. } => anyhow::Error::new(error),
            _ => anyhow::Error::new(error).context(expression.to_owned()),
        };
        let Some((allocator, site)) = expression.split_once('@') else {
            return self.look_up(|module| variables(module, expression)).map_err(told);
        };
        if !ALLOCATORS.contains(&allocator) {
            bail!("{expression}: {allocator} is no allocator; one of {} is", ALLOCATORS.join(", "));
        }
        let (function, number) = match site.split_once('#') {
            Some((function, nth)) => {
                let nth = number(nth).ok().filter(|&nth| nth > 0);
                (function, nth.ok_or_else(|| anyhow!("{expression}: blocks are counted from 1"))?)
            }
            None => (site, 0),
        };
        self.look_up(|module| functions(module, function, number)).map_err(told)
    }
}

type Found = Result<Vec<Entry>, symbols::Error>;

/// Whether a name is not there at all.
fn is_unknown(error: &symbols::Error) -> bool {
    matches!(error, symbols::Error::NoFunction { .. } | symbols::Error::NoVariable { .. })
}

fn has_suggestions(error: &symbols::Error) -> bool {
    match error {
        symbols::Error::NoFunction { suggestions, .. } | symbols::Error::NoVariable { suggestions, .. } => {
            !suggestions.is_empty()
        }
        _ => true,
    }
}

/// A range of addresses.
fn address(expression: &str, rest: &str) -> Result<Entry> {
    let (address, len) =
        rest.split_once(':').ok_or_else(|| anyhow!("{expression}: an address needs a length: 0xADDR:LEN"))?;
    let address = u64::from_str_radix(address, 16).map_err(|_| anyhow!("{expression}: not an address"))?;
    let len = number(len).map_err(|error| anyhow!("{expression}: {error}"))?;
    if len == 0 || address >> 47 != 0 || address + len > 1 << 47 {
        bail!("{expression}: not a range of a program's addresses");
    }
    if address < 4096 {
        bail!("{expression}: no memory is ever mapped there; give an address of the program's data or heap");
    }
    Ok(Entry { kind: KIND_ADDRESS, address, len, number: 0, library: None })
}

/// Addresses of a module are told from its first one on.
fn first_of(module: &Module) -> u64 {
    if module.is_fixed() { module.extent().0 } else { 0 }
}

fn variables(module: &Module, expression: &str) -> Found {
    let entry = |kind, address, len| Entry { kind, address, len, number: 0, library: None };
    match module.find_thread_local(expression) {
        Err(error) if is_unknown(&error) => {}
        found => {
            return found
                .map(|all| all.iter().map(|place| entry(KIND_LOCAL, place.addr.0, place.len)).collect());
        }
    }
    let places = module.find_variable(expression)?;
    let first = first_of(module);
    Ok(places.iter().map(|place| entry(KIND_MODULE, place.addr.0 - first, place.len)).collect())
}

fn functions(module: &Module, function: &str, number: u64) -> Found {
    let found = module.find_function(function)?;
    let first = first_of(module);
    let entry = |symbol: &symbols::Symbol<'_>| Entry {
        kind: KIND_SITE,
        address: symbol.address - first,
        len: symbol.bytes.max(1),
        number,
        library: None,
    };
    Ok(found.iter().map(entry).collect())
}

/// A file that goes with this value.
pub struct Temporary(pub PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The lines of a file that says what to watch.
pub fn read_list(path: &Path) -> Result<Vec<Wanted>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: can't be read"))?;
    let mut list = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (kind, expression) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let bits = match kind {
            "read" => 1,
            "write" => 2,
            "access" => 3,
            _ => bail!("{shown}:{}: a line is read, write or access, and an expression", index + 1),
        };
        list.push((expression.trim().to_owned(), bits));
    }
    Ok(list)
}

/// What an expression names, what of it is watched, and the number of the expression.
type Watched = (Entry, u64, u64);

/// What all expressions name in a program.
fn resolve_all(names: &Names, wanted: &[Wanted]) -> Result<Vec<Watched>> {
    let mut entries = Vec::with_capacity(wanted.len());
    for (id, (expression, bits)) in wanted.iter().enumerate() {
        entries.extend(names.resolve(expression)?.into_iter().map(|entry| (entry, *bits, id as u64)));
    }
    Ok(entries)
}

/// What they name in a program that is not the one that they were written for: in its own module, or else in the libraries
/// in which the first program has them. That may be nothing, and addresses mean nothing there.
fn resolve_other(names: &Names, wanted: &[Wanted], first: &[Watched]) -> Vec<Watched> {
    let mut entries: Vec<Watched> =
        first.iter().filter(|(entry, ..)| entry.library.is_some()).copied().collect();
    for (id, (expression, bits)) in wanted.iter().enumerate() {
        let id = id as u64;
        let mut found = names.resolve(expression).unwrap_or_default();
        found.retain(|entry| entry.kind != KIND_ADDRESS);
        if !found.is_empty() {
            entries.retain(|(.., other)| *other != id);
        }
        entries.extend(found.into_iter().map(|entry| (entry, *bits, id)));
    }
    entries
}

/// Writes them for a process that has its libraries where `base` says; what is in others is left out.
fn write_list(
    path: &Path,
    entries: &[Watched],
    choices: &Choices,
    base: impl Fn(Identity) -> Option<u64>,
) -> Result<()> {
    let file = File::options().write(true).create_new(true).open(path);
    let mut out = BufWriter::new(file.with_context(|| format!("{}: can't be written", path.display()))?);
    let mut all = Vec::with_capacity(entries.len() + 1);
    for &(entry, bits, id) in entries {
        let flags = entry.kind | bits << 8;
        let place = match entry.library {
            None => (flags, entry.address, entry.number),
            Some(library) => match (base(library), entry.kind) {
                (None, _) => continue,
                (Some(base), KIND_LOCAL) => (flags, entry.address, base),
                (Some(base), _) => (flags | ABSOLUTE, base + entry.address, entry.number),
            },
        };
        all.push((place, entry.len, id));
    }
    // In the order in which the tracer keeps them.
    all.sort_by_key(|((flags, address, _), ..)| (flags & 0xff, flags & ABSOLUTE, *address));
    let (entry, bits, id) = choices.entry();
    all.push(((entry.kind | bits << 8, entry.address, entry.number), entry.len, id));
    for ((flags, address, number), len, id) in all {
        for word in [flags, address, len, number, id] {
            out.write_all(&word.to_le_bytes())?;
        }
    }
    out.flush()?;
    Ok(())
}

/// An expression, and what of it: bit 0 reads, bit 1 writes.
pub type Wanted = (String, u64);

/// Which hits are told, and what happens at them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    /// The process stops.
    pub stop: bool,
    /// Only those after which the bytes hold this.
    pub value: Option<u64>,
    /// Only those of this thread.
    pub thread: Option<u32>,
}

impl Choices {
    fn entry(&self) -> (Entry, u64, u64) {
        let chosen = |is_chosen: bool, bit: u64| if is_chosen { bit } else { 0 };
        let bits = chosen(self.stop, CHOICE_STOP)
            | chosen(self.value.is_some(), CHOICE_VALUE)
            | chosen(self.thread.is_some(), CHOICE_THREAD);
        let (address, len) = (self.value.unwrap_or(0), self.thread.unwrap_or(0).into());
        (Entry { kind: KIND_CHOICES, address, len, number: 0, library: None }, bits, 0)
    }
}

/// What is watched of one program.
struct Program {
    entries: Vec<Watched>,
    /// The list, where it is the same for all processes that run it.
    list: Option<Temporary>,
}

impl Program {
    /// Whether each process needs a list of its own.
    fn has_libraries(&self) -> bool {
        self.entries.iter().any(|(entry, ..)| entry.library.is_some())
    }
}

/// The lists of all programs of a session, each written when its first process asks for it.
pub struct Lists {
    wanted: Vec<Wanted>,
    choices: Choices,
    /// By their files, and the file of the first one.
    programs: Mutex<HashMap<Identity, Program>>,
    first: Identity,
    /// Those of single processes.
    own: Mutex<Vec<Temporary>>,
    stamp: String,
    /// The first expression that names a thread-local variable.
    thread_local: Option<String>,
    /// Runs of neighbouring pages that hold watched bytes of the first program.
    runs: usize,
}

impl Lists {
    /// What is wanted of `program`, which has all of it.
    ///
    /// # Errors
    /// Where an expression names nothing there.
    pub fn new(program: &Path, wanted: Vec<Wanted>, choices: Choices) -> Result<Self> {
        let entries = resolve_all(&Names::open(program)?, &wanted)?;
        let local = entries.iter().find(|(entry, ..)| entry.kind == KIND_LOCAL);
        let thread_local =
            local.and_then(|(.., id)| wanted.get(*id as usize)).map(|(expression, _)| expression.clone());
        let runs = runs(&entries);
        let first = identity(program).with_context(|| program.display().to_string())?;
        let programs = Mutex::new(HashMap::from([(first, Program { entries, list: None })]));
        let (own, stamp) = (Mutex::default(), record::unique_name());
        Ok(Self { wanted, choices, programs, first, own, stamp, thread_local, runs })
    }

    /// An expression that only translated code can be watched for: it names a thread-local variable.
    pub fn thread_local(&self) -> Option<&str> {
        self.thread_local.as_deref()
    }

    /// Whether there are more stretches of watched pages than can be closed.
    pub fn is_scattered(&self) -> bool {
        self.runs > MOST_RUNS
    }

    /// The addresses among them.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.wanted.iter().filter_map(|(expression, _)| {
            let (address, len) = expression.strip_prefix("0x")?.split_once(':')?;
            Some((expression.as_str(), u64::from_str_radix(address, 16).ok()?, number(len).ok()?))
        })
    }

    /// The expressions, by their number.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    fn write(&self, name: &str, program: &Program, pid: u32) -> Result<Temporary> {
        let list = Temporary(PathBuf::from(format!("/tmp/{}-{name}.list", self.stamp)));
        write_list(&list.0, &program.entries, &self.choices, |library| base_in(pid, library))?;
        Ok(list)
    }

    /// The path of the list for a process that waits for it, padded with zeros; nothing but zeros where there can be none.
    pub fn path(&self, pid: u32) -> [u8; MAX_LIST_PATH_BYTES] {
        let mut bytes = [0; MAX_LIST_PATH_BYTES];
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(identity) = identity(&file) else { return bytes };
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let number = programs.len();
        if !programs.contains_key(&identity) {
            let first = programs.get(&self.first).map_or(&[][..], |program| &program.entries);
            let names = Names::of_module(&file);
            let entries = names.map(|names| resolve_other(&names, &self.wanted, first));
            programs.insert(identity, Program { entries: entries.unwrap_or_default(), list: None });
        }
        let Some(program) = programs.get_mut(&identity) else { return bytes };
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let list = if program.has_libraries() {
            let name = format!("of-{pid}-{}", own.len());
            own.extend(self.write(&name, program, pid).ok());
            own.last()
        } else {
            if program.list.is_none() {
                program.list = self.write(&number.to_string(), program, pid).ok();
            }
            program.list.as_ref()
        };
        let path = list.map(|list| list.0.as_os_str().as_encoded_bytes());
        if let Some(path) = path
            && path.len() < bytes.len()
            && let Some(place) = bytes.get_mut(..path.len())
        {
            place.copy_from_slice(path);
        }
        bytes
    }
}

/// Runs of neighbouring pages that hold watched bytes, of those whose place is known before the program runs.
fn runs(entries: &[Watched]) -> usize {
    let known = |kind| kind == KIND_ADDRESS || kind == KIND_MODULE;
    let mut pages: Vec<(u64, u64, u64)> = entries
        .iter()
        .filter(|(entry, ..)| known(entry.kind) && entry.library.is_none())
        .map(|(entry, ..)| (entry.kind, entry.address >> 12, (entry.address + entry.len - 1) >> 12))
        .collect();
    pages.sort_unstable();
    let mut count = 0;
    let mut last: Option<(u64, u64)> = None;
    for (kind, first, end) in pages {
        match &mut last {
            Some(last) if last.0 == kind && first <= last.1 + 1 => last.1 = last.1.max(end),
            _ => {
                count += 1;
                last = Some((kind, end));
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((number("0x10"), number("16")), (Ok(16), Ok(16)));
        assert!(number("ten").is_err());
    }

    #[test]
    fn neighbouring_pages_are_one_run() {
        let entry = |&(address, len): &(u64, u64)| {
            (Entry { kind: KIND_ADDRESS, address, len, number: 0, library: None }, 1, 0)
        };
        let check = |places: &[(u64, u64)], expect| {
            assert_eq!(runs(&places.iter().map(entry).collect::<Vec<_>>()), expect, "{places:x?}");
        };
        check(&[], 0);
        check(&[(0x1000, 4), (0x1ffc, 4), (0x2000, 4)], 1);
        check(&[(0x5000, 4), (0x1000, 4), (0x3000, 1)], 3);
        check(&[(0x1000, 0x4000), (0x2000, 4), (0x5000, 4)], 1);
    }
}
