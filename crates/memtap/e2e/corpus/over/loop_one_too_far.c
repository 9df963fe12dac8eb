// A loop over an array of int goes one element too far.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

NOINLINE static void fill(int *numbers, int count)
{
    for (int i = 0; i <= count; i++)
        *HIDE(&numbers[i]) = i; // here
}

int main(void)
{
    int *numbers = HIDE(malloc(10 * sizeof *numbers));
    fill(numbers, HIDE(10));
    SHOW(numbers);
    free(numbers);
    return 0;
}
