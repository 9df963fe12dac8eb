//! The assembly that saves and restores every register that a handler may change: nine general registers, and
//! xmm0-15, since a compiler may keep values in any of them across a call of a local function. In between,
//! `rbp` holds the stack pointer as it was after the general registers were pushed: ten words are above it.

macro_rules! save_registers {
    () => {
        "push rax
         push rcx
         push rdx
         push rsi
         push rdi
         push r8
         push r9
         push r10
         push r11
         push rbp
         mov rbp, rsp
         and rsp, -16
         sub rsp, 256
         movaps [rsp], xmm0
         movaps [rsp + 16], xmm1
         movaps [rsp + 32], xmm2
         movaps [rsp + 48], xmm3
         movaps [rsp + 64], xmm4
         movaps [rsp + 80], xmm5
         movaps [rsp + 96], xmm6
         movaps [rsp + 112], xmm7
         movaps [rsp + 128], xmm8
         movaps [rsp + 144], xmm9
         movaps [rsp + 160], xmm10
         movaps [rsp + 176], xmm11
         movaps [rsp + 192], xmm12
         movaps [rsp + 208], xmm13
         movaps [rsp + 224], xmm14
         movaps [rsp + 240], xmm15"
    };
}

macro_rules! restore_registers {
    () => {
        "movaps xmm0, [rsp]
         movaps xmm1, [rsp + 16]
         movaps xmm2, [rsp + 32]
         movaps xmm3, [rsp + 48]
         movaps xmm4, [rsp + 64]
         movaps xmm5, [rsp + 80]
         movaps xmm6, [rsp + 96]
         movaps xmm7, [rsp + 112]
         movaps xmm8, [rsp + 128]
         movaps xmm9, [rsp + 144]
         movaps xmm10, [rsp + 160]
         movaps xmm11, [rsp + 176]
         movaps xmm12, [rsp + 192]
         movaps xmm13, [rsp + 208]
         movaps xmm14, [rsp + 224]
         movaps xmm15, [rsp + 240]
         mov rsp, rbp
         pop rbp
         pop r11
         pop r10
         pop r9
         pop r8
         pop rdi
         pop rsi
         pop rdx
         pop rcx
         pop rax"
    };
}

pub(crate) use {restore_registers, save_registers};
