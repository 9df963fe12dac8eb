//! What runs before the kernel is at its own addresses: the firmware, the boot loader, the code that
//! unpacks the kernel, and the kernel's first functions, which run at the kernel's physical address.

use std::collections::BTreeSet;
use std::ops::Range;

use memref::VirtAddr;
use trace_format::machine::{PLACE_DEVICE, PageEntry};
use trace_format::{StreamKind, Trace};

use super::symbols::GuestSymbols;
use crate::Error;

/// The BIOS and what extension cards bring with them.
const BIOS: Range<u64> = 0xc_0000..0x10_0000;
/// Where the processor begins: the end of four gibibytes, in which the BIOS is seen once more.
const FLASH: Range<u64> = 0xff00_0000..0x1_0000_0000;
/// Where a processor begins in system management mode, until the firmware has moved that.
const SMM: Range<u64> = 0x3_0000..0x4_0000;
const MIB: u64 = 1 << 20;
/// The vCPU that boots; the others are started by the firmware, and once more by the kernel.
const BOOT_CPU: usize = 0;

/// Names of boot code. They depend on what ran before.
#[derive(Debug, Default)]
pub(super) struct BootCode {
    /// Whether QEMU loaded the kernel itself.
    is_direct: bool,
    /// Where the kernel's functions lie in physical memory, and what to add to such an address for the kernel's own.
    kernel: Option<(Range<u64>, u64)>,
    seen_bios: bool,
    seen_loader: bool,
    /// Pages of the firmware beyond a mebibyte, where it moves parts of itself.
    firmware_pages: BTreeSet<u64>,
}

impl BootCode {
    pub(super) fn new(trace: &Trace, symbols: &GuestSymbols) -> Result<Self, Error> {
        let args = trace.properties().get("args");
        let is_direct = args.is_some_and(|args| args.split_whitespace().any(|word| word == "-kernel"));
        let kernel = match (kernel_offset(trace)?, symbols.text()) {
            (Some(offset), Some(text)) => {
                let [start, end] = [text.start, text.end].map(|addr| addr.0.wrapping_sub(offset));
                (start < end).then_some((start..end, offset))
            }
            _ => None,
        };
        let firmware_pages = BTreeSet::new();
        Ok(Self { is_direct, kernel, seen_bios: false, seen_loader: false, firmware_pages })
    }

    /// What a vCPU runs at an address. To be asked in the order in which it runs.
    pub(super) fn name(&mut self, cpu: usize, ip: VirtAddr, symbols: &GuestSymbols) -> String {
        let page = ip.page_number();
        if [BIOS, FLASH, SMM].iter().any(|range| range.contains(&ip.0)) || self.firmware_pages.contains(&page)
        {
            self.seen_bios |= BIOS.contains(&ip.0);
            return "[firmware]".to_owned();
        }
        if cpu != BOOT_CPU {
            return "[boot]".to_owned();
        }
        if ip.0 < MIB {
            self.seen_loader = true;
            return if self.is_direct { "[kernel's setup]" } else { "[boot loader]" }.to_owned();
        }
        if !self.seen_loader {
            // UEFI is nowhere below a mebibyte, and starts kernels without anything there.
            if self.seen_bios {
                self.firmware_pages.insert(page);
                return "[firmware]".to_owned();
            }
            return "[boot]".to_owned();
        }
        if let Some((text, offset)) = &self.kernel
            && text.contains(&ip.0)
            && let Some(name) = symbols.name(VirtAddr(ip.0.wrapping_add(*offset)))
        {
            return name.to_owned();
        }
        if self.is_direct { "[kernel unpacks itself]" } else { "[boot loader, or kernel unpacks itself]" }
            .to_owned()
    }
}

/// What to add to a physical address of the kernel's image for its virtual one.
fn kernel_offset(trace: &Trace) -> Result<Option<u64>, Error> {
    for record in trace.threads() {
        let Some(mut pages) = trace.typed(StreamKind::Pages, Some(record.thread)) else { continue };
        while let Some(frame) = pages.next_frame()? {
            let entries = frame.bytes.chunks_exact(24).map(PageEntry::from_bytes);
            let mut of_image = entries.filter(|entry| {
                let addr = VirtAddr(entry.page.wrapping_mul(VirtAddr::PAGE_BYTES));
                GuestSymbols::IMAGE.contains(&addr) && entry.place & PLACE_DEVICE == 0
            });
            if let Some(entry) = of_image.next() {
                return Ok(Some(entry.page.wrapping_sub(entry.place).wrapping_mul(VirtAddr::PAGE_BYTES)));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With several vCPUs a BIOS starts the others, and their system management, where boot loaders lie, before it has done.
    #[test]
    fn what_a_bios_starts_is_no_boot_loader() {
        let mut boot = BootCode { is_direct: true, ..BootCode::default() };
        let symbols = GuestSymbols::default();
        let mut name = |cpu, ip| boot.name(cpu, VirtAddr(ip), &symbols);
        assert_eq!(name(0, 0xfe05b), "[firmware]");
        assert_eq!(name(0, 0x2ff_bab6), "[firmware]");
        assert_eq!(name(0, 0x3_8000), "[firmware]");
        assert_eq!(name(1, 0x1_0000), "[boot]");
        assert_eq!(name(0, 0x2ff_0000), "[firmware]");
        assert_eq!(name(0, 0x1_0200), "[kernel's setup]");
        assert_eq!(name(0, 0x2ff_0008), "[firmware]");
        assert_eq!(name(0, 0x10_0000), "[kernel unpacks itself]");
    }

    /// UEFI runs nowhere below a mebibyte: what it is, and what the kernel's, can't be told.
    #[test]
    fn without_a_bios_nothing_is_claimed() {
        let mut boot = BootCode::default();
        let symbols = GuestSymbols::default();
        assert_eq!(boot.name(0, VirtAddr(0xffff_fff0), &symbols), "[firmware]");
        assert_eq!(boot.name(0, VirtAddr(0x700_0000), &symbols), "[boot]");
    }
}
