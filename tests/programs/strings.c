// String instructions: each element is an access of its own.
// expect: source size=1 loads=100
// expect: source size=8 loads=20
// expect: source size=2 loads=10
// expect: source size=4 loads=8
// expect: sink size=1 stores=110
// expect: sink size=8 stores=30
// expect: sink size=2 stores=5
// expect: text size=1 loads=11
// stdout: 10 10
#include <stdio.h>
#include "access.h"

unsigned char source[256] __attribute__((aligned(64)));
unsigned char sink[256] __attribute__((aligned(64)));
char text[] = "0123456789x";

int main(void)
{
    const void *s = source, *t;
    void *d = sink;
    unsigned long n = 100, left;
    __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n) : : "memory");
    s = source, d = sink, n = 20;
    __asm__ volatile("rep movsq" : "+S"(s), "+D"(d), "+c"(n) : : "memory");
    d = sink, n = 10;
    __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(3) : "memory");
    d = sink, n = 10;
    __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(0) : "memory");
    n = 0;
    __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(0) : "memory");
    s = source;
    REPEAT(5) __asm__ volatile("lodsw" : "+S"(s) : : "rax");
    // Backwards.
    s = source + 18, d = sink + 18, n = 5;
    __asm__ volatile("std\n\trep movsw\n\tcld" : "+S"(s), "+D"(d), "+c"(n) : : "memory");
    s = source + 28;
    __asm__ volatile("std\n\tlodsl\n\tlodsl\n\tlodsl\n\tlodsl\n\tcld" : "+S"(s) : : "rax", "memory");
    s = source;
    REPEAT(4) __asm__ volatile("lodsl" : "+S"(s) : : "rax");
    // Ends at the first match: 11 elements.
    t = text, n = 100;
    __asm__ volatile("repne scasb" : "+D"(t), "+c"(n) : "a"('x') : "cc", "memory");
    left = n;
    printf("%ld %lu\n", (long)((const char *)t - text - 1), 99 - left);
    return 0;
}
