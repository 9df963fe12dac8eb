//! Numbers for names, so that tables count by number and look up names at the end.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use elf::LinkAddr;
use memref::{ProcessId, RegionKind, VirtAddr};

use crate::{
    BlockId, BlockState, FoundLocal, LineFrame, LocalId, LocalVariable, Module, RegionId, TypeLayout,
};

/// A variable of the session: a static variable, a heap block in one state, a section or a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// An instruction of the session: a module and an address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeId(pub u32);

/// A function of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VariableKind {
    /// A variable or constant of a module.
    Static,
    /// A dynamic block of a process.
    Block {
        /// Whose.
        process: ProcessId,
        /// Which.
        block: BlockId,
        /// Whether it was live when it was accessed.
        state: BlockState,
    },
    /// A part of a module that has no symbols: a section.
    Section,
    /// Memory of a process without a better name.
    Region {
        /// Whose.
        process: ProcessId,
        /// Which.
        region: RegionId,
    },
    /// No region was known at the address.
    Nowhere,
}

/// A variable and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// `frame`, `next::counter`, `<malloc0014@func1+230>`, `libc.so.6:.bss`, `[heap]`.
    pub name: Arc<str>,
    /// What it is.
    pub kind: VariableKind,
    /// What its memory is for.
    pub region: RegionKind,
    /// Bytes.
    pub bytes: u64,
    /// The file name of the module it lies in, if it does.
    pub module: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum VariableKey {
    /// Module and address.
    Static(u32, LinkAddr),
    /// Module and address of the section; [`LinkAddr::MAX`] for what lies in none.
    Section(u32, LinkAddr),
    Block(ProcessId, BlockId, BlockState),
    Region(ProcessId, RegionId),
    Nowhere,
}

/// An instruction and its name. Displayed as the paper does: `func1+230`; without symbols `libfoo.so+0x1f0`.
#[derive(Clone, Debug)]
pub struct CodeName {
    /// The function's name, demangled.
    pub function: Option<Arc<str>>,
    /// The function, or the module or address that stands for it.
    pub function_id: FunctionId,
    /// Bytes from the start of the function; of the module or from zero without one.
    pub offset: u64,
    /// The file name of the module.
    pub module: Option<Arc<str>>,
    /// The file and the address in it.
    place: Option<(Arc<Module>, LinkAddr)>,
    frames: OnceLock<Vec<LineFrame>>,
}

impl CodeName {
    /// The functions there with their source lines, innermost inlined one first. Reads debug information.
    pub fn frames(&self) -> &[LineFrame] {
        let read =
            || self.place.as_ref().map(|(module, address)| module.frames(*address)).unwrap_or_default();
        self.frames.get_or_init(read)
    }

    /// The file that it lies in, and its address there.
    pub fn place(&self) -> Option<(&Arc<Module>, LinkAddr)> {
        self.place.as_ref().map(|(module, address)| (module, *address))
    }

    /// Source file and line of the innermost function. Reads debug information.
    pub fn line(&self) -> Option<(&str, Option<u32>)> {
        let line = self.frames().first()?.line.as_ref()?;
        Some((&line.file, line.line))
    }
}

/// A function that was running at an instruction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Its name, where known.
    pub function: Option<Arc<str>>,
    /// The source file of where it was, where known.
    pub file: Option<Arc<str>>,
    /// The line, where known.
    pub line: Option<u32>,
}

impl CodeName {
    /// The functions that were running there, the innermost first: those that were inlined into another one, and that one.
    /// Reads debug information.
    pub fn calls(&self) -> Vec<Call> {
        let call = |frame: &LineFrame| Call {
            function: frame.function.clone(),
            file: frame.line.as_ref().map(|line| Arc::from(&*line.file)),
            line: frame.line.as_ref().and_then(|line| line.line),
        };
        let mut all: Vec<Call> = self.frames().iter().map(call).collect();
        if all.is_empty() {
            all.push(Call { function: None, file: None, line: None });
        }
        // The symbol is that of the outermost one, and all that there is without debug information.
        if let Some(outer) = all.last_mut()
            && self.function.is_some()
        {
            outer.function.clone_from(&self.function);
        }
        all
    }
}

impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.module) {
            (Some(function), _) => write!(f, "{function}+{}", self.offset),
            (None, Some(module)) => write!(f, "{module}+{:#x}", self.offset),
            (None, None) => write!(f, "{:#x}", self.offset),
        }
    }
}

/// A function of a module, or what stands for it.
#[derive(Debug)]
struct NamedFunction {
    name: Arc<str>,
    module: Option<Arc<Module>>,
    /// Where it begins in the file, where it has a symbol.
    address: Option<LinkAddr>,
}

#[derive(Debug, Default)]
struct NameTables {
    variables: Vec<Arc<Variable>>,
    variable_of: HashMap<VariableKey, VariableId>,
    codes: Vec<Arc<CodeName>>,
    /// By module and address there, or by address alone.
    code_of: HashMap<(Option<u32>, u64), CodeId>,
    functions: Vec<NamedFunction>,
    function_of: HashMap<(Option<u32>, Option<LinkAddr>), FunctionId>,
}

/// All names of a session. Shared by the resolvers of its processes and shards; numbers are the same in all of them.
#[derive(Debug, Default)]
pub struct Names {
    inner: Mutex<NameTables>,
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, NameTables> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn variable_id(&self, key: VariableKey, make: impl FnOnce() -> Variable) -> VariableId {
        if let Some(&id) = self.lock().variable_of.get(&key) {
            return id;
        }
        // Not under the lock: a name may need debug information. Whoever is first wins.
        let variable = Arc::new(make());
        let mut inner = self.lock();
        if let Some(&id) = inner.variable_of.get(&key) {
            return id;
        }
        let id = VariableId(inner.variables.len() as u32);
        inner.variables.push(variable);
        inner.variable_of.insert(key, id);
        id
    }

    /// The instruction at an address of a process, which is a place in a file or else that address.
    pub(crate) fn code_id(&self, ip: VirtAddr, place: Option<(&Arc<Module>, LinkAddr)>) -> CodeId {
        let module = place.map(|(module, _)| module);
        let code = (module.map(|module| module.serial()), place.map_or(ip.0, |(_, address)| address.0));
        if let Some(&id) = self.lock().code_of.get(&code) {
            return id;
        }
        let symbol = place.and_then(|(module, address)| module.function_at(address));
        let name = module.map(|module| Arc::<str>::from(module.name()));
        let function: Option<Arc<str>> = symbol.map(|symbol| symbol.name().into());
        let mut inner = self.lock();
        if let Some(&id) = inner.code_of.get(&code) {
            return id;
        }
        let key = (code.0, symbol.map(|symbol| symbol.address));
        let function_id = match inner.function_of.get(&key) {
            Some(&id) => id,
            None => {
                let id = FunctionId(inner.functions.len() as u32);
                let text = function.clone().or_else(|| name.clone()).unwrap_or_else(|| "[unknown]".into());
                let address = symbol.map(|symbol| symbol.address);
                inner.functions.push(NamedFunction { name: text, module: module.cloned(), address });
                inner.function_of.insert(key, id);
                id
            }
        };
        let id = CodeId(inner.codes.len() as u32);
        inner.codes.push(Arc::new(CodeName {
            function,
            function_id,
            offset: symbol.map_or(code.1, |symbol| code.1 - symbol.address.0),
            module: name,
            place: place.map(|(module, address)| (Arc::clone(module), address)),
            frames: OnceLock::new(),
        }));
        inner.code_of.insert(code, id);
        id
    }

    /// A variable by its number.
    pub fn variable(&self, id: VariableId) -> Option<Arc<Variable>> {
        self.lock().variables.get(id.0 as usize).cloned()
    }

