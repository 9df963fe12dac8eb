//! Whether a program that is about to be started can be traced: the loader must accept our library in it.

use core::ffi::CStr;

use tracee::sys;

/// What can be done with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Dynamically linked, x86-64, with no more rights than its caller.
    Traceable,
    /// The same, but static: no loader would take our library along.
    Static,
    /// Of another architecture, or set-user-id: the loader would ignore our library.
    Untraced,
    /// There is no such file, or it can't be read: exec will say why.
    Missing,
}

const PT_INTERP: u32 = 3;
const EM_X86_64: u16 = 62;

/// The kernel follows no more `#!` lines than that.
const MAX_SCRIPTS: usize = 5;

/// Looks at the file, and at the interpreter where it is a script.
pub(crate) fn judge(path: &CStr) -> Verdict {
    judge_nested(path, MAX_SCRIPTS)
}

fn judge_nested(path: &CStr, scripts: usize) -> Verdict {
    let Some(file) = sys::open_read(path) else { return Verdict::Missing };
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
            return Verdict::Untraced;
        };
        place.copy_from_slice(word);
        return CStr::from_bytes_until_nul(&name)
            .map(|name| judge_nested(name, scripts - 1))
            // A script's interpreter gets the script's path from the kernel.
            .map_or(
                Verdict::Untraced,
                |verdict| {
                    if verdict == Verdict::Static { Verdict::Untraced } else { verdict }
                },
            );
    }
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let args = [file.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes the structure, whose bytes are valid whatever they are.
    let mode = unsafe {
        sys::syscall(libc::SYS_fstat as usize, args);
        stat.assume_init().st_mode
    };
    if mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
        return Verdict::Untraced;
    }
    let half =
        |at: usize| head.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
    let long =
        |at: usize| head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let is_64 = head.get(..6) == Some(b"\x7fELF\x02\x01");
    if !is_64 || half(18) != Some(EM_X86_64) {
        return Verdict::Untraced;
    }
    let (Some(table), Some(entry), Some(count)) = (long(32), half(54), half(56)) else {
        return Verdict::Untraced;
    };
    for index in 0..count {
        let mut kind = [0u8; 4];
        let at = table + u64::from(index) * u64::from(entry);
        if file.read_at(&mut kind, at) == 4 && u32::from_le_bytes(kind) == PT_INTERP {
            return Verdict::Traceable;
        }
    }
    Verdict::Static
}
