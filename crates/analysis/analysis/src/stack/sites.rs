//! Where a block was allocated from the user's point of view: not in `zmalloc`, but in its caller.
//!
//! A wrapper of an allocator is recognised by its behaviour: it returns whatever it allocates (`passing`), and the size comes
//! from its caller. A function that always asks for the same size creates an object of its own. It is not a wrapper, although
//! it returns what it allocated. Wrappers of wrappers are wrappers. Functions of the languages' own libraries that allocate
//! for their callers (`alloc::`, `std::`) pass the block on in other ways than by their result; they are recognised by name.
//!
//! Start with [`AllocationSites::find`], which is called at the end of a replay in context.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use memref::{AllocationKind, ProcessId, VirtAddr};
use symbols::{BlockId, CodeId, CodeName, LinkAddr, Module, Names, Resolver};

use super::context::EnteredBy;
use super::names::{CalledFunction, StackNames};
use super::passing::FunctionCode;
use super::place::CallPlace;
use super::shadow::Stacks;

/// How allocation sites are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteStyle {
    /// So many functions, from the one that allocates outwards.
    pub frames: usize,
    /// Whether allocators' wrappers are left out.
    pub skips: bool,
}

impl Default for SiteStyle {
    fn default() -> Self {
        Self { frames: 1, skips: true }
    }
}

/// An allocation site, named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedSite {
    /// The functions, the one that allocates first: `func1+230`, `func1+230 < main+12`, `inlined in func1+230`.
    pub text: Arc<str>,
    /// The source line of the call in the first of them.
    pub line: Option<Arc<str>>,
    /// The file name of its module.
    pub module: Option<Arc<str>>,
}

impl NamedSite {
    /// The call itself, where nothing is known of its callers.
    pub(crate) fn of_code(code: &CodeName, with_line: bool) -> Self {
        let line = with_line.then(|| code.line()).flatten().map(|(file, line)| match line {
            Some(line) => format!("{file}:{line}"),
            None => file.to_owned(),
        });
        Self { text: code.to_string().into(), line: line.map(Arc::from), module: code.module.clone() }
    }

    /// A call of which nothing is known but its address.
    pub(crate) fn at(ip: VirtAddr) -> Self {
        Self { text: ip.to_string().into(), line: None, module: None }
    }
}

/// More bytes are no wrapper.
const MAX_FUNCTION_BYTES: u64 = 1 << 14;
/// So deep a wrapper is wrapped at most.
const MAX_ROUNDS: usize = 16;
/// The register of the first argument, and of the second.
const ARGUMENTS: [u8; 2] = [7, 6];
/// What the languages' own libraries begin their names with.
const LIBRARIES: [&str; 14] = [
    "alloc::",
    "<alloc::",
    "core::",
    "<core::",
    "std::",
    "<std::",
    "void std::",
    "hashbrown::",
    "__gnu_cxx::",
    "__rust",
    // Names that the demangler does not know (make_shared with its conditions).
    "_ZSt",
    "_ZNSt",
    "_ZNKSt",
    "_ZN9__gnu_cxx",
];

/// A chain of calls from the one that allocates outwards: instructions, each in its function.
type Chain = Vec<CodeId>;

/// What the run did at a call which allocates, directly or by what it calls.
#[derive(Clone, Debug, Default)]
struct SiteUse {
    sizes: BTreeSet<u64>,
    /// The kinds of allocation, where it calls the allocator itself.
    direct: HashSet<AllocationKind>,
}

/// Sizes of one call that are told apart.
const MAX_SIZES: usize = 2;

/// A function by where its code begins: one without a symbol has no other name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnCode {
    /// The module's own number.
    module: u32,
    start: LinkAddr,
}

/// The function that an instruction is in.
#[derive(Debug)]
struct FunctionPlace {
    module: Arc<Module>,
    extent: Range<LinkAddr>,
    /// The instruction's place in the file.
    address: LinkAddr,
}

impl FunctionPlace {
    fn function(&self) -> OwnCode {
        OwnCode { module: self.module.serial(), start: self.extent.start }
    }
}

/// All allocation sites of a session, and which of them are wrappers.
#[derive(Debug)]
pub struct AllocationSites<'a> {
    names: &'a Names,
    stacks: &'a Stacks,
    named: StackNames<'a>,
    wrappers: HashSet<OwnCode>,
    wrapper_names: HashSet<Arc<str>>,
    /// Whether a call's result is returned.
    passes: HashMap<CodeId, bool>,
    code: HashMap<OwnCode, Option<FunctionCode>>,
    extents: RefCell<HashMap<CodeId, Option<Arc<FunctionPlace>>>>,
    files: HashMap<PathBuf, Option<Arc<[u8]>>>,
    texts: HashMap<(CallPlace, usize, bool), NamedSite>,
}

