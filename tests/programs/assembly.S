// Assembly: no compiler between the count and the code. Implicit accesses, addressing through every kind of base.
// expect: cell size=8 loads=3 stores=2 modifies=2
// expect: cell size=4 loads=1
// expect: vector size=4 loads=20 stores=10
// expect: link size=8 loads=8
// expect: saved size=8 loads=2 stores=2
// status: 91
        .globl  main
        .text
main:
        pushq   %rbx
        movq    $5, cell(%rip)          // store
        movq    cell, %rax              // load, absolute
        addq    %rax, cell(%rip)        // modify
        movl    cell(%rip), %ecx        // load of 4
        leaq    cell(%rip), %rdx
        incq    (%rdx)                  // modify
        movabs  cell, %rax              // load through a 64-bit offset
        movabs  %rax, cell              // store through a 64-bit offset
        cmpq    $11, (%rdx)             // load

        xorl    %ecx, %ecx
1:      movl    %ecx, vector(,%rcx,4)   // 10 stores
        movl    vector(,%rcx,4), %eax   // 10 loads
        leaq    vector(%rip), %rsi
        addl    (%rsi,%rcx,4), %eax     // 10 loads
        incl    %ecx
        cmpl    $10, %ecx
        jne     1b

        leaq    link(%rip), %rbx        // a chain of pointers to itself
        movl    $8, %ecx
2:      movq    (%rbx), %rbx            // 8 loads
        loop    2b

        pushq   saved(%rip)             // load
        popq    saved(%rip)             // store
        pushq   saved(%rip)             // load
        popq    saved(%rip)             // store
        movl    $91, %eax
        popq    %rbx
        ret

        .data
        .balign 8
        .type   cell, @object
        .size   cell, 8
cell:   .quad   0
        .type   link, @object
        .size   link, 8
link:   .quad   link
        .type   saved, @object
        .size   saved, 8
saved:  .quad   77
        .bss
        .balign 8
        .type   vector, @object
        .size   vector, 40
vector: .skip   40
        .section .note.GNU-stack, "", @progbits
