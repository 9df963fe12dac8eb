# A function with XRay sleds as LLVM lays them out (version 2 of the map), called 1000 times.
    .text
    .globl sledded
    .type sledded, @function
    .p2align 4
sledded:
    .p2align 1
.Lentry:
    .byte 0xeb, 0x09
    .byte 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00
    lea 1(%rdi), %rax
    .p2align 1
.Lexit:
    ret
    .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00
    .size sledded, . - sledded

    .globl main
    .type main, @function
main:
    push %rbx
    push %r12
    sub $8, %rsp
    mov $1000, %ebx
    xor %r12d, %r12d
1:  mov %r12, %rdi
    call sledded
    mov %rax, %r12
    dec %ebx
    jne 1b
    xor %eax, %eax
    cmp $1000, %r12
    setne %al
    add $8, %rsp
    pop %r12
    pop %rbx
    ret
    .size main, . - main

    .section xray_instr_map, "a", @progbits
    .p2align 3
.Lmap0:
    .quad .Lentry - .Lmap0
    .quad sledded - (.Lmap0 + 8)
    .byte 0, 1, 2
    .zero 13
.Lmap1:
    .quad .Lexit - .Lmap1
    .quad sledded - (.Lmap1 + 8)
    .byte 1, 1, 2
    .zero 13

    .section .note.GNU-stack, "", @progbits
