//! QEMU's command line: what it must not contain, and what is added to it.

use memref::RamLayout;

use crate::Error;

/// With less memory than this, every machine has it in one piece.
const ONE_PIECE_BYTES: u64 = 0xb000_0000;
const DEFAULT_RAM_BYTES: u64 = 128 << 20;

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QemuCommand {
    /// QEMU's arguments.
    pub(crate) args: Vec<String>,
    /// Where the guest's memory lies, if it is shared with the plugin; nowhere otherwise.
    pub(crate) ram: RamLayout,
    /// Why it is not shared.
    pub(crate) problem: Option<String>,
}

/// An amount as QEMU reads it; `unit` where it has no suffix.
fn size(text: &str, unit: u64) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let factor = match suffix {
        "" => unit,
        "b" | "B" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    // QEMU rounds up to 8 KiB.
    (bytes >= 1.0).then(|| (bytes as u64).next_multiple_of(8192))
}

/// The values of an option: `-NAME VALUE`, also with two dashes.
fn values<'a>(args: &'a [String], names: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> + 'a {
    args.iter().enumerate().filter_map(move |(at, arg)| {
        let name = arg.strip_prefix("--").or(arg.strip_prefix('-'))?;
        names.contains(&name).then(|| args.get(at + 1).map(|value| (at + 1, value.as_str())))?
    })
}

fn has(args: &[String], names: &[&str]) -> bool {
    args.iter()
        .any(|arg| arg.strip_prefix("--").or(arg.strip_prefix('-')).is_some_and(|name| names.contains(&name)))
}

/// A setting among an option's, `NAME=VALUE,...`.
fn setting<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// Adds the plugin, a memory that is shared with it, and one thread for all vCPUs. `plugin` is the plugin's option
/// without the memory's size.
pub(crate) fn complete(args: &[String], plugin: &str, needs_memory: bool) -> Result<QemuCommand, Error> {
    let mut args = args.to_vec();
    let machine = ["M", "machine"];
    let kvm = |value: &str| ["kvm", "xen", "hvf", "whpx", "nvmm"].contains(&value);
    let accel = |value: &str| value.split([',', ':']).next().unwrap_or("").to_owned();
    if has(&args, &["enable-kvm"])
        || values(&args, &["accel"]).any(|(_, value)| kvm(&accel(value)))
        || values(&args, &machine)
            .any(|(_, value)| setting(value, "accel").is_some_and(|accel| accel.split(':').any(kvm)))
    {
        return Err(Error::QemuArguments("QEMU is asked for hardware virtualisation (KVM), which no plugin sees; leave it out: the translator (TCG) is needed".into()));
    }
    if values(&args, &["cpu"]).any(|(_, value)| accel(value) == "host") {
        return Err(Error::QemuArguments("-cpu host needs hardware virtualisation (KVM), which no plugin sees; name a processor or -cpu max".into()));
    }
    let several = values(&args, &["smp"]).any(|(_, value)| {
        let first = value.split(',').next().unwrap_or("");
        let cpus = setting(value, "cpus").or(setting(value, "maxcpus")).unwrap_or(first);
        cpus != "1" || setting(value, "maxcpus").is_some_and(|most| most != "1")
    });
    let given: Vec<(usize, String)> =
        values(&args, &["accel"]).map(|(at, value)| (at, value.to_owned())).collect();
    if given.iter().any(|(_, value)| setting(value, "thread") == Some("multi")) && several {
        return Err(Error::QemuArguments("-accel tcg,thread=multi: several vCPUs at once have no one order of accesses; leave thread=multi out".into()));
    }
    let by_machine = values(&args, &machine).any(|(_, value)| setting(value, "accel").is_some());
    match given.last() {
        Some((at, value)) if several && setting(value, "thread").is_none() => {
            args[*at] = format!("{value},thread=single");
        }
        Some(_) => {}
        None if by_machine && several => {
            return Err(Error::QemuArguments(
                "-machine accel=tcg with several vCPUs: use -accel tcg,thread=single instead".into(),
            ));
        }
        None if by_machine => {}
        None => args.extend(["-accel".into(), if several { "tcg,thread=single" } else { "tcg" }.into()]),
    }
    let (ram, problem) = match memory(&mut args, &machine)? {
        GuestMemory::Shared(ram) => (ram, None),
        GuestMemory::Own(why) if needs_memory => {
            return Err(Error::QemuArguments(format!("written data can't be recorded: {why}")));
        }
        GuestMemory::Own(why) => (RamLayout::default(), Some(why.to_owned())),
    };
    args.extend(["-plugin".into(), format!("{plugin},ram={}/{}", ram.bytes(), ram.low_bytes())]);
    Ok(QemuCommand { args, ram, problem })
}

