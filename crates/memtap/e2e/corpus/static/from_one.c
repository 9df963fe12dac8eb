// An array that is counted from one, so that the compiler folds the subtraction into the address.
// command: errors
// expect: nothing
#include "../hide.h"

static volatile int numbers[10];

NOINLINE static void set(int at, int value)
{
    numbers[at - 1] = value;
}

int main(void)
{
    for (int i = 1; i <= HIDE(10); i++)
        set(i, i);
    return numbers[3] == 77;
}
