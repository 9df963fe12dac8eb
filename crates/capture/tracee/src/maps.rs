//! The mappings of this process, from /proc/self/maps.

pub use proc_files::Mapping;

use crate::sys;

/// Calls `each` with every mapping, in the order of addresses. Lines longer than 4 KiB are cut. `false` where the list
/// could not be read.
pub fn each(mut each: impl FnMut(Mapping<'_>)) -> bool {
    let Some(file) = sys::open_read(c"/proc/self/maps") else { return false };
    let mut bytes = [0u8; 8192];
    let mut len = 0;
    loop {
        let Some(room) = bytes.get_mut(len..) else { return false };
        let read = file.read(room);
        len += read;
        let Some(mut rest) = bytes.get(..len) else { return false };
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            if let Some(mapping) = rest.get(..end).and_then(Mapping::parse) {
                each(mapping);
            }
            rest = rest.get(end + 1..).unwrap_or(&[]);
        }
        let left = rest.len();
        if read == 0 {
            return true;
        }
        if left == bytes.len() {
            // One line fills the buffer: no mapping has such a name.
            return false;
        }
        bytes.copy_within(len - left..len, 0);
        len = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_stack_and_this_function() {
        let here = this_process_has_a_stack_and_this_function as *const () as u64;
        let (mut stack, mut code) = (false, false);
        assert!(each(|mapping| {
            stack |= mapping.name == b"[stack]";
            code |= mapping.prot & sys::PROT_EXEC != 0 && (mapping.start..mapping.end).contains(&here);
        }));
        assert!(stack && code);
    }
}
