//! Exercising the protocols: patchers change a site while executors run it, and every execution is checked.
//!
//! The site lies in a function whose every legal outcome is known: each version of the instruction loads another
//! register with another pattern, so an instruction fetched half old and half new shows as a wrong pattern or a wrong
//! register, not only as a crash. Used by the tests, the long stress run and [`crate::calibrate`]; it makes its own
//! code and touches nothing else.

use crate::{
    CodeAddr, PAGE_BYTES, PatchError, Refusal, Site,
    barrier::{self, Separation},
    near, sys,
};
use std::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// What the boundary in the middle of the site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// None: the site lies inside a line, at this offset.
    None {
        /// Offset in the line, 0..=59.
        offset: usize,
    },
    /// The end of a cache line.
    Line {
        /// Bytes before it, 1..=4.
        split: usize,
    },
    /// The end of a page.
    Page {
        /// Bytes before it, 1..=4.
        split: usize,
    },
}

/// What the executors do between two executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Nothing: the line stays in every cache.
    Hot,
    /// They flush the site's lines.
    Cold,
    /// They execute code on so many pages that the instruction TLB forgets the site's.
    TlbThrashed,
}

/// How the patchers change the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// [`Site::patch`].
    Patch,
    /// [`Site::start`] and [`Site::finish`].
    Asynchronous,
    /// Two plain stores without any protocol: what the protocol prevents.
    Unprotected,
}

/// One combination.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Where the site lies.
    pub boundary: Boundary,
    /// What executors do.
    pub executor: Executor,
    /// Threads that execute.
    pub executors: usize,
    /// Threads that patch.
    pub patchers: usize,
    /// How.
    pub method: Method,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Patches that were made.
    pub toggles: u64,
    /// Patches that were refused because another patcher held the site.
    pub refused: u64,
    /// Executions of the site.
    pub executions: u64,
    /// Executions whose outcome no version of the instruction has.
    pub torn: u64,
}

/// `mov r32, imm32`: opcode and pattern of the versions of the instruction.
const VERSIONS: [(u8, u32); 4] =
    [(0xb8, 0x1111_1111), (0xb9, 0x2222_2222), (0xba, 0x4444_4444), (0xbe, 0x0808_0808)];

fn version(index: u64) -> u64 {
    let (opcode, pattern) = VERSIONS[(index % 4) as usize];
    u64::from(opcode) | u64::from(pattern) << 8
}

/// The function under test and the code that thrashes the TLB, mapped for ever.
struct Code {
    entry: usize,
    site: usize,
    thrash: usize,
}

const THRASH_PAGES: usize = 1600;

fn build(boundary: Boundary) -> Option<Code> {
    let here = near::allocate_near(build as *const () as usize, 16)?;
    let pages = (1..4096usize)
        .find_map(|n| near::map_exactly((here & !4095).checked_sub(n * (16 << 20))?, 3 * PAGE_BYTES))?;
    let line = pages + PAGE_BYTES / 2;
    let site = match boundary {
        Boundary::None { offset } => line + offset,
        Boundary::Line { split } => line + crate::LINE_BYTES - split,
        Boundary::Page { split } => pages + PAGE_BYTES - split,
    };
    // xor eax,eax; xor ecx,ecx; xor edx,edx; xor esi,esi; SITE; ret
    let entry = site - 8;
    // SAFETY: three fresh writable pages; the function lies inside them.
    unsafe {
        std::ptr::copy_nonoverlapping(
            [0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6].as_ptr(),
            entry as *mut u8,
            8,
        );
        std::ptr::copy_nonoverlapping(version(0).to_le_bytes().as_ptr(), site as *mut u8, 5);
        ((site + 5) as *mut u8).write(0xc3);
    }
    let thrash = (1..4096usize)
        .find_map(|n| near::map_exactly(pages.checked_sub(n * (16 << 20))?, THRASH_PAGES * PAGE_BYTES))?;
    for page in 0..THRASH_PAGES {
        // SAFETY: one `ret` at another offset of each fresh page.
        unsafe { ((thrash + page * PAGE_BYTES + page % 60 * 64) as *mut u8).write(0xc3) };
    }
    Some(Code { entry, site, thrash })
}

fn execute(entry: usize) -> [u32; 4] {
    let (a, c, d, s): (u32, u32, u32, u32);
    // SAFETY: `entry` is the function made by `build`; it writes these four registers and the flags.
    unsafe { asm!("call {f}", f = in(reg) entry, out("eax") a, out("ecx") c, out("edx") d, out("esi") s) };
    [a, c, d, s]
}

fn is_legal(outcome: [u32; 4]) -> bool {
    (0..4).any(|i| (0..4).all(|j| outcome[j] == if i == j { VERSIONS[i].1 } else { 0 }))
}

