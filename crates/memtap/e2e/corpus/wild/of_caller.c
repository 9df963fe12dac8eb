// Uses a local variable of a function that waits for the return of another.
// command: errors
// expect: nothing
#include "../hide.h"

NOINLINE static void fill(int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        *HIDE(&numbers[i]) = i;
}

NOINLINE static int sum(void)
{
    int array[30], all = 0;
    fill(array, HIDE(30));
    for (int i = 0; i < 30; i++)
        all += array[i];
    return all;
}

int main(void)
{
    return sum() == 77;
}
