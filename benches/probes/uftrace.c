/* uftrace switches functions on when a program starts, not later: what a call of one costs that `uftrace record -P probed` patched, with
 * its time stamps at entry and exit written to its buffers, over one that it left alone. -fpatchable-function-entry=5. */
#include "ticks.h"

__attribute__((noipa)) void probed(void) { __asm__ volatile("nop"); }
__attribute__((noipa)) void left_alone(void) { __asm__ volatile("nop"); }

int main(void) {
    static double hit[301], base[301];
    for (int i = 0; i < 301; i++) {
        uint64_t start = ticks();
        for (int call = 0; call < 1000; call++) left_alone();
        base[i] = (double)(ticks() - start) / 1000;
    }
    for (int i = 0; i < 301; i++) hit[i] = calls(1000);
    printf("uftrace, entry and exit of one function\t-\t-\t-\t%.1f\n", median(hit, 301) - median(base, 301));
    return 0;
}
