# Prefetches are accesses of their own kind, counted apart: by a register, by rip, by base and index, and next to a load.
# translate: only
# lackey: no
# stat: prefetches=31
# stat: loads=12
# stat: stores=0
# stat: instructions=56
# expect: line size=8 loads=10
.globl main
main:
    mov $10, %ecx
    lea line(%rip), %rdx
    prefetchnta line(%rip)
1:  prefetcht0 (%rdx)
    prefetcht1 64(%rdx,%rcx,8)
    prefetchw -8(%rdx)
    mov (%rdx), %rax
    loop 1b
    mov %fs:0, %rax
    xor %eax, %eax
    ret
.data
.balign 64
.type line, @object
.size line, 64
line: .zero 64
.section .note.GNU-stack,"",@progbits
