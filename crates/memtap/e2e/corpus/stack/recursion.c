// A recursive function whose local arrays lie one after the other.
// command: errors
// expect: nothing
#include "../hide.h"

NOINLINE static int fill(int depth)
{
    volatile char bytes[24];
    for (int i = 0; i < 24; i++)
        bytes[i] = depth;
    return (depth ? fill(depth - 1) : 0) + bytes[7];
}

int main(void)
{
    return fill(HIDE(30)) == 77;
}
