//! The mappings of the test process itself: names for addresses that it can check.

mod support;

use memref::{RegionChange, RegionKind, VirtAddr};
use support::{region, resolver};
use symbols::SearchPath;

static TABLE: [u64; 16] = [7; 16];

#[inline(never)]
extern "C" fn known_function(n: u64) -> u64 {
    std::hint::black_box(n) + TABLE[n as usize % 16]
}

#[test]
fn addresses_of_this_program() {
    let mut resolver = resolver(SearchPath::default());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = words[0].split_once('-').unwrap();
        let name = words.get(5).copied().unwrap_or("");
        let bits = [('r', 1), ('w', 2), ('x', 4)];
        let rights = bits.iter().filter(|(letter, _)| words[1].contains(*letter)).map(|(_, bit)| bit).sum();
        let kind = match (name, rights) {
            ("[heap]", _) => RegionKind::Heap,
            ("[stack]", _) => RegionKind::Stack,
            (_, 4..) => RegionKind::Text,
            ("", _) => RegionKind::Anonymous,
            _ if rights & 2 != 0 => RegionKind::Data,
            _ => RegionKind::Rodata,
        };
        let mut event = region(1, RegionChange::Map, kind, hex(start), hex(end) - hex(start));
        event.file_offset = hex(words[2]);
        event.rights = rights;
        event.name = name.to_owned();
        resolver.apply_region(&event);
    }
    assert_eq!(known_function(3), 10);
    let table = VirtAddr(std::ptr::from_ref(&TABLE) as u64);
    assert_eq!(resolver.data_text(table.offset(24), 8), "this_process::TABLE[3]");
    let function = VirtAddr(known_function as *const () as u64);
    let code = resolver.code_name(function).unwrap();
    assert_eq!(code.to_string(), "this_process::known_function+0");
    assert!(code.line().unwrap().0.ends_with("this_process.rs"));
    let found = resolver.image().find_function("this_process::known_function").unwrap();
    assert_eq!(found[0].addr, function);
    // Each module of the process was placed where its own headers say.
    for (_, instance) in resolver.image().instances() {
        assert!(!instance.module.segments().is_empty(), "{}", instance.module.name());
        for (start, end, id) in resolver.image().regions().ranges() {
            if *resolver.image().regions().region(id).unwrap().name == *instance.module.mapped_name() {
                assert!(instance.start <= start && end <= instance.end, "{}", instance.module.name());
            }
        }
    }
    let libc = resolver.image().instances().find(|(_, i)| i.module.name().starts_with("libc.so"));
    assert!(libc.is_some());
    let stack = 0u64;
    let on_stack = VirtAddr(std::ptr::from_ref(&stack) as u64);
    let name = resolver.resolve_data(on_stack);
    assert!(name.region.is_some());
    assert!(resolver.image().store().take_problems().is_empty());
}
