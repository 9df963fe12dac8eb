// Stores into every element of a local array.
// command: errors
// expect: nothing
#include "../hide.h"

NOINLINE static int fill(int count)
{
    volatile int numbers[8];
    for (int i = 0; i < count; i++)
        numbers[i] = i;
    return numbers[3];
}

int main(void)
{
    return fill(HIDE(8)) == 77;
}