impl<'a> AllocationSites<'a> {
    /// Looks at all blocks that were allocated. `resolvers` are those of the end of the replay.
    pub fn find(names: &'a Names, stacks: &'a Stacks, resolvers: &[Resolver]) -> Self {
        let mut sites = Self {
            names,
            stacks,
            named: StackNames::new(names, stacks.contexts()),
            wrappers: HashSet::new(),
            wrapper_names: HashSet::new(),
            passes: HashMap::new(),
            code: HashMap::new(),
            extents: RefCell::default(),
            files: HashMap::new(),
            texts: HashMap::new(),
        };
        let mut blocks: HashMap<(AllocationKind, CallPlace), BTreeSet<u64>> = HashMap::new();
        for resolver in resolvers {
            for (id, block) in resolver.heap().blocks() {
                let kind = resolver.heap().site(block.site).map(|site| site.kind);
                if let (Some(kind), Some(place)) = (kind, stacks.blocks().get(resolver.process(), id)) {
                    let sizes = blocks.entry((kind, place)).or_default();
                    if sizes.len() < MAX_SIZES {
                        sizes.insert(block.len);
                    }
                }
            }
        }
        sites.find_wrappers(&blocks);
        sites
    }

    /// The functions that only allocate for others, by name.
    pub fn wrappers(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.wrapper_names.iter().cloned().collect();
        names.sort();
        names
    }

    /// The site of a block; `None` where nothing is known of how the program came there.
    pub fn of_block(&mut self, process: ProcessId, block: BlockId, style: SiteStyle) -> Option<NamedSite> {
        let place = self.stacks.blocks().get(process, block)?;
        Some(self.of_place(place, style))
    }

    /// The site of a place.
    pub fn of_place(&mut self, place: CallPlace, style: SiteStyle) -> NamedSite {
        let key = (place, style.frames, style.skips);
        if let Some(known) = self.texts.get(&key) {
            return known.clone();
        }
        let site = self.name(place, style);
        self.texts.insert(key, site.clone());
        site
    }

    fn chain(&self, place: CallPlace) -> Chain {
        let outwards = self.stacks.contexts().outwards(place.context);
        let callers = outwards.map_while(|(_, context)| match context.entry {
            EnteredBy::Call(code) => Some(code),
            _ => None,
        });
        std::iter::once(place.code).chain(callers).collect()
    }

    fn find_wrappers(&mut self, blocks: &HashMap<(AllocationKind, CallPlace), BTreeSet<u64>>) {
        let all: Vec<(AllocationKind, Chain, &BTreeSet<u64>)> =
            blocks.iter().map(|((kind, place), sizes)| (*kind, self.chain(*place), sizes)).collect();
        for _ in 0..MAX_ROUNDS {
            let mut uses: HashMap<CodeId, SiteUse> = HashMap::new();
            for (kind, chain, sizes) in &all {
                let Some(index) = chain.iter().position(|code| !self.is_skipped(*code)) else { continue };
                let used = uses.entry(chain[index]).or_default();
                used.sizes.extend(sizes.iter().copied());
                if index == 0 {
                    used.direct.insert(*kind);
                }
            }
            let mut by_function: HashMap<OwnCode, bool> = HashMap::new();
            let mut names: HashMap<OwnCode, Arc<str>> = HashMap::new();
            for (code, used) in &uses {
                let Some(place) = self.place(*code) else { continue };
                let passes = self.passes(*code, &place) && !self.is_own_size(&place, used);
                *by_function.entry(place.function()).or_insert(true) &= passes;
                if let Some(name) = self.names.code(*code).and_then(|name| name.function.clone()) {
                    names.insert(place.function(), name);
                }
            }
            let before = self.wrappers.len();
            for (function, _) in by_function.into_iter().filter(|(_, passes)| *passes) {
                self.wrappers.insert(function);
                self.wrapper_names.extend(names.get(&function).cloned());
            }
            if self.wrappers.len() == before {
                break;
            }
        }
    }

    /// Whether a call is one that a wrapper makes to allocate, or of a language's library.
    fn is_skipped(&self, code: CodeId) -> bool {
        let is_wrapper = || self.place(code).is_some_and(|place| self.wrappers.contains(&place.function()));
        let name = self.names.code(code).and_then(|name| name.function.clone());
        (self.passes.get(&code) == Some(&true) && is_wrapper()) || name.as_deref().is_some_and(is_of_library)
    }

    /// Whether a call allocates bytes of which its function knows how many there are.
    fn is_own_size(&mut self, place: &FunctionPlace, used: &SiteUse) -> bool {
        if used.sizes.len() > 1 {
            return false;
        }
        let registers: &[u8] = match used.direct.iter().next() {
            Some(AllocationKind::Malloc) => &ARGUMENTS[..1],
            Some(AllocationKind::Calloc) => &ARGUMENTS,
            Some(AllocationKind::Realloc) => &ARGUMENTS[1..],
            _ => return true,
        };
        match self.code_of(place) {
            Some(code) => registers.iter().all(|register| code.is_constant_at(place.address, *register)),
            None => true,
        }
    }

    fn passes(&mut self, code: CodeId, place: &FunctionPlace) -> bool {
        if let Some(&known) = self.passes.get(&code) {
            return known;
        }
        let passes = self.code_of(place).is_some_and(|function| function.returns_result_of(place.address));
        self.passes.insert(code, passes);
        passes
    }

