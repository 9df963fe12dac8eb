//! Call frame information in `.eh_frame` (System V ABI, AMD64 supplement, 4.2.4): the rule for the canonical frame
//! address (CFA) at an instruction, and how far the stack pointer is below the CFA in the body of a function.
//!
//! LLVM uses the stack pointer as frame base where it keeps no frame pointer. The stack pointer moves
//! in the prologue and epilogue of a function, where no variable is used, and where arguments are
//! pushed. A function that pushes arguments for more of its code than not has no such distance here.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use elf::LinkAddr;
use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, LittleEndian, UnwindContext, UnwindSection, X86_64,
};

use super::sections::Slice;

/// Where the stack pointer is when a function begins: its return address is below the CFA.
const AT_ENTRY: i64 = 8;
/// The stack and the frame pointer, as instructions number them.
const RSP: u8 = 4;
const RBP: u8 = 5;

/// What the canonical frame address is at an instruction: the value of a register, before it is executed, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfaRule {
    /// Of the 16 general registers, as instructions number them.
    pub register: u8,
    /// Bytes.
    pub offset: i64,
}

/// The call frame information of a file.
#[derive(Debug, Default)]
pub(crate) struct FrameRows {
    bytes: Arc<[u8]>,
    /// Where it is mapped.
    address: u64,
    /// The functions that it tells of.
    functions: OnceLock<BTreeMap<LinkAddr, usize>>,
}

impl FrameRows {
    /// Of a section and its address.
    pub(crate) fn new(bytes: Arc<[u8]>, address: u64) -> Self {
        Self { bytes, address, functions: OnceLock::new() }
    }

    /// Bytes from the stack pointer to the CFA in the body of the function that begins there.
    pub(crate) fn depth(&self, function: LinkAddr) -> Option<i64> {
        let offset = *self.functions.get_or_init(|| self.read()).get(&function)?;
        let (frames, bases) = (self.frames(), self.bases());
        let entry = frames.fde_from_offset(&bases, EhFrameOffset(offset), EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let mut table = entry.rows(&frames, &bases, &mut context).ok()?;
        let mut code_at = BTreeMap::new();
        while let Some(row) = table.next_row().ok()? {
            let gimli::CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } = *row.cfa() else {
                return None;
            };
            *code_at.entry(offset).or_default() += row.end_address().saturating_sub(row.start_address());
        }
        body_depth(&code_at)
    }

    /// What tells the CFA at an instruction; nothing where it takes more than the stack or frame pointer.
    pub(crate) fn cfa_rule(&self, address: LinkAddr) -> Option<CfaRule> {
        let functions = self.functions.get_or_init(|| self.read());
        let offset = *functions.range(..=address).next_back()?.1;
        let (frames, bases) = (self.frames(), self.bases());
        let entry = frames.fde_from_offset(&bases, EhFrameOffset(offset), EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&frames, &bases, &mut context, address.0).ok()?;
        match *row.cfa() {
            gimli::CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => {
                Some(CfaRule { register: RSP, offset })
            }
            gimli::CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => {
                Some(CfaRule { register: RBP, offset })
            }
            _ => None,
        }
    }

    fn frames(&self) -> EhFrame<Slice<'_>> {
        EhFrame::new(&self.bytes, LittleEndian)
    }

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame(self.address)
    }

    /// As far as it is not damaged.
    fn read(&self) -> BTreeMap<LinkAddr, usize> {
        let (frames, bases) = (self.frames(), self.bases());
        let mut entries = frames.entries(&bases);
        let mut found = BTreeMap::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            if let Ok(entry) = partial.parse(EhFrame::cie_from_offset) {
                found.insert(LinkAddr(entry.initial_address()), entry.offset());
            }
        }
        found
    }
}

/// The deepest that it is, unless it is elsewhere for more of the code; by the depth, bytes of code.
fn body_depth(code_at: &BTreeMap<i64, u64>) -> Option<i64> {
    let (&deepest, &code) = code_at.last_key_value()?;
    let is_body = code_at.iter().all(|(&depth, &other)| depth <= AT_ENTRY || other <= code);
    is_body.then_some(deepest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_where_most_of_the_code_is() {
        let check = |rows: &[(i64, u64)], expect| {
            assert_eq!(body_depth(&rows.iter().copied().collect()), expect, "{rows:?}");
        };
        check(&[(8, 100)], Some(8));
        check(&[(8, 90), (16, 2), (24, 4), (64, 30)], Some(64));
        // It pushes two arguments.
        check(&[(8, 2), (64, 90), (72, 2), (80, 5)], None);
        check(&[], None);
    }
}
