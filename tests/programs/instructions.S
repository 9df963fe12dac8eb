# A known number of instructions: 3,004,004 from main's first to its return.
# translate: only
# stat: instructions=3004004
# stat: loads=1001
# stat: stores=1000
.globl main
main:
    mov $1000000, %ecx
1:  add $1, %rax
    dec %ecx
    jnz 1b
    mov $1000, %ecx
2:  push %rax
    pop %rdx
    dec %ecx
    jnz 2b
    xor %eax, %eax
    ret
.section .note.GNU-stack,"",@progbits
