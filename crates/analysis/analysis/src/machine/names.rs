//! Names for a machine's accesses: the kernel's own symbols, and those of the guest's programs whose files are given.

use std::collections::{BTreeMap, HashMap};

use memref::{Access, VirtAddr};
use symbols::{LinkAddr, Module};
use trace_format::Trace;

use super::boot::BootCode;
use super::process::{GuestMode, OwnedBy, Owner, walk_owned};
use super::symbols::GuestSymbols;
use crate::{Count, Error};

/// Addresses whose names are at hand.
const NEAR: usize = 1 << 16;
/// The kernel keeps so many characters of a program's name.
const NAME_BYTES: usize = 15;

/// What to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The function that makes the access.
    Function,
    /// The variable that is accessed.
    Variable,
}

/// A program of the guest whose file is at hand.
#[derive(Debug)]
pub struct GuestProgram {
    name: String,
    module: Module,
}

impl GuestProgram {
    /// By the file's name, which is what the guest calls it. `None` where it is position-independent: then nothing says
    /// where it lay.
    pub fn new(name: &str, module: Module) -> Option<Self> {
        let mut end = name.len().min(NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        module.is_fixed().then(|| Self { name: name[..end].to_owned(), module })
    }
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
    programs: &[GuestProgram],
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
    for (key, count) in names.list.into_iter().zip(counts) {
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
    programs: &[GuestProgram],
) -> Result<CountsByProcess, Error> {
    let mut names = GuestNames::new(trace, named, programs)?;
    let mut counts: HashMap<Owner, HashMap<usize, Count>> = HashMap::new();
    let mut cpus: Vec<_> = trace.threads().iter().map(|_| PresentNames::default()).collect();
    walk_owned(trace, |by, access| {
        let addr = if named == Named::Function { access.ip } else { access.addr };
        let name = names.near(by, addr);
        let present = &mut cpus[by.cpu];
        if present.owner.as_ref().is_none_or(|(number, _)| *number != by.number) {
            present.settle(&mut counts);
            present.owner = Some((by.number, by.owner.clone()));
        }
        present.add(name, access);
    })?;
    cpus.iter_mut().for_each(|present| present.settle(&mut counts));
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

/// What a vCPU did for one owner until it came to the next, by the numbers of names.
#[derive(Default)]
struct PresentNames {
    owner: Option<(usize, Owner)>,
    counts: Vec<Count>,
    /// Those that are not zero.
    touched: Vec<usize>,
}

impl PresentNames {
    #[inline]
    fn add(&mut self, name: usize, access: &Access) {
        if self.counts.len() <= name {
            self.counts.resize(name + 1, Count::default());
        }
        if self.counts[name] == Count::default() {
            self.touched.push(name);
        }
        self.counts[name].add(access);
    }

    fn settle(&mut self, counts: &mut HashMap<Owner, HashMap<usize, Count>>) {
        let Some((_, owner)) = self.owner.take() else { return };
        let of_owner = counts.entry(owner).or_default();
        for name in self.touched.drain(..) {
            *of_owner.entry(name).or_default() += std::mem::take(&mut self.counts[name]);
        }
    }
}

/// Names of addresses. Each has a number.
pub(super) struct GuestNames<'a> {
    symbols: GuestSymbols,
    boot: BootCode,
    programs: &'a [GuestProgram],
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
            symbols,
            programs: &[],
            named: Named::Function,
            list: Vec::new(),
            numbers: HashMap::new(),
            near: vec![NearName::NONE; NEAR].into_boxed_slice(),
        }
    }

    pub(super) fn new(trace: &Trace, named: Named, programs: &'a [GuestProgram]) -> Result<Self, Error> {
        let symbols = GuestSymbols::of(trace)?;
        Ok(Self {
            boot: BootCode::new(trace, &symbols)?,
            symbols,
            programs,
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
            return self.symbols.name(addr).unwrap_or(other).to_owned();
        }
        if by.mode == GuestMode::Boot {
            return match self.named {
                Named::Function => self.boot.name(by.cpu, addr, &self.symbols),
                Named::Variable => "[boot]".to_owned(),
            };
        }
        let program = self.programs.iter().find(|program| program.name == by.owner.name);
        let found = program.and_then(|program| match self.named {
            Named::Function => {
                program.module.function_at(LinkAddr(addr.0)).map(|symbol| symbol.raw_name.to_owned())
            }
            Named::Variable => program.module.data_at(LinkAddr(addr.0)).map(|object| object.name),
        });
        found.unwrap_or_else(|| format!("[{}]", by.owner.name))
    }
}
