// xlatb, which Valgrind does not know: the address is implicit, rbx plus al.
// lackey: no
// expect: letters size=1 loads=26
// status: 91
        .globl  main
        .text
main:
        pushq   %rbx
        xorl    %eax, %eax
        leaq    letters(%rip), %rbx
        movl    $26, %ecx
3:      movb    %cl, %al
        decb    %al
        xlatb                           // 26 loads
        loop    3b
        movzbl  %al, %eax

        subl    $6, %eax                // 'a' - 6
        popq    %rbx
        ret

        .data
        .type   letters, @object
        .size   letters, 26
letters: .ascii "abcdefghijklmnopqrstuvwxyz"
        .section .note.GNU-stack, "", @progbits
