//! Names for the addresses of one process at one point of its run.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use elf::LinkAddr;
use memref::{Allocation, AllocationKind, ProcessId, RegionChange, RegionEvent, RegionKind, VirtAddr};

use crate::{
    BlockHit, CodeId, CodeName, HeapBlock, HeapChange, HeapMap, Module, ModuleStore, Names, ProcessImage,
    RegionId, SiteId, TypeLayout, Variable, VariableId, VariableKind,
    cache::{DataCache, DataVersion, NamedRange, Quick},
    module::DataPlace,
    names::{VariableKey, linked, nowhere, placed},
};

/// What an address of data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataName {
    /// The variable; its name is in [`Names`].
    pub variable: VariableId,
    /// Bytes from its start.
    pub offset: u64,
    /// The region, if one is mapped there.
    pub region: Option<RegionId>,
}

const CODE_SLOTS: usize = 4096;
/// No address lies there.
const NO_REGION: (VirtAddr, VirtAddr, Option<RegionId>) = (VirtAddr(0), VirtAddr(0), None);
/// No variable has that number.
const UNNAMED: VariableId = VariableId(u32::MAX);
/// Paths kept; a large array has more elements than are worth it.
const MAX_PATHS: usize = 1 << 16;

fn next_code_version() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

/// One process at one point of its run: apply its events in order, ask between them.
///
/// A shard has its own resolver; all share [`Names`] and the [`ModuleStore`]. Asking needs `&mut self` for the caches
/// only.
#[derive(Clone, Debug)]
pub struct Resolver {
    process: ProcessId,
    names: Arc<Names>,
    image: ProcessImage,
    heap: HeapMap,
    /// The region that was found last, and between which addresses.
    last_region: (VirtAddr, VirtAddr, Option<RegionId>),
    cache: DataCache,
    /// None before the first instruction.
    code_cache: Vec<(u64, CodeId)>,
    code_of: HashMap<u64, CodeId, Quick>,
    code_version: u32,
    /// Numbers known here, so that shards need not wait for each other.
    known: HashMap<VariableKey, VariableId, Quick>,
    /// Those of the blocks of allocators, by [`BlockHit::owner`].
    of_block: Vec<VariableId>,
    /// The instruction of each allocation site, found when it first allocated.
    site_codes: Vec<CodeId>,
    paths: HashMap<(VariableId, u64, u32), Option<Arc<str>>, Quick>,
}

impl Resolver {
    /// A process of which nothing is known yet.
    pub fn new(process: ProcessId, store: Arc<ModuleStore>, names: Arc<Names>) -> Self {
        Self {
            process,
            names,
            image: ProcessImage::new(store),
            heap: HeapMap::new(),
            last_region: NO_REGION,
            cache: DataCache::new(),
            code_cache: Vec::new(),
            code_of: HashMap::default(),
            code_version: next_code_version(),
            known: HashMap::default(),
            of_block: Vec::new(),
            site_codes: Vec::new(),
            paths: HashMap::default(),
        }
    }

    /// A child that was forked now: it has its parent's regions, modules, blocks and numbering.
    pub fn fork(&self, child: ProcessId) -> Self {
        Self {
            process: child,
            names: Arc::clone(&self.names),
            image: self.image.clone(),
            heap: self.heap.clone(),
            last_region: NO_REGION,
            // Caches fill by themselves, and many children ask for little.
            cache: DataCache::new(),
            code_cache: Vec::new(),
            code_of: self.code_of.clone(),
            code_version: self.code_version,
            known: self.known.clone(),
            // Its blocks are other variables.
            of_block: Vec::new(),
            site_codes: self.site_codes.clone(),
            paths: self.paths.clone(),
        }
    }

    /// The process now runs another program (exec): nothing of the old one is left, and numbering starts again.
    pub fn exec(&mut self) {
        *self = Self::new(self.process, Arc::clone(self.image.store()), Arc::clone(&self.names));
    }

