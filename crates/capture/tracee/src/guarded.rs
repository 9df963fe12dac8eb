//! Copies from and to memory that may be unmapped: bytes that can't be copied are skipped, and counted.
//!
//! A pointer of the program may be invalid. The kernel would answer EFAULT; code that follows the pointer in the kernel's place
//! must be able to do the same. A single instruction does the copying, and the handler of a fault at that instruction
//! ([`leave_copy`]) ends the copy early. This costs no system call, and works where a program has denied itself process_vm_readv.

use core::arch::global_asm;

use x86::Registers;

global_asm!(
    ".text",
    ".balign 16",
    ".globl memtap_guarded_copy",
    ".hidden memtap_guarded_copy",
    ".globl memtap_guarded_instruction",
    ".hidden memtap_guarded_instruction",
    ".globl memtap_guarded_end",
    ".hidden memtap_guarded_end",
    // memtap_guarded_copy(to, from, len): bytes that are left. The direction flag is clear, as everywhere in the tracer.
    "memtap_guarded_copy:",
    "mov rcx, rdx",
    "memtap_guarded_instruction:",
    "rep movsb",
    "memtap_guarded_end:",
    "mov rax, rcx",
    "ret",
);

unsafe extern "C" {
    fn memtap_guarded_copy(to: u64, from: u64, len: usize) -> usize;
    fn memtap_guarded_instruction();
    fn memtap_guarded_end();
}

/// Copies bytes from one address to another, up to the first that can't be read or written. Returns how many were copied.
///
/// # Safety
/// What can be written of the target is the caller's to write. A handler of SIGSEGV and SIGBUS asks [`leave_copy`].
pub unsafe fn copy(to: u64, from: u64, len: usize) -> usize {
    // SAFETY: the caller's promise; a fault ends the copy.
    len - unsafe { memtap_guarded_copy(to, from, len) }
}

/// A fault: where a copy faulted, it goes on at the copy's end. `false`: it was none.
pub fn leave_copy(gregs: &mut Registers) -> bool {
    let is_copy = gregs.rip == memtap_guarded_instruction as *const () as u64;
    if is_copy {
        gregs.rip = memtap_guarded_end as *const () as u64;
    }
    is_copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn copies_are_whole_where_all_is_there() {
        let from = vec![7u8; 10_000];
        let mut to = vec![0u8; 10_000];
        // SAFETY: both are there.
        let copied = unsafe { copy(to.as_mut_ptr() as u64, from.as_ptr() as u64, from.len()) };
        assert_eq!((copied, to), (10_000, from));
    }

    #[test]
    fn a_fault_anywhere_else_is_none_of_a_copy() {
        let mut gregs = Registers { rip: 0x1234, ..Registers::default() };
        assert!(!leave_copy(&mut gregs));
        gregs.rip = memtap_guarded_instruction as *const () as u64;
        assert!(leave_copy(&mut gregs));
        assert_eq!(gregs.rip, memtap_guarded_end as *const () as u64);
    }
}
