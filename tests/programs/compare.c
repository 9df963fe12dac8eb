// String comparisons: both elements are accesses of one instruction, in no stated order.
// expect: text size=1 loads=6
// expect: other size=1 loads=6
// expect: quads size=8 loads=4
// expect: quads size=4 loads=4
// expect: twins size=8 loads=4
// expect: twins size=4 loads=4
// stdout: 5 6 4
#include <stdio.h>

char text[] = "0123456789x", other[] = "01234!";
unsigned long quads[4] = {1, 2, 3, 4}, twins[4] = {1, 2, 3, 4};

int main(void)
{
    const void *s = text, *t = other;
    unsigned long n = 100;
    // Up to and with the first difference.
    __asm__ volatile("cmpb %%al, %%al\n\trepe cmpsb" : "+S"(s), "+D"(t), "+c"(n) : : "cc", "memory");
    printf("%ld %ld ", (long)((const char *)t - other - 1), (long)((const char *)s - text));
    s = quads, t = twins, n = 4;
    __asm__ volatile("cmpb %%al, %%al\n\trepe cmpsq" : "+S"(s), "+D"(t), "+c"(n) : : "cc", "memory");
    // Backwards. Without repe Valgrind does not know it.
    s = quads + 3, t = twins + 3, n = 4;
    __asm__ volatile("std\n\tcmpb %%al, %%al\n\trepe cmpsl\n\tcld" : "+S"(s), "+D"(t), "+c"(n) : : "cc", "memory");
    printf("%lu\n", 4 - n);
    return 0;
}
