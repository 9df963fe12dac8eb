// Bit operations whose bit number is in a register: they reach beyond the operand, in both directions. Valgrind makes
// them accesses of one byte; the processor accesses the operand's size.
// lackey: no
// expect: bits size=4 loads=11 modifies=30
// expect: bits size=8 loads=10 modifies=10
// expect: bits size=2 modifies=10
// stdout: 1
#include <stdio.h>
#include "access.h"

unsigned bits[16];

int main(void)
{
    REPEAT(10) {
        __asm__ volatile("btsl %1, %0" : "+m"(bits[0]) : "r"(96) : "cc", "memory");
        __asm__ volatile("btl %1, %0" : : "m"(bits[0]), "r"(96) : "cc", "memory");
        __asm__ volatile("btcl %1, %0" : "+m"(bits[8]) : "r"(-32) : "cc", "memory");
        __asm__ volatile("lock btrl %1, %0" : "+m"(bits[8]) : "r"(-32) : "cc", "memory");
        __asm__ volatile("btsq %1, %0" : "+m"(bits[0]) : "r"(300l) : "cc", "memory");
        __asm__ volatile("btq %1, %0" : : "m"(bits[12]), "r"(-130l) : "cc", "memory");
        __asm__ volatile("btrw %w1, %0" : "+m"(bits[4]) : "r"(-17) : "cc", "memory");
    }
    printf("%u\n", LOAD(bits[3]));
    return 0;
}
