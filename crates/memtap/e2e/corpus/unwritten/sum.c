// The sum of an array of which one element was not written decides.
// command: errors
// record: --flow full
// expect: uninitialised
// memtap misses in: gcc-O1 gcc-O2: the sum is computed from several parts, only one of which was not written
#include <stdlib.h>
#include "../hide.h"

NOINLINE static int sum(const int *numbers, int count)
{
    int all = 0;
    for (int i = 0; i < count; i++)
        all += numbers[i];
    return all;
}

int main(void)
{
    int *numbers = HIDE(malloc(10 * sizeof *numbers));
    for (int i = 0; i < 9; i++)
        *HIDE(&numbers[i]) = i;
    int is_even = 0;
    if (sum(numbers, HIDE(10)) & 2) // here
        is_even = HIDE(1);
    free(numbers);
    return is_even == 77;
}
