//! The caches of named machines, as their manufacturers document them, and those of the machine this runs on. The
//! last level is the part that one core can use: where the cache is split by cluster, the part of its cluster.

use std::path::Path;

use super::CacheShape;

/// A machine's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMachine {
    /// What it is called.
    pub name: &'static str,
    /// The first level of data.
    pub l1: CacheShape,
    /// The second one.
    pub l2: Option<CacheShape>,
    /// The last one.
    pub ll: Option<CacheShape>,
}

const fn kib(kib: u64, ways: u32) -> CacheShape {
    CacheShape { bytes: kib << 10, ways, line_bytes: 64 }
}

const fn machine(name: &'static str, l1: CacheShape, l2: CacheShape, ll: CacheShape) -> KnownMachine {
    KnownMachine { name, l1, l2: Some(l2), ll: Some(ll) }
}

/// The machines that have names.
const MACHINES: [KnownMachine; 8] = [
    machine("haswell", kib(32, 8), kib(256, 8), kib(8 << 10, 16)),
    machine("skylake", kib(32, 8), kib(256, 4), kib(8 << 10, 16)),
    machine("skylake-sp", kib(32, 8), kib(1024, 16), kib(1408 * 16, 11)),
    machine("ice-lake-sp", kib(48, 12), kib(1280, 20), kib(1536 * 24, 12)),
    machine("sapphire-rapids", kib(48, 12), kib(2048, 16), kib(1920 * 32, 15)),
    machine("zen2", kib(32, 8), kib(512, 8), kib(16 << 10, 16)),
    machine("zen3", kib(32, 8), kib(512, 8), kib(32 << 10, 16)),
    machine("zen4", kib(32, 8), kib(1024, 8), kib(32 << 10, 16)),
];

/// The machine of that name.
///
/// # Errors
/// The names there are.
pub fn known_machine(name: &str) -> Result<KnownMachine, String> {
    let found = MACHINES.iter().find(|machine| machine.name == name).copied();
    found.ok_or_else(|| {
        let names: Vec<&str> = MACHINES.iter().map(|machine| machine.name).collect();
        format!("known are host, {}", names.join(", "))
    })
}

/// The caches of this machine's first processor, as the kernel tells them.
pub fn this_machine() -> Option<KnownMachine> {
    read_machine(Path::new("/sys/devices/system/cpu/cpu0/cache"))
}

fn read_machine(root: &Path) -> Option<KnownMachine> {
    let mut levels: Vec<(u64, CacheShape)> = Vec::new();
    for index in 0..8 {
        let directory = root.join(format!("index{index}"));
        let text = |file: &str| {
            std::fs::read_to_string(directory.join(file)).ok().map(|text| text.trim().to_owned())
        };
        if !matches!(text("type").as_deref(), Some("Data" | "Unified")) {
            continue;
        }
        let number = |file: &str| text(file)?.parse::<u64>().ok();
        let (Some(level), Some(size), Some(line)) =
            (number("level"), text("size"), number("coherency_line_size"))
        else {
            continue;
        };
        // A cache without sets is said to have no ways, or the kernel does not know them.
        let ways = number("ways_of_associativity").filter(|ways| *ways > 0).unwrap_or(16);
        if let Ok(shape) = format!("{size},{ways},{line}").parse::<CacheShape>() {
            levels.push((level, shape));
        }
    }
    levels.sort_by_key(|(level, _)| *level);
    let mut shapes = levels.into_iter().map(|(_, shape)| shape);
    let l1 = shapes.next()?;
    let rest: Vec<CacheShape> = shapes.collect();
    let (l2, ll) = match rest.as_slice() {
        [] => (None, None),
        [last] => (None, Some(*last)),
        [second, .., last] => (Some(*second), Some(*last)),
    };
    Some(KnownMachine { name: "host", l1, l2, ll })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_can_be() {
        for machine in MACHINES {
            for shape in [Some(machine.l1), machine.l2, machine.ll].into_iter().flatten() {
                let CacheShape { bytes, ways, line_bytes } = shape;
                assert_eq!(CacheShape::new(bytes, ways.into(), line_bytes), Ok(shape), "{}", machine.name);
            }
        }
        assert!(known_machine("zen4").is_ok_and(|machine| machine.l1.sets() == 64));
        assert!(known_machine("z80").is_err_and(|names| names.contains("sapphire-rapids")));
    }

    #[test]
    fn the_kernels_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let levels = [
            ("1", "Data", "48K", "12"),
            ("1", "Instruction", "32K", "8"),
            ("2", "Unified", "2048K", "16"),
            ("3", "Unified", "107520K", "15"),
        ];
        for (index, (level, kind, size, ways)) in levels.into_iter().enumerate() {
            let place = dir.path().join(format!("index{index}"));
            std::fs::create_dir(&place).unwrap();
            for (file, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", "64"),
            ] {
                std::fs::write(place.join(file), format!("{text}\n")).unwrap();
            }
        }
        let machine = read_machine(dir.path()).unwrap();
        assert_eq!(machine.l1, kib(48, 12));
        assert_eq!((machine.l2, machine.ll), (Some(kib(2048, 16)), Some(kib(107_520, 15))));
        assert_eq!(read_machine(&dir.path().join("nothing")), None);
    }
}
