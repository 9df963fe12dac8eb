// Stores behind an array of variable length.
// command: errors
// expect: out_of_bounds
// memtap misses: the bound of the array is a variable, which memtap does not look at
#include "../hide.h"

NOINLINE static int fill(int len, int count)
{
    volatile int numbers[len];
    for (int i = 0; i < count; i++)
        numbers[i] = i; // here
    return numbers[3];
}

int main(void)
{
    return fill(HIDE(8), HIDE(9)) == 77;
}