fn disturb(code: &Code, executor: Executor, round: u64) {
    match executor {
        Executor::Hot => {}
        Executor::Cold => {
            for at in [code.site, code.site + 4] {
                // SAFETY: clflush of a mapped address.
                unsafe { core::arch::x86_64::_mm_clflush(at as *const u8) };
            }
        }
        Executor::TlbThrashed => {
            if round.is_multiple_of(8) {
                for page in 0..THRASH_PAGES {
                    let ret = code.thrash + page * PAGE_BYTES + page % 60 * 64;
                    // SAFETY: a `ret` written by `build`.
                    unsafe { asm!("call {f}", f = in(reg) ret) };
                }
            }
        }
    }
}

/// Toggles until `toggles` patches are made or `limit` has passed, while executors check.
pub fn run(case: Case, toggles: u64, limit: Duration) -> Result<Outcome, PatchError> {
    let nowhere = PatchError::new(CodeAddr(0), Refusal::NotWritable);
    let code = build(case.boundary).ok_or(nowhere)?;
    let site = Site::open(CodeAddr(code.site), 5)?;
    let stop = AtomicBool::new(false);
    let counts: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    let [made, refused, executions, torn] = &counts;
    let deadline = Instant::now() + limit;
    let failure = std::thread::scope(|scope| {
        let executors: Vec<_> = (0..case.executors)
            .map(|_| {
                scope.spawn(|| {
                    let mut round = 0;
                    let mut bad = 0;
                    while !stop.load(Ordering::Relaxed) {
                        disturb(&code, case.executor, round);
                        bad += u64::from(!is_legal(execute(code.entry)));
                        round += 1;
                        if round.is_multiple_of(64) {
                            executions.fetch_add(64, Ordering::Relaxed);
                        }
                    }
                    torn.fetch_add(bad, Ordering::Relaxed);
                })
            })
            .collect();
        let patchers: Vec<_> = (0..case.patchers)
            .map(|patcher| {
                scope.spawn({
                    let (code, made, refused) = (&code, made, refused);
                    move || {
                        patch_until(
                            code,
                            site,
                            case.method,
                            patcher as u64,
                            (made, refused),
                            toggles,
                            deadline,
                        )
                    }
                })
            })
            .collect();
        let failure =
            patchers.into_iter().filter_map(|p| p.join().expect("patchers do not panic").err()).next();
        // On few cores the executors may not have run yet: an exercise without an execution shows nothing.
        while executions.load(Ordering::Relaxed) == 0 {
            sys::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        executors.into_iter().for_each(|e| e.join().expect("executors do not panic"));
        failure
    });
    match failure {
        Some(error) => Err(error),
        None => {
            let [toggles, refused, executions, torn] = counts.map(AtomicU64::into_inner);
            Ok(Outcome { toggles, refused, executions, torn })
        }
    }
}

fn patch_until(
    code: &Code,
    site: Site,
    method: Method,
    patcher: u64,
    (made, refused): (&AtomicU64, &AtomicU64),
    toggles: u64,
    deadline: Instant,
) -> Result<(), PatchError> {
    let mut index = patcher;
    // At least one round, also where a busy machine starts this thread late.
    while made.load(Ordering::Relaxed) < toggles
        && (index == patcher || index % 64 != patcher % 64 || Instant::now() < deadline)
    {
        index += 1;
        let value = version(index);
        let result = match method {
            // SAFETY: all versions are one instruction of five bytes that sets one register.
            Method::Patch => unsafe { site.patch(value).map(|_| ()) },
            // SAFETY: as above.
            Method::Asynchronous => unsafe { site.start(value) }.map(|_| {
                while site.finish() != crate::Progress::Finished {
                    core::hint::spin_loop();
                }
            }),
            Method::Unprotected => {
                write_halves(code.site, value);
                Ok(())
            }
        };
        match result {
            Ok(()) => made.fetch_add(1, Ordering::Relaxed),
            Err(e) if e.refusal == Refusal::Busy => {
                sys::yield_now();
                refused.fetch_add(1, Ordering::Relaxed)
            }
            Err(e) => return Err(e),
        };
    }
    Ok(())
}

/// Writes the bytes before and behind the boundary one after the other, the wait of the current separation between.
fn write_halves(site: usize, value: u64) {
    let front = CodeAddr(site).bytes_to_boundary(crate::LINE_BYTES).min(5);
    for at in 0..5 {
        if at == front && matches!(barrier::separation(), Separation::Wait { .. }) {
            barrier::pass();
        }
        // SAFETY: the five bytes of the function made by `build`, writable.
        unsafe { crate::store::store(site + at, 1, value >> (8 * at)) };
    }
}
