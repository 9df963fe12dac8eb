//! Notes: the build id of a file.

use crate::bytes::word;

const NT_GNU_BUILD_ID: u32 = 3;

/// The build id among the notes of one section or segment.
#[must_use]
pub fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    let aligned = |len: u32| (len as usize).checked_next_multiple_of(4);
    loop {
        let (name_len, body_len, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let body = aligned(name_len)?.checked_add(12)?;
        let next = body.checked_add(aligned(body_len)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") && name_len == 4 {
            return notes.get(body..body.checked_add(body_len as usize)?).filter(|id| !id.is_empty());
        }
        notes = notes.get(next..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notes: &[u8], expect: Option<&[u8]>) {
        assert_eq!(build_id(notes), expect);
    }

    #[test]
    fn found_among_others() {
        let abi = [4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, b'G', b'N', b'U', 0, 9, 9, 9, 9];
        let id = [4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 1, 2, 3, 0];
        check(&id, Some(&[1, 2, 3]));
        let mut both = [0; 40];
        both[..20].copy_from_slice(&abi);
        both[20..].copy_from_slice(&id);
        check(&both, Some(&[1, 2, 3]));
        check(&abi, None);
        check(&id[..18], None);
        check(&[255; 40], None);
    }
}