    /// Sorts numbers of variables by what they stand for, whichever was named first.
    pub fn sort_variables(&self, numbers: &mut [u32]) {
        let inner = self.lock();
        let mut keys = vec![None; inner.variables.len()];
        for (&key, &VariableId(number)) in &inner.variable_of {
            let module = inner.variables.get(number as usize).and_then(|variable| variable.module.clone());
            if let Some(place) = keys.get_mut(number as usize) {
                *place = Some((module, key));
            }
        }
        numbers.sort_by(|a, b| keys.get(*a as usize).cmp(&keys.get(*b as usize)));
    }

    /// All variables numbered so far, in the order of their numbers.
    pub fn variables(&self) -> Vec<Arc<Variable>> {
        self.lock().variables.clone()
    }

    /// An instruction by its number.
    pub fn code(&self, id: CodeId) -> Option<Arc<CodeName>> {
        self.lock().codes.get(id.0 as usize).cloned()
    }

    /// A function's name by its number; the module's file name where it has no symbols, `[unknown]` outside modules.
    pub fn function(&self, id: FunctionId) -> Option<Arc<str>> {
        self.lock().functions.get(id.0 as usize).map(|function| Arc::clone(&function.name))
    }

    /// The file name of a function's module.
    pub fn function_module(&self, id: FunctionId) -> Option<Arc<str>> {
        let inner = self.lock();
        let module = inner.functions.get(id.0 as usize)?.module.as_ref()?;
        Some(module.name().into())
    }

    /// The local variables and parameters of a function that lie so many bytes from the canonical frame address, which is the
    /// address after that of the return address: the innermost first, each at its time. Reads debug information.
    pub fn locals_at(&self, id: FunctionId, offset: i64) -> Vec<FoundLocal> {
        let place = self.function_place(id);
        place.map(|(module, address)| module.locals_at(address, offset)).unwrap_or_default()
    }

    /// Which of them lies there while that instruction runs, or is made by it.
    pub fn local_there(&self, id: FunctionId, offset: i64, code: CodeId) -> Option<LocalId> {
        let (module, function) = self.function_place(id)?;
        let locals = module.locals_at(function, offset);
        let code = self.code(code)?;
        let (_, address) = code.place()?;
        let line_at = |address| module.frames(address).first()?.line.as_ref()?.line;
        let lines = || code.frames().iter().filter_map(|frame| frame.line.as_ref()?.line);
        let living = locals.iter().find(|(_, local)| local.lives_at(address));
        let made = || locals.iter().find(|(_, local)| lines().any(|line| local.declares(line, line_at)));
        living.or_else(made).map(|(id, _)| *id)
    }

    /// One of them.
    pub fn local(&self, id: FunctionId, local: LocalId) -> Option<Arc<LocalVariable>> {
        let (module, address) = self.function_place(id)?;
        module.local(address, local)
    }

    /// What that variable of a function consists of. Reads debug information.
    pub fn local_layout(&self, id: FunctionId, local: LocalId) -> Option<Arc<TypeLayout>> {
        let (module, address) = self.function_place(id)?;
        module.layout_of(module.local(address, local)?.type_?)
    }

    fn function_place(&self, id: FunctionId) -> Option<(Arc<Module>, LinkAddr)> {
        let inner = self.lock();
        let function = inner.functions.get(id.0 as usize)?;
        Some((Arc::clone(function.module.as_ref()?), function.address?))
    }

    /// How many variables are numbered; their numbers are below it.
    pub fn variable_count(&self) -> usize {
        self.lock().variables.len()
    }

    /// How many functions are numbered; their numbers are below it.
    pub fn function_count(&self) -> usize {
        self.lock().functions.len()
    }
}

/// Where nothing is known.
pub(crate) fn nowhere() -> Variable {
    Variable {
        name: "[unknown]".into(),
        kind: VariableKind::Nowhere,
        region: RegionKind::Anonymous,
        bytes: 0,
        module: None,
    }
}

/// The address in a file of what is at an address of the process.
pub(crate) fn linked(bias: u64, addr: VirtAddr) -> LinkAddr {
    LinkAddr(addr.0.wrapping_sub(bias))
}

/// The address in the process of what is at an address of a file.
pub(crate) fn placed(bias: u64, address: LinkAddr) -> VirtAddr {
    VirtAddr(address.placed(bias))
}
