//! What is watched, as the list for a traced process: each process whose program or libraries are mapped elsewhere has its own list.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use buffers::MAX_LIST_PATH_BYTES;
use buffers::list::{
    ABSOLUTE, CHOICE_STOP, CHOICE_THREAD, CHOICE_VALUE, KIND_ADDRESS, KIND_CHOICES, KIND_LOCAL,
};
use memref::VirtAddr;

use super::expression::WatchExpression;
use super::libraries::{FileIdentity, base_in, identity};
use super::names::{WatchNames, WatchPlace};
use crate::Error;
use crate::buffer_service::unique_name;

/// A file that goes with this value.
pub(super) struct Temporary(pub(super) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What an expression names, and what of it is watched.
#[derive(Clone, Copy, Debug)]
struct WatchedPlace {
    place: WatchPlace,
    /// Bit 0 reads, bit 1 writes; of the entry with choices, these.
    bits: u64,
    /// The number of the expression.
    expression: u64,
}

/// What all expressions name in a program.
fn resolve_all(names: &WatchNames, wanted: &[WatchExpression]) -> Result<Vec<WatchedPlace>, Error> {
    let mut all = Vec::with_capacity(wanted.len());
    for (number, expression) in wanted.iter().enumerate() {
        all.extend(watched(names.resolve(&expression.text)?, expression, number));
    }
    Ok(all)
}

/// Places that an expression names.
fn watched(
    places: Vec<WatchPlace>,
    expression: &WatchExpression,
    number: usize,
) -> impl Iterator<Item = WatchedPlace> {
    let (bits, expression) = (expression.kind.bits(), number as u64);
    places.into_iter().map(move |place| WatchedPlace { place, bits, expression })
}

/// What they name in a program that is not the one that they were written for: in its own module, or else in the libraries
/// in which the first program has them. That may be nothing, and addresses mean nothing there.
fn resolve_other(
    names: &WatchNames,
    wanted: &[WatchExpression],
    first: &[WatchedPlace],
) -> Vec<WatchedPlace> {
    let mut all: Vec<WatchedPlace> =
        first.iter().filter(|watched| watched.place.library.is_some()).copied().collect();
    for (number, expression) in wanted.iter().enumerate() {
        let mut found = names.resolve(&expression.text).unwrap_or_default();
        found.retain(|place| place.kind != KIND_ADDRESS);
        if !found.is_empty() {
            all.retain(|watched| watched.expression != number as u64);
        }
        all.extend(watched(found, expression, number));
    }
    all
}

/// An entry of the list, as [`buffers::list`] describes it.
struct ListEntry {
    flags: u64,
    address: u64,
    len: u64,
    number: u64,
    expression: u64,
}

impl ListEntry {
    /// The entry of a place in a process that has its libraries where `base` says; `None` where it lacks that one.
    fn of(watched: &WatchedPlace, base: impl Fn(FileIdentity) -> Option<VirtAddr>) -> Option<Self> {
        let WatchedPlace { place, bits, expression } = *watched;
        let WatchPlace { kind, address, len, number, library } = place;
        let flags = kind | bits << 8;
        let entry = Self { flags, address, len, number, expression };
        Some(match library.map(base) {
            None => entry,
            Some(base) if kind == KIND_LOCAL => Self { number: base?.0, ..entry },
            Some(base) => Self { flags: flags | ABSOLUTE, address: base?.offset(address).0, ..entry },
        })
    }
}

/// Writes them for a process that has its libraries where `base` says; what is in others is left out.
fn write_list(
    path: &Path,
    watched: &[WatchedPlace],
    choices: &HitChoices,
    base: impl Fn(FileIdentity) -> Option<VirtAddr>,
) -> Result<(), Error> {
    let file = File::options().write(true).create_new(true).open(path);
    let failed = || Error::file(path, "can't be written");
    let mut out = BufWriter::new(file.map_err(failed())?);
    let mut all: Vec<ListEntry> =
        watched.iter().filter_map(|watched| ListEntry::of(watched, &base)).collect();
    // In the order in which the tracer keeps them.
    all.sort_by_key(|entry| (entry.flags & 0xff, entry.flags & ABSOLUTE, entry.address));
    all.extend(ListEntry::of(&choices.place(), &base));
    for ListEntry { flags, address, len, number, expression } in all {
        for word in [flags, address, len, number, expression] {
            out.write_all(&word.to_le_bytes()).map_err(failed())?;
        }
    }
    out.flush().map_err(failed())
}

/// Which hits are told, and what happens at them.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitChoices {
    /// The process stops.
    pub stop: bool,
    /// Only those after which the bytes hold this.
    pub value: Option<u64>,
    /// Only those of this thread.
    pub thread: Option<u32>,
}

