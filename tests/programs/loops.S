// Loops of a few instructions that run from one to nine turns: left before, in the middle of, and after what is recorded at
// once. Their flags and registers are checked.
// expect: cells size=8 loads=45
// expect: marks size=8 loads=35 modifies=30
// expect: chain size=8 loads=45
// expect: many size=8 loads=1 modifies=135
// expect: count size=4 stores=1 modifies=9
// expect: narrow size=1 stores=45
// status: 7
#include "registers.h"

        .globl  main
        .text
main:
        save_registers
        movl    $1, %r12d

// One value serves all turns.
turns:  movl    %r12d, %ecx
        leaq    cells(%rip), %rsi
        xorl    %eax, %eax
1:      addq    (%rsi), %rax            // load
        addq    $8, %rsi
        decl    %ecx
        jnz     1b
        jnz     fail                    // the flags of the last turn
        cmpl    %r12d, %eax
        jne     fail
        leaq    cells(%rip), %rdx
        leaq    (%rdx,%r12,8), %rdx
        cmpq    %rdx, %rsi
        jne     fail

// Each turn has its own.
        movl    %r12d, %ecx
        leaq    chain(%rip), %rsi
1:      movq    (%rsi), %rsi            // load
        decl    %ecx
        jnz     1b
        leaq    chain(%rip), %rdx
        leaq    (%rdx,%r12,8), %rdx
        cmpq    %rdx, %rsi
        jne     fail

// Left in the middle of a turn: at the fifth, if there are so many; and the flags of a carry go round.
        movl    %r12d, %ecx
        leaq    marks(%rip), %rsi
        xorl    %eax, %eax
        clc
1:      incl    %eax
        adcq    $0, %rdx                // the carry is never set
        movq    (%rsi), %rdi            // load
        jc      fail
        cmpl    $4, %edi
        ja      2f
        leaq    8(%rsi), %rsi
        decl    %ecx
        jnz     1b
2:      movl    $4, %edi
        cmpl    %edi, %eax
        jae     3f
        movl    %eax, %edi
3:      leaq    marks(%rip), %rsi
1:      incq    64(%rsi)                // modify: 1, 2, 3, and then 4 times
        decl    %edi
        jnz     1b
        incl    %r12d
        cmpl    $10, %r12d
        jne     turns

// No register is free.
        movl    $9, count(%rip)
4:      address_words many
        jmp     5f
        .balign 32
5:      incq    (%rax)                  // 15 modifies, nine times
        incq    (%rbx)
        incq    (%rcx)
        incq    (%rdx)
        incq    (%rsi)
        incq    (%rdi)
        incq    (%rbp)
        incq    (%r8)
        incq    (%r9)
        incq    (%r10)
        incq    (%r11)
        incq    (%r12)
        incq    (%r13)
        incq    (%r14)
        incq    (%r15)
        decl    count(%rip)
        jnz     5b
        cmpq    $9, (%r15)              // load
        jne     fail
        leaq    many(%rip), %rcx
        cmpq    %rcx, %rax
        jne     fail

// Bytes, backwards.
        movl    $45, %ecx
        leaq    narrow+44(%rip), %rsi
1:      movb    %cl, (%rsi)             // store
        leaq    -1(%rsi), %rsi
        decl    %ecx
        jnz     1b
        movl    $7, %eax
        jmp     end
fail:   movl    $99, %eax
end:    restore_registers
        ret

        .macro  object name, size
        .globl  \name
        .type   \name, @object
        .size   \name, \size
        .endm
        .data
        .balign 64
        object  cells, 128
cells:  .fill   16, 8, 1
        object  chain, 128
chain:  .quad   chain+8, chain+16, chain+24, chain+32, chain+40, chain+48, chain+56, chain+64, chain+72, chain+80
        .fill   6, 8, 0
        object  marks, 128
marks:  .quad   0, 1, 2, 3, 9, 5, 6, 7
        .fill   8, 8, 0
        object  many, 128
many:   .fill   16, 8, 0
        object  narrow, 48
narrow: .fill   48, 1, 0
        object  count, 4
count:  .long   0
        .section .note.GNU-stack,"",@progbits
