//! Programs built for a test, and the mapping and allocation events that it uses.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses a part of it")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use memref::{
    Allocation, AllocationFunction, AllocationKind, Order, ProcessId, RegionChange, RegionEvent, RegionKind,
    VirtAddr,
};
use symbols::{Module, ModuleStore, Names, Resolver, SearchPath};
use tempfile::TempDir;

/// A directory with a built program.
pub struct Built {
    pub dir: TempDir,
    pub path: PathBuf,
}

pub fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Builds `source` with `gcc`, `g++` or `rustc`.
pub fn build(compiler: &str, source: &str, flags: &[&str]) -> Built {
    let dir = tempfile::tempdir().unwrap();
    let extension = match compiler {
        "gcc" => "c",
        "g++" => "cc",
        _ => "rs",
    };
    let file = dir.path().join(format!("program.{extension}"));
    std::fs::write(&file, source).unwrap();
    let path = dir.path().join("program");
    run(Command::new(compiler).args(flags).arg(&file).arg("-o").arg(&path));
    Built { dir, path }
}

pub fn open(path: &Path) -> Module {
    Module::open(path, None, &SearchPath::default()).unwrap()
}

/// What `nm` says: an account that owes this crate nothing.
pub fn nm(path: &Path, name: &str) -> u64 {
    let text = run(Command::new("nm").arg(path));
    let line = text.lines().find(|line| line.rsplit(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

pub fn resolver(search: SearchPath) -> Resolver {
    Resolver::new(ProcessId(0), Arc::new(ModuleStore::new(search)), Arc::new(Names::default()))
}

pub fn region(
    order: Order,
    change: RegionChange,
    kind: RegionKind,
    start: u64,
    len: u64,
) -> RegionEvent<String> {
    RegionEvent {
        order,
        process: ProcessId(0),
        change,
        kind,
        rights: 3,
        traced: true,
        start: VirtAddr(start),
        len,
        file_offset: 0,
        name: String::new(),
    }
}

pub fn allocation(kind: AllocationKind, ip: u64, addr: u64, len: u64) -> Allocation {
    Allocation {
        cycle: 0,
        order: 0,
        ip: VirtAddr(ip),
        kind,
        function: AllocationFunction::Malloc,
        addr: VirtAddr(addr),
        len,
        old_addr: VirtAddr(0),
        old_len: 0,
    }
}

/// The mappings of a module as the kernel makes them at `bias`.
pub fn mappings(module: &Module, bias: u64) -> Vec<RegionEvent<String>> {
    let page = |addr: u64| addr & !4095;
    let up = |addr: u64| addr.next_multiple_of(4096);
    let mut events = Vec::new();
    for segment in module.segments() {
        let kind = match segment.rights {
            rights if rights & 4 != 0 => RegionKind::Text,
            rights if rights & 2 != 0 => RegionKind::Data,
            _ => RegionKind::Rodata,
        };
        let (start, in_file) = (page(segment.address.0), up(segment.address.0 + segment.file_bytes));
        let mut event = region(1, RegionChange::Map, kind, bias + start, in_file - start);
        event.rights = segment.rights;
        event.file_offset = page(segment.file_offset);
        event.name = module.mapped_name().to_owned();
        events.push(event);
        let end = up(segment.address.0 + segment.bytes);
        if end > in_file {
            events.push(region(1, RegionChange::Map, RegionKind::Bss, bias + in_file, end - in_file));
        }
    }
    events
}

/// A resolver with one module mapped; a program linked to fixed addresses is mapped there.
pub fn mapped(path: &Path) -> (Resolver, u64) {
    let module = open(path);
    let bias = if module.is_fixed() { 0 } else { 0x5555_5555_4000 };
    let mut resolver = resolver(SearchPath::default());
    for event in mappings(&module, bias) {
        resolver.apply_region(&event);
    }
    assert!(resolver.image().store().take_problems().is_empty());
    (resolver, bias)
}
