//! Access formats of other tools. All except [`Form::Entries64`] lose the instruction and the time.

use std::io::Write;

use memref::{Access, AccessKind};

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As `valgrind --tool=lackey --trace-mem=yes` prints accesses.
    Lackey,
    /// As DineroIV reads: 0 or 1 and an address.
    Din,
    /// 32 bytes: cycle (48 bits), bit 48 full size, bit 49 store; instruction; address; the value, or where it is not of full size
    /// its low 32 bits and the bytes of the access above them.
    Entries64,
}

/// Bit 48 of an entry of 32 bytes: 8 bytes wide.
const FULL: u64 = 1 << 48;
const STORE: u64 = 1 << 49;

impl Form {
    /// Appends an access; a modify is a load and a store where the form has none. `value` are the bytes that it read or wrote,
    /// as far as they are known. Prefetches have no place in any form, and are left out.
    pub fn put(self, access: &Access, value: &[u8], out: &mut Vec<u8>) {
        let Access { addr, size, kind, .. } = *access;
        // Writing into memory does not fail.
        match self {
            Self::Lackey => {
                let letter = match kind {
                    AccessKind::Load => 'L',
                    AccessKind::Store => 'S',
                    AccessKind::Modify => 'M',
                    AccessKind::Prefetch => return,
                };
                let _ = writeln!(out, " {letter} {addr:08x},{size}");
            }
            Self::Din => {
                if kind.reads() {
                    let _ = writeln!(out, "0 {addr:x}");
                }
                if kind.writes() {
                    let _ = writeln!(out, "1 {addr:x}");
                }
            }
            Self::Entries64 if size > 8 && value.len() != 4 => {
                // Wider accesses have no place in this form: they are cut into words, as simulators do.
                for offset in (0..size).step_by(8) {
                    let part =
                        Access { addr: addr.offset(offset.into()), size: (size - offset).min(8), ..*access };
                    let value = value.get(offset as usize..).unwrap_or(&[]);
                    put_entry(&part, &value[..value.len().min(8)], out);
                }
            }
            Self::Entries64 => put_entry(access, value, out),
        }
    }
}

fn put_entry(access: &Access, value: &[u8], out: &mut Vec<u8>) {
    let mut number = [0u8; 8];
    for (to, from) in number.iter_mut().zip(value) {
        *to = *from;
    }
    let number = u64::from_le_bytes(number);
    let whole = access.size == 8;
    let data = if whole { number } else { number & 0xffff_ffff | u64::from(access.size) << 32 };
    let full = if whole { FULL } else { 0 };
    for (told, store) in [(access.kind.reads(), 0), (access.kind.writes(), STORE)] {
        if told {
            let meta = access.cycle & (FULL - 1) | full | store;
            for word in [meta, access.ip.0, access.addr.0, data] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use memref::VirtAddr;

    use super::*;

    fn access(size: u32, kind: AccessKind) -> Access {
        Access { cycle: 5, ip: VirtAddr(0x40), addr: VirtAddr(0xabc), size, kind }
    }

    fn words(access: &Access, value: &[u8]) -> Vec<u64> {
        let mut out = Vec::new();
        Form::Entries64.put(access, value, &mut out);
        out.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn accesses_are_written_as_the_forms_have_them() {
        let text = |form: Form| {
            let mut out = Vec::new();
            form.put(&access(4, AccessKind::Modify), &[], &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Form::Lackey), " M 00000abc,4\n");
        assert_eq!(text(Form::Din), "0 abc\n1 abc\n");
        let entries = [5, 0x40, 0xabc, 4 << 32, 5 | STORE, 0x40, 0xabc, 4 << 32];
        assert_eq!(words(&access(4, AccessKind::Modify), &[]), entries);
    }

    #[test]
    fn values_are_where_the_form_has_them() {
        let value: Vec<u8> = (1..=32).collect();
        let word = |from: u8| u64::from_le_bytes(std::array::from_fn(|n| from + n as u8));
        assert_eq!(words(&access(8, AccessKind::Load), &value[..8]), [5 | FULL, 0x40, 0xabc, word(1)]);
        assert_eq!(
            words(&access(2, AccessKind::Store), &value[..2]),
            [5 | STORE, 0x40, 0xabc, 2 << 32 | 0x201]
        );
        // What came from this form with a size that it does not split goes back as it came.
        assert_eq!(
            words(&access(16, AccessKind::Load), &value[..4]),
            [5, 0x40, 0xabc, 16 << 32 | 0x0403_0201]
        );
        let wide = [5 | FULL, 0x40, 0xabc, word(1), 5 | FULL, 0x40, 0xac4, word(9)];
        assert_eq!(words(&access(16, AccessKind::Load), &value[..16]), wide);
        assert_eq!(words(&access(10, AccessKind::Load), &value[..10])[7], 2 << 32 | 0x0a09);
        let blank = [5 | FULL, 0x40, 0xabc, 0, 5 | FULL, 0x40, 0xac4, 0];
        assert_eq!(words(&access(16, AccessKind::Load), &[]), blank);
    }
}
