// A function that is handed a local array stores behind it.
// command: errors
// expect: out_of_bounds
// memtap misses: the address was not computed from the array's start with an index
#include "../hide.h"

NOINLINE static void fill(int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        *HIDE(&numbers[i]) = i; // here
}

NOINLINE static int sum(int count)
{
    int numbers[8];
    fill(numbers, count);
    return HIDE(numbers[3]);
}

int main(void)
{
    return sum(HIDE(9)) == 77;
}
