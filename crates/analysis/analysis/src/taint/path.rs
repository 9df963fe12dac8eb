//! The instructions that a thread executed between two accesses.
//!
//! A translated trace counts every instruction and has every access. So of the paths from
//! one access to the next, only those remain that have the right number of instructions and
//! no memory access; mostly there is one. If there are several, all of them are followed.

use std::sync::Arc;

use memref::VirtAddr;
use rustc_hash::FxHashMap;
use symbols::Resolver;

use crate::labelled::{KnownInstruction, ProgramCode, RegisterSet, Successor};

/// Instructions between two accesses beyond which no way is looked for.
const MAX_LEN: u64 = 100_000;
/// Places where a thread can be after as many instructions.
const MAX_WIDTH: usize = 64;
/// Ways that are followed at once.
pub(super) const MAX_WAYS: usize = 4;
/// Instructions after a function that was not seen, until the next access.
const MAX_AFTER: u64 = 400;
/// Instructions before the target that an indirect branch may lead to.
const MAX_SWEEP: usize = 8192;

/// How far from where it is seen next a function may begin that has a name.
const MAX_DISTANCE: u64 = 64 << 10;
/// How far one may begin that has none.
const MAX_UNNAMED: u64 = 4096;

/// A way: the instructions without an access, in their order.
pub(super) type Way = Vec<VirtAddr>;

/// A way, ready to be executed.
#[derive(Clone, Debug)]
pub(super) struct KnownWay {
    pub(super) instructions: Vec<Arc<KnownInstruction>>,
    /// The registers of all of them.
    pub(super) registers: RegisterSet,
}

impl KnownWay {
    /// Without the instructions that are not known.
    pub(super) fn of(way: &[VirtAddr], code: &mut ProgramCode, resolver: &Resolver) -> Self {
        let instructions: Vec<_> = way.iter().filter_map(|&ip| code.at(resolver, ip)).collect();
        let mut registers = RegisterSet::default();
        instructions.iter().for_each(|decoded| registers.join(decoded.registers));
        Self { instructions, registers }
    }
}

/// Where the instruction `from` may lead, as far as it says.
fn starts(code: &mut ProgramCode, resolver: &Resolver, from: VirtAddr) -> Option<(Successor, Vec<VirtAddr>)> {
    let decoded = code.at(resolver, from)?;
    let next = decoded.next();
    let list = match decoded.successor {
        Successor::Next | Successor::Syscall => vec![next],
        Successor::Jump(target) | Successor::Call(target) => vec![target],
        Successor::Branch(target) if target == next => vec![next],
        Successor::Branch(target) => vec![next, target],
        Successor::IndirectJump | Successor::IndirectCall | Successor::Return => Vec::new(),
    };
    Some((decoded.successor, list))
}

