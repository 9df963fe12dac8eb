//! The modules of one process at one point of its run: the file of each, and its load bias.

use std::sync::Arc;

use elf::LinkAddr;
use memref::{RegionChange, RegionEvent, RegionKind, VirtAddr};

use super::{RegionId, RegionMap};
use crate::names::{linked, placed};
use crate::{Module, ModuleStore, Segment};

/// A module in a process: an index into all instances it ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u32);

/// One module, mapped once.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The file. It has no symbols where it could not be read or is another build.
    pub module: Arc<Module>,
    /// What is added (wrapping) to the addresses in the file: zero for a program that is not position-independent.
    pub bias: u64,
    /// First byte.
    pub start: VirtAddr,
    /// First byte after it.
    pub end: VirtAddr,
    /// Whether any of it is still mapped.
    pub live: bool,
}

impl Instance {
    /// The address in its file of what is at an address of the process.
    pub fn linked(&self, addr: VirtAddr) -> LinkAddr {
        linked(self.bias, addr)
    }

    /// The address in the process of what is at an address of its file.
    pub fn placed(&self, address: LinkAddr) -> VirtAddr {
        placed(self.bias, address)
    }
}

/// Regions and modules of one process. A forked child starts with a clone.
#[derive(Clone, Debug)]
pub struct ProcessImage {
    store: Arc<ModuleStore>,
    regions: RegionMap,
    instances: Vec<Instance>,
    /// The live instances in the order of addresses.
    placed: Vec<InstanceId>,
}

impl ProcessImage {
    /// A process in which nothing is mapped yet; files are read through `store`.
    pub fn new(store: Arc<ModuleStore>) -> Self {
        Self { store, regions: RegionMap::default(), instances: Vec::new(), placed: Vec::new() }
    }

    /// Applies one event. Events come in the session's order.
    ///
    /// Returns whether the process's modules changed, so that names of code found before may hold no longer.
    pub fn apply(&mut self, event: &RegionEvent<String>) -> bool {
        let id = self.regions.apply(event);
        let changed = id.is_some() && self.place(event);
        if event.change == RegionChange::Change { changed } else { self.retire(event) | changed }
    }

    /// The regions.
    pub fn regions(&self) -> &RegionMap {
        &self.regions
    }

    /// Where files are read from.
    pub fn store(&self) -> &Arc<ModuleStore> {
        &self.store
    }

    /// The region of an address.
    #[inline]
    pub fn region_at(&self, addr: VirtAddr) -> Option<RegionId> {
        self.regions.find(addr)
    }

    /// The module of an address.
    pub fn instance_at(&self, addr: VirtAddr) -> Option<(InstanceId, &Instance)> {
        let after = self.placed.partition_point(|id| self.start_of(*id) <= addr.0);
        let id = *self.placed.get(after.checked_sub(1)?)?;
        let instance = self.instance(id)?;
        (addr < instance.end).then_some((id, instance))
    }

    /// A module, mapped now or before.
    pub fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.instances.get(id.0 as usize)
    }

    /// The modules mapped now, in the order of addresses.
    pub fn instances(&self) -> impl Iterator<Item = (InstanceId, &Instance)> {
        self.placed.iter().filter_map(|id| Some((*id, self.instance(*id)?)))
    }

    fn start_of(&self, id: InstanceId) -> u64 {
        self.instance(id).map_or(u64::MAX, |instance| instance.start.0)
    }

    /// Finds or makes the module that a mapped file belongs to.
    fn place(&mut self, event: &RegionEvent<String>) -> bool {
        let Some(module) = self.store.mapped_by(event) else { return false };
        if module.segments().is_empty() && event.kind == RegionKind::File {
            return false;
        }
        let biases = module.segments().iter().filter_map(|segment| bias(segment, event)).collect::<Vec<_>>();
        let known = self.placed.iter().filter_map(|id| self.instance(*id));
        if known
            .into_iter()
            .any(|i| Arc::ptr_eq(&i.module, &module) && biases.contains(&i.bias) && i.start <= event.start)
        {
            return false;
        }
        let (bias, start, end) = if module.segments().is_empty() {
            // The file can't be read: take its mappings, which follow each other, as one.
            let base = event.start.0.wrapping_sub(event.file_offset);
            if let Some(last) = self.placed.iter().rev().find(|id| {
                self.instance(**id).is_some_and(|i| Arc::ptr_eq(&i.module, &module) && i.bias == base)
            }) {
                let end = event.start.offset(event.len);
                if let Some(instance) = self.instances.get_mut(last.0 as usize) {
                    instance.end = instance.end.max(end);
                }
                return false;
            }
            (base, event.start.0, event.start.0.saturating_add(event.len))
        } else {
            // The first page of the file comes first; later mappings of an unknown module are taken by their rights.
            let Some(segment) = best_segment(&module, event) else { return false };
            let Some(bias) = bias(segment, event) else { return false };
            let extent = module.extent();
            let start = placed(bias, extent.start).0;
            (bias, start, start.saturating_add(extent.end.0 - extent.start.0))
        };
        let id = InstanceId(self.instances.len() as u32);
        self.instances.push(Instance {
            module,
            bias,
            start: VirtAddr(start),
            end: VirtAddr(end),
            live: true,
        });
        // What was there before is gone, even if nobody told.
        let (instances, placed) = (&mut self.instances, &mut self.placed);
        placed.retain(|other| {
            let Some(other) = instances.get_mut(other.0 as usize) else { return false };
            let apart = other.end.0 <= start || other.start.0 >= end;
            other.live = apart;
            apart
        });
        let at = self.placed.partition_point(|id| self.start_of(*id) < start);
        self.placed.insert(at, id);
        true
    }

    /// Ends the modules of which nothing is mapped any more.
    fn retire(&mut self, event: &RegionEvent<String>) -> bool {
        let (start, end) = (event.start.0, event.start.0.saturating_add(event.len));
        let regions = &self.regions;
        let instances = &mut self.instances;
        let before = self.placed.len();
        self.placed.retain(|id| {
            let Some(instance) = instances.get_mut(id.0 as usize) else { return false };
            let touched = start < instance.end.0 && instance.start.0 < end;
            // Memory of others may have taken the place.
            let mapped = |(from, to, region): (VirtAddr, VirtAddr, RegionId)| {
                from < instance.end
                    && instance.start < to
                    && regions.region(region).is_some_and(|r| *r.name == *instance.module.mapped_name())
            };
            instance.live = !touched || regions.ranges().any(mapped);
            instance.live
        });
        before != self.placed.len()
    }
}

/// What is added to the file's addresses if the event maps a part of `segment`.
fn bias(segment: &Segment, event: &RegionEvent<String>) -> Option<u64> {
    let page = VirtAddr::PAGE_BYTES;
    let first = segment.file_offset & !(page - 1);
    let last = segment.file_offset.checked_add(segment.file_bytes)?;
    if event.file_offset < first || event.file_offset >= last.max(first + 1) {
        return None;
    }
    let address = segment.address.0.wrapping_sub(segment.file_offset).wrapping_add(event.file_offset);
    Some(event.start.0.wrapping_sub(address))
}

fn best_segment<'a>(module: &'a Module, event: &RegionEvent<String>) -> Option<&'a Segment> {
    let fits = |segment: &&Segment| bias(segment, event).is_some();
    let same = |segment: &&Segment| segment.rights & 6 == event.rights & 6;
    let segments = module.segments().iter();
    segments.clone().filter(fits).find(same).or_else(|| segments.clone().find(fits))
}