/// A version of QEMU: 7.2 is (7, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QemuVersion(u32, u32);

impl QemuVersion {
    /// That of a QEMU that says this of itself.
    pub(crate) fn of(help: &str) -> Option<Self> {
        let (_, rest) = help.split_once("version ")?;
        let (major, rest) = rest.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }

    /// Whether it tells plugins places in its own memory as physical addresses.
    pub(crate) fn tells_offsets(self) -> bool {
        self < Self(8, 2)
    }

    /// Whether it may run code that lies at several addresses as if it were at one of them, and plugins can't ask at which. Without that
    /// is 7.2, and plugins can ask from 9.0 on.
    pub(crate) fn hides_addresses(self) -> bool {
        Self(7, 2) < self && self < Self(9, 0)
    }
}

/// Where the guest's memory is.
enum GuestMemory {
    /// In a file that the plugin can map.
    Shared(RamLayout),
    /// QEMU has it for itself: why.
    Own(&'static str),
}

/// Adds a memory backend, where there can be one.
fn memory(args: &mut Vec<String>, machine: &[&str]) -> Result<GuestMemory, Error> {
    let own = values(args, machine).any(|(_, value)| setting(value, "memory-backend").is_some())
        || has(args, &["numa", "mem-path"]);
    let asked = values(args, &["m"]).last().map(|(_, value)| value.to_owned());
    let bytes = match &asked {
        None => Some(DEFAULT_RAM_BYTES),
        Some(value) => {
            let first = value.split(',').next().unwrap_or("");
            size(setting(value, "size").unwrap_or(first), 1 << 20)
        }
    };
    let why = match bytes {
        _ if own => {
            "the command line has a memory backend of its own (-numa, -mem-path or memory-backend); leave it out"
        }
        None => {
            let asked = asked.unwrap_or_default();
            let why = format!("-m {asked}: this amount of memory is not understood");
            return Err(Error::QemuArguments(why));
        }
        Some(bytes) => match layout(args, machine, bytes) {
            Some(ram) => {
                // What the machine would call it itself: snapshots and migrations find it by its name.
                let name = if kind(args, machine) == "microvm" { "microvm.ram" } else { "pc.ram" };
                args.extend([
                    "-object".into(),
                    format!("memory-backend-memfd,id={name},size={bytes},share=on"),
                    "-machine".into(),
                    format!("memory-backend={name}"),
                ]);
                return Ok(GuestMemory::Shared(ram));
            }
            None => {
                "with 2816 MiB of memory or more, only of the machines pc, q35 and microvm is it known where it lies; use one of them, or \
                 give it less by -m"
            }
        },
    };
    Ok(GuestMemory::Own(why))
}

/// The machine that is asked for.
fn kind<'a>(args: &'a [String], machine: &'a [&'a str]) -> &'a str {
    let kinds = values(args, machine).filter_map(|(_, value)| {
        setting(value, "type").or_else(|| value.split(',').next().filter(|first| !first.contains('=')))
    });
    kinds.last().unwrap_or("pc")
}