    /// Whose addresses these are.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The names of the session.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Regions and modules.
    pub fn image(&self) -> &ProcessImage {
        &self.image
    }

    /// Dynamic memory.
    pub fn heap(&self) -> &HeapMap {
        &self.heap
    }

    /// Applies a change of regions. Events of both kinds come in the session's order.
    pub fn apply_region(&mut self, event: &RegionEvent<String>) {
        if event.change == RegionChange::Map {
            self.heap.forget_released(event.start, event.len);
        }
        self.last_region = NO_REGION;
        if self.image.apply(event) {
            self.code_of.clear();
            self.code_version = next_code_version();
            self.code_cache.fill((u64::MAX, CodeId(0)));
            self.heap.forget_sites();
            self.cache.clear();
        } else {
            self.cache.forget(event.start, event.len);
        }
    }

    /// Applies an allocation or a release.
    pub fn apply_allocation(&mut self, event: &Allocation) -> HeapChange {
        let change = self.heap.apply(event);
        for index in self.site_codes.len()..self.heap.sites().len() {
            if let Some(site) = self.heap.sites().get(index) {
                let code = self.resolve_code(site.ip);
                self.site_codes.push(code);
            }
        }
        let block_len = |id| {
            self.heap
                .block(id)
                .map_or(0, |block| block.extent().max(event.len).saturating_add(VirtAddr::PAGE_BYTES))
        };
        match change {
            HeapChange::Allocated(id) | HeapChange::AllocatedForFreed { new: id, .. } => {
                let extent = self.heap.block(id).map_or(0, HeapBlock::extent);
                self.cache.forget(event.addr, mapped_len(event.kind, extent));
            }
            HeapChange::Released(id) => self.cache.forget(event.addr, block_len(id)),
            HeapChange::Replaced { old, new } => {
                let old_len = block_len(old).max(mapped_len(event.kind, event.old_len));
                self.cache.forget(event.old_addr, old_len);
                let new_len = mapped_len(event.kind, block_len(new));
                self.cache.forget(event.addr, new_len);
            }
            HeapChange::Unmapped => self.cache.forget(event.addr, mapped_len(event.kind, event.len)),
            HeapChange::FreedTwice(_) | HeapChange::Unknown | HeapChange::Ignored | HeapChange::Full => {}
        }
        change
    }

    /// The region of an address.
    #[inline]
    pub fn resolve_region(&mut self, addr: VirtAddr) -> Option<RegionId> {
        self.resolve_data(addr).region
    }

    /// The variable, block, section or region that owns an address, in this order of preference.
    #[inline]
    pub fn resolve_data(&mut self, addr: VirtAddr) -> DataName {
        let found = match self.cache.get(addr) {
            Some(found) => found,
            None => {
                let found = self.find_data(addr);
                self.cache.put(addr, found);
                found
            }
        };
        DataName { variable: found.variable, offset: addr.0.wrapping_sub(found.base.0), region: found.region }
    }

    /// The variable of an address, and addresses around it that belong to the same variable until
    /// [`data_version`](Self::data_version) is another one.
    #[inline]
    pub fn data_range(&mut self, addr: VirtAddr) -> (VariableId, Range<VirtAddr>) {
        let found = match self.cache.get_range(addr) {
            Some(found) => found,
            None => {
                let found = self.find_data(addr);
                self.cache.put(addr, found);
                found
            }
        };
        (found.variable, found.start..found.end)
    }

    /// The same, with all such addresses on both sides that are found at once: this looks anew each time.
    pub fn whole_data_range(&mut self, addr: VirtAddr) -> (VariableId, Range<VirtAddr>) {
        let found = self.find_data(addr);
        self.cache.put(addr, found);
        (found.variable, found.start..found.end)
    }

    /// Another one whenever an address may belong to another variable than before, and for each process: for those who remember
    /// answers of [`data_range`](Self::data_range).
    #[inline]
    pub fn data_version(&self) -> DataVersion {
        self.cache.version()
    }

