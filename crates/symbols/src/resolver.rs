//! Names for the addresses of one process at one point of its run.

use std::{collections::HashMap, sync::Arc};

use memref::{Allocation, AllocationKind, ProcessId, RegionEvent, RegionKind, VirtAddr};

use crate::{
    BlockHit, CodeId, CodeName, HeapChange, HeapMap, ModuleStore, Names, ProcessImage, RegionId, TypeLayout,
    Variable, VariableId, VariableKind,
    cache::{DataCache, Found},
    names::{VariableKey, nowhere},
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
    cache: DataCache,
    code_cache: Box<[(u64, CodeId)]>,
    code_of: HashMap<u64, CodeId>,
    /// The instruction of each allocation site, found when it first allocated.
    site_codes: Vec<CodeId>,
    paths: HashMap<(VariableId, u64, u32), Option<Arc<str>>>,
}

impl Resolver {
    /// A process of which nothing is known yet.
    pub fn new(process: ProcessId, store: Arc<ModuleStore>, names: Arc<Names>) -> Self {
        Self {
            process,
            names,
            image: ProcessImage::new(store),
            heap: HeapMap::new(),
            cache: DataCache::new(),
            code_cache: vec![(u64::MAX, CodeId(0)); CODE_SLOTS].into_boxed_slice(),
            code_of: HashMap::new(),
            site_codes: Vec::new(),
            paths: HashMap::new(),
        }
    }

    /// A child that was forked now: it has its parent's regions, modules, blocks and numbering.
    pub fn fork(&self, child: ProcessId) -> Self {
        let mut forked = Self { process: child, ..self.clone() };
        forked.cache.clear();
        forked
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
        if self.image.apply(event) {
            self.code_of.clear();
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
            HeapChange::Allocated(_) => self.cache.forget(event.addr, mapped_len(event.kind, event.len)),
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
        DataName { variable: found.variable, offset: addr.0.wrapping_sub(found.base), region: found.region }
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
        if let Some(entry) = self.code_cache.get_mut(slot) {
            *entry = (ip.0, code);
        }
        code
    }

    /// The name of an instruction.
    pub fn code_name(&mut self, ip: VirtAddr) -> Option<Arc<CodeName>> {
        let code = self.resolve_code(ip);
        self.names.code(code)
    }

    /// The type of a variable, where debug information tells it.
    pub fn type_of(&mut self, addr: VirtAddr) -> Option<Arc<TypeLayout>> {
        let (_, instance) = self.image.instance_at(addr)?;
        let object = instance.module.data_at(addr.0.wrapping_sub(instance.bias))?;
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
        self.paths.insert(key, path.clone());
        path
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
            Some((_, instance)) => {
                self.names.code_id(Some(&instance.module), ip.0.wrapping_sub(instance.bias))
            }
            None => self.names.code_id(None, ip.0),
        }
    }

    fn find_data(&self, addr: VirtAddr) -> Found {
        let (from, to, region) = self.image.regions().find_range(addr);
        let mut found = self.find_in_module(addr, region).unwrap_or_else(|| {
            let (start, end, hit) = self.heap.get_span(addr);
            let (variable, base) = match hit {
                Some(hit) => (self.block_variable(hit), addr.0.wrapping_sub(hit.offset)),
                None => self.region_variable(region),
            };
            Found { start: start.0, end: end.0, base, variable, region }
        });
        found.start = found.start.max(from.0);
        found.end = found.end.min(to.0);
        found
    }

    fn find_in_module(&self, addr: VirtAddr, region: Option<RegionId>) -> Option<Found> {
        let (_, instance) = self.image.instance_at(addr)?;
        let module = &instance.module;
        let address = addr.0.wrapping_sub(instance.bias);
        let name = || Some(Arc::from(module.name()));
        let (mut start, mut end, object) = module.data_span(address);
        let (base, variable) = if let Some(object) = object {
            let base = object.address;
            let key = VariableKey::Static(module.serial(), base);
            let variable = self.names.variable_id(key, || Variable {
                name: object.name.into(),
                kind: VariableKind::Static,
                region: object.section.region(),
                bytes: object.bytes,
                module: name(),
            });
            (base, variable)
        } else if let Some(section) = module.section_at(address) {
            start = start.max(section.address);
            end = end.min(section.address.saturating_add(section.bytes));
            let key = VariableKey::Section(module.serial(), section.address);
            let variable = self.names.variable_id(key, || Variable {
                name: format!("{}:{}", module.name(), section.name).into(),
                kind: VariableKind::Section,
                region: section.kind.region(),
                bytes: section.bytes,
                module: name(),
            });
            (section.address, variable)
        } else {
            // No section is known here, or only at other places: no more than this byte has this answer.
            (start, end) = (address, address.saturating_add(1));
            let kind = region.and_then(|id| self.image.regions().region(id)).map(|region| region.kind);
            let key = VariableKey::Section(module.serial(), u64::MAX);
            let variable = self.names.variable_id(key, || Variable {
                name: module.name().into(),
                kind: VariableKind::Section,
                region: kind.unwrap_or(RegionKind::Data),
                bytes: instance.end.0.saturating_sub(instance.start.0),
                module: name(),
            });
            (0, variable)
        };
        // Ranges of the file can wrap when they are placed: cut them to what is around the address.
        let start = addr.0 - (address - start).min(addr.0 - instance.start.0);
        let end = addr.0 + (end - address).min(instance.end.0 - addr.0);
        Some(Found { start, end, base: base.wrapping_add(instance.bias), variable, region })
    }

    fn block_variable(&self, hit: BlockHit) -> VariableId {
        let key = VariableKey::Block(self.process, hit.block, hit.state);
        self.names.variable_id(key, || {
            let Some(block) = self.heap.block(hit.block) else { return nowhere() };
            let code = self.site_codes.get(block.site.0 as usize).and_then(|code| self.names.code(*code));
            let place = code.map_or_else(String::new, |code| code.to_string());
            let name = self.heap.forged_name(hit.block, hit.state, &place).unwrap_or_default();
            let kind = VariableKind::Block { process: self.process, block: hit.block, state: hit.state };
            let region = self.image.region_at(block.start).and_then(|id| self.image.regions().region(id));
            let region = region.map_or(RegionKind::Anonymous, |region| region.kind);
            Variable { name: name.into(), kind, region, bytes: block.len, module: None }
        })
    }

    fn region_variable(&self, id: Option<RegionId>) -> (VariableId, u64) {
        let Some((id, region)) = id.and_then(|id| Some((id, self.image.regions().region(id)?))) else {
            return (self.names.variable_id(VariableKey::Nowhere, nowhere), 0);
        };
        let make = || Variable {
            name: if region.name.is_empty() {
                format!("[{}]", region.kind.name()).into()
            } else {
                Arc::clone(&region.name)
            },
            kind: VariableKind::Region { process: self.process, region: id },
            region: region.kind,
            bytes: region.len,
            module: None,
        };
        (self.names.variable_id(VariableKey::Region(self.process, id), make), region.start.0)
    }
}

fn mapped_len(kind: AllocationKind, len: u64) -> u64 {
    match kind {
        AllocationKind::Mmap | AllocationKind::Mremap | AllocationKind::Munmap => {
            len.saturating_add(VirtAddr::PAGE_BYTES)
        }
        _ => len.max(1),
    }
}
