//! The program that a user wants recorded: found, and judged before anything is started or written.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const PT_INTERP: u32 = 3;
const EM_X86_64: u16 = 62;
const SET_ID: u32 = 0o6000;
/// The kernel follows no more `#!` lines than that.
const MAX_SCRIPTS: usize = 5;

/// Finds a program as a shell would: in PATH, unless its name has a slash.
pub fn find(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        let kind = path.metadata().with_context(|| format!("{name}: can't be run"))?;
        if kind.is_dir() {
            bail!("{name}: is a directory; name a program");
        }
        if kind.permissions().mode() & 0o111 == 0 {
            bail!("{name}: is not executable; make it so with chmod +x");
        }
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut not_executable = None;
    for directory in std::env::split_paths(&path) {
        let candidate = directory.join(name);
        let Ok(kind) = candidate.metadata() else { continue };
        if kind.is_file() && kind.permissions().mode() & 0o111 != 0 {
            return Ok(candidate);
        }
        if kind.is_file() {
            not_executable = Some(candidate);
        }
    }
    match not_executable {
        Some(found) => bail!("{}: is not executable; make it so with chmod +x", found.display()),
        None => bail!("{name}: no such program in PATH; check the spelling or give a path"),
    }
}

/// How a program comes to run a tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// The loader takes the tracer along.
    Dynamic,
    /// There is no loader: another program is started in its place.
    Static,
}

/// Refuses what the native tracers can't record.
pub fn check(path: &Path) -> Result<Linkage> {
    check_nested(path, MAX_SCRIPTS)
}

fn check_nested(path: &Path, scripts: usize) -> Result<Linkage> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{shown}: can't be read, which recording needs"))?;
    let mut head = Vec::new();
    file.try_clone()?.take(4096).read_to_end(&mut head).with_context(|| format!("{shown}: can't be read"))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let interpreter =
            String::from_utf8_lossy(line).split_whitespace().next().unwrap_or_default().to_owned();
        if interpreter.is_empty() || scripts == 0 {
            bail!("{shown}: its first line names no interpreter; name one behind #!");
        }
        let linkage = check_nested(Path::new(&interpreter), scripts - 1)
            .with_context(|| format!("{shown}: its interpreter can't be recorded"))?;
        if linkage == Linkage::Static {
            bail!(
                "{shown}: its interpreter {interpreter} is statically linked; record that, with the script as argument"
            );
        }
        return Ok(linkage);
    }
    let metadata = file.metadata()?;
    if metadata.mode() & SET_ID != 0 {
        bail!(
            "{shown}: runs with another user's rights (setuid), and the loader then ignores the tracer; record a copy without the bit"
        );
    }
    check_elf(&head, &file).map_err(|what| anyhow::anyhow!("{shown}: {what}"))
}

fn check_elf(head: &[u8], file: &File) -> Result<Linkage, String> {
    let half = |at: usize| head.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if !head.starts_with(b"\x7fELF") {
        return Err("is neither a program (ELF) nor a script (#!); name an executable".into());
    }
    let machine = half(18).unwrap_or(0);
    if head.get(4) == Some(&1) {
        return Err("is a 32-bit program; memtap records x86-64 programs only".into());
    }
    if machine != EM_X86_64 || head.get(5) != Some(&1) {
        return Err(format!(
            "is for another processor (machine {machine}); memtap records x86-64 programs only"
        ));
    }
    let table = head.get(32..40).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let (size, count) = (half(54).unwrap_or(0), half(56).unwrap_or(0));
    for index in 0..u64::from(count) {
        let mut kind = [0u8; 4];
        let at = table.saturating_add(index * u64::from(size));
        if file.read_exact_at(&mut kind, at).is_ok() && u32::from_le_bytes(kind) == PT_INTERP {
            return Ok(Linkage::Dynamic);
        }
    }
    Ok(Linkage::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(bytes: &[u8], expect: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let error = check(&path).expect_err("must be refused");
        let text = format!("{error:#}");
        assert!(text.contains(expect), "{text}");
        assert!(!text.contains('\n'), "one line: {text}");
    }

    fn elf(class: u8, machine: u16) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[4] = class;
        bytes[5] = 1;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes
    }

    #[test]
    fn what_can_not_be_recorded_is_refused_with_its_reason() {
        check_text(b"hello", "neither a program (ELF) nor a script");
        check_text(&elf(1, 3), "32-bit");
        check_text(&elf(2, 183), "another processor");
        check_text(b"#!\n", "names no interpreter");
        check_text(b"#!/no/such/interpreter\n", "/no/such/interpreter");
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(find("sh").unwrap().ends_with("sh"));
        assert!(find("no-such-program-anywhere").unwrap_err().to_string().contains("no such program"));
        assert!(find("/etc").unwrap_err().to_string().contains("is a directory"));
        assert!(find("/etc/passwd").unwrap_err().to_string().contains("is not executable"));
        assert_eq!(check(&find("sh").unwrap()).unwrap(), Linkage::Dynamic);
    }
}
