//! Names for a machine's accesses: the kernel's own symbols, and those of the guest's programs whose files are given.

use std::collections::{BTreeMap, HashMap};

use memref::VirtAddr;
use symbols::{LinkAddr, Module};
use trace_format::Trace;

use super::process::{GuestMode, Owner, walk_owned};
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
    let mut names = GuestNames {
        symbols: GuestSymbols::of(trace)?,
        programs,
        named,
        list: Vec::new(),
        numbers: HashMap::new(),
    };
    let mut counts: Vec<Count> = Vec::new();
    for record in trace.threads() {
        let mut near = vec![NearName::NONE; NEAR];
        walk_owned(trace, record.thread, |number, owner, mode, access| {
            let addr = if named == Named::Function { access.ip } else { access.addr };
            let slot = &mut near[(addr.0 ^ addr.0 >> 16) as usize % NEAR];
            // The kernel's names are everybody's.
            let number = if mode == GuestMode::Kernel && addr.is_of_kernel() { usize::MAX } else { number };
            if (slot.owner, slot.mode, slot.addr) != (number, mode, addr) || slot.name == usize::MAX {
                *slot = NearName { owner: number, mode, addr, name: names.number(owner, mode, addr) };
            }
            let place = slot.name;
            if counts.len() <= place {
                counts.resize(place + 1, Count::default());
            }
            counts[place].add(access);
        })?;
    }
    let mut all = BTreeMap::new();
    for (key, count) in names.list.into_iter().zip(counts) {
        *all.entry(key).or_insert_with(Count::default) += count;
    }
    Ok(all)
}

struct GuestNames<'a> {
    symbols: GuestSymbols,
    programs: &'a [GuestProgram],
    named: Named,
    list: Vec<(GuestMode, String)>,
    numbers: HashMap<(GuestMode, String), usize>,
}

impl GuestNames<'_> {
    fn number(&mut self, owner: &Owner, mode: GuestMode, addr: VirtAddr) -> usize {
        let key = (mode, self.name(owner, mode, addr));
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        self.list.push(key.clone());
        self.numbers.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    fn name(&self, owner: &Owner, mode: GuestMode, addr: VirtAddr) -> String {
        if addr.is_of_kernel() {
            return self.symbols.name(addr).map_or_else(|| "[kernel]".to_owned(), str::to_owned);
        }
        if mode == GuestMode::Boot {
            return "[boot]".to_owned();
        }
        let program = self.programs.iter().find(|program| program.name == owner.name);
        let found = program.and_then(|program| match self.named {
            Named::Function => {
                program.module.function_at(LinkAddr(addr.0)).map(|symbol| symbol.raw_name.to_owned())
            }
            Named::Variable => program.module.data_at(LinkAddr(addr.0)).map(|object| object.name),
        });
        found.unwrap_or_else(|| format!("[{}]", owner.name))
    }
}
