// Stores behind the last element of a local array.
// command: errors
// expect: out_of_bounds
// memtap misses in: clang-O2: the only instruction that accesses the element past the end of the array accesses no other element
#include "../hide.h"

NOINLINE static int fill(int count)
{
    volatile int numbers[8];
    for (int i = 0; i <= count; i++)
        numbers[i] = i; // here
    return numbers[3];
}

int main(void)
{
    return fill(HIDE(8)) == 77;
}
