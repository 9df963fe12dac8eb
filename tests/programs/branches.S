// Branches in the middle of code that is likely to go on: taken and not, before, between and after accesses.
// expect: none size=8 modifies=16
// expect: one size=8 loads=8
// expect: two size=8 stores=4
// expect: three size=8 loads=2
// expect: last size=8 stores=1
// expect: cells size=8 stores=1 modifies=23
// status: 1
#include "registers.h"

        .globl  main
        .text
main:
        save_registers
        leaq    one(%rip), %rsi
        leaq    two-8(%rip), %rdx
        leaq    three-16(%rip), %r8
        movl    $2, %ecx
        xorl    %r12d, %r12d
        xorl    %r13d, %r13d
1:      call    walk
        addl    %eax, %r13d
        incl    %r12d
        cmpl    $32, %r12d
        jne     1b
        movl    %r13d, status(%rip)

        call    many
        jne     fail
        movq    $-1, cells+56(%rip)     // store: the eighth becomes zero
        call    many
        jne     fail
        movl    status(%rip), %eax
        jmp     end
fail:   movl    $99, %eax
end:    restore_registers
        ret

// Returns 1 where no branch was taken: once in 32 calls. The flags of the branch live on where it leads to.
walk:
        testl   $1, %r12d
        jnz     1f                      // nothing is accessed yet
        incq    none(%rip)              // modify: no register is needed
        testl   $2, %r12d
        jnz     1f
        movq    (%rsi), %rax            // load
        testl   $4, %r12d
        jnz     1f
        movq    %rax, 8(%rdx)           // store
        testl   $8, %r12d
        jnz     1f
        movq    (%r8,%rcx,8), %rax      // load
        testl   $16, %r12d
        jnz     1f
        movq    %rax, last(%rip)        // store
1:      setz    %al
        movzbl  %al, %eax
        ret

// Every register holds an address: none is free all the way. Equal: they still do.
many:
        address_words cells
        incq    (%rax)                  // 15 modifies, or 8
        incq    (%rbx)
        incq    (%rcx)
        incq    (%rdx)
        jz      1f
        incq    (%rsi)
        incq    (%rdi)
        incq    (%rbp)
        incq    (%r8)
        jz      1f
        incq    (%r9)
        incq    (%r10)
        incq    (%r11)
        jz      1f
        incq    (%r12)
        incq    (%r13)
        incq    (%r14)
        incq    (%r15)
1:      addq    %rbx, %rax
        addq    %rcx, %rax
        addq    %rdx, %rax
        addq    %rsi, %rax
        addq    %rdi, %rax
        addq    %rbp, %rax
        addq    %r8, %rax
        addq    %r9, %rax
        addq    %r10, %rax
        addq    %r11, %rax
        addq    %r12, %rax
        addq    %r13, %rax
        addq    %r14, %rax
        addq    %r15, %rax
        leaq    cells(%rip), %rbx
        imulq   $15, %rbx, %rbx
        addq    $840, %rbx
        cmpq    %rbx, %rax
        ret

        .bss
        .balign 8
        .macro  variable name, bytes
        .type   \name, @object
        .size   \name, \bytes
\name:  .skip   \bytes
        .endm
        variable none, 8
        variable one, 8
        variable two, 8
        variable three, 8
        variable last, 8
        variable status, 8
        variable cells, 120
        .section .note.GNU-stack, "", @progbits
