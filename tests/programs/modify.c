// Read-modify-write by one instruction: each is one modify, locked or not.
// expect: counter size=4 loads=1 stores=1 modifies=170
// expect: small size=1 loads=1 stores=10 modifies=20
// expect: medium size=2 loads=1 modifies=20
// expect: large size=8 loads=1 modifies=100
// expect: swapped size=4 loads=1 modifies=30
// expect: compared size=8 loads=1 modifies=20
// expect: pair size=16 modifies=10
// expect: pair size=8 loads=2
// expect: flag size=1 loads=1 stores=10
// stdout: 20 10 0 40 7 10 5 9 1
#include <stdio.h>
#include "access.h"

unsigned counter = 99;
unsigned char small;
unsigned short medium;
unsigned long large;
unsigned swapped = 7;
unsigned long compared;
struct { unsigned long low, high; } pair __attribute__((aligned(16))) = {0, 5};
unsigned char flag;

int main(void)
{
    STORE(counter, 10);
    REPEAT(10) {
        MODIFY("addl $1,", counter);
        MODIFY("incl", counter);
        MODIFY("decl", counter);
        MODIFY("lock incl", counter);
        MODIFY("lock; subl $1,", counter);
        MODIFY("orl $0,", counter);
        MODIFY("andl $-1,", counter);
        MODIFY("xorl $5,", counter);
        MODIFY("xorl $5,", counter);
        MODIFY("notl", counter);
        MODIFY("notl", counter);
        MODIFY("negl", counter);
        MODIFY("negl", counter);
        MODIFY("roll $8,", counter);
        MODIFY("rorl $8,", counter);
        __asm__ volatile("clc\n\tadcl $0, %0" : "+m"(counter) : : "cc");
        __asm__ volatile("clc\n\tsbbl $0, %0" : "+m"(counter) : : "cc");

        MODIFY("addb $1,", small);
        MODIFY("lock xorb $0,", small);
        __asm__ volatile("movb $10, %0" : "=m"(small));
        MODIFY("shlw $1,", medium);
        MODIFY("sarw $1,", medium);

        unsigned long one = 1;
        __asm__ volatile("lock xaddq %1, %0" : "+m"(large), "+r"(one) : : "cc");
        one = 1;
        __asm__ volatile("xaddq %1, %0" : "+m"(large), "+r"(one) : : "cc");
        MODIFY("addq $1,", large);
        MODIFY("lock addq $1,", large);
        MODIFY("shlq $1,", large);
        MODIFY("shrq $1,", large);
        MODIFY("rolq $16,", large);
        MODIFY("rorq $16,", large);
        MODIFY("addq $-1,", large);
        MODIFY("lock incq", large);

        unsigned other = 7;
        __asm__ volatile("xchgl %1, %0" : "+m"(swapped), "+r"(other));
        __asm__ volatile("xchgl %0, %1" : "+r"(other), "+m"(swapped));
        __asm__ volatile("lock xchgl %1, %0" : "+m"(swapped), "+r"(other));

        // One compare-and-exchange that succeeds, one that fails: the processor writes in both cases.
        unsigned long expected = i_;
        __asm__ volatile("lock cmpxchgq %2, %0" : "+m"(compared), "+a"(expected) : "r"(i_ + 1) : "cc");
        expected = 77;
        __asm__ volatile("lock cmpxchgq %2, %0" : "+m"(compared), "+a"(expected) : "r"(5l) : "cc");
        unsigned long low = i_, high = 5;
        __asm__ volatile("lock cmpxchg16b %0" : "+m"(pair), "+a"(low), "+d"(high) : "b"(i_ + 1), "c"(5ul) : "cc");

        __asm__ volatile("cmpl %k1, %k1\n\tsete %0" : "=m"(flag) : "r"(other) : "cc");
    }
    printf("%u %u %u %lu %u %lu %lu %lu %u\n", LOAD(counter), LOAD_BYTE(small), LOAD(medium), LOAD(large), LOAD(swapped),
           LOAD(compared), LOAD(pair.high), LOAD(pair.low) - 1, LOAD_BYTE(flag));
    return 0;
}
