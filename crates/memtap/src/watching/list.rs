//! What is watched: from expressions to the list that a traced process gets.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use segment::MAX_LIST_PATH_BYTES;
use symbols::{Module, SearchPath};

use crate::record;

/// A number in decimal, or in hexadecimal with 0x in front.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no number"))
}

/// One entry of the list that the traced program gets: see `tracer-protect`, watchpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u64,
    address: u64,
    len: u64,
    number: u64,
}

const KIND_ADDRESS: u64 = 0;
const KIND_MODULE: u64 = 1;
const KIND_SITE: u64 = 2;
/// Not of an expression: [`Choices`].
const KIND_CHOICES: u64 = 3;
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "new", "alloc"];

/// What an expression names.
fn resolve(module: &Module, expression: &str) -> Result<Vec<Entry>> {
    if let Some(rest) = expression.strip_prefix("0x") {
        let (address, len) = rest
            .split_once(':')
            .ok_or_else(|| anyhow!("{expression}: an address needs a length: 0xADDR:LEN"))?;
        let address =
            u64::from_str_radix(address, 16).map_err(|_| anyhow!("{expression}: not an address"))?;
        let len = number(len).map_err(|error| anyhow!("{expression}: {error}"))?;
        if len == 0 || address >> 47 != 0 || address + len > 1 << 47 {
            bail!("{expression}: not a range of a program's addresses");
        }
        if address < 4096 {
            bail!(
                "{expression}: no memory is ever mapped there; give an address of the program's data or heap"
            );
        }
        return Ok(vec![Entry { kind: KIND_ADDRESS, address, len, number: 0 }]);
    }
    let first = if module.is_fixed() { module.extent().0 } else { 0 };
    if let Some((allocator, site)) = expression.split_once('@') {
        if !ALLOCATORS.contains(&allocator) {
            bail!("{expression}: {allocator} is no allocator; one of {} is", ALLOCATORS.join(", "));
        }
        let (function, nth) = match site.split_once('#') {
            Some((function, nth)) => {
                let nth = number(nth).ok().filter(|&nth| nth > 0);
                (function, nth.ok_or_else(|| anyhow!("{expression}: blocks are counted from 1"))?)
            }
            None => (site, 0),
        };
        let found = module.find_function(function).with_context(|| expression.to_owned())?;
        return Ok(found
            .iter()
            .map(|symbol| {
                let address = symbol.address - first;
                Entry { kind: KIND_SITE, address, len: symbol.bytes.max(1), number: nth }
            })
            .collect());
    }
    let places = module.find_variable(expression).map_err(|error| match error {
        // It says which.
        symbols::Error::BadExpression { .. } => anyhow::Error::new(error),
        _ => anyhow::Error::new(error).context(expression.to_owned()),
    })?;
    Ok(places
        .iter()
        .map(|place| Entry { kind: KIND_MODULE, address: place.addr.0 - first, len: place.len, number: 0 })
        .collect())
}

/// A file that goes with this value.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The lines of a file that says what to watch.
pub(crate) fn read_list(path: &Path) -> Result<Vec<Wanted>> {
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

/// Writes what resolves in a module. Of a program that is not the one that the expressions were written for that may be
/// nothing, and addresses mean nothing there.
fn write_list(
    path: &Path,
    module: &Module,
    wanted: &[Wanted],
    choices: &Choices,
    is_other: bool,
) -> Result<()> {
    let file = File::options().write(true).create_new(true).open(path);
    let mut out = BufWriter::new(file.with_context(|| format!("{}: can't be written", path.display()))?);
    let mut entries = Vec::with_capacity(wanted.len());
    for (id, (expression, bits)) in wanted.iter().enumerate() {
        let found = match resolve(module, expression) {
            Ok(found) => found,
            Err(_) if is_other => continue,
            Err(error) => return Err(error),
        };
        let found = found.into_iter().filter(|entry| !is_other || entry.kind != KIND_ADDRESS);
        entries.extend(found.map(|entry| (entry, *bits, id as u64)));
    }
    // In the order in which the tracer keeps them.
    entries.sort_by_key(|(entry, ..)| (entry.kind, entry.address));
    let choices = choices.entry();
    for (entry, bits, id) in entries.into_iter().chain([choices]) {
        for word in [entry.kind | bits << 8, entry.address, entry.len, entry.number, id] {
            out.write_all(&word.to_le_bytes())?;
        }
    }
    out.flush()?;
    Ok(())
}

/// An expression, and what of it: bit 0 reads, bit 1 writes.
pub(crate) type Wanted = (String, u64);

/// Which hits are told, and what happens at them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choices {
    /// The process stops.
    pub(crate) stop: bool,
    /// Only those after which the bytes hold this.
    pub(crate) value: Option<u64>,
    /// Only those of this thread.
    pub(crate) thread: Option<u32>,
}

