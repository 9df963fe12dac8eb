//! Notes: the build id of a file.

use crate::BuildId;

const NT_GNU_BUILD_ID: u32 = 3;

/// The build id among the notes of one section or segment.
pub(crate) fn build_id(mut notes: &[u8]) -> Option<BuildId> {
    fn word(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    }
    let aligned = |len: u32| (len as usize).checked_next_multiple_of(4);
    loop {
        let (name_len, body_len, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let body = aligned(name_len)?.checked_add(12)?;
        let next = body.checked_add(aligned(body_len)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") && name_len == 4 {
            return BuildId::new(notes.get(body..body.checked_add(body_len as usize)?)?);
        }
        notes = notes.get(next..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notes: &[u8], expect: Option<&[u8]>) {
        assert_eq!(build_id(notes).map(|id| id.as_bytes().to_vec()).as_deref(), expect);
    }

    #[test]
    fn found_among_others() {
        let abi = [4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, b'G', b'N', b'U', 0, 9, 9, 9, 9];
        let id = [4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 1, 2, 3, 0];
        check(&id, Some(&[1, 2, 3]));
        check(&[abi, id].concat(), Some(&[1, 2, 3]));
        check(&abi, None);
        check(&id[..18], None);
        check(&[255; 40], None);
    }
}
