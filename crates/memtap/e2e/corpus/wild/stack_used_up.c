// A function calls itself until the stack has no more room.
// command: errors
// expect: wild
#include "../hide.h"

NOINLINE static int sum(const int *above, int depth)
{
    volatile int numbers[1000];
    numbers[HIDE(depth) % 1000] = depth + above[0]; // here
    return sum((const int *)numbers, depth + 1) + numbers[3]; // here
}

int main(void)
{
    int first = HIDE(1);
    return sum(&first, 0) == 77;
}