impl Choices {
    fn entry(&self) -> (Entry, u64, u64) {
        let bits = u64::from(self.stop)
            | u64::from(self.value.is_some()) << 1
            | u64::from(self.thread.is_some()) << 2;
        let (address, len) = (self.value.unwrap_or(0), self.thread.unwrap_or(0).into());
        (Entry { kind: KIND_CHOICES, address, len, number: 0 }, bits, 0)
    }
}

/// The lists of all programs of a session, each written when its first process asks for it.
pub(crate) struct Lists {
    wanted: Vec<Wanted>,
    choices: Choices,
    /// Of each program by its file: device and number.
    files: Mutex<HashMap<(u64, u64), Temporary>>,
    stamp: String,
}

impl Lists {
    /// What is wanted of `program`, which has all of it.
    ///
    /// # Errors
    /// Where an expression names nothing there.
    pub(crate) fn new(program: &Path, wanted: Vec<Wanted>, choices: Choices) -> Result<Self> {
        let lists = Self { wanted, choices, files: Mutex::default(), stamp: record::unique_name() };
        let module = Module::open(program, None, &SearchPath::default())
            .with_context(|| program.display().to_string())?;
        let list = lists.write(0, &module, false)?;
        let identity = identity(program).with_context(|| program.display().to_string())?;
        lists.files.lock().unwrap_or_else(PoisonError::into_inner).insert(identity, list);
        Ok(lists)
    }

    /// The addresses among them.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.wanted.iter().filter_map(|(expression, _)| {
            let (address, len) = expression.strip_prefix("0x")?.split_once(':')?;
            Some((expression.as_str(), u64::from_str_radix(address, 16).ok()?, number(len).ok()?))
        })
    }

    /// The expressions, by their number.
    pub(crate) fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    fn write(&self, number: usize, module: &Module, is_other: bool) -> Result<Temporary> {
        let list = Temporary(PathBuf::from(format!("/tmp/{}-{number}.list", self.stamp)));
        write_list(&list.0, module, &self.wanted, &self.choices, is_other)?;
        Ok(list)
    }

    /// The path of the list for a process, padded with zeros; nothing but zeros where there can be none.
    pub(crate) fn path(&self, pid: u32) -> [u8; MAX_LIST_PATH_BYTES] {
        let mut bytes = [0; MAX_LIST_PATH_BYTES];
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(identity) = identity(&program) else { return bytes };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if !files.contains_key(&identity)
            && let Ok(module) = Module::open(&program, None, &SearchPath::default())
            && let Ok(list) = self.write(files.len(), &module, true)
        {
            files.insert(identity, list);
        }
        let path = files.get(&identity).map(|list| list.0.as_os_str().as_encoded_bytes());
        if let Some(path) = path
            && path.len() < bytes.len()
            && let Some(place) = bytes.get_mut(..path.len())
        {
            place.copy_from_slice(path);
        }
        bytes
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    path.metadata().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((number("0x10"), number("16")), (Ok(16), Ok(16)));
        assert!(number("ten").is_err());
    }
}