    /// Whether addresses belong to the variables to which they belonged then; false where that is not known. Costs little for short
    /// ranges and says false of long ones, unless nothing changed at all.
    #[inline]
    pub fn holds_since(&self, range: Range<VirtAddr>, then: DataVersion) -> bool {
        self.cache.holds_since(range.start, range.end, then)
    }

    /// The instruction at an address.
    #[inline]
    pub fn resolve_code(&mut self, ip: VirtAddr) -> CodeId {
        let slot = (ip.0 ^ ip.0 >> 12) as usize % CODE_SLOTS;
        if let Some(&(_, code)) = self.code_cache.get(slot).filter(|entry| entry.0 == ip.0) {
            return code;
        }
        let code = match self.code_of.get(&ip.0) {
            Some(&code) => code,
            None => {
                let code = self.find_code(ip);
                self.code_of.insert(ip.0, code);
                code
            }
        };
        if self.code_cache.is_empty() {
            self.code_cache = vec![(u64::MAX, CodeId(0)); CODE_SLOTS];
        }
        if let Some(entry) = self.code_cache.get_mut(slot) {
            *entry = (ip.0, code);
        }
        code
    }

    /// The call of an allocation site, as it was named when it first allocated.
    pub fn site_code(&self, site: SiteId) -> Option<CodeId> {
        self.site_codes.get(site.0 as usize).copied()
    }

    /// Another number whenever an address may be another instruction than before, and for each process whose code is its own: for
    /// those who remember answers of [`resolve_code`](Self::resolve_code). Never 0.
    #[inline]
    pub fn code_version(&self) -> u32 {
        self.code_version
    }

    /// The name of an instruction.
    pub fn code_name(&mut self, ip: VirtAddr) -> Option<Arc<CodeName>> {
        let code = self.resolve_code(ip);
        self.names.code(code)
    }

    /// The type of a variable, where debug information tells it.
    pub fn type_of(&mut self, addr: VirtAddr) -> Option<Arc<TypeLayout>> {
        if self.heap.get(addr).is_some_and(|hit| self.is_from_allocator(hit)) {
            return None;
        }
        let (_, instance) = self.image.instance_at(addr)?;
        let object = instance.module.data_at(instance.linked(addr))?;
        instance.module.type_at(object.address)
    }

    /// The field or element that an access of `size` bytes at `addr` begins in: `.pixels[3].red` for an address in
    /// `frame`. `None` where no debug information tells the type.
    pub fn field_path(&mut self, addr: VirtAddr, size: u32) -> Option<Arc<str>> {
        let name = self.resolve_data(addr);
        let key = (name.variable, name.offset, size);
        if let Some(path) = self.paths.get(&key) {
            return path.clone();
        }
        let path = self.type_of(addr).and_then(|layout| layout.path(name.offset, Some(size))).map(Arc::from);
        if self.paths.len() >= MAX_PATHS {
            self.paths.clear();
        }
        self.paths.insert(key, path.clone());
        path
    }

    /// The fields and elements that an access of `size` bytes at `addr` touches, the one that it begins in first, with padding between
    /// them left out. Empty where no debug information tells the type.
    pub fn field_paths(&mut self, addr: VirtAddr, size: u32) -> Vec<Arc<str>> {
        let offset = self.resolve_data(addr).offset;
        let mut paths: Vec<Arc<str>> = self.field_path(addr, size).into_iter().collect();
        if let Some(layout) = self.type_of(addr).filter(|_| !paths.is_empty()) {
            paths.extend(layout.further_paths(offset, size));
        }
        paths
    }

    /// The full text for an address: `frame.pixels[3].red`, or `<malloc0014@func1+230>+8`, or `[heap]+64`.
    pub fn data_text(&mut self, addr: VirtAddr, size: u32) -> String {
        let name = self.resolve_data(addr);
        let variable = self.names.variable(name.variable);
        let text = variable.as_deref().map_or("[unknown]", |variable| &variable.name);
        match self.field_path(addr, size) {
            Some(path) => format!("{text}{path}"),
            None => format!("{text}+{}", name.offset),
        }
    }

