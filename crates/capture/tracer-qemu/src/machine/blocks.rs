//! The blocks that QEMU translates: which callbacks their code gets, and where it is when it is executed.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use std::collections::HashMap;
use std::rc::Rc;

use buffers::{MAX_BLOCK_INSTRUCTIONS, MachineRecord};

use super::{Machine, accessed, entered, marked};
use crate::api::{CB_NO_REGS, MEM_RW, Tb};

/// A block that was translated. Lives as long as QEMU: translated code has its address.
pub(super) struct TranslatedBlock {
    pub(super) number: u32,
    pub(super) instructions: u32,
    pub(super) ip: u64,
    /// Bytes of its instructions.
    sizes: Rc<[u8]>,
    /// The same code at the other address at which it was executed last.
    elsewhere: Cell<*const TranslatedBlock>,
    /// The kernel's function that starts here, if we look for it.
    pub(super) hook: AtomicU64,
}

/// The blocks that were told, by where they lie and the bytes of their instructions.
#[derive(Default)]
pub(super) struct ToldBlocks {
    known: HashMap<(u64, Rc<[u8]>), *const TranslatedBlock>,
    next: u32,
}

impl ToldBlocks {
    pub(super) fn all(&self) -> impl Iterator<Item = &*const TranslatedBlock> {
        self.known.values()
    }
}

/// The number in a marker instruction: `nopl 0x6d74NNNN(%rax,%rax)`, which does nothing anywhere else.
fn marker(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [0x0f, 0x1f, 0x84, 0x00, low, high, 0x74, 0x6d, ..] => Some(u32::from(*low) | u32::from(*high) << 8),
        _ => None,
    }
}

impl Machine {
    /// # Safety
    /// In the callback of that block's translation.
    pub(super) unsafe fn translate(&mut self, tb: Tb) {
        let api = self.api;
        // SAFETY: the caller's promise: the block that is being translated.
        let (count, ip) = unsafe { ((api.tb_n_insns)(tb), (api.tb_vaddr)(tb)) };
        let count = count.min(MAX_BLOCK_INSTRUCTIONS);
        let mut sizes = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the block that is being translated; the index is below the number of its instructions.
            let insn = unsafe { (api.tb_get_insn)(tb, index) };
            // SAFETY: an instruction of the block that is being translated.
            sizes.push(unsafe { (api.insn_size)(insn) } as u8);
            // SAFETY: an instruction of the block that is being translated; each callback has the type that QEMU calls.
            unsafe {
                (api.register_vcpu_mem_cb)(insn, accessed, CB_NO_REGS, MEM_RW, index as *mut c_void);
                if index + 1 == count && count > 1 {
                    (api.count_insn)(insn);
                }
            }
            if sizes[index] == 8 {
                let mut bytes = [0; 16];
                // SAFETY: an instruction of the block that is being translated.
                let len = unsafe { (api.insn_data)(insn, &mut bytes) };
                if let Some(mark) = marker(&bytes[..len]) {
                    // SAFETY: an instruction of the block that is being translated; the callback has the type that QEMU calls.
                    unsafe {
                        (api.register_vcpu_insn_exec_cb)(
                            insn,
                            marked,
                            CB_NO_REGS,
                            mark as usize as *mut c_void,
                        )
                    };
                }
            }
        }
        let block = self.block_of(ip, sizes.into());
        let flags = api.block_flags();
        // SAFETY: the block that is being translated; the callback has the type that QEMU calls.
        unsafe { (api.register_vcpu_tb_exec_cb)(tb, entered, flags, block.cast_mut().cast()) };
    }

    fn block_of(&mut self, ip: u64, sizes: Rc<[u8]>) -> *const TranslatedBlock {
        if let Some(&block) = self.blocks.known.get(&(ip, Rc::clone(&sizes))) {
            return block;
        }
        let number = self.blocks.next;
        self.blocks.next += 1;
        self.record(&MachineRecord::Block { block: number, ip, sizes: &sizes });
        let hook = AtomicU64::new(self.tasks.hook(ip));
        let elsewhere = Cell::new(core::ptr::null());
        let (instructions, own_sizes) = (sizes.len() as u32, Rc::clone(&sizes));
        let block = TranslatedBlock { number, instructions, ip, sizes: own_sizes, elsewhere, hook };
        let block = Box::new(block);
        let block: *const TranslatedBlock = Box::leak(block);
        self.blocks.known.insert((ip, sizes), block);
        block
    }

    /// The block where it is executed now, which need not be where it was when QEMU translated it.
    #[inline]
    pub(super) fn where_executed(&mut self, block: *const TranslatedBlock) -> *const TranslatedBlock {
        // SAFETY: in the callback of a block, which reads registers where they can be read.
        let Some(ip) = self.api.ip.and_then(|ip| unsafe { ip() }) else { return block };
        // SAFETY: blocks live as long as QEMU.
        let translated = unsafe { &*block };
        if ip == translated.ip {
            return block;
        }
        let last = translated.elsewhere.get();
        // SAFETY: blocks live as long as QEMU.
        if !last.is_null() && unsafe { (*last).ip } == ip {
            return last;
        }
        let found = self.block_of(ip, Rc::clone(&translated.sizes));
        translated.elsewhere.set(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_instructions_are_known() {
        assert_eq!(marker(&[0x0f, 0x1f, 0x84, 0, 5, 1, 0x74, 0x6d]), Some(0x105));
        assert_eq!(marker(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]), None);
    }
}
