//! The address of a call, derived from its return address.

use memref::VirtAddr;

/// The address of a call, from the one that it returns to: the call instruction ends there.
pub(crate) fn call_site(return_to: u64) -> u64 {
    /// Bytes of the calls that are looked for, at most.
    const MOST: u64 = 6;
    if return_to < 16 {
        return return_to;
    }
    let on_page = (return_to - 1) % VirtAddr::PAGE_BYTES + 1;
    let len = on_page.min(MOST);
    // SAFETY: the last bytes of the instruction that has just been executed, and a few of what stands before it on the same page.
    let bytes = unsafe { core::slice::from_raw_parts((return_to - len) as *const u8, len as usize) };
    if let Some(len) = x86::call_before(bytes) {
        return return_to - len as u64;
    }
    // A tail call jumped here: the caller's caller returns to this address.
    return_to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_where_it_returns_to() {
        let check = |code: [u8; 8], len: u64| {
            #[repr(align(4096))]
            struct Page([u8; 16]);
            let mut page = Page([0x90; 16]);
            page.0[8..].copy_from_slice(&code);
            let end = &raw const page as u64 + 16;
            assert_eq!(call_site(end), end - len);
        };
        // call rel32; call [rip + disp32]; call rax.
        check([0x90, 0x90, 0x90, 0xe8, 1, 2, 3, 4], 5);
        check([0x90, 0x90, 0xff, 0x15, 1, 2, 3, 4], 6);
        check([0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0], 2);
        // A tail call led here.
        check([0x90; 8], 0);
        assert_eq!(call_site(7), 7);
    }
}