    fn find_code(&self, ip: VirtAddr) -> CodeId {
        match self.image.instance_at(ip) {
            Some((_, instance)) => self.names.code_id(ip, Some((&instance.module, instance.linked(ip)))),
            None => self.names.code_id(ip, None),
        }
    }

    fn variable_id(&mut self, key: VariableKey, make: impl FnOnce(&Self) -> Variable) -> VariableId {
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = self.names.variable_id(key, || make(self));
        self.known.insert(key, id);
        id
    }

    fn find_data(&mut self, addr: VirtAddr) -> NamedRange {
        if !(self.last_region.0 <= addr && addr < self.last_region.1) {
            self.last_region = self.image.regions().find_range(addr);
        }
        let (from, to, region) = self.last_region;
        let (start, end, hit) = self.heap.get_span(addr);
        let named = |(variable, base)| NamedRange { start, end, base, variable, region };
        let block_of = |hit: BlockHit| VirtAddr(addr.0.wrapping_sub(hit.offset));
        if let Some(hit) = hit
            && let Some(&variable) = self.of_block.get(hit.owner() as usize).filter(|id| **id != UNNAMED)
        {
            let (start, end) = (start.max(from), end.min(to));
            return NamedRange { start, end, base: block_of(hit), variable, region };
        }
        let in_module = match hit {
            // An allocator that hands out parts of a static array.
            Some(hit) if self.is_from_allocator(hit) => None,
            _ => self.find_in_module(addr, region),
        };
        let mut found = match (in_module, hit) {
            (Some(found), _) => {
                NamedRange { start: found.start.max(start), end: found.end.min(end), ..found }
            }
            (None, Some(hit)) if self.is_from_allocator(hit) => {
                let variable = self.names.variable_id(self.block_key(hit), || self.named_block(hit));
                let owner = hit.owner() as usize;
                if owner >= self.of_block.len() {
                    self.of_block.resize(owner + 1, UNNAMED);
                }
                self.of_block[owner] = variable;
                named((variable, block_of(hit)))
            }
            (None, Some(hit)) => {
                let variable = self.variable_id(self.block_key(hit), |resolver| resolver.named_block(hit));
                named((variable, block_of(hit)))
            }
            (None, None) => named(self.region_variable(region)),
        };
        found.start = found.start.max(from);
        found.end = found.end.min(to);
        found
    }

    /// Whether a block is one of an allocator's, and no mapping.
    fn is_from_allocator(&self, hit: BlockHit) -> bool {
        let site = self.heap.block(hit.block).and_then(|block| self.heap.site(block.site));
        site.is_some_and(|site| !matches!(site.kind, AllocationKind::Mmap | AllocationKind::Mremap))
    }

    fn find_in_module(&mut self, addr: VirtAddr, region: Option<RegionId>) -> Option<NamedRange> {
        let (id, instance) = self.image.instance_at(addr)?;
        let (bias, low, high) = (instance.bias, instance.start.0, instance.end.0);
        let module = &instance.module;
        let serial = module.serial();
        let address = linked(bias, addr);
        let DataPlace { around, variable: object } = module.data_place(address);
        let (mut start, mut end) = (around.start, around.end);
        let section = module.section_at(address).map(|section| (section.address, section.bytes));
        let of = |resolver: &Self| resolver.image.instance(id).map(|instance| Arc::clone(&instance.module));
        let (base, variable) = if let Some(base) = object {
            let make = |resolver: &Self| of(resolver).and_then(|module| static_variable(&module, base));
            let key = VariableKey::Static(serial, base);
            (base, self.variable_id(key, |resolver| make(resolver).unwrap_or_else(nowhere)))
        } else if let Some((base, bytes)) = section {
            start = start.max(base);
            end = end.min(base.saturating_offset(bytes));
            let make = |resolver: &Self| of(resolver).and_then(|module| section_variable(&module, base));
            let key = VariableKey::Section(serial, base);
            (base, self.variable_id(key, |resolver| make(resolver).unwrap_or_else(nowhere)))
        } else {
            // No section is known here, or only at other places: no more than this byte has this answer.
            (start, end) = (address, address.saturating_offset(1));
            let kind = region.and_then(|id| self.image.regions().region(id)).map(|region| region.kind);
            let make = |resolver: &Self| {
                let name: Option<Arc<str>> = of(resolver).map(|module| module.name().into());
                Variable {
                    name: name.clone().unwrap_or_else(|| "[unknown]".into()),
                    kind: VariableKind::Section,
                    region: kind.unwrap_or(RegionKind::Data),
                    bytes: high.saturating_sub(low),
                    module: name,
                }
            };
            (LinkAddr(0), self.variable_id(VariableKey::Section(serial, LinkAddr::MAX), make))
        };
        // Ranges of the file can wrap when they are placed: cut them to what is around the address.
        let start = VirtAddr(addr.0 - (address.0 - start.0).min(addr.0 - low));
        let end = VirtAddr(addr.0 + (end.0 - address.0).min(high - addr.0));
        Some(NamedRange { start, end, base: placed(bias, base), variable, region })
    }

