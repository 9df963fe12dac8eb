//! Names for the accesses of a machine: the kernel's own symbols, and those of the guest's programs whose files are given.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use memref::VirtAddr;
use trace_format::Trace;

use super::boot::BootCode;
use super::process::{GuestMode, OwnedBy, Owner, by_owner, walk_owned};
use super::programs::ProgramPlaces;
use super::symbols::GuestSymbols;
use crate::{Count, Error};

/// Addresses whose names are at hand.
const NEAR: usize = 1 << 16;

/// What to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The function that makes the access.
    Function,
    /// The variable that is accessed.
    Variable,
}

/// The number of the name that an address has for an owner.
#[derive(Clone, Copy)]
struct NearName {
    owner: usize,
    mode: GuestMode,
    addr: VirtAddr,
    /// `usize::MAX` where nothing is known yet.
    name: usize,
}

impl NearName {
    const NONE: Self = Self { owner: usize::MAX, mode: GuestMode::Boot, addr: VirtAddr(0), name: usize::MAX };
}

/// Counts accesses by (mode, name).
///
/// # Errors
/// Where the trace can't be read.
pub fn by_name(
    trace: &Trace,
    named: Named,
    programs: &ProgramPlaces<'_>,
) -> Result<BTreeMap<(GuestMode, String), Count>, Error> {
    let mut names = GuestNames::new(trace, named, programs)?;
    let mut counts: Vec<Count> = Vec::new();
    walk_owned(trace, |by, access| {
        let addr = if named == Named::Function { access.ip } else { access.addr };
        let place = names.near(by, addr);
        if counts.len() <= place {
            counts.resize(place + 1, Count::default());
        }
        counts[place].add(access);
    })?;
    let mut all = BTreeMap::new();
    for (key, count) in names.into_list().into_iter().zip(counts) {
        *all.entry(key).or_insert_with(Count::default) += count;
    }
    Ok(all)
}

/// What the processes of a guest did in each mode, by name.
pub type CountsByProcess = BTreeMap<(Owner, GuestMode), BTreeMap<String, Count>>;

/// Counts accesses by process and mode, and of each by name.
///
/// # Errors
/// Where the trace can't be read.
pub fn by_process_and_name(
    trace: &Trace,
    named: Named,
    programs: &ProgramPlaces<'_>,
) -> Result<CountsByProcess, Error> {
    let mut names = GuestNames::new(trace, named, programs)?;
    let counts = by_owner(trace, |by, access| {
        let addr = if named == Named::Function { access.ip } else { access.addr };
        names.near(by, addr)
    })?;
    let mut all = CountsByProcess::new();
    for (owner, counts) in counts {
        for (number, count) in counts {
            let (mode, name) = names.name(number);
            let of_owner = all.entry((owner.clone(), mode)).or_default();
            *of_owner.entry(name.to_owned()).or_default() += count;
        }
    }
    Ok(all)
}

/// Names of addresses. Each has a number.
pub(super) struct GuestNames<'a> {
    symbols: Rc<GuestSymbols>,
    boot: BootCode,
    programs: Option<&'a ProgramPlaces<'a>>,
    named: Named,
    list: Vec<(GuestMode, String)>,
    numbers: HashMap<(GuestMode, String), usize>,
    near: Box<[NearName]>,
}

impl<'a> GuestNames<'a> {
    /// Of functions of the kernel alone.
    #[cfg(test)]
    pub(super) fn of_symbols(symbols: GuestSymbols) -> Self {
        Self {
            boot: BootCode::default(),
            symbols: Rc::new(symbols),
            programs: None,
            named: Named::Function,
            list: Vec::new(),
            numbers: HashMap::new(),
            near: vec![NearName::NONE; NEAR].into_boxed_slice(),
        }
    }

    pub(super) fn new(trace: &Trace, named: Named, programs: &'a ProgramPlaces<'a>) -> Result<Self, Error> {
        Self::with_symbols(trace, Rc::new(GuestSymbols::of(trace)?), named, programs)
    }

    /// With the kernel's symbols, which others may use too.
    pub(super) fn with_symbols(
        trace: &Trace,
        symbols: Rc<GuestSymbols>,
        named: Named,
        programs: &'a ProgramPlaces<'a>,
    ) -> Result<Self, Error> {
        Ok(Self {
            boot: match named {
                Named::Function => BootCode::new(trace, &symbols)?,
                // What runs before the kernel has no variables with names.
                Named::Variable => BootCode::default(),
            },
            symbols,
            programs: Some(programs),
            named,
            list: Vec::new(),
            numbers: HashMap::new(),
            near: vec![NearName::NONE; NEAR].into_boxed_slice(),
        })
    }

    /// The number of an address's name.
    #[inline]
    pub(super) fn near(&mut self, by: OwnedBy<'_>, addr: VirtAddr) -> usize {
        // The kernel's names are everybody's.
        let is_kernels = by.mode == GuestMode::Kernel && addr.is_of_kernel();
        let (owner, mode) = (if is_kernels { usize::MAX } else { by.number }, by.mode);
        let slot = (addr.0 ^ addr.0 >> 16) as usize % NEAR;
        let near = self.near[slot];
        if (near.owner, near.mode, near.addr) == (owner, mode, addr) && near.name != usize::MAX {
            return near.name;
        }
        let name = self.number(by, addr);
        self.near[slot] = NearName { owner, mode, addr, name };
        name
    }

    /// All names, by their numbers.
    pub(super) fn into_list(self) -> Vec<(GuestMode, String)> {
        self.list
    }

    /// The name of that number, and the mode that it is of.
    pub(super) fn name(&self, number: usize) -> (GuestMode, &str) {
        self.list.get(number).map_or((GuestMode::Boot, ""), |(mode, name)| (*mode, name))
    }

    fn number(&mut self, by: OwnedBy<'_>, addr: VirtAddr) -> usize {
        let key = (by.mode, self.make(by, addr));
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        self.list.push(key.clone());
        self.numbers.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    fn make(&mut self, by: OwnedBy<'_>, addr: VirtAddr) -> String {
        if addr.is_of_kernel() {
            let other = if GuestSymbols::MODULES.contains(&addr) { "[kernel module]" } else { "[kernel]" };
            let found = match self.named {
                Named::Function => self.symbols.name(addr).map(str::to_owned),
                Named::Variable => self.symbols.variable(addr),
            };
            return found.unwrap_or_else(|| other.to_owned());
        }
        if by.mode == GuestMode::Boot {
            return match self.named {
                Named::Function => self.boot.name(by.cpu, addr, &self.symbols),
                Named::Variable => "[boot]".to_owned(),
            };
        }
        let found =
            self.programs.and_then(|programs| programs.at(by.image, addr)).and_then(|(module, addr)| {
                match self.named {
                    Named::Function => module.function_at(addr).map(|symbol| symbol.raw_name.to_owned()),
                    Named::Variable => module.data_at(addr).map(|object| object.name),
                }
            });
        found.unwrap_or_else(|| format!("[{}]", by.owner.name))
    }
}
