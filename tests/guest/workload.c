/* Runs in the guest of the tests of whole machines: fills and sums an array between two marks. Built with -static. */
#include <stdio.h>
#include "memtap.h"

#define CELLS 65536

static unsigned table[CELLS];

int main(void)
{
    memtap_guest_mark(0);
    for (unsigned i = 0; i < CELLS; i++)
        table[i] = i * 2654435761u;
    memtap_guest_mark(1);
    memtap_guest_mark(7);
    unsigned sum = 0;
    for (unsigned i = 0; i < CELLS; i++)
        sum += table[i];
    printf("sum %u\n", sum);
    return 0;
}
