// The first function of all stores behind its own array.
// command: errors
// expect: out_of_bounds
// memtap misses in: clang-O2: the only instruction that accesses the element past the end of the array accesses no other element
#include "../hide.h"
#include <stdio.h>

int main(void)
{
    volatile int numbers[8];
    int count = HIDE(9), sum = 0;
    for (int i = 0; i < count; i++)
        numbers[i] = i; // here
    for (int i = 0; i < 8; i++)
        sum += numbers[i];
    printf("%d\n", sum);
    return 0;
}
