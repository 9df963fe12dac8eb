//! Where a call was made, from where it returns to.

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
