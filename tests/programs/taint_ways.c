// Input that reaches a jump on one of two ways that are equally long, neither of which accesses memory. The other one is taken.
// lackey: no
// stdin: x
// stdout: 2
#include <stdio.h>
#include <unistd.h>

int main(void) {
    unsigned char byte;
    long reached;
    if (read(0, &byte, 1) != 1)
        return 1;
    asm volatile("movzbl %[byte], %%eax\n\t" // load: input is in rax from here on
                 "xorl   %%ecx, %%ecx\n\t"
                 "testl  %[taken], %[taken]\n\t"
                 "jz     1f\n\t"
                 "xorl   %%edx, %%edx\n\t"
                 "jmp    2f\n"
                 "1:\tmovl  %%eax, %%edx\n\t"
                 "jmp    2f\n"
                 "2:\tandl  $1, %%edx\n\t"
                 "leaq   3f(%%rip), %%rsi\n\t"
                 "addq   %%rdx, %%rsi\n\t"
                 "jmp    *%%rsi\n"
                 "3:\tnop\n\t"
                 "movl   $2, %%edi"
                 : "=D"(reached)
                 : [byte] "m"(byte), [taken] "r"(1)
                 : "rax", "rcx", "rdx", "rsi", "cc");
    printf("%ld\n", reached);
    return 0;
}
