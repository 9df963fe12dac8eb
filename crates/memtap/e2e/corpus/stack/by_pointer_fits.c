// A function that is handed a local array and its length.
// command: errors
// expect: nothing
#include "../hide.h"

NOINLINE static void fill(int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        *HIDE(&numbers[i]) = i;
}

NOINLINE static int sum(int count)
{
    int numbers[8];
    fill(numbers, count);
    return HIDE(numbers[3]);
}

int main(void)
{
    return sum(HIDE(8)) == 77;
}
