//! Names of the guest kernel's functions and variables.

use trace_format::{StreamKind, Trace};

use crate::Error;

/// The kernel's symbols, by address.
#[derive(Clone, Debug, Default)]
pub struct GuestSymbols {
    symbols: Vec<(u64, String)>,
}

impl GuestSymbols {
    /// Those of a trace: none where the kernel was not found.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(trace: &Trace) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        if let Some(mut cursor) = trace.typed(StreamKind::GuestSymbols, None) {
            while let Some(frame) = cursor.next_frame()? {
                bytes.extend_from_slice(frame.bytes);
            }
        }
        let mut symbols = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((head, tail)) = rest.split_first_chunk::<2>() {
            let Some((symbol, tail)) = tail.split_at_checked(u16::from_le_bytes(*head).into()) else { break };
            rest = tail;
            if let Some((address, name)) = symbol.split_first_chunk::<8>() {
                symbols.push((u64::from_le_bytes(*address), String::from_utf8_lossy(name).into_owned()));
            }
        }
        symbols.sort();
        Ok(Self { symbols })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The kernel symbol at or before an address of the kernel's image; modules are loaded after it and have none here.
    pub fn name(&self, address: u64) -> Option<&str> {
        const IMAGE: std::ops::Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;
        if !IMAGE.contains(&address) {
            return None;
        }
        let place = self.symbols.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let (start, _) = self.symbols.get(place)?;
        // Of several names of one place the first.
        let first = self.symbols.partition_point(|(other, _)| other < start);
        (start >> 63 != 0).then(|| self.symbols[first].1.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_symbol_before_is_the_name() {
        let symbol = |address: u64, name: &str| (address, name.to_owned());
        let base = 0xffff_ffff_8100_0000;
        let symbols = GuestSymbols {
            symbols: vec![
                symbol(0x1000, "percpu"),
                symbol(base, "_text"),
                symbol(base, "startup"),
                symbol(base + 9, "next"),
            ],
        };
        assert_eq!(symbols.name(base + 5), Some("_text"));
        assert_eq!(symbols.name(base + 9), Some("next"));
        assert_eq!(symbols.name(base - 1), None);
        assert_eq!(symbols.name(0x1004), None);
    }
}
