//! The build id of a file that a process maps.

use std::path::Path;

use symbols::BuildId;

/// A module's build id in hexadecimal, empty where it has none; `None` where the file is no module.
pub(super) fn build_id(path: &str) -> Option<String> {
    // Programs map devices, whose bytes have no end, and files of any size: only what of a module is needed is read.
    let id = BuildId::of_file(Path::new(path)).ok()?;
    Some(id.map_or_else(String::new, |id| id.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_has_a_build_id_and_a_text_is_no_module() {
        assert!(build_id("/bin/sh").is_some());
        assert_eq!(build_id("/etc/passwd"), None);
    }

    #[test]
    fn devices_and_huge_files_are_no_modules() {
        assert_eq!(build_id("/dev/zero"), None);
        let huge = tempfile::NamedTempFile::new().unwrap();
        huge.as_file().set_len(1 << 40).unwrap();
        assert_eq!(build_id(huge.path().to_str().unwrap()), None);
    }
}