impl HitChoices {
    /// The entry of the list that holds them.
    fn place(&self) -> WatchedPlace {
        let chosen = |is_chosen: bool, bit: u64| if is_chosen { bit } else { 0 };
        let bits = chosen(self.stop, CHOICE_STOP)
            | chosen(self.value.is_some(), CHOICE_VALUE)
            | chosen(self.thread.is_some(), CHOICE_THREAD);
        let (address, len) = (self.value.unwrap_or(0), self.thread.unwrap_or(0).into());
        let place = WatchPlace { kind: KIND_CHOICES, address, len, number: 0, library: None };
        WatchedPlace { place, bits, expression: 0 }
    }
}

/// What is watched of one program.
struct ProgramList {
    places: Vec<WatchedPlace>,
    /// The list, where it is the same for all processes that run it.
    list: Option<Temporary>,
}

impl ProgramList {
    /// Whether each process needs a list of its own.
    fn has_libraries(&self) -> bool {
        self.places.iter().any(|watched| watched.place.library.is_some())
    }
}

/// The lists of all programs of a session, each written when its first process asks for it.
pub(super) struct WatchLists {
    wanted: Vec<WatchExpression>,
    choices: HitChoices,
    /// By their files, and the file of the first one.
    programs: Mutex<HashMap<FileIdentity, ProgramList>>,
    first: FileIdentity,
    /// Those of single processes.
    own: Mutex<Vec<Temporary>>,
    stamp: String,
    /// The first expression that names a thread-local variable.
    thread_local: Option<String>,
}

impl WatchLists {
    /// What is wanted of `program`, which has all of it.
    ///
    /// # Errors
    /// Where an expression names nothing there.
    pub(super) fn new(
        program: &Path,
        wanted: Vec<WatchExpression>,
        choices: HitChoices,
    ) -> Result<Self, Error> {
        let places = resolve_all(&WatchNames::open(program)?, &wanted)?;
        let local = places.iter().find(|watched| watched.place.kind == KIND_LOCAL);
        let thread_local =
            local.and_then(|local| wanted.get(local.expression as usize)).map(|wanted| wanted.text.clone());
        let first = identity(program).map_err(Error::file(program, "can't be read"))?;
        let programs = Mutex::new(HashMap::from([(first, ProgramList { places, list: None })]));
        let (own, stamp) = (Mutex::default(), unique_name());
        Ok(Self { wanted, choices, programs, first, own, stamp, thread_local })
    }

    /// An expression that only translated code can be watched for: it names a thread-local variable.
    pub(super) fn thread_local(&self) -> Option<&str> {
        self.thread_local.as_deref()
    }

    /// The expressions, by their number.
    pub(super) fn wanted(&self) -> &[WatchExpression] {
        &self.wanted
    }

    fn write(&self, name: &str, program: &ProgramList, pid: u32) -> Result<Temporary, Error> {
        let list = Temporary(PathBuf::from(format!("/tmp/{}-{name}.list", self.stamp)));
        write_list(&list.0, &program.places, &self.choices, |library| base_in(pid, library))?;
        Ok(list)
    }

    /// The path of the list for a process that waits for it, padded with zeros; nothing but zeros where there can be none.
    pub(super) fn path(&self, pid: u32) -> [u8; MAX_LIST_PATH_BYTES] {
        let mut bytes = [0; MAX_LIST_PATH_BYTES];
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(identity) = identity(&file) else { return bytes };
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let number = programs.len();
        if !programs.contains_key(&identity) {
            let first = programs.get(&self.first).map_or(&[][..], |program| &program.places);
            let names = WatchNames::of_module(&file);
            let places = names.map(|names| resolve_other(&names, &self.wanted, first));
            programs.insert(identity, ProgramList { places: places.unwrap_or_default(), list: None });
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
