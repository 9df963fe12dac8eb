//! Whether a program that is about to be started can be traced: its loader must accept our library.

use core::ffi::CStr;

use elf::{ElfHeader, LOADER_BYTES, is_of_other_library};
use tracee::sys;

use crate::module_headers::segment_of_file;

/// What can be done with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Dynamically linked, x86-64, with no more rights than its caller.
    Traceable,
    /// The same, but static: no loader would take our library along.
    Static,
    /// The loader would ignore our library, or there is none: why, for the gap.
    Untraced(&'static str),
    /// There is no such file, or it can't be read or executed: exec will say why.
    Missing,
}

const STATIC_INTERPRETER: &str = "its interpreter is statically linked";
const OTHER_LIBRARY: &str = "its C library is not GNU's, and can't load memtap's library";
const UNREADABLE: &str = "its file can't be read, only executed";

/// What ELF files begin with.
const ELF_MAGIC: &[u8] = b"\x7fELF";
/// The kernel follows no more `#!` lines than that.
const MAX_SCRIPTS: usize = 5;

/// Looks at the file, and at the interpreter where it is a script.
pub(crate) fn judge(path: &CStr) -> Verdict {
    judge_nested(path, MAX_SCRIPTS)
}

fn judge_nested(path: &CStr, scripts: usize) -> Verdict {
    let Some(file) = sys::open_read(path) else {
        // Who may not read it may execute it all the same.
        return if sys::can_execute(path) { Verdict::Untraced(UNREADABLE) } else { Verdict::Missing };
    };
    let mut head = [0u8; 1024];
    let len = file.read(&mut head);
    let Some(head) = head.get(..len) else { return Verdict::Missing };
    if let Some(line) = head.strip_prefix(b"#!") {
        let mut name = [0u8; 256];
        let word = line
            .split(|&byte| byte == b'\n')
            .next()
            .and_then(|line| line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty()))
            .unwrap_or(&[]);
        let Some(place) = name.get_mut(..word.len()).filter(|_| scripts > 0) else {
            return Verdict::Untraced("its interpreter's name is too long");
        };
        place.copy_from_slice(word);
        return CStr::from_bytes_until_nul(&name)
            .map(|name| judge_nested(name, scripts - 1))
            // A script's interpreter gets the script's path from the kernel.
            .map_or(Verdict::Missing, |verdict| {
                if verdict == Verdict::Static { Verdict::Untraced(STATIC_INTERPRETER) } else { verdict }
            });
    }
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let args = [file.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes the structure, whose bytes are valid whatever they are.
    let mode = unsafe {
        sys::syscall(libc::SYS_fstat as usize, args);
        stat.assume_init().st_mode
    };
    if mode & (libc::S_IXUSR | libc::S_IXGRP | libc::S_IXOTH) == 0 {
        return Verdict::Missing;
    }
    if mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
        return Verdict::Untraced(
            "it runs with another user's rights, and the loader ignores libraries then",
        );
    }
    if !head.starts_with(ELF_MAGIC) {
        // The kernel refuses it, or has a program for files like it (binfmt_misc), which takes our library along. Shells try, and
        // then read the file as a script themselves: that is no gap.
        return Verdict::Traceable;
    }
    let Ok(header) = ElfHeader::parse(head) else {
        return Verdict::Untraced("it is not an x86-64 program");
    };
    for index in 0..header.segment_count {
        let Some(segment) = segment_of_file(&file, &header, index) else { continue };
        if segment.kind == libc::PT_INTERP {
            let mut loader = [0u8; LOADER_BYTES];
            let len = file.read_at(&mut loader, segment.offset).min(segment.file_bytes as usize);
            let is_other = is_of_other_library(loader.get(..len).unwrap_or(&[]));
            return if is_other { Verdict::Untraced(OTHER_LIBRARY) } else { Verdict::Traceable };
        }
    }
    Verdict::Static
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn check(bytes: &[u8], expect: Verdict) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let rights = std::fs::Permissions::from_mode(0o755);
        file.as_file().set_permissions(rights).unwrap();
        let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
        assert_eq!(judge(&path), expect, "{:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn programs_are_judged_by_their_file_and_scripts_by_their_interpreter() {
        assert_eq!(judge(c"/proc/self/exe"), Verdict::Traceable);
        assert_eq!(judge(c"/nowhere/to/be/found"), Verdict::Missing);
        check(b"#!/proc/self/exe -e\n", Verdict::Traceable);
        check(b"#! /proc/self/exe", Verdict::Traceable);
        check(b"#!/nowhere/to/be/found\n", Verdict::Missing);
        check(b"just text", Verdict::Traceable);
        check(b"", Verdict::Traceable);
    }

    #[test]
    fn headers_say_the_machine_and_whether_there_is_a_loader() {
        // An ELF file with one program header of a kind.
        let image = |class: u8, machine: u16, kind: u32| {
            let mut bytes = vec![0u8; 64 + 56];
            bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
            bytes[18..20].copy_from_slice(&machine.to_le_bytes());
            bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
            bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
            bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
            bytes[64..68].copy_from_slice(&kind.to_le_bytes());
            bytes
        };
        check(&image(2, 62, 3), Verdict::Traceable);
        check(&image(2, 62, 1), Verdict::Static);
        let mut musl = image(2, 62, 3);
        let name = b"/lib/ld-musl-x86_64.so.1\0";
        musl[72..80].copy_from_slice(&120u64.to_le_bytes());
        musl[96..104].copy_from_slice(&(name.len() as u64).to_le_bytes());
        musl.extend_from_slice(name);
        check(&musl, Verdict::Untraced(OTHER_LIBRARY));
        // 32 bits, and another machine.
        let other = Verdict::Untraced("it is not an x86-64 program");
        check(&image(1, 62, 3), other);
        check(&image(2, 183, 3), other);
    }
}
