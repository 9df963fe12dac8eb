//! The build id of a file that a process maps.

/// A module's build id in hexadecimal, empty where it has none; `None` where the file is no module.
pub(super) fn build_id(path: &str) -> Option<String> {
    use object::Object;
    // Programs map devices, whose bytes have no end, and files of any size: only what of a module is needed is read.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let bytes = object::ReadCache::new(std::fs::File::open(path).ok()?);
    let file = object::File::parse(&bytes).ok()?;
    let id = file.build_id().ok().flatten().unwrap_or_default();
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
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
