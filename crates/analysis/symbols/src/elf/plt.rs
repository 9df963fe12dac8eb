//! Names for the entries of the procedure linkage table: `printf@plt`.

use std::collections::HashMap;

use elf::LinkAddr;

/// Bytes of the smallest entry.
const STEP: usize = 8;

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PltEntry {
    pub(crate) address: LinkAddr,
    /// Address of the slot of the global offset table that it jumps through.
    pub(crate) slot: LinkAddr,
}

/// Finds the entries of one section that jump through a slot of the global offset table.
///
/// All layouts (lazy, bound at start, with branch tracking) have one `jmp *disp32(%rip)` an entry; the entry begins at
/// the last multiple of `entry_bytes` before it.
pub(crate) fn entries(code: &[u8], address: LinkAddr, entry_bytes: u64) -> Vec<PltEntry> {
    let step = if entry_bytes >= STEP as u64 && entry_bytes <= 32 { entry_bytes as usize } else { 16 };
    let mut found = Vec::new();
    for (number, entry) in code.chunks(step).enumerate() {
        let Some(at) = entry.windows(6).position(|w| w.starts_with(&[0xff, 0x25])) else { continue };
        let Some(bytes) = entry.get(at + 2..at + 6) else { continue };
        let displacement = i32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let address = address.offset((number * step) as u64);
        let next = address.offset(at as u64 + 6);
        found.push(PltEntry { address, slot: next.offset(i64::from(displacement) as u64) });
    }
    found
}

/// `NAME@plt` for each entry whose slot is filled with a symbol's address.
pub(crate) fn names(entries: &[PltEntry], slots: &HashMap<LinkAddr, String>) -> Vec<(LinkAddr, String)> {
    entries
        .iter()
        .filter_map(|entry| Some((entry.address, format!("{}@plt", slots.get(&entry.slot)?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &[u8], entry_bytes: u64, expect: &[(u64, u64)]) {
        let expect: Vec<PltEntry> = expect
            .iter()
            .map(|&(address, slot)| PltEntry { address: LinkAddr(address), slot: LinkAddr(slot) })
            .collect();
        assert_eq!(entries(code, LinkAddr(0x1000), entry_bytes), expect);
    }

    #[test]
    fn lazy_and_with_branch_tracking() {
        let lazy = [0xff, 0x25, 0xfa, 0x0f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
        check(&lazy, 16, &[(0x1000, 0x2000)]);
        let tracked = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xf5, 0x0f, 0, 0, 0x0f, 0x1f, 0x44, 0, 0];
        check(&tracked, 16, &[(0x1000, 0x2000)]);
        check(&[lazy, tracked].concat(), 0, &[(0x1000, 0x2000), (0x1010, 0x2010)]);
        check(&[0xff, 0x25, 0xfa], 16, &[]);
    }
}
