//! Resolves expressions to places: names are looked up in the program's own module, then in the libraries that it needs.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use buffers::list::{KIND_ADDRESS, KIND_LOCAL, KIND_MODULE, KIND_SITE};
use memref::VirtAddr;
use symbols::{Module, SearchPath};

use super::expression::parse_number;
use super::libraries::{self, FileIdentity, NeededLibrary};
use crate::Error;

/// The end of the addresses that programs have.
const USER_END: u64 = 1 << 47;
/// The first address at which the kernel maps anything for a program (`vm.mmap_min_addr` is a page at least).
const LOWEST: u64 = VirtAddr::PAGE_BYTES;
/// A place that an expression names, as the list that the traced program gets has it: see [`buffers::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchPlace {
    /// What `address` is told from.
    pub(super) kind: u64,
    pub(super) address: u64,
    pub(super) len: u64,
    /// Which of the blocks that are allocated there; zero: all of them.
    pub(super) number: u64,
    /// The library that it is in, which may lie elsewhere in each process; `None`: the program's own module.
    pub(super) library: Option<FileIdentity>,
}

const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "new", "alloc"];

/// Where expressions are looked up: in the program's own module, then in the libraries that it needs.
pub(super) struct WatchNames {
    module: Module,
    program: PathBuf,
    libraries: OnceCell<Vec<NeededLibrary>>,
}

impl WatchNames {
    pub(super) fn open(program: &Path) -> Result<Self, Error> {
        let module = Module::open(program, None, &SearchPath::default())
            .map_err(|source| Error::Symbols { path: program.into(), source })?;
        Ok(Self { module, program: program.to_owned(), libraries: OnceCell::new() })
    }

    /// Of a program's own module alone.
    pub(super) fn of_module(program: &Path) -> Result<Self, Error> {
        Ok(Self { libraries: OnceCell::from(Vec::new()), ..Self::open(program)? })
    }

    fn libraries(&self) -> &[NeededLibrary] {
        self.libraries.get_or_init(|| libraries::of_program(&self.program))
    }

    /// What `find` finds in the program's module, else what it finds in a library. The error is the most telling one: it
    /// says what is wrong with something that is there, or has near names.
    fn look_up(&self, find: impl Fn(&Module) -> FoundPlaces) -> FoundPlaces {
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
    pub(super) fn resolve(&self, expression: &str) -> Result<Vec<WatchPlace>, Error> {
        if let Some(rest) = expression.strip_prefix("0x") {
            return Ok(vec![address(expression, rest)?]);
        }
        let told = |error: symbols::Error| match error {
            // It says which.
            symbols::Error::BadExpression { .. } => Error::BadExpression(error),
            source => Error::Name { expression: expression.to_owned(), source },
        };
        let Some((allocator, site)) = expression.split_once('@') else {
            return self.look_up(|module| variables(module, expression)).map_err(told);
        };
        if !ALLOCATORS.contains(&allocator) {
            let why = format!("{allocator} is not an allocator; memtap knows {}", ALLOCATORS.join(", "));
            return Err(wrong(expression, why));
        }
        let (function, number) = match site.split_once('#') {
            Some((function, nth)) => {
                let nth = parse_number(nth).ok().filter(|&nth| nth > 0);
                (function, nth.ok_or_else(|| wrong(expression, "blocks are counted from 1"))?)
            }
            None => (site, 0),
        };
        self.look_up(|module| functions(module, function, number)).map_err(told)
    }
}

type FoundPlaces = Result<Vec<WatchPlace>, symbols::Error>;

fn wrong(expression: &str, why: impl Into<String>) -> Error {
    Error::Expression { expression: expression.to_owned(), why: why.into() }
}

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
fn address(expression: &str, rest: &str) -> Result<WatchPlace, Error> {
    let (address, len) =
        rest.split_once(':').ok_or_else(|| wrong(expression, "an address needs a length: 0xADDR:LEN"))?;
    let address = u64::from_str_radix(address, 16).map_err(|_| wrong(expression, "not an address"))?;
    let len = parse_number(len).map_err(|error| wrong(expression, error))?;
    if len == 0 || address >= USER_END || len > USER_END - address {
        return Err(wrong(expression, "not a range of a program's addresses"));
    }
    if address < LOWEST {
        let why = "no memory is ever mapped there; give an address of the program's data or heap";
        return Err(wrong(expression, why));
    }
    Ok(WatchPlace { kind: KIND_ADDRESS, address, len, number: 0, library: None })
}

fn variables(module: &Module, expression: &str) -> FoundPlaces {
    let entry = |kind, address, len| WatchPlace { kind, address, len, number: 0, library: None };
    match module.find_thread_local(expression) {
        Err(error) if is_unknown(&error) => {}
        found => {
            return found
                .map(|all| all.iter().map(|place| entry(KIND_LOCAL, place.addr.0, place.len)).collect());
        }
    }
    let places = module.find_variable(expression)?;
    Ok(places.iter().map(|place| entry(KIND_MODULE, module.mapped_offset(place.addr), place.len)).collect())
}

fn functions(module: &Module, function: &str, number: u64) -> FoundPlaces {
    let found = module.find_function(function)?;
    let entry = |symbol: &symbols::Symbol<'_>| WatchPlace {
        kind: KIND_SITE,
        address: module.mapped_offset(symbol.address),
        len: symbol.bytes.max(1),
        number,
        library: None,
    };
    Ok(found.iter().map(entry).collect())
}
