// For programs in assembly: all the registers that a caller keeps, and all that can hold an address.
        .macro  save_registers
        .irp    name, rbx, rbp, r12, r13, r14, r15
        pushq   %\name
        .endr
        .endm

        .macro  restore_registers
        .irp    name, r15, r14, r13, r12, rbp, rbx
        popq    %\name
        .endr
        .endm

// Each register but rsp: the address of one of fifteen words, in the order of their numbers as written here.
        .macro  address_words words
        leaq    \words(%rip), %rax
        .set    word, 8
        .irp    name, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
        leaq    word(%rax), %\name
        .set    word, word + 8
        .endr
        .endm