/// All ways of `len` instructions from `from`, whose own access is after it, to the access of `to`. `returns` is where a
/// return goes. Empty where there is none.
pub(super) fn ways(
    code: &mut ProgramCode,
    resolver: &mut Resolver,
    from: VirtAddr,
    len: u64,
    to: VirtAddr,
    returns: Option<VirtAddr>,
) -> Vec<Way> {
    let Some((flow, mut first)) = starts(code, resolver, from) else { return Vec::new() };
    let unknown = match flow {
        Successor::Return => {
            first.extend(returns);
            false
        }
        Successor::IndirectJump | Successor::IndirectCall => true,
        _ => false,
    };
    if len > MAX_LEN {
        return Vec::new();
    }
    if !unknown {
        return search(code, resolver, first, len, to);
    }
    if len == 0 {
        return vec![Way::new()];
    }
    let first = entries(code, resolver, to, flow);
    let found = search(code, resolver, first, len, to);
    if !found.is_empty() {
        return found;
    }
    for candidates in [functions_near(resolver, to), aligned_before(to)] {
        let mut found = Vec::new();
        for start in candidates {
            found.extend(search(code, resolver, vec![start], len, to));
            if found.len() >= MAX_WAYS {
                break;
            }
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Starts of functions of the same file not far away: a function may go on in another one.
fn functions_near(resolver: &Resolver, to: VirtAddr) -> Vec<VirtAddr> {
    let Some((_, instance)) = resolver.image().instance_at(to) else { return Vec::new() };
    let symbols = instance.module.symbols().map(|symbol| instance.placed(symbol.address));
    let mut list: Vec<VirtAddr> = symbols.filter(|start| start.distance(to) < MAX_DISTANCE).collect();
    list.sort_unstable_by_key(|start| start.distance(to));
    list.dedup();
    list
}

/// Where functions without a symbol may begin.
fn aligned_before(to: VirtAddr) -> Vec<VirtAddr> {
    (0..MAX_UNNAMED / 16).map(|step| VirtAddr((to.0 & !15).wrapping_sub(step * 16))).collect()
}

/// A place that a thread can be at after so many instructions.
struct ReachedPlace {
    ip: VirtAddr,
    /// Those of the places one instruction before that lead to it, by index.
    from: Vec<u16>,
}

/// All ways of `len` instructions from one of `first` to the access of `to`.
fn search(
    code: &mut ProgramCode,
    resolver: &mut Resolver,
    first: Vec<VirtAddr>,
    len: u64,
    to: VirtAddr,
) -> Vec<Way> {
    if len == 0 {
        return if first.contains(&to) { vec![Way::new()] } else { Vec::new() };
    }
    // Where it can be after each instruction.
    let mut layers: Vec<Vec<ReachedPlace>> = Vec::with_capacity(len as usize + 1);
    layers.push(first.into_iter().map(|start| ReachedPlace { ip: start, from: Vec::new() }).collect());
    for step in 0..len as usize {
        let mut next: Vec<ReachedPlace> = Vec::new();
        for (index, &ReachedPlace { ip, .. }) in layers[step].iter().enumerate() {
            let Some(decoded) = code.at(resolver, ip).filter(|decoded| decoded.can_be_silent) else {
                continue;
            };
            let after = decoded.next();
            let targets = match decoded.successor {
                Successor::Next | Successor::Syscall => vec![after],
                Successor::Jump(target) => vec![target],
                Successor::Branch(target) if target != after => vec![after, target],
                Successor::Branch(_) => vec![after],
                // A jump through a register: nothing of the trace says where to, but where it is seen next.
                Successor::IndirectJump => entries(code, resolver, to, Successor::IndirectJump),
                _ => Vec::new(),
            };
            for target in targets {
                match next.iter_mut().find(|place| place.ip == target) {
                    Some(place) if place.from.len() < MAX_WAYS => place.from.push(index as u16),
                    Some(_) => {}
                    None => next.push(ReachedPlace { ip: target, from: vec![index as u16] }),
                }
            }
        }
        if next.is_empty() || next.len() > MAX_WIDTH {
            return Vec::new();
        }
        layers.push(next);
    }
    let Some(last) = layers.last().and_then(|layer| layer.iter().position(|place| place.ip == to)) else {
        return Vec::new();
    };
    back(&layers, last)
}

/// The ways that end at an entry of the last layer.
fn back(layers: &[Vec<ReachedPlace>], last: usize) -> Vec<Way> {
    let mut open: Vec<(usize, Way)> = vec![(last, Way::new())];
    for step in (1..layers.len()).rev() {
        let mut more = Vec::new();
        for (index, way) in open {
            let from = layers[step].get(index).map_or(&[][..], |place| &place.from);
            for &before in from {
                if more.len() < MAX_WAYS {
                    let mut way = way.clone();
                    if let Some(place) = layers[step - 1].get(usize::from(before)) {
                        way.push(place.ip);
                    }
                    more.push((usize::from(before), way));
                }
            }
        }
        open = more;
    }
    open.into_iter()
        .map(|(_, mut way)| {
            way.reverse();
            way
        })
        .collect()
}

/// Where an indirect branch may have led if it is at `to` soon: the start of the function there, and for a jump every
/// instruction of it before `to`.
fn entries(code: &mut ProgramCode, resolver: &mut Resolver, to: VirtAddr, from: Successor) -> Vec<VirtAddr> {
    let Some(name) = resolver.code_name(to) else { return Vec::new() };
    if name.function.is_none() || name.offset > MAX_SWEEP as u64 {
        return Vec::new();
    }
    let start = VirtAddr(to.0 - name.offset);
    let mut list = vec![start];
    if from == Successor::IndirectJump {
        let mut at = start;
        while at < to
            && let Some(decoded) = code.at(resolver, at)
        {
            at = decoded.next();
            list.push(at);
        }
        // Those near `to` are as many as can be followed.
        let near = list.len().saturating_sub(MAX_WIDTH - 1);
        list.drain(..near);
    }
    list
}

/// The shortest way from `start` to the access of `to`, where nobody counted.
pub(super) fn way_after(
    code: &mut ProgramCode,
    resolver: &Resolver,
    start: VirtAddr,
    to: VirtAddr,
) -> Option<Way> {
    let mut came: FxHashMap<VirtAddr, VirtAddr> = FxHashMap::default();
    let mut layer = vec![start];
    came.insert(start, VirtAddr(0));
    for _ in 0..MAX_AFTER {
        if layer.contains(&to) {
            let mut way = Way::new();
            let mut at = to;
            while at != start {
                at = *came.get(&at)?;
                way.push(at);
            }
            way.reverse();
            return Some(way);
        }
        let mut next = Vec::new();
        for ip in layer {
            let Some(decoded) = code.at(resolver, ip).filter(|decoded| decoded.can_be_silent) else {
                continue;
            };
            let after = decoded.next();
            let list = match decoded.successor {
                Successor::Next | Successor::Syscall => [Some(after), None],
                Successor::Jump(target) => [Some(target), None],
                Successor::Branch(target) => [Some(after), Some(target)],
                _ => [None, None],
            };
            for target in list.into_iter().flatten() {
                came.entry(target).or_insert_with(|| {
                    next.push(target);
                    ip
                });
            }
        }
        if next.is_empty() || next.len() > MAX_WIDTH {
            return None;
        }
        layer = next;
    }
    None
}
