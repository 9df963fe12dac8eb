// Loops over static arrays backwards, and from the end by a negative index.
// command: errors
// expect: nothing
#include "../hide.h"

static volatile int numbers[10];

NOINLINE static int backwards(int count)
{
    int all = 0;
    for (int i = count - 1; i >= 0; i--)
        all += numbers[i];
    for (int i = -count; i < 0; i++)
        all += numbers[10 + i];
    return all;
}

int main(void)
{
    return backwards(HIDE(10)) == 77;
}