    /// The function of an instruction, where it is known where that begins and ends.
    fn place(&self, code: CodeId) -> Option<Arc<FunctionPlace>> {
        if let Some(known) = self.extents.borrow().get(&code) {
            return known.clone();
        }
        let name = self.names.code(code);
        let found = name.as_ref().and_then(|name| name.place()).and_then(|(module, address)| {
            let extent = module.function_extent(address)?;
            Some(Arc::new(FunctionPlace { module: Arc::clone(module), extent, address }))
        });
        self.extents.borrow_mut().insert(code, found.clone());
        found
    }

    fn code_of(&mut self, place: &FunctionPlace) -> Option<&FunctionCode> {
        let function = place.function();
        if !self.code.contains_key(&function) {
            let found = self.read(place);
            self.code.insert(function, found);
        }
        self.code.get(&function)?.as_ref()
    }

    fn read(&mut self, place: &FunctionPlace) -> Option<FunctionCode> {
        let FunctionPlace { module, extent, .. } = place;
        let bytes = extent.end.checked_sub(extent.start).filter(|bytes| *bytes <= MAX_FUNCTION_BYTES)?;
        let offset = usize::try_from(module.file_place(extent.start)?.offset).ok()?;
        let path = module.file()?.to_owned();
        let content = match self.files.get(&path) {
            Some(content) => content.clone(),
            None => {
                let content = std::fs::read(&path).ok().map(Arc::from);
                self.files.insert(path, content.clone());
                content
            }
        }?;
        let bytes = content.get(offset..offset.checked_add(bytes as usize)?)?;
        Some(FunctionCode::decode(bytes, extent.start))
    }

    fn name(&self, place: CallPlace, style: SiteStyle) -> NamedSite {
        // From the innermost outwards: the instruction, and a function there.
        let chain = self.chain(place);
        let functions = |code: &CodeId| {
            let all = self.named.functions(*code);
            let mut frames: Vec<(CodeId, CalledFunction)> =
                all.iter().map(|function| (*code, function.clone())).collect();
            frames.reverse();
            frames
        };
        let most = if style.skips { usize::MAX } else { style.frames.max(1) };
        let mut frames: Vec<(CodeId, CalledFunction)> = Vec::new();
        let mut first = None;
        for frame in chain.iter().flat_map(functions) {
            if first.is_none() && (!style.skips || !self.is_wrapper_frame(&frame)) {
                first = Some(frames.len());
            }
            frames.push(frame);
            let shown = first.map_or(0, |first| frames.len() - first);
            if shown >= style.frames.max(1) || frames.len() >= most {
                break;
            }
        }
        // Wrappers all the way: then the innermost one is told.
        let shown = &frames[first.unwrap_or(0)..];
        let shown = &shown[..shown.len().min(style.frames.max(1))];
        let mut texts: Vec<String> = shown.iter().map(|frame| self.text(frame)).collect();
        if let (Some((code, function)), Some(text)) = (shown.last(), texts.last_mut())
            && function.is_inlined
            && let Some(name) = self.names.code(*code)
        {
            *text = format!("{text} in {name}");
        }
        let outer = shown.first().map(|(_, function)| function);
        let line = outer.and_then(|function| match (&function.file, function.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}").into()),
            (file, _) => file.clone(),
        });
        NamedSite {
            text: texts.join(" < ").into(),
            line,
            module: outer.and_then(|function| function.module.clone()),
        }
    }

    fn text(&self, (code, function): &(CodeId, CalledFunction)) -> String {
        match self.names.code(*code) {
            Some(name) if !function.is_inlined => name.to_string(),
            _ => function.function.to_string(),
        }
    }

    fn is_wrapper_frame(&self, (code, function): &(CodeId, CalledFunction)) -> bool {
        if is_of_library(&function.function) {
            return true;
        }
        if function.is_inlined {
            return self.wrapper_names.contains(&function.function);
        }
        self.is_skipped(*code)
    }
}

fn is_of_library(function: &str) -> bool {
    let is_library = |name: &str| LIBRARIES.iter().any(|library| name.starts_with(library));
    // `<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem`: a trait of theirs for a type that is nobody's.
    let is_theirs = || {
        let (own, of) = function.strip_prefix('<')?.split_once(" as ")?;
        Some(!own.contains("::") && (is_library(of) || of.starts_with("<[")))
    };
    function.starts_with("operator new") || is_library(function) || is_theirs() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_languages_libraries_are_told_by_their_names() {
        let check = |name: &str, expect: bool| assert_eq!(is_of_library(name), expect, "{name}");
        check("operator new(unsigned long)", true);
        check("alloc::raw_vec::RawVec<T>::grow_one", true);
        check("<alloc::string::String as core::clone::Clone>::clone", true);
        check("<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem", true);
        check("<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>", true);
        check("std::vector<int>::push_back", true);
        check("<mine::Table as core::clone::Clone>::clone", false);
        check("<u8 as mine::Sized>::make", false);
        check("allocate", false);
        check("mine::alloc::make", false);
    }
}
