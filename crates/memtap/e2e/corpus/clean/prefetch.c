// A loop prefetches what comes behind the block, which is no access.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

NOINLINE static long sum(const long *numbers, int count)
{
    long all = 0;
    for (int i = 0; i < count; i++) {
        __builtin_prefetch(&numbers[i + 16]);
        all += *HIDE(&numbers[i]);
    }
    return all;
}

int main(void)
{
    long *numbers = HIDE(calloc(100, sizeof *numbers));
    long all = sum(numbers, HIDE(100));
    free(numbers);
    return all == 77;
}
