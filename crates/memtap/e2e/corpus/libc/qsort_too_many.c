// A qsort of one element more than the array has.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

NOINLINE static int compare(const void *a, const void *b)
{
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b); // here
}

int main(void)
{
    long *numbers = HIDE(malloc(7 * sizeof *numbers));
    for (int i = 0; i < 7; i++)
        numbers[i] = i * 5 % 7;
    SHOW(numbers);
    qsort(HIDE(numbers), HIDE(8), sizeof *numbers, compare); // here
    SHOW(numbers);
    _Exit(0);
}
