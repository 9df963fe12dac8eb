// Accesses that cross a cache line and a page, of loads, stores and modifies, locked and not.
// expect: area size=8 loads=24 stores=24
// expect: area size=16 loads=15 stores=15
// expect: area size=4 loads=1 stores=1 modifies=14
// stdout: 24 14
#include <stdio.h>
#include "access.h"

unsigned char area[3 * 4096] __attribute__((aligned(4096)));

int main(void)
{
    static const int borders[3] = {64, 4096, 8192};
    long good = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 8; i++) {
            unsigned long *place = (unsigned long *)(area + borders[k] - i);
            STORE(*place, 0x0102030405060708 * i);
            good += LOAD(*place) == 0x0102030405060708ul * i;
        }
    for (int i = 1; i < 16; i++)
        __asm__ volatile("movups (%0), %%xmm0\n\tmovups %%xmm0, (%0)" : : "r"(area + 4096 - i) : "xmm0", "memory");
    unsigned *counter = (unsigned *)(area + 8190);
    STORE(*counter, 0);
    REPEAT(7) {
        MODIFY("incl", *counter);
        MODIFY("addl $1,", *counter);
    }
    printf("%ld %u\n", good, LOAD(*counter));
    return 0;
}
