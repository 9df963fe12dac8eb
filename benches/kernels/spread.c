// Single accesses, each far from the next: 400 dependent multiplications lie between two of them.
// usage: spread TURNS
#include <stdlib.h>
#include "memtap.h"

static long cells[512];

int main(int count, char **arguments)
{
    long turns = count > 1 ? atol(arguments[1]) : 1000;
    unsigned long x = 1;
    memtap_start();
    for (long i = 0; i < turns; i++) {
        for (int k = 0; k < 100; k++)
            __asm__ volatile("imulq %0, %0\n\timulq %0, %0\n\timulq %0, %0\n\timulq %0, %0" : "+r"(x) : : "cc");
        __asm__ volatile("movq %1, %0" : "=m"(cells[i & 511]) : "r"(x));
    }
    memtap_stop();
    return 0;
}
