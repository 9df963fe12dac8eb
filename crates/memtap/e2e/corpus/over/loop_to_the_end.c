// A loop over an array of int goes to the last element.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

NOINLINE static void fill(int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        *HIDE(&numbers[i]) = i;
}

int main(void)
{
    int *numbers = HIDE(malloc(10 * sizeof *numbers));
    fill(numbers, HIDE(10));
    SHOW(numbers);
    free(numbers);
    return 0;
}
