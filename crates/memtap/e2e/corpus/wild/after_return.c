// Uses a local variable of a function that has returned.
// command: errors
// expect: use_after_free
// memtap misses: returning from a function does not count as releasing its variables
#include "../hide.h"

NOINLINE static int *local(void)
{
    int array[30];
    int *numbers = HIDE((int *)array);
    numbers[20] = 3;
    return HIDE(numbers);
}

NOINLINE static int use(int *numbers)
{
    return HIDE(numbers)[20]; // here
}

int main(void)
{
    return use(local()) == 77;
}
