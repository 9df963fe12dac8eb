//! The program to be recorded: found, and checked before anything is started or written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use elf::{ElfHeader, ElfRefusal, LOADER_BYTES, SegmentHeader, is_of_other_library};

use crate::Error;

/// The bits of a file's mode that give a program its owner's or its group's rights: `S_ISUID` and `S_ISGID`.
const SET_ID: u32 = 0o6000;
/// Enough of a file for its kind, and for a line that names an interpreter.
const HEAD_BYTES: u64 = 4096;
/// The kernel follows no more `#!` lines than that.
const MAX_SCRIPTS: usize = 5;

/// Finds a program as a shell would: in PATH, unless its name has a slash.
///
/// # Errors
/// Where there is none, or it can't be executed.
pub(crate) fn find(name: &str) -> Result<PathBuf, Error> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        let kind = path.metadata().map_err(Error::file(name, "can't be run"))?;
        if kind.is_dir() {
            return Err(Error::Directory(name.to_owned()));
        }
        if kind.permissions().mode() & 0o111 == 0 {
            return Err(Error::NotExecutable(path));
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
    Err(not_executable.map_or_else(|| Error::NotInPath(name.to_owned()), Error::NotExecutable))
}

/// How a program comes to run a tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// The loader takes the tracer along.
    Dynamic,
    /// There is no loader: another program is started in its place.
    Static,
}

/// Refuses what the native tracers can't record.
///
/// # Errors
/// Where the file is no program of ours, or can't be read.
pub(crate) fn check(path: &Path) -> Result<Linkage, Error> {
    check_nested(path, MAX_SCRIPTS)
}

fn check_nested(path: &Path, scripts: usize) -> Result<Linkage, Error> {
    let file = File::open(path).map_err(Error::file(path, "can't be read, which recording needs"))?;
    let mut head = Vec::new();
    (&file).take(HEAD_BYTES).read_to_end(&mut head).map_err(Error::file(path, "can't be read"))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return check_script(path, line, scripts);
    }
    let metadata = file.metadata().map_err(Error::file(path, "can't be read"))?;
    if metadata.mode() & SET_ID != 0 {
        return Err(Error::SetId(path.into()));
    }
    check_elf(path, &head, &file)
}

/// A script is recorded as its interpreter.
fn check_script(path: &Path, rest: &[u8], scripts: usize) -> Result<Linkage, Error> {
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let interpreter = String::from_utf8_lossy(line).split_whitespace().next().unwrap_or_default().to_owned();
    if interpreter.is_empty() || scripts == 0 {
        return Err(Error::NoInterpreter(path.into()));
    }
    match check_nested(Path::new(&interpreter), scripts - 1) {
        Ok(Linkage::Dynamic) => Ok(Linkage::Dynamic),
        Ok(Linkage::Static) => Err(Error::StaticInterpreter { path: path.into(), interpreter }),
        Err(error) => Err(Error::Interpreter { path: path.into(), source: Box::new(error) }),
    }
}

/// The library of gcc's address sanitizer, where the program needs it: that insists on being the loader's first.
pub(crate) fn sanitizer(program: &Path) -> Option<OsString> {
    let file = File::open(program).ok()?;
    let read = |at, bytes: &mut [u8]| file.read_at(bytes, at).unwrap_or(0);
    elf::needed_library(read, b"libasan.so").map(|library| OsStr::from_bytes(library.name()).to_owned())
}

/// A program has a loader where one of its segments names it.
fn check_elf(path: &Path, head: &[u8], file: &File) -> Result<Linkage, Error> {
    let header = ElfHeader::parse(head).map_err(|refusal| match refusal {
        ElfRefusal::NotElf => Error::NoExecutable(path.into()),
        ElfRefusal::Bits32 => Error::Bits32(path.into()),
        ElfRefusal::OtherProcessor(machine) => Error::Processor { path: path.into(), machine },
    })?;
    let segment = |index| {
        let mut bytes = [0; SegmentHeader::BYTES];
        file.read_exact_at(&mut bytes, header.segment_at(index)?).ok()?;
        SegmentHeader::parse(&bytes)
    };
    let mut segments = (0..header.segment_count).filter_map(segment);
    let Some(named) = segments.find(|segment| segment.kind == libc::PT_INTERP) else {
        return Ok(Linkage::Static);
    };
    let mut loader = [0; LOADER_BYTES];
    let len = file.read_at(&mut loader, named.offset).unwrap_or(0).min(named.file_bytes as usize);
    let loader = loader.get(..len).unwrap_or_default();
    if is_of_other_library(loader) {
        let loader = String::from_utf8_lossy(loader).trim_end_matches('\0').to_owned();
        return Err(Error::OtherLibrary { path: path.into(), loader });
    }
    Ok(Linkage::Dynamic)
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
        let text = anyhow::Error::new(error);
        let text = format!("{text:#}");
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
