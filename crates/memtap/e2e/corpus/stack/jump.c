// A longjmp out of functions, whose frames are then used by others.
// command: errors
// expect: nothing
#include <setjmp.h>
#include "../hide.h"

static jmp_buf place;

NOINLINE static int leave(int depth)
{
    volatile int numbers[16];
    for (int i = 0; i < 16; i++)
        numbers[i] = depth;
    if (depth == 0)
        longjmp(place, 1);
    return leave(depth - 1) + numbers[3];
}

NOINLINE static int fill(int count)
{
    volatile int numbers[40];
    for (int i = 0; i < count; i++)
        numbers[i] = i;
    return numbers[9];
}

int main(void)
{
    if (setjmp(place) == 0)
        return leave(HIDE(9));
    return fill(HIDE(40)) == 77;
}
