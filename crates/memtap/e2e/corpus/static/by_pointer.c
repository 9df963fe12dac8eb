// A function that is handed a static array stores behind it.
// command: errors
// expect: out_of_bounds
// memtap misses: the address was not computed from the array's start with an index
#include "../hide.h"

static int numbers[10], other;

NOINLINE static void fill(int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        *HIDE(&numbers[i]) = i; // here
}

int main(void)
{
    fill(HIDE((int *)numbers), HIDE(11));
    return HIDE(&other)[0] == 77;
}