/// Where QEMU's machines have so much memory, as pc_piix.c, pc_q35.c and microvm.c in its hw/i386 place it; `None` of a machine that is not known.
fn layout(args: &[String], machine: &[&str], bytes: u64) -> Option<RamLayout> {
    const GIB: u64 = 1 << 30;
    let last = |name: &str| values(args, machine).filter_map(|(_, value)| setting(value, name)).last();
    let most_low = last("max-ram-below-4g").map(|text| size(text, 1)).unwrap_or(Some(0))?;
    let kind = kind(args, machine);
    let is =
        |names: &[&str]| names.iter().any(|name| kind == *name || kind.starts_with(&format!("pc-{name}-")));
    let low = if is(&["q35"]) {
        let low = if bytes >= ONE_PIECE_BYTES { 2 * GIB } else { ONE_PIECE_BYTES };
        if most_low == 0 { low } else { low.min(most_low) }
    } else if is(&["pc", "i440fx"]) {
        match most_low {
            0 if bytes >= 7 * GIB / 2 => 3 * GIB,
            0 => 7 * GIB / 2,
            most if bytes >= most => most.min(3 * GIB),
            most => most,
        }
    } else if kind == "microvm" {
        3 * GIB
    } else if bytes < ONE_PIECE_BYTES && most_low == 0 {
        bytes
    } else {
        return None;
    };
    Some(RamLayout::new(bytes, low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn check(args: &str, expect: &str) {
        let complete = complete(&words(args), "P", true).unwrap();
        assert_eq!(complete.args.join(" "), expect);
    }

    fn refused(args: &str, expect: &str) {
        let error = complete(&words(args), "P", true).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn what_is_missing_is_added() {
        let backend = |bytes: u64| {
            format!(
                "-object memory-backend-memfd,id=pc.ram,size={bytes},share=on -machine memory-backend=pc.ram -plugin P,ram={bytes}/{bytes}"
            )
        };
        check("-m 64", &format!("-m 64 -accel tcg {}", backend(64 << 20)));
        check(
            "-m size=1G,slots=2 -smp 1",
            &format!("-m size=1G,slots=2 -smp 1 -accel tcg {}", backend(1 << 30)),
        );
        check("-smp 2", &format!("-smp 2 -accel tcg,thread=single {}", backend(128 << 20)));
        check("-smp 2 -accel tcg", &format!("-smp 2 -accel tcg,thread=single {}", backend(128 << 20)));
        check("-M pc,accel=tcg", &format!("-M pc,accel=tcg {}", backend(128 << 20)));
    }

    #[test]
    fn what_plugins_can_not_see_is_refused() {
        refused("-enable-kvm", "KVM");
        refused("-accel kvm", "KVM");
        refused("-machine q35,accel=kvm:tcg", "KVM");
        refused("-cpu host", "KVM");
        refused("-smp 2 -accel tcg,thread=multi", "thread=multi");
        refused("-M isapc -m 8G", "pc, q35 and microvm");
        refused("-m lots", "not understood");
        refused("-numa node", "memory backend");
    }

    /// As `info mtree` of QEMU 7.2 shows it.
    #[test]
    fn memory_lies_where_the_machine_has_it() {
        let low = |args: &str| {
            let args = words(args);
            let asked = values(&args, &["m"]).last().and_then(|(_, value)| size(value, 1 << 20));
            let ram = layout(&args, &["M", "machine"], asked.expect("given"));
            ram.map(|ram| (ram.low_bytes() >> 20, (ram.bytes() - ram.low_bytes()) >> 20))
        };
        assert_eq!(low("-m 2816"), Some((2816, 0)));
        assert_eq!(low("-m 3583"), Some((3583, 0)));
        assert_eq!(low("-m 3584"), Some((3072, 512)));
        assert_eq!(low("-M pc-i440fx-7.2 -m 16G"), Some((3072, 13 << 10)));
        assert_eq!(low("-M q35 -m 2815"), Some((2815, 0)));
        assert_eq!(low("-M q35 -m 2816"), Some((2048, 768)));
        assert_eq!(low("-machine accel=tcg,type=pc-q35-7.1 -m 4G"), Some((2048, 2048)));
        assert_eq!(low("-M q35,max-ram-below-4g=1G -m 2G"), Some((1024, 1024)));
        assert_eq!(low("-M pc,max-ram-below-4g=1G -m 512"), Some((512, 0)));
        assert_eq!(low("-M pc -machine max-ram-below-4g=3.5G -m 4G"), Some((3072, 1024)));
        assert_eq!(low("-M microvm -m 3073"), Some((3072, 1)));
        assert_eq!(low("-M isapc -m 2G"), Some((2048, 0)));
        assert_eq!(low("-M isapc -m 4G"), None);
    }

    #[test]
    fn versions_are_read() {
        let of = |help: &str| {
            QemuVersion::of(help).map(|version| (version.tells_offsets(), version.hides_addresses()))
        };
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright";
        assert_eq!(of(debian), Some((true, false)));
        assert_eq!(of("QEMU emulator version 8.1.5"), Some((true, true)));
        assert_eq!(of("QEMU emulator version 8.2.0"), Some((false, true)));
        assert_eq!(of("QEMU emulator version 9.0.0"), Some((false, false)));
        assert_eq!(of("QEMU emulator version 10.0.2 (Debian)"), Some((false, false)));
        assert_eq!(of("usage: qemu -machine"), None);
    }

    #[test]
    fn sizes_are_read_as_qemu_reads_them() {
        assert_eq!(size("64", 1 << 20), Some(64 << 20));
        assert_eq!(size("1.5G", 1 << 20), Some(3 << 29));
        assert_eq!(size("", 1), None);
    }
}
