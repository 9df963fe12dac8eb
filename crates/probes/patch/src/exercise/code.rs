//! The code that is patched and executed, with all its possible outcomes.
//!
//! Each function clears four registers, runs the site and returns. The site is one five-byte
//! instruction that sets one of the registers to a pattern, or a call of a function that does.

use super::{Boundary, Executor, Method};
use crate::{CallSite, CodeAddr, LINE_BYTES, PAGE_BYTES, PatchError, Refusal, Site, near};
use std::arch::asm;

/// Bytes of a site.
pub(super) const SITE_BYTES: usize = 5;
const RET: u8 = 0xc3;
/// `xor eax, eax; xor ecx, ecx; xor edx, edx; xor esi, esi`.
const CLEAR: [u8; 8] = [0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6];

/// The registers that a site may set: eax, ecx, edx, esi.
type Registers = [u32; 4];

/// `mov r32, imm32`: opcode and pattern of the versions of the instruction.
const VERSIONS: [(u8, u32); 4] =
    [(0xb8, 0x1111_1111), (0xb9, 0x2222_2222), (0xba, 0x4444_4444), (0xbe, 0x0808_0808)];

/// The bytes of a version of the instruction.
pub(super) fn version(index: u64) -> u64 {
    let (opcode, pattern) = VERSIONS[(index % 4) as usize];
    u64::from(opcode) | u64::from(pattern) << 8
}

/// What the registers are after a version of the instruction.
fn outcome_of(index: usize) -> Registers {
    std::array::from_fn(|register| if register == index { VERSIONS[index].1 } else { 0 })
}

/// Pages of code that is executed so that the instruction TLB forgets others.
const THRASH_PAGES: usize = 1600;
/// Executions for which the TLB is thrashed once.
const THRASH_EVERY: u64 = 8;

/// The functions under test and the code that thrashes the TLB, mapped for ever.
pub(super) struct TestedCode {
    sites: Vec<Site>,
    call: Option<CallSite>,
    legal: Vec<Registers>,
    thrash: usize,
}

impl TestedCode {
    pub(super) fn build(boundary: Boundary, method: Method) -> Result<Self, PatchError> {
        let nowhere = PatchError::new(CodeAddr(0), Refusal::NotWritable);
        let here = near::allocate_near(Self::build as *const () as usize, 16).ok_or(nowhere)?;
        let pages = map_below(here, method.sites() + 1).ok_or(nowhere)?;
        let thrash = map_below(pages, THRASH_PAGES).ok_or(nowhere)?;
        for page in 0..THRASH_PAGES {
            // SAFETY: inside the fresh mapping.
            unsafe { (thrash_at(thrash, page) as *mut u8).write(RET) };
        }
        let addrs: Vec<usize> = (0..method.sites())
            .map(|index| {
                let page = pages + index * PAGE_BYTES;
                let line = page + PAGE_BYTES / 2;
                let site = match boundary {
                    Boundary::None { offset } => line + offset,
                    Boundary::Line { split } => line + LINE_BYTES - split,
                    Boundary::Page { split } => page + PAGE_BYTES - split,
                };
                // SAFETY: fresh writable pages; the function lies inside this one and the next.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        CLEAR.as_ptr(),
                        (site - CLEAR.len()) as *mut u8,
                        CLEAR.len(),
                    );
                    let bytes = version(0).to_le_bytes();
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), site as *mut u8, SITE_BYTES);
                    ((site + SITE_BYTES) as *mut u8).write(RET);
                }
                site
            })
            .collect();
        let call = match method {
            Method::Callpatch(encoding) => {
                let target = near::allocate_near(pages, 16).ok_or(nowhere)?;
                // SAFETY: fresh writable code; `mov eax, pattern; ret`. The site may call it, and flags are dead there.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        version(0).to_le_bytes().as_ptr(),
                        target as *mut u8,
                        SITE_BYTES,
                    );
                    ((target + SITE_BYTES) as *mut u8).write(RET);
                    Some(CallSite::prepare(CodeAddr(addrs[0]), CodeAddr(target), encoding)?)
                }
            }
            _ => None,
        };
        let legal = match call {
            Some(_) => vec![[0; 4], outcome_of(0)],
            None => (0..VERSIONS.len()).map(outcome_of).collect(),
        };
        let sites =
            addrs.iter().map(|addr| Site::open(CodeAddr(*addr), SITE_BYTES)).collect::<Result<_, _>>()?;
        Ok(Self { sites, call, legal, thrash })
    }

    /// The site, or the first of a batch.
    pub(super) fn site(&self) -> Site {
        self.sites[0]
    }

    pub(super) fn sites(&self) -> impl Iterator<Item = Site> {
        self.sites.iter().copied()
    }

    /// The site as a call that can be switched, where it is one.
    pub(super) fn call(&self) -> Option<&CallSite> {
        self.call.as_ref()
    }

    /// The site whose turn it is.
    fn site_of(&self, round: u64) -> Site {
        self.sites[round as usize % self.sites.len()]
    }

    /// Executes the function of a site.
    pub(super) fn execute(&self, round: u64) -> Registers {
        let entry = self.site_of(round).addr().0 - CLEAR.len();
        let (a, c, d, s): (u32, u32, u32, u32);
        // SAFETY: a function made by `build`; it writes these four registers and the flags, and may make a call.
        unsafe {
            asm!("call {f}", f = in(reg) entry, out("eax") a, out("ecx") c, out("edx") d, out("esi") s)
        };
        [a, c, d, s]
    }

    pub(super) fn is_legal(&self, outcome: Registers) -> bool {
        self.legal.contains(&outcome)
    }

    /// What comes before an execution; whether the site is now as the case wants it to be found.
    pub(super) fn disturb(&self, executor: Executor, round: u64) -> bool {
        match executor {
            Executor::Hot => true,
            Executor::Cold => {
                let site = self.site_of(round).addr().0;
                for at in [site, site + SITE_BYTES - 1] {
                    // SAFETY: clflush of a mapped address.
                    unsafe { core::arch::x86_64::_mm_clflush(at as *const u8) };
                }
                true
            }
            Executor::TlbThrashed => {
                if !round.is_multiple_of(THRASH_EVERY) {
                    return false;
                }
                for page in 0..THRASH_PAGES {
                    // SAFETY: a `ret` written by `build`.
                    unsafe { asm!("call {f}", f = in(reg) thrash_at(self.thrash, page)) };
                }
                true
            }
        }
    }
}

/// The one instruction of a page of [`TestedCode::thrash`], at another offset in each, so that they do not share lines of a cache.
fn thrash_at(thrash: usize, page: usize) -> usize {
    thrash + page * PAGE_BYTES + page % 60 * LINE_BYTES
}

/// So many pages of code below `addr`, with nothing of others near them.
fn map_below(addr: usize, pages: usize) -> Option<usize> {
    const STEP_BYTES: usize = 16 << 20;
    let addr = addr & !(PAGE_BYTES - 1);
    (1..4096).find_map(|n| near::map_exactly(addr.checked_sub(n * STEP_BYTES)?, pages * PAGE_BYTES))
}
