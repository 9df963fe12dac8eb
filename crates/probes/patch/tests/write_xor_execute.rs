//! A system that forbids memory that is both writable and executable: existing code is patched through `/proc/self/mem`, new
//! code cannot be generated, and both are reported. This is a separate file, since the rule applies to the whole process.
#![cfg(not(loom))]

use patch::{CodeAddr, Refusal, Site, Tier, near, pages::Access};
use std::arch::global_asm;

const PR_SET_MDWE: i32 = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: usize = 1;

global_asm!(
    ".text",
    ".p2align 6",
    ".skip 56, 0xcc",
    "patched_inside:",
    "mov eax, 0x11111111",
    "ret",
    ".p2align 6",
    ".skip 55, 0xcc",
    // Six bytes before the end of the line, but over the end of an aligned word would be over the line too.
    "patched_across:",
    ".skip 7, 0x90",
    "mov eax, 0x22222222",
    "ret",
);

unsafe extern "C" {
    fn patched_inside() -> u32;
    fn patched_across() -> u32;
}

#[test]
fn under_write_xor_execute_words_are_patched_and_new_code_is_refused() {
    // SAFETY: takes rights from this process only.
    if unsafe { libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) } != 0 {
        eprintln!("this kernel (before 6.3) has no such rule: nothing to test");
        return;
    }
    let inside = CodeAddr(patched_inside as *const () as usize);
    assert_eq!(patch::pages::open(inside.0, 5), Ok(Access::ProcMem));
    // SAFETY: one mov for another, inside an aligned word.
    let tier = unsafe { patch::patch(inside, 5, 0x33_3333_33b8) }.unwrap();
    assert_ne!(tier, Tier::Straddler);
    // SAFETY: the function made above.
    assert_eq!(unsafe { patched_inside() }, 0x3333_3333);
    // The unit is an aligned word here: this one straddles two, though not two lines.
    let across = CodeAddr(patched_across as *const () as usize + 7);
    assert_eq!(Site::open(across, 5).unwrap().split(), Some(2));
    // SAFETY: one mov for another.
    assert_eq!(unsafe { patch::patch(across, 5, 0x44_4444_44b8) }, Ok(Tier::Straddler));
    // SAFETY: the function made above.
    assert_eq!(unsafe { patched_across() }, 0x4444_4444);
    // SAFETY: the same bytes again.
    assert_eq!(unsafe { patch::patch(across, 5, 0x44_4444_44b8) }, Ok(Tier::Unchanged));
    assert_eq!(near::allocate_near(inside.0, 64), None, "no trampolines");
    let data = 5u64;
    let refused = Site::open(CodeAddr(&raw const data as usize), 5).map(|_| ()).unwrap_err();
    assert_eq!(refused.refusal, Refusal::NotExecutable);
}
