// Indirect branches and returns to targets that lie 64 KiB apart: whichever table looks them up by low bits must tell them apart,
// and keep flags and registers.
// expect: first size=8 modifies=100
// expect: second size=8 modifies=100
// expect: third size=8 modifies=100
// expect: table size=8 loads=600
// status: 7
        .globl  main
        .text
main:
        pushq   %rbx
        movl    $100, %ebx
1:      xorl    %ecx, %ecx
2:      movl    $0x11, %eax
        movl    $0x22, %edx
        leaq    table(%rip), %rsi
        stc
        call    *(%rsi,%rcx,8)          // load: flags, rax, rcx and rdx arrive and come back
        jnc     fail
        cmpl    $0x12, %eax
        jne     fail
        cmpl    $0x22, %edx
        jne     fail
        leaq    3f(%rip), %rdi
        pushq   %rdi
        pushq   %rdi
        movq    (%rsi,%rcx,8), %rdi     // load
        jmp     back                    // which returns to 3f and takes a word along
3:      incl    %ecx
        cmpl    $3, %ecx
        jne     2b
        decl    %ebx
        jnz     1b
        movl    $7, %eax
        popq    %rbx
        ret
fail:   movl    $99, %eax
        popq    %rbx
        ret
back:   ret     $8

// Each goes on to its own cell by a jump through a register.
        .macro  counted cell
        .p2align 16
4:      leaq    5f(%rip), %rdi
        jmp     *%rdi
        .p2align 5
5:      jnc     6f
        cmpl    $0x11, %eax
        jne     6f
        incq    \cell(%rip)             // modify
        movl    $0x12, %eax
        stc
6:      ret
        .endm
one:
        counted first
two:
        counted second
three:
        counted third

        .data
        .balign 8
        .globl  first, second, third, table
        .type   first, @object
        .size   first, 8
first:  .quad   0
        .type   second, @object
        .size   second, 8
second: .quad   0
        .type   third, @object
        .size   third, 8
third:  .quad   0
        .type   table, @object
        .size   table, 24
table:  .quad   one, two, three
        .section .note.GNU-stack,"",@progbits