    fn block_key(&self, hit: BlockHit) -> VariableKey {
        VariableKey::Block(self.process, hit.block, hit.state)
    }

    fn named_block(&self, hit: BlockHit) -> Variable {
        let Some(block) = self.heap.block(hit.block) else { return nowhere() };
        let code = self.site_codes.get(block.site.0 as usize);
        let place =
            code.and_then(|code| self.names.code(*code)).map_or_else(String::new, |code| code.to_string());
        let name = self.heap.forged_name(hit.block, hit.state, &place).unwrap_or_default();
        let kind = VariableKind::Block { process: self.process, block: hit.block, state: hit.state };
        let regions = self.image.regions();
        let region = regions.find(block.start).and_then(|id| regions.region(id));
        let region = region.map_or(RegionKind::Anonymous, |region| region.kind);
        Variable { name: name.into(), kind, region, bytes: block.len, module: None }
    }

    fn region_variable(&mut self, id: Option<RegionId>) -> (VariableId, VirtAddr) {
        let base = id.and_then(|id| self.image.regions().region(id)).map(|region| region.start);
        let (Some(id), Some(base)) = (id, base) else {
            return (self.variable_id(VariableKey::Nowhere, |_| nowhere()), VirtAddr(0));
        };
        let variable = self.variable_id(VariableKey::Region(self.process, id), |resolver| {
            let Some(region) = resolver.image.regions().region(id) else { return nowhere() };
            let bracketed = || format!("[{}]", region.kind.name()).into();
            Variable {
                name: if region.name.is_empty() { bracketed() } else { Arc::clone(&region.name) },
                kind: VariableKind::Region { process: resolver.process, region: id },
                region: region.kind,
                bytes: region.len,
                module: None,
            }
        });
        (variable, base)
    }
}

fn static_variable(module: &Module, address: LinkAddr) -> Option<Variable> {
    let object = module.data_at(address)?;
    Some(Variable {
        name: object.name.into(),
        kind: VariableKind::Static,
        region: object.section.region(),
        bytes: object.bytes,
        module: Some(module.name().into()),
    })
}

fn section_variable(module: &Module, address: LinkAddr) -> Option<Variable> {
    let section =
        module.sections().iter().find(|section| section.address == address && section.bytes != 0)?;
    Some(Variable {
        name: format!("{}:{}", module.name(), section.name).into(),
        kind: VariableKind::Section,
        region: section.kind.region(),
        bytes: section.bytes,
        module: Some(module.name().into()),
    })
}

fn mapped_len(kind: AllocationKind, len: u64) -> u64 {
    match kind {
        AllocationKind::Mmap | AllocationKind::Mremap | AllocationKind::Munmap => {
            len.saturating_add(VirtAddr::PAGE_BYTES)
        }
        _ => len.max(1),
    }
}
